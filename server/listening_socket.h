// A listening socket whose connections the daemon accepts itself: one on a unix path, or one that
// it was started with. Connections that come before it serves, or while another daemon takes its
// place, wait in the kernel instead of being refused. gRPC gets those on unix sockets as
// descriptors, by which the user at the other end can be asked for (auth/authenticator.h).
//
//   TD_ASSIGN_OR_RETURN(auto socket, ListeningSocket::Take(fd, allow_remote));
//   socket->Prepare(builder, credentials);     // before the server starts
//   socket->Accept(*server);                   // once it serves
//
// Not thread-safe.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>

#include "core/base/log_limiter.h"

namespace tensord {

class ListeningSocket {
 public:
  // Owns the descriptor, also if it is of no use: InvalidArgument for anything but a listening
  // stream socket, FailedPrecondition for one that other machines reach, unless `allow_remote`.
  static absl::StatusOr<std::unique_ptr<ListeningSocket>> Take(int fd, bool allow_remote);
  ~ListeningSocket();

  const std::string& address() const { return address_; }  // as clients dial it
  // The credentials are for TCP.
  void Prepare(grpc::ServerBuilder& builder, std::shared_ptr<grpc::ServerCredentials> credentials);
  void Accept(grpc::Server& server);
  // Leaves further connections to the kernel. The server must still be there.
  void Stop();

 private:
  explicit ListeningSocket(int fd) : fd_(fd) {}
  void Run(grpc::Server& server);
  void Hand(int connection, grpc::Server& server);

  const int fd_;
  int stop_ = -1;  // eventfd that ends the thread
  std::string address_;
  bool tcp_ = true;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;  // of TCP
  LogLimiter refusals_;
  std::jthread thread_;
};

}  // namespace tensord
