// Session: streams that come and go, and what is told to them.
#include <utility>

#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "server/session/session.h"

namespace tensord {
namespace {

uint64_t EventsIn(const v1::ServerFrame& frame) {
  return static_cast<uint64_t>(frame.completions_size() + frame.errors_size());
}

}  // namespace

absl::StatusOr<Attachment> Session::Attach(std::weak_ptr<SessionListener> listener,
                                           uint64_t acknowledged) {
  absl::MutexLock lock(&mu_);
  if (ended_ || expired_) return absl::NotFoundError("the session has ended");
  TD_RETURN_IF_ERROR(Acknowledge(acknowledged));
  Attachment attachment{
      .number = ++attachment_, .received = received_, .replaced = listener_.lock()};
  listener_ = std::move(listener);
  parked_until_.reset();
  account_.SetParkedUntil(std::nullopt);
  reader_waits_ = false;
  next_kept_ = 0;
  acknowledged_ = 0;  // it is told anew how far the commands are
  if (accept_until_) {
    *outgoing_.mutable_go_away() = go_away_;
    something_to_tell_ = true;
  }
  return attachment;
}

bool Session::Detach(uint64_t attachment, absl::Time parked_until) {
  absl::MutexLock lock(&mu_);
  if (ended_ || attachment != attachment_ || parked_until_) return false;
  listener_.reset();
  parked_until_ = parked_until;
  account_.SetParkedUntil(parked_until);
  return true;
}

bool Session::Expire(absl::Time now) {
  absl::MutexLock lock(&mu_);
  if (!parked_until_ || *parked_until_ > now) return false;
  expired_ = true;
  return true;
}

std::optional<absl::Time> Session::parked_until() {
  absl::MutexLock lock(&mu_);
  return parked_until_;
}

// What is not acknowledged is kept for the next stream. Without a lease there is none.
absl::Status Session::Acknowledge(uint64_t events) {
  if (!resumable()) return absl::OkStatus();
  if (events > events_) {
    return InvalidArgument("event {} is acknowledged where {} were told", events, events_);
  }
  while (!kept_.empty() && kept_.front().events() <= events) {
    kept_.pop_front();
    if (next_kept_ > 0) --next_kept_;
  }
  if (events > acknowledged_events_) acknowledged_events_ = events;
  if (events_ - acknowledged_events_ > limits().max_kept_events) {
    return ResourceExhausted(
        "{} events are not acknowledged, more than the limit of {}: the client of a session with a "
        "lease acknowledges what it reads",
        events_ - acknowledged_events_, limits().max_kept_events);
  }
  return absl::OkStatus();
}

bool Session::TakeFrame(uint64_t attachment, v1::ServerFrame* frame) {
  frame->Clear();
  absl::MutexLock lock(&mu_);
  if (attachment != attachment_ || !WorthAFrame()) return false;
  if (next_kept_ < kept_.size()) {
    *frame = kept_[next_kept_++];
  } else {
    told_all_ = accept_until_ && AllDone();
    frame->Swap(&outgoing_);
    something_to_tell_ = false;
    if (!untold_.empty()) NoteTold(SteadyNs());
    if (resumable() && EventsIn(*frame) > 0) {
      frame->set_events(events_ += EventsIn(*frame));
      v1::ServerFrame& kept = kept_.emplace_back(*frame);
      kept.clear_go_away();
      ++next_kept_;
    }
  }
  frame->set_acknowledged(executed_);
  acknowledged_ = executed_;
  return true;
}

void Session::GoAway(const std::string& reason, absl::Duration grace) {
  {
    absl::MutexLock lock(&mu_);
    if (accept_until_) return;
    accept_until_ = received_;
    go_away_.set_reason(reason);
    go_away_.set_grace_ms(absl::ToInt64Milliseconds(grace));
    *outgoing_.mutable_go_away() = go_away_;
    something_to_tell_ = true;
  }
  Flush();
}

void Session::Close(const absl::Status& status) {
  std::shared_ptr<SessionListener> listener;
  {
    absl::MutexLock lock(&mu_);
    listener = listener_.lock();
  }
  if (listener) listener->Close(status);
}

void Session::End() {
  // What dies here may be large, and callbacks take locks: both happen after the lock.
  std::vector<Waiter> waiters;
  absl::flat_hash_map<uint64_t, Transfer> transfers;
  HandleTable<Tensor> tensors(Handle::kTensor);
  HandleTable<LoadedProgram> programs(Handle::kProgram);
  std::deque<Queued> dropped;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Segment>> segments;
  Room room;
  {
    absl::MutexLock lock(&mu_);
    if (ended_) return;
    ended_ = true;
    if (!executing_) dropped.swap(queue_);
    waiters.swap(waiters_);
    transfers.swap(transfers_);
    std::swap(tensors, tensors_);
    std::swap(programs, programs_);
    segments.swap(segments_);
    NoteTold(0);
    std::swap(room, room_);
    account_.Close();
  }
  engine_.scheduler.Rest(flow_);
  for (Waiter& waiter : waiters) waiter.done(SessionEnded());
  for (auto& [id, transfer] : transfers) {
    if (transfer.parked) transfer.parked(SessionEnded());
  }
}

void Session::Abandon(const absl::Status& why) {
  std::vector<std::shared_ptr<RunInFlight>> runs;
  {
    absl::MutexLock lock(&mu_);
    abandoned_ = why;  // those that are being submitted find it
    runs.assign(runs_.begin(), runs_.end());
  }
  for (const auto& run : runs) {
    for (const auto& [device, value] : run->ends) device->Abandon(value, why);
  }
}

std::string Session::Unfinished() {
  absl::MutexLock lock(&mu_);
  if (AllDone()) return "";
  return fmt::format("{} runs, {} compilations, {} copies and {} commands", in_flight_, compiling_,
                     copying_, queue_.size());
}

}  // namespace tensord
