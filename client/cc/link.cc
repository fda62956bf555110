#include "client/cc/link.h"

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "client/cc/interrupt.h"
#include "client/cc/recorder.h"
#include "core/base/status.h"
#include "core/base/version.h"
#include "core/wire/status.h"

namespace tensord::client {
namespace {

constexpr absl::Duration kFirstBackOff = absl::Milliseconds(50);
constexpr absl::Duration kLastBackOff = absl::Milliseconds(500);
// How often a look is taken at the socket's file. That costs a hundredth of trying to connect, so
// that it can be done more often.
constexpr absl::Duration kLookEvery = absl::Milliseconds(50);
// How often a call beside the stream is made in vain although the stream lives.
constexpr int kMaxInVain = 5;
// Uploads of one length whose bytes the daemon did not have: then they are batches of data, say,
// and hashing each would double the work.
constexpr int kMaxUnknown = 2;
// For a goodbye to a daemon that doesn't answer.
constexpr absl::Duration kGoodbye = absl::Seconds(1);

// Nothing for what is no unix socket, or isn't there.
std::optional<SocketFile> SocketFileOf(const std::string& address) {
  struct stat file;
  if (!absl::StartsWith(address, "unix:") || stat(address.c_str() + 5, &file) != 0) {
    return std::nullopt;
  }
  return SocketFile{
      .inode = file.st_ino, .changed_s = file.st_ctim.tv_sec, .changed_ns = file.st_ctim.tv_nsec};
}

}  // namespace

void LogLines(const std::string& lines) {
  if (lines.empty()) return;
  static const std::shared_ptr<spdlog::logger>& logger =
      *new auto(spdlog::get("client") ? spdlog::get("client") : spdlog::stderr_logger_mt("client"));
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    logger->warn("{}", std::string_view(line.data(), line.size()));
  }
}

absl::Status FromGrpc(const grpc::Status& status) {
  // gRPC's own answer to a call of a later version.
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return Unimplemented("the daemon is older than this client (tensord {}): upgrade the daemon",
                         kVersion);
  }
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  if (v1::Status rich; rich.ParseFromString(status.error_details())) SetDetails(rich, result);
  return result;
}

std::unique_ptr<grpc::ClientContext> ContextUntil(absl::Time deadline) {
  auto context = std::make_unique<grpc::ClientContext>();
  if (deadline != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline));
  return context;
}

// One gRPC stream. Its state is guarded by the link's lock.
class Link::Stream : public grpc::ClientBidiReactor<v1::ClientFrame, v1::ServerFrame> {
 public:
  Stream(Link& link, v1::ClientFrame hello) : link_(link), frame_(std::move(hello)) {}

