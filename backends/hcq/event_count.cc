#include "backends/hcq/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tensord::hcq {
namespace {

constexpr int64_t kLongestSpinNs = 20'000;
// Long enough to notice when a partner has become quick again. Judging by the length of the whole
// wait instead, sleep included, keeps on spinning on a busy machine and takes its partner's core.
constexpr int64_t kShortestSpinNs = 2'000;

}  // namespace

int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void EventCount::Wake(int threads) {
  syscall(SYS_futex, &epoch_, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

void EventCount::Sleep(uint32_t epoch, absl::Time deadline, absl::Duration longest_sleep) {
  // The kernel compares the epoch and sleeps as one step, so a Notify in between isn't lost. It may
  // wake for no reason; Wait's loop looks at the condition again.
  const absl::Duration timeout = std::min(deadline - absl::Now(), longest_sleep);
  if (timeout == absl::InfiniteDuration()) {
    syscall(SYS_futex, &epoch_, FUTEX_WAIT_PRIVATE, epoch, nullptr, nullptr, 0);
    return;
  }
  const timespec relative = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  syscall(SYS_futex, &epoch_, FUTEX_WAIT_PRIVATE, epoch, &relative, nullptr, 0);
}

void EventCount::AdaptSpin(int64_t spin_ns) {
  // With one processor nobody can make the condition true while we spin.
  static const bool can_spin = std::thread::hardware_concurrency() > 1;
  spin_ns_.store(can_spin ? std::clamp(spin_ns, kShortestSpinNs, kLongestSpinNs) : 0,
                 std::memory_order_relaxed);
}

}  // namespace tensord::hcq
