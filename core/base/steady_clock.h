// A clock that nobody sets, for how long something takes or may take. The machine's date can jump
// by hours when it is corrected; leases and drains should not end by that, nor go on for ever.
//
//   const absl::Time end = SteadyNow() + absl::Seconds(30);
//   ... wake.WaitFor(end - SteadyNow()) ...      // and on another thread: wake.Notify();
//
// Its times are none of a calendar: compare them with each other only.
#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace tensord {

inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// The same as a number.
inline int64_t SteadyNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Lets one thread sleep until it is woken or a time has passed. Not by absl's mutex, whose waits
// with a timeout end at a date. Thread-safe.
class SteadyWake {
 public:
  void Notify() {
    {
      const std::lock_guard lock(mu_);
      notified_ = true;
    }
    event_.notify_one();
  }
  // Whether Notify was called since the last wait, or before `time` has passed.
  bool WaitFor(absl::Duration time) {
    // What is longer than that is as good as for ever, and could overflow.
    const auto most = absl::ToChronoNanoseconds(std::clamp(time, absl::ZeroDuration(), kLongest));
    std::unique_lock lock(mu_);
    event_.wait_for(lock, most, [this] { return notified_; });
    return std::exchange(notified_, false);
  }

 private:
  static constexpr absl::Duration kLongest = absl::Hours(24);
  std::mutex mu_;
  std::condition_variable event_;
  bool notified_ = false;
};

}  // namespace tensord
