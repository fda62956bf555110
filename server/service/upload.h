// The Upload call: bytes of one tensor, straight into its memory.
//
// Owns itself until gRPC is done with it.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/steady_clock.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/service/call.h"
#include "server/session/session.h"

namespace tensord {

class UploadCall final : public grpc::ServerReadReactor<v1::UploadChunk>,
                         public std::enable_shared_from_this<UploadCall> {
 public:
  static UploadCall* Start(FindSession find, CallCount& calls, v1::UploadReply* reply);

 private:
  UploadCall(FindSession find, CallCount& calls, v1::UploadReply* reply)
      : find_(std::move(find)), guard_(calls), reply_(reply) {}

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status Begin();
  void LeaveTransfer();
  void Claimed(absl::StatusOr<UploadTarget> target);
  // All bytes were found on the daemon, or not.
  void Adopted(const absl::StatusOr<bool>& found);
  absl::Status Store();
  // What the chunk brings: its data, or bytes in a segment.
  absl::StatusOr<std::string_view> Bytes();
  void End(const absl::Status& status);

  const FindSession find_;
  const CallCount::Guard guard_;
  v1::UploadReply* const reply_;
  const absl::Time begin_ = absl::Now();
  const int64_t begin_ns_ = SteadyNs();
  std::shared_ptr<UploadCall> self_;  // until OnDone
  v1::UploadChunk chunk_;

  std::shared_ptr<Session> session_;
  Session::UploadRequest request_;
  std::shared_ptr<const Segment> segment_;  // of the last chunk
  uint64_t segment_number_ = 0;
  UploadTarget target_;
  int64_t claimed_ns_ = 0;
  uint64_t stored_ = 0;
  bool claimed_ = false;  // the transfer is ours to end
  bool settled_ = false;  // and was ended

  // Parked: the first chunk waits for the command; no read is under way, so a cancellation must
  // end the call itself.
  enum class Phase { kReading, kParked, kEnded };
  absl::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kReading;
};

}  // namespace tensord