  // Starting an operation under the lock is what keeps it in order before RemoveHold; gRPC never
  // calls back from within.
  void Start(v1::SessionService::Stub& stub, bool resumes) {
    context_.set_wait_for_ready(resumes);
    stub.async()->Session(&context_, this);
    // Commands come from other threads at any time: the hold keeps the call until the last of them.
    AddHold();
    writing_ = true;
    StartRead(&received_);
    StartWrite(&frame_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void WriteNext(CommandLog& log) {
    if (closed_ || !welcomed_ || writing_ || !log.Fill(frame_)) return;
    writing_ = true;
    StartWrite(&frame_);
  }

  bool closed() const { return closed_; }
  bool welcomed() const { return welcomed_; }
  void set_welcomed() { welcomed_ = true; }

 private:
  // Whether it was written says the end of the stream, and the next one's Welcome.
  void OnWriteDone(bool /*ok*/) override {
    absl::MutexLock lock(&link_.mu_);
    writing_ = false;
    link_.log_.Written(frame_);
    WriteNext(link_.log_);
  }

  void OnReadDone(bool ok) override {
    std::string said;
    {
      absl::MutexLock lock(&link_.mu_);
      if (ok) {
        link_.Receive(received_);
        StartRead(&received_);
      } else {
        closed_ = true;  // nothing is started on the call after this
      }
      said.swap(link_.said_);
    }
    LogLines(said);
    if (!ok) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override { link_.StreamDone(status); }

  Link& link_;
  grpc::ClientContext context_;
  v1::ClientFrame frame_;     // gRPC's while a write is under way
  v1::ServerFrame received_;  // gRPC's while a read is under way
  bool writing_ = false;
  bool welcomed_ = false;
  bool closed_ = false;
};

Link::Link(std::string address, v1::SessionService::Stub& stub, v1::Hello hello,
           std::function<void()> hurry)
    : address_(std::move(address)),
      stub_(stub),
      hello_(std::move(hello)),
      hurry_(std::move(hurry)) {}

Link::~Link() {
  Close();
  absl::MutexLock lock(&mu_);
  auto alone = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stream_ == nullptr && dying_ == 0 && alarms_ == 0;
  };
  mu_.Await(absl::Condition(&alone));
}

absl::Status Link::Open(absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  StartStream();
  auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state_ != State::kOpening; };
  const absl::Status waited = AwaitInterruptibly(mu_, absl::Condition(&settled), deadline);
  if (absl::IsDeadlineExceeded(waited)) {
    return DeadlineExceeded("{} did not answer in time", address_);
  }
  return waited.ok() ? ended_ : waited;
}

void Link::Close() {
  bool says_goodbye;
  {
    absl::MutexLock lock(&mu_);
    says_goodbye = state_ != State::kOver && lease_ > absl::ZeroDuration();
    if (state_ != State::kOver) {
      closed_by_us_ = true;
      End(Cancelled("the client closed its session with {}", address_));
    }
  }
  // Without a word the daemon would keep the session for the length of its lease.
  if (says_goodbye) {
    const auto context = ContextUntil(absl::Now() + kGoodbye);
    v1::EndSessionRequest request;
    request.set_session_token(welcome_.session_token());
    v1::EndSessionReply reply;
    // Its lease ends it otherwise.
    if (stub_.EndSession(context.get(), request, &reply).ok()) {
      absl::MutexLock lock(&mu_);
      bill_ = reply.counters();
    }
  }
  absl::MutexLock lock(&mu_);
  if (stream_) stream_->Cancel();
}

void Link::StartStream() {
  v1::ClientFrame frame;
  *frame.mutable_hello() = hello_;
  const bool resumes = streams_ > 0;
  if (resumes) {
    frame.mutable_hello()->set_resume_token(welcome_.session_token());
    frame.set_acknowledged(log_.events());
  }
  stream_ = std::make_unique<Stream>(*this, std::move(frame));
  stream_->Start(stub_, resumes);
}

void Link::WriteNext() {
  if (stream_) stream_->WriteNext(log_);
}

void Link::Receive(const v1::ServerFrame& frame) {
  if (frame.has_welcome() && !stream_->welcomed()) Greeted(frame.welcome());
  log_.Receive(frame);
  if (frame.has_go_away()) go_away_ = frame.go_away().reason();
  WriteNext();  // what has been read may be worth an acknowledgement
}

void Link::Greeted(const v1::Welcome& welcome) {
  stream_->set_welcomed();
  if (state_ == State::kOver) return;
  if (welcome.version() < hello_.min_version() || welcome.version() > hello_.max_version()) {
    End(FailedPrecondition(
        "{} (tensord {}) answers in protocol version {}, this client (tensord {}) speaks {} to {}: "
        "upgrade the {}",
        address_, welcome.server_version(), welcome.version(), kVersion, hello_.min_version(),
        hello_.max_version(), welcome.version() < hello_.min_version() ? "daemon" : "client"));
    stream_->Cancel();
    return;
  }
  if (streams_++ == 0) {
    welcome_ = welcome;
    lease_ = absl::Milliseconds(welcome.lease_ms());
    log_.SetLimits(welcome.limits());
    segments_.emplace(IsRecording() ? "" : welcome.segment_socket(), welcome.session_token());
  } else {
    log_.Resume(welcome.received());
    Say(fmt::format("resumed {} with {} after {:.2f} s", welcome.session_id(), address_,
                    absl::ToDoubleSeconds(absl::Now() - cut_at_)));
  }
  state_ = State::kLive;
  socket_ = SocketFileOf(address_);
  retry_.reset();
  lease_end_.reset();
  look_.reset();
}

void Link::StreamDone(const grpc::Status& status) {
  std::unique_ptr<Stream> done;
  std::string said;
  {
    absl::MutexLock lock(&mu_);
    done = std::move(stream_);
    ++dying_;
    const bool unreachable = status.error_code() == grpc::StatusCode::UNAVAILABLE;
    std::string reason = status.error_message();
    if (reason.empty()) reason = go_away_.empty() ? "it closed the stream" : go_away_;
    if (state_ == State::kOpening) {
      // What a daemon that ends has not answered is cancelled by its gRPC.
      const bool ends = status.error_code() == grpc::StatusCode::CANCELLED;
      End(MakeStatus(status.ok() || ends ? absl::StatusCode::kUnavailable : FromGrpc(status).code(),
                     "{} ended the session: {}", address_, ends ? "it is shutting down" : reason));
    } else if (state_ != State::kOver && lease_ > absl::ZeroDuration() && unreachable &&
               go_away_.empty()) {
      Cut(status);
    } else if (state_ != State::kOver) {
      End(Lost(reason));
    }
    said.swap(said_);
  }
  LogLines(said);
  done = nullptr;  // without the lock, but before this object and what holds gRPC
  absl::MutexLock lock(&mu_);
  --dying_;
}

void Link::Cut(const grpc::Status& status) {
  if (state_ == State::kCut) {
    At(absl::Now() + BackOff(attempts_++), retry_, &Link::StartStream);
    return;
  }
  state_ = State::kCut;
  cut_at_ = absl::Now();
  cut_by_ = status.error_message();
  attempts_ = 0;
  Say(fmt::format("connection to {} lost: {}; reconnecting", address_, cut_by_));
  At(cut_at_ + lease_, lease_end_, &Link::LeaseOver);
  if (socket_) At(cut_at_ + kLookEvery, look_, &Link::LookForDaemon);
  StartStream();
}

// gRPC's back-off grows with the time that the daemon was away, up to half a second, which is what
// a client would be late by.
void Link::LookForDaemon() {
  const std::optional<SocketFile> found = SocketFileOf(address_);
  if (found && found != socket_) {
    socket_ = found;
    in_a_hurry_ = true;
  }
  At(absl::Now() + kLookEvery, look_, &Link::LookForDaemon);
}

void Link::LeaseOver() {
  End(Lost(fmt::format("the connection broke ({}) and was not back within the lease of {}", cut_by_,
                       absl::FormatDuration(lease_))));
  if (stream_) stream_->Cancel();
}

void Link::End(absl::Status why) {
  const bool opened = state_ != State::kOpening;
  state_ = State::kOver;
  ended_ = std::move(why);
  retry_.reset();
  lease_end_.reset();
  look_.reset();
  log_.Drop();
  if (opened && !closed_by_us_) Say(std::string(Message(ended_)));
}

absl::Status Link::Lost(std::string_view why) const {
  return Unavailable(
      "{} with {} is lost: {}; what it held is gone and must be made again, new work goes to a new "
      "session",
      welcome_.session_id().empty() ? "the session" : welcome_.session_id(), address_, why);
}

void Link::At(absl::Time when, std::unique_ptr<grpc::Alarm>& alarm, void (Link::*tick)()) {
  alarm = std::make_unique<grpc::Alarm>();  // the one before is cancelled, and calls back as well
  ++alarms_;
  alarm->Set(absl::ToChronoTime(when), [this, tick, cut = cut_at_](bool in_time) {
    std::string said;
    std::function<void()> hurry;  // may outlive this object
    {
      absl::MutexLock lock(&mu_);
      --alarms_;
      if (in_time && state_ == State::kCut && cut_at_ == cut) (this->*tick)();
      if (std::exchange(in_a_hurry_, false)) hurry = hurry_;
      said.swap(said_);
    }
    LogLines(said);
    if (hurry) hurry();
  });
}

// Spread, so that a thousand clients don't come back at once.
absl::Duration Link::BackOff(int attempt) {
  const absl::Duration most = std::min(kFirstBackOff * (1 << std::min(attempt, 10)), kLastBackOff);
  return most * absl::Uniform(random_, 0.5, 1.0);
}

uint64_t Link::Send(v1::Command command) {
  absl::MutexLock lock(&mu_);
  // Who waits for its results learns why there are none.
  if (state_ == State::kOver) return log_.Skip();
  const uint64_t sequence = log_.Add(std::move(command));
  WriteNext();
  return sequence;
}

void Link::Release(uint64_t handle, uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  if (state_ == State::kOver) return;
  log_.Release(handle, bytes);
  WriteNext();
}

void Link::FlushReleases() {
  absl::MutexLock lock(&mu_);
  if (state_ == State::kOver) return;
  log_.FlushReleases();
  WriteNext();
}

uint64_t Link::NewHandle(Handle::Type type) {
  absl::MutexLock lock(&mu_);
  return log_.NewHandle(type);
}

uint64_t Link::NewTransfer() {
  absl::MutexLock lock(&mu_);
  return ++last_transfer_;
}

bool Link::MayBeKnown(uint64_t bytes) const {
  absl::MutexLock lock(&mu_);
  const auto found = unknown_.find(bytes);
  return found == unknown_.end() || found->second < kMaxUnknown;
}

void Link::NoteKnown(uint64_t bytes, bool known) {
  absl::MutexLock lock(&mu_);
  int& unknown = unknown_[bytes];
  unknown = known ? 0 : unknown + 1;
}

uint64_t Link::last_sequence() const {
  absl::MutexLock lock(&mu_);
  return log_.last();
}

bool Link::WasRefused(uint64_t sequence) const {
  absl::MutexLock lock(&mu_);
  return log_.was_refused(sequence);
}

absl::Status Link::AwaitRoom(absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  auto room = [this]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return log_.has_room() || !ended_.ok(); };
  const absl::Status waited = AwaitInterruptibly(mu_, absl::Condition(&room), deadline);
  if (absl::IsDeadlineExceeded(waited)) {
    return DeadlineExceeded("{} has {} commands queued and takes no more in time", address_,
                            log_.pending());
  }
  return waited.ok() ? ended_ : waited;
}

