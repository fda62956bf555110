// How busy the devices were in the last minutes: a look at each device every second.
//
//   History history([&] { return readings of all devices; });
//   for (const History::Sample& sample : history.After(seen)) ...
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/steady_clock.h"

namespace tensord {

class History {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  static constexpr size_t kMaxSamples = 600;

  // What a device says of itself at a moment.
  struct Reading {
    int64_t busy_ns = 0;  // since it was opened; a run counts once it is done
    uint64_t in_use_bytes = 0;
    uint64_t queued = 0;
  };
  using Readings = std::vector<Reading>;  // by device

  struct OfDevice {
    double busy = 0;  // the part of the time, 0 to 1
    uint64_t in_use_bytes = 0;
    uint64_t queued = 0;
  };
  struct Sample {
    uint64_t number = 0;  // from 1 on
    absl::Time time;      // of the calendar
    std::vector<OfDevice> devices;
  };

  // Reads every interval, on a thread of its own. Null: only what Add is given.
  explicit History(std::function<Readings()> read);
  ~History();

  // Samples after that number, the oldest first. They may change: how long a run took is known when
  // it has ended.
  std::vector<Sample> After(uint64_t number) const;

  // `elapsed` since the last one. What devices were busy beyond that was before.
  void Add(const Readings& readings, absl::Duration elapsed, absl::Time now);

 private:
  void Run();

  const std::function<Readings()> read_;
  mutable absl::Mutex mu_;
  std::deque<Sample> samples_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> last_busy_ns_ ABSL_GUARDED_BY(mu_);
  uint64_t number_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  SteadyWake wake_;
  std::jthread thread_;
};

}  // namespace tensord
