// A listening socket that the daemon was started with. Connections that come before it serves, or
// while another daemon takes its place, wait in the kernel instead of being refused.
//
//   TD_ASSIGN_OR_RETURN(auto socket, InheritedSocket::Take(fd, allow_remote));
//   socket->Prepare(builder);     // before the server starts
//   socket->Accept();             // once it serves
//
// Not thread-safe.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>

namespace tensord {

class InheritedSocket {
 public:
  // Owns the descriptor, also if it is of no use: InvalidArgument for anything but a listening
  // stream socket, FailedPrecondition for one that other machines reach, unless `allow_remote`.
  static absl::StatusOr<std::unique_ptr<InheritedSocket>> Take(int fd, bool allow_remote);
  ~InheritedSocket();

  const std::string& address() const { return address_; }  // as clients dial it
  void Prepare(grpc::ServerBuilder& builder);
  void Accept();
  // Leaves further connections to the kernel. The server must still be there.
  void Stop();

 private:
  explicit InheritedSocket(int fd) : fd_(fd) {}
  void Run();

  const int fd_;
  int stop_ = -1;  // eventfd that ends the thread
  std::string address_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::jthread thread_;
};

}  // namespace tensord
