// The Download call: waits for a tensor, then streams its bytes in chunks. While it lives no run
// overwrites the tensor.
//
// Owns itself until gRPC is done with it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "core/base/steady_clock.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/service/call.h"
#include "server/service/wait.h"

namespace tensord {

class DownloadCall final : public grpc::ServerWriteReactor<v1::DownloadChunk>,
                           public std::enable_shared_from_this<DownloadCall> {
 public:
  static DownloadCall* Start(const FindSession& find, CallCount& calls,
                             const v1::DownloadRequest& request);

 private:
  DownloadCall(CallCount& calls, const v1::DownloadRequest& request)
      : guard_(calls),
        offset_(request.offset()),
        version_(request.version()),
        segment_number_(request.segment()) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Begin(absl::StatusOr<Awaited> awaited);
  void Next();
  void End(const absl::Status& status);

  const CallCount::Guard guard_;
  const uint64_t offset_, version_;  // to go on from
  const uint64_t segment_number_;    // 0: none
  const absl::Time begin_ = absl::Now();
  const int64_t begin_ns_ = SteadyNs();
  int64_t found_ns_ = 0;                // when the value was there
  std::shared_ptr<DownloadCall> self_;  // until OnDone
  std::shared_ptr<CommandWait> wait_;
  Awaited source_;
  uint64_t sent_ = 0;
  std::shared_ptr<const Segment> segment_;
  uint64_t filled_ = 0;  // of the segment
  uint64_t moved_ = 0;   // bytes, by this call
  bool last_ = false;    // the write under way finishes the call
  v1::DownloadChunk chunk_;
};

}  // namespace tensord
