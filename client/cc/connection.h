// Connection: one session with a daemon. It numbers commands and sends them down the session's
// stream without waiting for replies, names objects by handles of its own making, and moves bulk
// data on calls beside the stream.
//
//   TD_ASSIGN_OR_RETURN(auto connection, Connection::Open("unix:/run/tensord.sock", {}));
//   uint64_t handle = connection->NewHandle(Handle::kTensor);
//   TD_RETURN_IF_ERROR(connection->Upload(handle, DType::kFloat32, {3}, device, bytes, deadline));
//   TD_RETURN_IF_ERROR(connection->Download(handle, out, deadline));
//
// A command that fails spoils the handles it was to fill; the error comes back from the Download or
// the Wait that asks for one of them. A connection that breaks is made again within the session's
// lease: calls that wait go on waiting, and nothing is done twice. Otherwise the session is over,
// and every later call says why.
//
// Thread-safe, but for one process: gRPC's threads do not come along into a fork, and the daemon
// would take parent and child for one. So a child can neither use its parent's connections, which
// it says at once, nor open one; destructors do nothing there.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cc/security.h"
#include "core/ir/dtype.h"
#include "core/wire/handle.h"
#include "proto/tensord/v1/session.grpc.pb.h"

namespace tensord {

namespace v1 {
class GetTraceRequest;
class GetTraceReply;
}  // namespace v1

struct ConnectOptions {
  std::string client_name = "c++";  // for people, in tensorctl and logs
  std::string device;               // "CPU:0"; empty is the daemon's first
  // "interactive", "normal" or "batch": the part of a device that the session gets while others
  // want it as well, 16 to 4 to 1.
  std::string priority = "normal";
  Security security = Security::FromEnvironment();
  absl::Duration connect_timeout = absl::Seconds(10);
  // How long the session survives a broken connection; the daemon grants no more than its limit.
  // 0: it ends at once.
  absl::Duration lease = absl::InfiniteDuration();
  // Of each call that waits: transfers, Wait, Counters.
  absl::Duration timeout = absl::InfiniteDuration();
};

namespace client {

// Bulk data on its way: `source` fills `out` with the bytes at `offset`, `sink` takes them, both in
// order from 0; after a connection that broke, from a place before or, for a sink, from 0 again. An
// error ends the transfer and is its result.
using Source = std::function<absl::Status(uint64_t offset, absl::Span<char> out)>;
using Sink = std::function<absl::Status(uint64_t offset, absl::Span<const char> data)>;

class Link;

class Connection {
 public:
  // Unavailable if no daemon answers within the connect timeout. `lost` is a session that is over
  // with the same daemon by the same options: what it found connected is used again.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& address,
                                                          const ConnectOptions& options,
                                                          const Connection* lost = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const v1::Welcome& welcome() const;
  const std::string& address() const { return address_; }

  // An error in a process that was forked after there was a connection.
  static absl::Status CheckFork();

  // Ends the session: what it owned on the daemon is freed, and later calls fail.
  void Close();
  // Why the session is over; OK while it lives.
  absl::Status status() const;
  // Whether it is over for another reason than Close.
  bool lost() const;

  uint64_t NewHandle(Handle::Type type);
  // Gives a handle up, after all commands sent so far. Releases ride on a later command; many of
  // them, or `bytes` that are worth it, make a command of their own.
  void Release(uint64_t handle, uint64_t bytes);

  // Numbers the command, sends it and returns its number. Never waits.
  uint64_t Send(v1::Command command);
  // Waits until the daemon has caught up so far that more commands are welcome.
  absl::Status WaitForRoom(absl::Time deadline);
  // True once the daemon has said that it did not accept the command.
  bool WasRefused(uint64_t sequence) const;

  // Makes tensor `handle` from row-major bytes: in the command itself if they are few, otherwise in
  // chunks. Waits until the daemon has them all.
  absl::Status Upload(uint64_t handle, DType dtype, absl::Span<const int64_t> shape,
                      const std::string& device, absl::Span<const char> data, absl::Time deadline);
  absl::Status Upload(uint64_t handle, DType dtype, absl::Span<const int64_t> shape,
                      const std::string& device, uint64_t bytes, const Source& source,
                      absl::Time deadline);
  // Waits for the tensor's value and copies it out; `out` must have its size.
  absl::Status Download(uint64_t handle, absl::Span<char> out, absl::Time deadline);
  absl::Status Download(uint64_t handle, uint64_t bytes, const Sink& sink, absl::Time deadline);
  // Waits for a run, by the number that Send returned, and says how it went. The answer comes on
  // the stream, which is faster than a call. Nothing if it failed so long ago that it is forgotten.
  std::optional<absl::Status> AwaitRun(uint64_t sequence, absl::Time deadline);
  // Why a run failed, as far as that is known by now; OK for others. Never waits.
  absl::Status FailureOf(uint64_t sequence) const;
  // Waits until the device has done all commands sent so far, and says what became of the handle.
  // Of a program also which kernels a run of it launches.
  absl::Status Wait(uint64_t handle, absl::Time deadline,
                    std::vector<std::string>* kernels = nullptr);
  // After Close the bill of the whole session, if the daemon could be asked.
  absl::StatusOr<v1::CountersReply> Counters(absl::Time deadline);
  // What the session waits for, why its last programs had to be compiled, who holds the memory.
  absl::StatusOr<v1::ExplainReply> Explain(absl::Time deadline);

  // What users share; see docs/sharing.md. `request` needs neither token nor sequence: a
  // publication has the values that its tensors have after all commands sent so far.
  absl::StatusOr<v1::PublishReply> Publish(v1::PublishRequest request, absl::Time deadline);
  absl::StatusOr<v1::Publication> FindPublished(const std::string& name, const std::string& owner,
                                                absl::Time deadline);
  absl::StatusOr<v1::ListPublishedReply> ListPublished(absl::Time deadline);
  absl::Status Unpublish(const std::string& name, absl::Time deadline);

  // Of this session; `request` needs no token. See docs/tracing.md.
  absl::Status GetTrace(v1::GetTraceRequest request, v1::GetTraceReply& reply, absl::Time deadline);

 private:
  explicit Connection(std::string address);
  // Makes a call beside the stream, again if the connection broke and is back.
  absl::Status Call(absl::Time deadline,
                    const std::function<grpc::Status(grpc::ClientContext&)>& attempt);
  // A unary call about what is published.
  template <typename Reply, typename Prepare, typename Request>
  absl::StatusOr<Reply> Ask(Prepare prepare, Request request, absl::Time deadline);
  absl::Status UploadChunks(v1::UploadChunk first, uint64_t handle, const Source& source,
                            absl::Time deadline);

  const std::string address_;
  std::shared_ptr<grpc::Channel> channel_;  // also a session's that takes this one's place
  std::unique_ptr<v1::SessionService::Stub> stub_;
  std::unique_ptr<Link> link_;
};

}  // namespace client
}  // namespace tensord