std::optional<absl::Status> Link::AwaitRun(uint64_t sequence, absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  auto settled = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !log_.is_running(sequence) || !ended_.ok();
  };
  const absl::Status waited = AwaitInterruptibly(mu_, absl::Condition(&settled), deadline);
  if (absl::IsDeadlineExceeded(waited)) {
    return DeadlineExceeded("{} did not finish the run in time", address_);
  }
  TD_RETURN_IF_ERROR(waited);
  if (!ended_.ok()) return ended_;
  return log_.Outcome(sequence);
}

absl::Status Link::FailureOf(uint64_t sequence) const {
  absl::MutexLock lock(&mu_);
  return log_.is_running(sequence) ? absl::OkStatus()
                                   : log_.Outcome(sequence).value_or(absl::OkStatus());
}

// A stream that is about to end is waited for, so that the reason is the same for all who ask.
absl::Status Link::ended() const {
  absl::MutexLock lock(&mu_);
  auto known = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stream_ == nullptr || !stream_->closed() || !ended_.ok();
  };
  mu_.Await(absl::Condition(&known));
  return ended_;
}

bool Link::went_away() const {
  absl::MutexLock lock(&mu_);
  return !go_away_.empty();
}

bool Link::lost() const {
  absl::MutexLock lock(&mu_);
  return state_ == State::kOver && !closed_by_us_;
}

