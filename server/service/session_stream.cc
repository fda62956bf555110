#include "server/service/session_stream.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/base/version.h"
#include "core/wire/handle.h"
#include "server/service/describe.h"

namespace tensord {
namespace {

absl::Status CheckHello(const v1::ClientFrame& frame) {
  if (!frame.has_hello() || frame.commands_size() > 0) {
    return FailedPrecondition(
        "the first frame of a session must carry Hello and nothing else: this client doesn't speak "
        "the protocol of tensord {}",
        kVersion);
  }
  const v1::Hello& hello = frame.hello();
  if (hello.min_version() > hello.max_version()) {
    return InvalidArgument("Hello: min_version {} is above max_version {}", hello.min_version(),
                           hello.max_version());
  }
  if (hello.max_version() < kMinProtocolVersion || hello.min_version() > kMaxProtocolVersion) {
    return FailedPrecondition(
        "the client speaks protocol versions {} to {}, this daemon (tensord {}) speaks {} to {}: "
        "upgrade the {}",
        hello.min_version(), hello.max_version(), kVersion, kMinProtocolVersion,
        kMaxProtocolVersion, hello.max_version() < kMinProtocolVersion ? "client" : "daemon");
  }
  return absl::OkStatus();
}

}  // namespace

SessionStream* SessionStream::Start(SessionRegistry& registry, CallCount& calls, std::string peer,
                                    absl::StatusOr<Caller> caller) {
  auto* stream =
      new SessionStream(registry, calls, std::move(peer), caller.ok() ? *caller : Caller());
  stream->self_.reset(stream);
  if (caller.ok()) {
    stream->Read();
  } else {
    stream->Close(caller.status());
  }
  return stream;
}

SessionStream::SessionStream(SessionRegistry& registry, CallCount& calls, std::string peer,
                             Caller caller)
    : registry_(registry), guard_(calls), peer_(std::move(peer)), caller_(std::move(caller)) {}

void SessionStream::OnReadDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    reading_ = false;
  }
  if (!ok && session_ == nullptr) {
    return Close(InvalidArgument(
        "the stream ended, or brought what is no ClientFrame, before its first frame with Hello"));
  }
  if (!ok) return Over(absl::OkStatus(), With::kAttachment);  // the client is gone
  absl::Status status;
  if (session_ == nullptr) {
    status = CheckHello(in_);
    if (status.ok()) status = Greet(in_);
  } else if (in_.has_hello()) {
    status = InvalidArgument("Hello stands in the first frame only");
  } else {
    status = session_->Receive(attachment_, in_);
  }
  if (absl::IsAborted(status)) return Replaced();
  if (!status.ok()) return Close(status);
  if (session_->HasRoom(attachment_)) Read();
}

absl::Status SessionStream::Greet(const v1::ClientFrame& frame) {
  const v1::Hello& hello = frame.hello();
  const bool resumes = !hello.resume_token().empty();
  absl::StatusOr<std::shared_ptr<Session>> session =
      resumes ? registry_.FindToResume(hello.resume_token(), caller_.user)
              : registry_.Open(hello, peer_, caller_.user);
  TD_RETURN_IF_ERROR(session.status());
  bool cancelled;
  {
    absl::MutexLock lock(&mu_);
    cancelled = finishing_;  // by a thread that saw no session to leave
    if (!cancelled) {
      session_ = *session;
      // Welcome is the first frame: what others have to tell waits behind it.
      writing_ = true;
      ++starting_;
    }
  }
  if (cancelled) {
    if (!resumes) registry_.Close(**session);
    return Cancelled("the call was cancelled");
  }
  absl::StatusOr<Attachment> attachment =
      registry_.Attach(*session_, weak_from_this(), frame.acknowledged());
  if (attachment.ok()) {
    attachment_ = attachment->number;
    if (attachment->replaced) attachment->replaced->Replaced();
    Welcome(hello, *attachment, out_.mutable_welcome());
    StartWrite(&out_);
  }
  bool left;
  {
    absl::MutexLock lock(&mu_);
    --starting_;
    if (!attachment.ok()) writing_ = false;  // else the write is under way, or over already
    left = finishing_;
  }
  // It was cancelled before it had an attachment to leave.
  if (left && attachment.ok()) registry_.Detach(*session_, attachment_);
  MaybeFinish();
  return attachment.status();
}

