// Session: receiving commands, their order, and who waits for them.
#include <absl/algorithm/container.h>
#include <absl/numeric/int128.h>

#include <limits>
#include <utility>

#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "core/wire/status.h"
#include "server/session/session.h"

namespace tensord {
namespace {

// An acknowledgement by itself is worth a frame only now and then: most ride on completions.
constexpr uint64_t kAcknowledgeEvery = 64;

}  // namespace

Session::Session(SessionIdentity identity, SessionEngine engine)
    : identity_(std::move(identity)),
      engine_(engine),
      flow_(engine_.scheduler, identity_.weight),
      account_(engine_.ledger, identity_.id, identity_.user, engine_.limits.max_session_bytes) {}

Session::~Session() = default;

absl::Status Session::SessionEnded() { return Cancelled("the session has ended"); }

absl::Status Session::Receive(uint64_t attachment, v1::ClientFrame& frame) {
  {
    absl::MutexLock lock(&mu_);
    if (attachment != attachment_) return absl::AbortedError("another stream has the session");
    if (static_cast<uint32_t>(frame.commands_size()) > limits().max_commands_per_frame) {
      return ResourceExhausted("a frame carries {} commands, more than the limit of {}",
                               frame.commands_size(), limits().max_commands_per_frame);
    }
    TD_RETURN_IF_ERROR(Acknowledge(frame.acknowledged()));
    if (frame.commands().empty()) return absl::OkStatus();
    last_command_ = absl::Now();
    const int64_t received_ns = IsTraced() ? SteadyNs() : 0;
    for (v1::Command& command : *frame.mutable_commands()) {
      if (command.sequence() <= received_) continue;  // sent again after it had arrived
      if (command.sequence() != received_ + 1) {
        return InvalidArgument("command {} arrived where {} was due: numbers have no gaps",
                               command.sequence(), received_ + 1);
      }
      received_ = command.sequence();
      const size_t bytes = command.ByteSizeLong();
      queued_bytes_ += bytes;
      queue_.push_back({.command = std::move(command),
                        .bytes = bytes,
                        .sent_ns = frame.sent_ns(),
                        .received_ns = received_ns});
    }
  }
  Drain();
  return absl::OkStatus();
}

bool Session::HasRoom(uint64_t attachment) {
  absl::MutexLock lock(&mu_);
  if (attachment != attachment_) return false;
  reader_waits_ = Full();
  return !reader_waits_;
}

// Commands that wait, and answers that the client does not read, both take memory.
bool Session::Full() const {
  const size_t answers = outgoing_.errors_size() + outgoing_.completions_size();
  return queue_.size() >= limits().max_pending_commands ||
         answers >= limits().max_pending_commands || queued_bytes_ > limits().max_message_bytes;
}

bool Session::TakeRoom(uint64_t attachment) {
  absl::MutexLock lock(&mu_);
  if (attachment != attachment_ || !reader_waits_ || Full()) return false;
  reader_waits_ = false;
  return true;
}

// One thread at a time executes. Whoever comes meanwhile leaves a note, so that a command which
// found itself blocked just before its obstacle went is tried again.
void Session::Drain() {
  {
    absl::MutexLock lock(&mu_);
    poked_ = true;
    if (executing_) return;
    executing_ = true;
  }
  bool ended, ran = false;
  for (;;) {
    v1::Command* command;
    std::deque<Queued> dropped;
    {
      absl::MutexLock lock(&mu_);
      ended = ended_;
      if (ended) dropped.swap(queue_);
      if (queue_.empty()) {
        executing_ = false;
        break;
      }
      poked_ = false;
      command = &queue_.front().command;  // stays in place while others push behind it
    }
    const Outcome outcome = Execute(*command);
    ran |= command->has_run();
    if (outcome == Outcome::kBlocked) engine_.scheduler.Rest(flow_);
    Queued done;  // dies without the lock, as what follows
    Spiller::Grant room;
    bool rests;
    {
      absl::MutexLock lock(&mu_);
      ended = ended_;
      const bool keeps_room =
          outcome == Outcome::kAwaitsTurn ||
          (outcome == Outcome::kBlocked && obstacle_.cause == v1::ExplainReply::CAUSE_MEMORY);
      if (!keeps_room) room = LeaveRoom();
      if (outcome == Outcome::kDone) {
        executed_ = command->sequence();
        done = std::move(queue_.front());
        queue_.pop_front();
        queued_bytes_ -= done.bytes;
      } else if (!poked_) {
        executing_ = false;
        break;
      }
      rests = ran && queue_.empty();
    }
    if (rests) engine_.scheduler.Rest(flow_);
  }
  if (ended) engine_.scheduler.Rest(flow_);
  NotifyWaiters();
  Flush();
}

// On any thread, maybe one of a device.
void Session::TurnCame() {
  engine_.work_pool.Schedule([self = shared_from_this()] { self->Drain(); });
}

void Session::Poke() {
  {
    absl::MutexLock lock(&mu_);
    if (queue_.empty() && waiters_.empty() && !something_to_tell_) return;
  }
  Drain();
}

bool Session::WorthAFrame() const {
  if (ended_) return false;
  return something_to_tell_ || next_kept_ < kept_.size() ||
         executed_ >= acknowledged_ + kAcknowledgeEvery ||
         (executed_ > acknowledged_ && in_flight_ == 0);
}

void Session::Flush() {
  std::shared_ptr<SessionListener> listener;
  {
    absl::MutexLock lock(&mu_);
    if (WorthAFrame() || (reader_waits_ && !Full())) listener = listener_.lock();
  }
  if (listener) listener->Wake();
}

bool Session::AllDone() const {
  const auto arriving = [](const auto& transfer) {
    return transfer.second.call.ticket != 0 && !transfer.second.parked;
  };
  const bool executed = accept_until_ ? executed_ >= *accept_until_ : queue_.empty();
  return executed && in_flight_ == 0 && compiling_ == 0 && copying_ == 0 && pins_ == 0 &&
         absl::c_none_of(transfers_, arriving);
}

bool Session::Idle() {
  absl::MutexLock lock(&mu_);
  const bool told = !something_to_tell_ || told_all_ || parked_until_;  // or nobody is there
  return ended_ || (AllDone() && told);
}

uint64_t Session::Await(const AwaitRequest& request, AwaitDone done) {
  std::optional<absl::StatusOr<Awaited>> result;
  {
    absl::MutexLock lock(&mu_);
    result = Resolve(request);
    if (!result) {
      waiters_.push_back({.id = next_waiter_, .request = request, .done = std::move(done)});
      return next_waiter_++;
    }
  }
  done(*std::move(result));
  return 0;
}

void Session::CancelAwait(uint64_t id) {
  AwaitDone done;
  {
    absl::MutexLock lock(&mu_);
    for (auto it = waiters_.begin(); it != waiters_.end(); ++it) {
      if (it->id != id) continue;
      done = std::move(it->done);
      waiters_.erase(it);
      break;
    }
  }
  if (done) done(Cancelled("the call was cancelled"));
}

std::optional<absl::StatusOr<Awaited>> Session::Resolve(const AwaitRequest& request) {
  if (ended_) return SessionEnded();
  if (executed_ < request.sequence) return std::nullopt;
  Awaited result;
  if (request.handle == 0) {
    result.pending.assign(last_submitted_.begin(), last_submitted_.end());
    return result;
  }
  if (Handle::Unpack(request.handle).type == Handle::kProgram) {
    absl::StatusOr<LoadedProgram*> program = programs_.Find(request.handle);
    if (!program.ok()) return program.status();
    if ((*program)->state == ObjectState::kPending) return std::nullopt;
    if ((*program)->state == ObjectState::kError) return (*program)->error;
    return result;
  }
  absl::StatusOr<Tensor*> tensor = tensors_.Find(request.handle);
  if (!tensor.ok()) return tensor.status();
  if ((*tensor)->state == ObjectState::kPending) return std::nullopt;
  if ((*tensor)->state == ObjectState::kError) return (*tensor)->error;
  if ((*tensor)->state == ObjectState::kSpilled && !request.pin) return result;
  if (!IsThere(tensors_.Share(request.handle))) return std::nullopt;
  result.buffer = (*tensor)->buffer;
  // Itself: who waits is no holder.
  if ((*tensor)->published) result.published = (*tensor)->published->shared_from_this();
  if (request.pin) {
    result.pin = Pin(tensors_.Share(request.handle));
  } else {
    result.pending.assign(last_submitted_.begin(), last_submitted_.end());
  }
  result.pending.emplace_back(&result.buffer->memory->device(), (*tensor)->ready);
  result.version =
      (*tensor)->ready + 1;  // each run that overwrites it ends later than those before
  return result;
}

void Session::NotifyWaiters() {
  std::vector<std::pair<AwaitDone, absl::StatusOr<Awaited>>> ready;
  {
    absl::MutexLock lock(&mu_);
    if (waiters_.empty()) return;
    std::vector<Waiter> still;
    for (Waiter& waiter : waiters_) {
      if (std::optional<absl::StatusOr<Awaited>> result = Resolve(waiter.request)) {
        ready.emplace_back(std::move(waiter.done), *std::move(result));
      } else {
        still.push_back(std::move(waiter));
      }
    }
    waiters_ = std::move(still);
  }
  for (auto& [done, result] : ready) done(std::move(result));
}

std::shared_ptr<const void> Session::Pin(std::shared_ptr<Tensor> tensor) {
  ++tensor->readers;
  ++pins_;
  const void* address = tensor.get();
  return {address, [self = shared_from_this(), tensor = std::move(tensor)](const void*) {
            self->Unpin(tensor);
          }};
}

void Session::Unpin(const std::shared_ptr<Tensor>& tensor) {
  {
    absl::MutexLock lock(&mu_);
    --pins_;
    if (--tensor->readers > 0) return;
    if (engine_.spiller != nullptr) engine_.spiller->Wake();
    if (queue_.empty()) return;
  }
  // Elsewhere, because this may be a thread of the device.
  engine_.work_pool.Schedule([self = shared_from_this()] { self->Drain(); });
}

absl::Status Session::HandleStatus(uint64_t handle) {
  absl::MutexLock lock(&mu_);
  if (ended_) return SessionEnded();
  if (Handle::Unpack(handle).type == Handle::kProgram) {
    TD_ASSIGN_OR_RETURN(LoadedProgram * program, programs_.Find(handle));
    return program->error;
  }
  TD_ASSIGN_OR_RETURN(Tensor * tensor, tensors_.Find(handle));
  return tensor->error;
}

std::vector<std::string> Session::KernelNames(uint64_t handle) {
  if (Handle::Unpack(handle).type != Handle::kProgram) return {};
  absl::MutexLock lock(&mu_);
  const absl::StatusOr<LoadedProgram*> program = programs_.Find(handle);
  if (!program.ok() || !(*program)->executable) return {};
  return (*program)->executable->kernel_names();
}

void Session::CountDownloaded(uint64_t bytes, bool by_segment) {
  absl::MutexLock lock(&mu_);
  if (by_segment) {
    counters_.set_segment_bytes_downloaded(counters_.segment_bytes_downloaded() + bytes);
  }
  counters_.set_bytes_downloaded(counters_.bytes_downloaded() + bytes);
}

v1::CountersReply Session::Counters() {
  absl::MutexLock lock(&mu_);
  v1::CountersReply reply = counters_;
  reply.set_live_bytes(account_.bytes());
  const absl::uint128 byte_seconds = account_.byte_ns() / 1'000'000'000;
  reply.set_byte_seconds(absl::Uint128High64(byte_seconds) > 0
                             ? std::numeric_limits<uint64_t>::max()
                             : absl::Uint128Low64(byte_seconds));
  reply.set_live_handles(tensors_.live() + programs_.live());
  return reply;
}

v1::ExplainReply Session::Explain() {
  v1::ExplainReply reply;
  {
    absl::MutexLock lock(&mu_);
    reply.set_commands(static_cast<uint32_t>(queue_.size()));
    reply.set_compiling(compiling_);
    for (const auto& miss : misses_) *reply.add_misses() = miss;
    if (queue_.empty() || obstacle_.sequence != queue_.front().command.sequence()) return reply;
    reply.set_sequence(obstacle_.sequence);
    reply.set_cause(obstacle_.cause);
    reply.set_waiting_ns(static_cast<uint64_t>(
        std::max<int64_t>(absl::ToInt64Nanoseconds(absl::Now() - obstacle_.since), 0)));
    const v1::Command& command = queue_.front().command;
    if (command.has_run()) {
      const absl::StatusOr<LoadedProgram*> program = programs_.Find(command.run().program());
      reply.set_what(fmt::format("run of program '{}'", program.ok() ? (*program)->name : "?"));
      if (obstacle_.input >= 0)
        reply.set_what(reply.what() + fmt::format(", input {}", obstacle_.input));
    } else if (command.has_upload()) {
      reply.set_what(
          fmt::format("upload of {}", ToString(Handle::Unpack(command.upload().handle()))));
    } else if (command.has_copy()) {
      reply.set_what(fmt::format("copy of {}", ToString(Handle::Unpack(command.copy().source()))));
    }
  }
  if (reply.cause() != v1::ExplainReply::CAUSE_TURN) return reply;
  for (const Scheduler::Position& position : engine_.scheduler.Look(flow_)) {
    v1::ExplainReply::Queue& queue = *reply.add_queues();
    queue.set_device(position.device->name());
    queue.set_place(position.place);
    queue.set_waiting(position.waiting);
    queue.set_own_runs(position.own_runs);
    queue.set_own_ns(position.own_ns);
    queue.set_other_runs(position.other_runs);
    queue.set_other_ns(position.other_ns);
    queue.set_ns_before(position.ns_before);
    queue.set_starts_in_ns(position.own_ns + position.other_ns + position.ns_before);
  }
  return reply;
}

std::vector<HeldTensor> Session::HeldTensors() {
  std::vector<HeldTensor> held;
  absl::MutexLock lock(&mu_);
  held.reserve(tensors_.live());
  tensors_.ForEach([&](uint64_t handle, const Tensor& tensor) {
    HeldTensor& out = held.emplace_back();
    out.handle = handle;
    out.state = tensor.state;
    out.error = tensor.error;
    out.bytes = tensor.bytes;
    if (tensor.spilled != nullptr) {
      out.dtype = tensor.spilled->dtype;
      out.shape = tensor.spilled->shape;
      out.device = tensor.device->name();
    }
    if (tensor.buffer == nullptr) return;
    out.dtype = tensor.buffer->dtype;
    out.shape = tensor.buffer->shape;
    out.device = tensor.buffer->memory->device().name();
  });
  return held;
}

Session::Load Session::load() {
  absl::MutexLock lock(&mu_);
  return {.queued = queue_.size(), .in_flight = in_flight_};
}

absl::Time Session::last_command() {
  absl::MutexLock lock(&mu_);
  return last_command_;
}

}  // namespace tensord
