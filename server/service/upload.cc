#include "server/service/upload.h"

#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace tensord {

UploadCall* UploadCall::Start(FindSession find, CallCount& calls, v1::UploadReply* reply) {
  auto* call = new UploadCall(std::move(find), calls, reply);
  call->self_.reset(call);
  call->StartRead(&call->chunk_);
  return call;
}

void UploadCall::OnReadDone(bool ok) {
  if (!ok) {
    if (!claimed_) return End(InvalidArgument("an upload needs a first chunk"));
    if (settled_) return End(absl::OkStatus());
    // Cut off, or on purpose: another call goes on.
    if (session_->resumable()) return End(absl::OkStatus());
    return End(InvalidArgument("the upload ended after {} of {} bytes", stored_, target_.bytes));
  }
  if (!claimed_) {
    if (const absl::Status status = Begin(); !status.ok()) End(status);
    return;
  }
  if (const absl::Status status = Store(); !status.ok()) return End(status);
  StartRead(&chunk_);
}

absl::Status UploadCall::Begin() {
  TD_ASSIGN_OR_RETURN(session_, find_(chunk_.session_token()));
  // Looked at before the chunk may have to be kept.
  if (chunk_.data().size() > session_->limits().max_chunk_bytes) {
    return InvalidArgument("a chunk has {} bytes, more than the limit of {}", chunk_.data().size(),
                           session_->limits().max_chunk_bytes);
  }
  request_ = {.transfer_id = chunk_.transfer_id(),
              .ticket = session_->NewTicket(),
              .total_bytes = chunk_.total_bytes(),
              .handle = chunk_.handle(),
              .abandon = chunk_.abandon()};
  {
    absl::MutexLock lock(&mu_);
    if (phase_ == Phase::kEnded) return absl::OkStatus();
    phase_ = Phase::kParked;
  }
  session_->BeginUpload(request_, [self = shared_from_this()](absl::StatusOr<UploadTarget> target) {
    self->Claimed(std::move(target));
  });
  return absl::OkStatus();
}

void UploadCall::Claimed(absl::StatusOr<UploadTarget> target) {
  bool cancelled;
  {
    absl::MutexLock lock(&mu_);
    cancelled = phase_ == Phase::kEnded;
    if (!cancelled) phase_ = Phase::kReading;
  }
  if (cancelled) {
    if (target.ok()) LeaveTransfer();
    return;
  }
  if (!target.ok()) return End(target.status());
  target_ = *std::move(target);
  stored_ = target_.stored;
  claimed_ = true;
  claimed_ns_ = SteadyNs();
  if (target_.buffer == nullptr) return End(absl::OkStatus());  // it was complete
  if (chunk_.data().empty() && chunk_.segment() == 0 && !chunk_.abandon()) {
    reply_->set_candidates(static_cast<uint32_t>(session_->Candidates(target_.bytes)));
    if (!chunk_.content_sha256().empty() && stored_ == 0) {
      return session_->Adopt(
          request_, target_, chunk_.content_sha256(),
          [self = shared_from_this()](const absl::StatusOr<bool>& found) { self->Adopted(found); });
    }
  }
  if (const absl::Status status = Store(); !status.ok()) return End(status);
  StartRead(&chunk_);
}

void UploadCall::Adopted(const absl::StatusOr<bool>& found) {
  if (!found.ok()) return End(found.status());
  if (!*found) return StartRead(&chunk_);
  stored_ = target_.bytes;
  settled_ = true;
  session_->EndUpload(request_, absl::OkStatus());
  End(absl::OkStatus());
}

absl::StatusOr<std::string_view> UploadCall::Bytes() {
  if (chunk_.segment() == 0) {
    if (chunk_.data().size() <= session_->limits().max_chunk_bytes) return chunk_.data();
    return InvalidArgument("a chunk has {} bytes, more than the limit of {}", chunk_.data().size(),
                           session_->limits().max_chunk_bytes);
  }
  if (!chunk_.data().empty() || chunk_.segment_bytes() > kMaxPieceBytes) {
    return InvalidArgument("a chunk brings data or at most {} bytes in a segment", kMaxPieceBytes);
  }
  if (chunk_.segment() != segment_number_) {
    TD_ASSIGN_OR_RETURN(segment_, session_->FindSegment(chunk_.segment()));
    segment_number_ = chunk_.segment();
  }
  TD_ASSIGN_OR_RETURN(const char* data,
                      segment_->At(chunk_.segment_offset(), chunk_.segment_bytes()));
  return std::string_view(data, chunk_.segment_bytes());
}

absl::Status UploadCall::Store() {
  TD_ASSIGN_OR_RETURN(const std::string_view data, Bytes());
  if (chunk_.abandon()) {
    return InvalidArgument("the client gave the upload up after {} of {} bytes", stored_,
                           target_.bytes);
  }
  if (chunk_.offset() != stored_ && !data.empty()) {
    return InvalidArgument("a chunk starts at {} where {} was due: chunks come in order",
                           chunk_.offset(), stored_);
  }
  if (data.size() > target_.bytes - stored_) {
    return InvalidArgument("the upload brings more than the {} bytes that it announced",
                           target_.bytes);
  }
  TD_RETURN_IF_ERROR(session_->BeginChunk(request_));
  if (target_.data != nullptr && !data.empty()) {
    std::memcpy(target_.data + stored_, data.data(), data.size());
  }
  stored_ += data.size();
  session_->EndChunk(request_, data.size(), chunk_.segment() != 0);
  // Runs that wait for the tensor need not wait for the end of the call.
  if (stored_ == target_.bytes && !settled_) {
    settled_ = true;
    session_->EndUpload(request_, absl::OkStatus());
    session_->NoteTransfer(TraceRecord::Kind::kUpload, stored_ - target_.stored,
                           {.received_ns = begin_ns_, .ready_ns = claimed_ns_});
  }
  return absl::OkStatus();
}

void UploadCall::OnCancel() {
  {
    absl::MutexLock lock(&mu_);
    if (phase_ != Phase::kParked) return;  // the read under way fails, and that ends the call
    phase_ = Phase::kEnded;
  }
  const absl::Status status = Cancelled("the call was cancelled");
  LeaveTransfer();
  guard_.Ended("Upload", begin_, status);
  Finish(ToGrpc(status));
}

// The call is over before the transfer: in a session with a lease another one may go on.
void UploadCall::LeaveTransfer() {
  if (session_->resumable()) {
    session_->PauseUpload(request_);
  } else {
    session_->EndUpload(request_, Cancelled("the call was cancelled"));
  }
}

void UploadCall::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (phase_ == Phase::kEnded) return;
    phase_ = Phase::kEnded;
  }
  if (claimed_ && !settled_) {
    status.ok() ? LeaveTransfer() : session_->EndUpload(request_, status);
  }
  reply_->set_bytes(stored_);
  guard_.Ended("Upload", begin_, status);
  Finish(ToGrpc(status));
}

void UploadCall::OnDone() { const std::shared_ptr<UploadCall> last = std::move(self_); }

}  // namespace tensord