void SessionStream::Welcome(const v1::Hello& hello, const Attachment& attachment,
                            v1::Welcome* welcome) {
  welcome->set_version(std::min(hello.max_version(), kMaxProtocolVersion));
  welcome->set_session_id(session_->identity().id);
  welcome->set_session_token(session_->identity().token);
  welcome->set_server_version(std::string(kVersion));
  welcome->set_lease_ms(absl::ToInt64Milliseconds(session_->identity().lease));
  welcome->set_resumed(!hello.resume_token().empty());
  welcome->set_received(attachment.received);
  if (caller_.local) welcome->set_segment_socket(registry_.engine().segment_socket);
  const SessionLimits& limits = session_->limits();
  v1::Limits* out = welcome->mutable_limits();
  out->set_max_message_bytes(limits.max_message_bytes);
  out->set_max_graph_nodes(limits.graph.max_nodes);
  out->set_max_tensor_bytes(limits.graph.max_tensor_bytes);
  out->set_max_session_bytes(limits.max_session_bytes);
  out->set_max_user_bytes(registry_.engine().ledger.user_quota());
  out->set_max_chunk_bytes(limits.max_chunk_bytes);
  out->set_max_commands_per_frame(limits.max_commands_per_frame);
  out->set_max_pending_commands(limits.max_pending_commands);
  for (Device* device : registry_.engine().runtime.devices()) {
    *welcome->add_devices() = Describe(*device);
  }
}

void SessionStream::Read() {
  {
    absl::MutexLock lock(&mu_);
    if (finishing_ || reading_) return;
    reading_ = true;
    ++starting_;
  }
  StartRead(&in_);
  {
    absl::MutexLock lock(&mu_);
    --starting_;
  }
  MaybeFinish();
}

void SessionStream::Wake() {
  Write();
  if (session_->TakeRoom(attachment_)) Read();
}

void SessionStream::Write() {
  {
    absl::MutexLock lock(&mu_);
    write_again_ = true;
    if (finishing_ || writing_) return;
    writing_ = true;
    ++starting_;
  }
  bool something;
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      write_again_ = false;
    }
    something = session_->TakeFrame(attachment_, &out_);
    absl::MutexLock lock(&mu_);
    if (something || !write_again_) {
      writing_ = something;
      break;
    }
  }
  if (something) StartWrite(&out_);
  {
    absl::MutexLock lock(&mu_);
    --starting_;
  }
  MaybeFinish();
}

void SessionStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
  }
  if (ok) {
    Wake();
  } else {
    Over(Cancelled("the client is gone"), With::kAttachment);
  }
  MaybeFinish();
}

void SessionStream::OnCancel() { Over(Cancelled("the call was cancelled"), With::kAttachment); }

void SessionStream::Close(const absl::Status& status) { Over(status, With::kSession); }

void SessionStream::Replaced() {
  Over(absl::AbortedError("the session goes on on another stream"), With::kAttachment);
}

void SessionStream::Over(const absl::Status& status, With with) {
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mu_);
    if (finishing_) return;
    finishing_ = true;
    last_word_ = status;
    session = session_;
  }
  if (session && with == With::kSession) registry_.Close(*session);
  if (session && with == With::kAttachment) registry_.Detach(*session, attachment_);
  MaybeFinish();
}

void SessionStream::MaybeFinish() {
  absl::Status status;
  {
    absl::MutexLock lock(&mu_);
    if (!finishing_ || finished_ || writing_ || starting_ > 0) return;
    finished_ = true;
    status = last_word_;
  }
  Finish(ToGrpc(status));
}

void SessionStream::OnDone() { const std::shared_ptr<SessionStream> last = std::move(self_); }

}  // namespace tensord
