// The timeline of a device whose signals live in host memory, and whose queue writes them with
// SetSignal. A value that failed is reached like any other, but its waiters get the fault.
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "backends/hcq/event_count.h"
#include "core/device/device.h"

namespace tensord::hcq {

class HostTimeline final : public Timeline {
 public:
  explicit HostTimeline(std::string device_name);
  // Callbacks whose value was not reached get Cancelled.
  ~HostTimeline() override;

  tensord::Signal* signal() override { return &signal_; }
  uint64_t Reserve() override;
  uint64_t last_reserved() const override;
  bool Reached(uint64_t value) const override;
  absl::Status Wait(uint64_t value, absl::Time deadline) override;
  void OnReached(uint64_t value, std::function<void(absl::Status)> done) override;

  // Says how `value` ended; the queue calls it before it signals the value. The last 1024 failures
  // are remembered, which bounds what a session that only fails can cost.
  void Fail(uint64_t value, const absl::Status& status);

 private:
  struct Waiter {
    uint64_t value;
    uint64_t order;  // of registration, among equal values
    std::function<void(absl::Status)> done;
  };
  struct Later {
    bool operator()(const Waiter& a, const Waiter& b) const {
      return a.value != b.value ? a.value > b.value : a.order > b.order;
    }
  };

  absl::Status StatusOf(uint64_t value) const;
  void RunWaiters();
  bool Pop(Waiter& waiter) ABSL_LOCKS_EXCLUDED(mu_);

  const std::string device_name_;
  tensord::Signal signal_;
  std::atomic<uint64_t> reserved_{0};

  mutable absl::Mutex mu_;
  std::map<uint64_t, absl::Status> failures_ ABSL_GUARDED_BY(mu_);
  std::priority_queue<Waiter, std::vector<Waiter>, Later> waiters_ ABSL_GUARDED_BY(mu_);
  uint64_t next_order_ ABSL_GUARDED_BY(mu_) = 0;
  // The smallest value in waiters_, kNone if there is none; written under mu_, read without it.
  std::atomic<uint64_t> wanted_;
  std::atomic<bool> stop_{false};
  EventCount registered_;  // wanted_ isn't kNone any more
  std::thread thread_;     // runs the callbacks; last, so that it starts when all else is there
};

}  // namespace tensord::hcq
