// Keeps what anybody can cause from filling the log: a few lines at once, then one now and then.
//
//   if (const auto left_out = limiter.Take()) Log("auth").warn("... left_out={}", *left_out);
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/steady_clock.h"

namespace tensord {

class LogLimiter {
 public:
  explicit LogLimiter(int burst = 10, absl::Duration interval = absl::Seconds(5))
      : burst_(burst), interval_(interval) {}

  // How many lines were left out since the last one that was written; nothing: leave this one out.
  std::optional<uint64_t> Take() { return TakeAt(SteadyNow()); }
  std::optional<uint64_t> TakeAt(absl::Time now) {
    absl::MutexLock lock(&mu_);
    // Each line takes an interval of the past, of which there is a burst at most.
    paid_until_ = std::clamp(paid_until_, now - burst_ * interval_, now);
    if (paid_until_ > now - interval_) {
      ++left_out_;
      return std::nullopt;
    }
    paid_until_ += interval_;
    return std::exchange(left_out_, 0);
  }

 private:
  const int burst_;
  const absl::Duration interval_;
  absl::Mutex mu_;
  absl::Time paid_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  uint64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
