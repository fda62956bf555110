// The stream of one session: frames in to the session, frames out from it. No thread belongs to it;
// whichever thread has something for the client starts the write. When it breaks, the session goes
// on without it for its lease.
//
// Thread-safe. Owns itself until gRPC is done with it; the session knows it weakly.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "proto/tensord/v1/session.pb.h"
#include "server/auth/authenticator.h"
#include "server/service/call.h"
#include "server/session/registry.h"

namespace tensord {

class SessionStream final : public grpc::ServerBidiReactor<v1::ClientFrame, v1::ServerFrame>,
                            public SessionListener,
                            public std::enable_shared_from_this<SessionStream> {
 public:
  // Ends at once if nobody knows the caller who should be known.
  static SessionStream* Start(SessionRegistry& registry, CallCount& calls, std::string peer,
                              absl::StatusOr<Caller> caller);

  void Wake() override;
  void Close(const absl::Status& status) override;
  void Replaced() override;

 private:
  SessionStream(SessionRegistry& registry, CallCount& calls, std::string peer, Caller caller);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Read();
  void Write();
  void MaybeFinish();
  absl::Status Greet(const v1::ClientFrame& frame);
  void Welcome(const v1::Hello& hello, const Attachment& attachment, v1::Welcome* welcome);
  // The stream is over, and with it the session, or else its present attachment.
  enum class With { kSession, kAttachment };
  void Over(const absl::Status& status, With with);

  SessionRegistry& registry_;
  const CallCount::Guard guard_;
  const std::string peer_;
  const Caller caller_;
  std::shared_ptr<SessionStream> self_;  // until OnDone
  // Set once, under the lock, by the first frame; what runs afterwards reads it without.
  std::shared_ptr<Session> session_;
  // Of the stream to the session; 0 before it has it. Sequentially consistent, although it
  // publishes nothing: whoever finds it 0 is heard after the Welcome, which is under way then.
  std::atomic<uint64_t> attachment_ = 0;
  v1::ClientFrame in_;   // belongs to the read under way
  v1::ServerFrame out_;  // belongs to the write under way

  absl::Mutex mu_;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool write_again_ ABSL_GUARDED_BY(mu_) = false;  // somebody woke a stream that was writing
  // Operations decided on under the lock and not yet handed to gRPC. Finish must come after them,
  // and calls into gRPC happen without the lock, because it may call back on the same thread.
  int starting_ ABSL_GUARDED_BY(mu_) = 0;
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status last_word_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
