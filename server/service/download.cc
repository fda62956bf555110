#include "server/service/download.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr uint64_t kPieces = 16;
constexpr uint64_t kMinPieceBytes = 512 << 10;

}  // namespace

DownloadCall* DownloadCall::Start(const FindSession& find, CallCount& calls,
                                  const v1::DownloadRequest& request) {
  auto* call = new DownloadCall(calls, request);
  call->self_.reset(call);
  absl::StatusOr<std::shared_ptr<Session>> session = find(request.session_token());
  if (!session.ok()) {
    call->End(session.status());
    return call;
  }
  call->wait_ = std::make_shared<CommandWait>(*std::move(session));
  // A reference of its own: the call may be over before Start returns.
  call->wait_->Start(
      {.sequence = request.after_sequence(), .handle = request.handle(), .pin = true},
      [self = call->self_](absl::StatusOr<Awaited> awaited) { self->Begin(std::move(awaited)); });
  return call;
}

void DownloadCall::Begin(absl::StatusOr<Awaited> awaited) {
  if (!awaited.ok()) return End(awaited.status());
  if (awaited->buffer == nullptr) return End(InvalidArgument("download: a program has no bytes"));
  found_ns_ = SteadyNs();
  source_ = *std::move(awaited);
  const Buffer& buffer = *source_.buffer;
  chunk_.set_dtype(static_cast<uint32_t>(buffer.dtype));
  for (int64_t dim : buffer.shape) chunk_.add_shape(dim);
  chunk_.set_total_bytes(buffer.memory->size());
  chunk_.set_version(source_.version);
  if (version_ == source_.version) sent_ = std::min<uint64_t>(offset_, buffer.memory->size());
  if (segment_number_ != 0) {
    absl::StatusOr<std::shared_ptr<const Segment>> segment =
        wait_->session().FindSegment(segment_number_);
    if (!segment.ok()) return End(segment.status());
    segment_ = *std::move(segment);
  }
  Next();
}

void DownloadCall::Next() {
  const DeviceMemory& memory = *source_.buffer->memory;
  const auto* data = static_cast<const char*>(memory.host_address());
  uint64_t size = memory.size() - sent_;
  chunk_.set_offset(sent_);
  if (segment_) {
    // The client copies a piece while the next one is made.
    const uint64_t piece = std::clamp(memory.size() / kPieces, kMinPieceBytes, kMaxPieceBytes);
    size = std::min({size, piece, segment_->size() - filled_});
    char* out = *segment_->At(filled_, size);
    data != nullptr ? std::memcpy(out, data + sent_, size) : std::memset(out, 0, size);
    chunk_.set_segment_offset(filled_);
    chunk_.set_segment_bytes(size);
    filled_ += size;
  } else {
    size = std::min<uint64_t>(size, wait_->session().limits().max_chunk_bytes);
    if (data != nullptr) {
      chunk_.mutable_data()->assign(data + sent_, size);
    } else {
      chunk_.mutable_data()->assign(size, '\0');  // a device that computes nothing
    }
  }
  sent_ += size;
  moved_ += size;
  wait_->session().CountDownloaded(size, segment_ != nullptr);
  last_ = sent_ == memory.size() || (segment_ && filled_ == segment_->size());
  if (!last_) {
    StartWrite(&chunk_);
  } else {
    guard_.Ended("Download", begin_, absl::OkStatus());
    wait_->session().NoteTransfer(TraceRecord::Kind::kDownload, moved_,
                                  {.received_ns = begin_ns_, .ready_ns = found_ns_});
    // The bytes are in the chunk: let go of the tensor once the write has begun.
    const std::shared_ptr<const void> pin = std::move(source_.pin);
    StartWriteAndFinish(&chunk_, grpc::WriteOptions(), grpc::Status::OK);
  }
}

void DownloadCall::OnWriteDone(bool ok) {
  if (last_) return;  // that write finished the call
  if (!ok) return End(Cancelled("the client is gone"));
  chunk_.Clear();
  Next();
}

void DownloadCall::OnCancel() {
  if (wait_) wait_->Cancel();
}

void DownloadCall::End(const absl::Status& status) {
  guard_.Ended("Download", begin_, status);
  Finish(ToGrpc(status));
}

void DownloadCall::OnDone() { const std::shared_ptr<DownloadCall> last = std::move(self_); }

}  // namespace tensord
