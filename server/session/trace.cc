// Session: what is noted of its work.
#include <absl/strings/match.h>

#include <utility>

#include "core/base/steady_clock.h"
#include "server/session/session.h"

namespace tensord {
namespace {

// Of one session that is traced by itself: a few minutes of small runs, a few MB.
constexpr TraceRing::Limits kOwnTrace = {.records = 16'384, .steps = 524'288};

// Runs whose records wait for a frame; more than a session may have answers that its client has not
// read, so that these have the time of their frame.
constexpr size_t kUntold = 4096;
constexpr int64_t kToBeTold = -1;

int64_t StampOf(const Signal& signal) {
  return static_cast<int64_t>(signal.timestamp_ns.load(std::memory_order_relaxed));
}

// By the peer's name, as gRPC has it: all that is no address of another machine.
bool IsOnThisMachine(const std::string& peer) {
  for (const char* here : {"ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D"}) {
    if (absl::StartsWith(peer, here)) return true;
  }
  return !absl::StartsWith(peer, "ipv4:") && !absl::StartsWith(peer, "ipv6:");
}

}  // namespace

std::shared_ptr<const TracedSession> Session::Traced(const SessionIdentity& identity) {
  return std::make_shared<const TracedSession>(
      TracedSession{.id = identity.id,
                    .user = identity.user,
                    .client_name = identity.client_name,
                    .same_clock = IsOnThisMachine(identity.peer)});
}

std::shared_ptr<TraceRing> Session::own_trace() {
  absl::MutexLock lock(&mu_);
  return own_trace_;
}

std::shared_ptr<TraceRing> Session::StartTrace() {
  auto ring = std::make_shared<TraceRing>(kOwnTrace);
  std::shared_ptr<TraceRing> before = ring;  // dies without the lock
  absl::MutexLock lock(&mu_);
  before.swap(own_trace_);
  return ring;
}

void Session::StopTrace() {
  std::shared_ptr<TraceRing> before;  // dies without the lock
  absl::MutexLock lock(&mu_);
  before.swap(own_trace_);
}

void Session::TimeStepsUntil(int64_t steady_ns) {
  absl::MutexLock lock(&mu_);
  steps_until_ns_ = steady_ns;
}

bool Session::TimesSteps(int64_t now_ns) const { return own_trace_ || now_ns < steps_until_ns_; }

void Session::NoteTransfer(TraceRecord::Kind kind, uint64_t bytes, const TransferTimes& times) {
  absl::MutexLock lock(&mu_);
  if (!IsTraced()) return;
  NoteLocked({.kind = kind,
              .bytes = bytes,
              .received_ns = times.received_ns,
              .ready_ns = times.ready_ns,
              .done_ns = SteadyNs()});
}

void Session::NoteLocked(TraceRecord record) {
  record.session = traced_;
  if (own_trace_) {
    TraceRecord copy = record;
    own_trace_->Add({&copy, 1});
  }
  if (engine_.trace != nullptr) engine_.trace->Add({&record, 1});
}

void Session::NoteCompile(uint64_t sequence, const LoadedProgram& program) {
  if (program.received_ns == 0) return;
  NoteLocked({.kind = TraceRecord::Kind::kCompile,
              .code = program.error.code(),
              .sequence = sequence,
              .program = program.traced,
              .sent_ns = program.sent_ns,
              .received_ns = program.received_ns,
              .turn_ns = program.traced->compile.begin_ns,
              .done_ns = program.traced->compile.end_ns});
}

void Session::NoteUpload(uint64_t sequence, uint64_t bytes) {
  const Queued& front = queue_.front();
  if (front.received_ns == 0) return;
  NoteLocked({.kind = TraceRecord::Kind::kUpload,
              .sequence = sequence,
              .bytes = bytes,
              .sent_ns = front.sent_ns,
              .received_ns = front.received_ns,
              .done_ns = SteadyNs()});
}

void Session::NoteRun(const RunInFlight& run, const absl::Status& status, int64_t done_ns) {
  if (run.received_ns == 0 || !IsTraced()) return;
  TraceRecord& record = untold_.emplace_back();
  record.code = status.code();
  record.sequence = run.sequence;
  record.session = traced_;
  record.program = run.program->traced;
  record.sent_ns = run.sent_ns;
  record.received_ns = run.received_ns;
  record.ready_ns = run.ready_ns;
  record.turn_ns = run.turn_ns;
  record.done_ns = done_ns;
  for (size_t i = 0; i < run.times.size(); ++i) {
    const auto& [device, times] = run.times[i];
    TraceRecord::OnDevice& on = record.devices.emplace_back();
    on.device = device;
    on.begin_ns = StampOf(times->begin);
    on.end_ns = StampOf(times->end);
    if (!run.notes_steps || i >= run.steps.size()) continue;
    on.names = run.steps[i]->names;
    on.steps.reserve(on.names->size());
    for (size_t step = 0; step < on.names->size(); ++step) {
      const RunTimes& stamps = run.steps[i]->times[step];
      on.steps.push_back({StampOf(stamps.begin), StampOf(stamps.end)});
    }
  }
  // With the frame that tells the client, and which takes those along of which it is told nothing.
  if (run.notify) record.told_ns = kToBeTold;
  if (untold_.size() >= kUntold) NoteTold(0);
}

void Session::NoteTold(int64_t now_ns) {
  for (TraceRecord& record : untold_) {
    if (record.told_ns == kToBeTold) record.told_ns = now_ns;
  }
  if (own_trace_) {
    std::vector<TraceRecord> copies = untold_;
    own_trace_->Add(absl::MakeSpan(copies));
  }
  if (engine_.trace != nullptr) engine_.trace->Add(absl::MakeSpan(untold_));
  untold_.clear();
}

}  // namespace tensord
