// What a session's client did and when, while somebody traces it. Costs a load of a flag otherwise.
//
//   const SliceScope scope(session.slices(), "download", bytes);   // until its end
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/steady_clock.h"

namespace tensord::client {

struct Slice {
  const char* name = nullptr;        // a literal
  int64_t begin_ns = 0, end_ns = 0;  // of SteadyNs
  int64_t thread = 0;                // the kernel's number
  uint64_t sequence = 0;             // of the run that it sent; else 0
  uint64_t bytes = 0;                // that it moved
};

class SliceLog {
 public:
  struct Taken {
    std::vector<Slice> slices;  // in the order of their ends
    uint64_t left_out = 0;      // above the limit
  };

  bool on() const { return on_.load(std::memory_order_relaxed); }  // a hint, mu_ publishes

  // False if it is on already.
  bool Start() {
    absl::MutexLock lock(&mu_);
    if (on()) return false;
    since_ns_ = SteadyNs();
    taken_ = {};
    on_.store(true, std::memory_order_relaxed);
    return true;
  }
  Taken Stop() {
    absl::MutexLock lock(&mu_);
    on_.store(false, std::memory_order_relaxed);
    return std::exchange(taken_, {});
  }
  void Add(const Slice& slice) {
    absl::MutexLock lock(&mu_);
    if (!on() || slice.begin_ns < since_ns_) return;
    if (taken_.slices.size() < kMost) {
      taken_.slices.push_back(slice);
    } else {
      ++taken_.left_out;
    }
  }

 private:
  static constexpr size_t kMost = 1 << 20;  // 48 MiB

  absl::Mutex mu_;
  std::atomic<bool> on_ = false;
  int64_t since_ns_ ABSL_GUARDED_BY(mu_) = 0;
  Taken taken_ ABSL_GUARDED_BY(mu_);
};

// Of one thread, hence those of a thread lie one inside the other or one after the other.
class SliceScope {
 public:
  SliceScope(SliceLog& log, const char* name, uint64_t bytes = 0)
      : log_(log.on() ? &log : nullptr) {
    if (log_ == nullptr) return;
    static thread_local const auto thread = static_cast<int64_t>(syscall(SYS_gettid));
    slice_ = {.name = name, .begin_ns = SteadyNs(), .thread = thread, .bytes = bytes};
  }
  ~SliceScope() {
    if (log_ == nullptr) return;
    slice_.end_ns = SteadyNs();
    log_->Add(slice_);
  }
  SliceScope(const SliceScope&) = delete;
  SliceScope& operator=(const SliceScope&) = delete;

  void set_sequence(uint64_t sequence) { slice_.sequence = sequence; }

 private:
  SliceLog* const log_;
  Slice slice_;
};

}  // namespace tensord::client
