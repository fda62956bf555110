// EventCount lets threads sleep until a condition over atomics holds, without a lock around them.
//
//   waiter:   event.Wait([&] { return queued.load(std::memory_order_acquire) > 0; });
//   notifier: queued.store(1, std::memory_order_release);  event.Notify();
//
// A waiter spins for at most 20 us, less where spinning didn't pay lately, then sleeps in the
// kernel. Notify is one atomic addition while nobody sleeps. Thread-safe.
#pragma once

#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace tensord::hcq {

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The clock of host devices: monotonic, in nanoseconds.
int64_t MonotonicNs();

class EventCount {
 public:
  // Wakes up to `threads` sleepers, so that they look at their condition again.
  void Notify(int threads = INT_MAX) {
    // seq_cst orders this against the waiter's sleepers_ addition: either the waiter is seen here,
    // or it sees the new epoch and doesn't sleep. The release half publishes the condition.
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) Wake(threads);
  }

  // Blocks until ready() is true; false if it isn't by the deadline. A condition that may change
  // without Notify is looked at every `longest_sleep`.
  template <typename Ready>
  bool Wait(Ready ready, absl::Time deadline = absl::InfiniteFuture(),
            absl::Duration longest_sleep = absl::InfiniteDuration()) {
    if (ready()) return true;
    const int64_t spin_ns = spin_ns_.load(std::memory_order_relaxed);  // a hint, publishes nothing
    for (const int64_t end = MonotonicNs() + spin_ns; MonotonicNs() < end;) {
      for (int i = 0; i < 8; ++i) {
        CpuRelax();
        if (ready()) {
          AdaptSpin(spin_ns * 2);
          return true;
        }
      }
    }
    AdaptSpin(spin_ns / 2);

    sleepers_.fetch_add(1, std::memory_order_seq_cst);  // see Notify
    bool reached;
    for (;;) {
      const uint32_t epoch = epoch_.load(std::memory_order_acquire);  // then the condition is fresh
      reached = ready();
      if (reached || absl::Now() >= deadline) break;
      Sleep(epoch, deadline, longest_sleep);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);  // too high a count only costs a wake-up
    return reached;
  }

 private:
  void Wake(int threads);
  void Sleep(uint32_t epoch, absl::Time deadline, absl::Duration longest_sleep);
  void AdaptSpin(int64_t spin_ns);

  std::atomic<uint32_t> epoch_{0};  // changes with every Notify; what sleepers wait on
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<int64_t> spin_ns_{20'000};
};

}  // namespace tensord::hcq
