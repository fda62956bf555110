#include "backends/hcq/host_timeline.h"

#include <limits>
#include <utility>

#include "backends/hcq/signal.h"
#include "backends/hcq/thread_name.h"
#include "core/base/status.h"

namespace tensord::hcq {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
constexpr size_t kFailuresKept = 1024;

}  // namespace

HostTimeline::HostTimeline(std::string device_name)
    : device_name_(std::move(device_name)), wanted_(kNone) {
  thread_ = std::thread([this] {
    NameThread(device_name_ + " waiter");
    RunWaiters();
  });
}

HostTimeline::~HostTimeline() {
  stop_.store(true, std::memory_order_release);  // to the waiter thread, which ends
  registered_.Notify();
  EventFor(signal_).Notify();
  thread_.join();
}

uint64_t HostTimeline::Reserve() {
  return reserved_.fetch_add(1, std::memory_order_relaxed) + 1;  // a number, publishes nothing
}

uint64_t HostTimeline::last_reserved() const { return reserved_.load(std::memory_order_relaxed); }

bool HostTimeline::Reached(uint64_t value) const { return hcq::Reached(signal_, value); }

absl::Status HostTimeline::Wait(uint64_t value, absl::Time deadline) {
  if (!Reached(value)) {
    if (value > last_reserved()) {
      return InvalidArgument("{}: wait for timeline value {}, but {} is the last one reserved",
                             device_name_, value, last_reserved());
    }
    if (!EventFor(signal_).Wait([&] { return Reached(value); }, deadline)) {
      return DeadlineExceeded("{}: timeline value {} is not reached, the device is at {}",
                              device_name_, value, signal_.value.load(std::memory_order_relaxed));
    }
  }
  return StatusOf(value);
}

void HostTimeline::OnReached(uint64_t value, std::function<void(absl::Status)> done) {
  {
    absl::MutexLock lock(&mu_);
    waiters_.push({value, next_order_++, std::move(done)});
    // If it became the smallest value, the thread must look again.
    if (waiters_.top().value == wanted_.load(std::memory_order_relaxed)) return;
    wanted_.store(waiters_.top().value, std::memory_order_release);
  }
  registered_.Notify();
  EventFor(signal_).Notify();
}

void HostTimeline::Fail(uint64_t value, const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  failures_.emplace(value, status);
  if (failures_.size() > kFailuresKept) failures_.erase(failures_.begin());
}

absl::Status HostTimeline::StatusOf(uint64_t value) const {
  absl::MutexLock lock(&mu_);
  const auto it = failures_.find(value);
  return it == failures_.end() ? absl::OkStatus() : it->second;
}

void HostTimeline::RunWaiters() {
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  // The value registered by OnReached; the heap itself is read under the lock.
  const auto wanted = [this] { return wanted_.load(std::memory_order_acquire); };
  while (!stopped()) {
    // With nothing to wait for it sleeps apart from the signal, so as not to wake at each one.
    registered_.Wait([&] { return stopped() || wanted() != kNone; });
    EventFor(signal_).Wait([&] { return stopped() || Reached(wanted()) || wanted() == kNone; });
    for (Waiter waiter; !stopped() && Pop(waiter);) waiter.done(StatusOf(waiter.value));
  }
  for (Waiter waiter; Pop(waiter);) {
    waiter.done(Reached(waiter.value) ? StatusOf(waiter.value)
                                      : Cancelled("{}: closed before timeline value {} was reached",
                                                  device_name_, waiter.value));
  }
}

bool HostTimeline::Pop(Waiter& waiter) {
  absl::MutexLock lock(&mu_);
  if (waiters_.empty()) return false;
  // At the end everybody gets an answer.
  if (!Reached(waiters_.top().value) && !stop_.load(std::memory_order_relaxed)) return false;
  // top() is const to protect the order, which the pop below ends anyway.
  waiter = std::move(const_cast<Waiter&>(waiters_.top()));
  waiters_.pop();
  wanted_.store(waiters_.empty() ? kNone : waiters_.top().value, std::memory_order_release);
  return true;
}

}  // namespace tensord::hcq