std::optional<v1::CountersReply> Link::bill() const {
  absl::MutexLock lock(&mu_);
  return bill_;
}

Link::Attempts Link::NewAttempts() const {
  absl::MutexLock lock(&mu_);
  return {.streams = streams_};
}

absl::Status Link::AwaitRetry(const grpc::Status& failed, absl::Time deadline, Attempts& attempts) {
  // Others have nothing to do with the connection. A session that is gone has no valid token.
  if (failed.error_code() != grpc::StatusCode::UNAVAILABLE &&
      failed.error_code() != grpc::StatusCode::UNAUTHENTICATED) {
    return FromGrpc(failed);
  }
  absl::MutexLock lock(&mu_);
  // The stream shares the connection, and may still have to notice.
  const bool leased = lease_ > absl::ZeroDuration();
  const absl::Duration notice = leased ? BackOff(attempts.in_vain + 1) : absl::Seconds(1);
  auto noticed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state_ != State::kLive || streams_ != attempts.streams;
  };
  mu_.AwaitWithDeadline(absl::Condition(&noticed), std::min(absl::Now() + notice, deadline));
  auto settled = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return state_ != State::kCut; };
  const absl::Status waited = AwaitInterruptibly(mu_, absl::Condition(&settled), deadline);
  if (absl::IsDeadlineExceeded(waited)) {
    return DeadlineExceeded("{} is not reached in time: the connection broke {} ago ({})", address_,
                            absl::FormatDuration(absl::Now() - cut_at_), cut_by_);
  }
  TD_RETURN_IF_ERROR(waited);
  if (!ended_.ok()) return ended_;
  attempts.in_vain = streams_ == attempts.streams ? attempts.in_vain + 1 : 0;
  attempts.streams = streams_;
  return leased && attempts.in_vain < kMaxInVain ? absl::OkStatus() : FromGrpc(failed);
}

}  // namespace tensord::client
