#include "server/console/history.h"

#include <absl/time/clock.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

namespace tensord {

History::History(std::function<Readings()> read) : read_(std::move(read)) {
  if (!read_) return;
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "td-history");
    Run();
  });
}

History::~History() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  wake_.Notify();
}

void History::Run() {
  absl::Time last = SteadyNow(), due = last;
  for (;;) {
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return;
    }
    const absl::Time now = SteadyNow();
    Add(read_(), now - last, absl::Now());
    last = now;
    // A machine that was asleep does not catch up.
    due = std::max(due + kInterval, now);
    wake_.WaitFor(due - now);
  }
}

void History::Add(const Readings& readings, absl::Duration elapsed, absl::Time now) {
  absl::MutexLock lock(&mu_);
  const bool first = last_busy_ns_.size() != readings.size();
  Sample& sample = samples_.emplace_back();
  sample.number = ++number_;
  sample.time = now;
  sample.devices.resize(readings.size());
  const double whole = absl::ToDoubleNanoseconds(elapsed);
  for (size_t i = 0; i < readings.size(); ++i) {
    sample.devices[i].in_use_bytes = readings[i].in_use_bytes;
    sample.devices[i].queued = readings[i].queued;
    if (first || whole <= 0) continue;
    // A run counts as a whole when it ends. What doesn't fit into this interval was in those
    // before.
    double left = static_cast<double>(readings[i].busy_ns - last_busy_ns_[i]) / whole;
    for (auto at = samples_.rbegin(); left > 0 && at != samples_.rend(); ++at) {
      if (i >= at->devices.size()) break;
      double& busy = at->devices[i].busy;
      const double part = std::min(left, 1 - busy);
      busy += part;
      left -= part;
    }
  }
  last_busy_ns_.resize(readings.size());
  for (size_t i = 0; i < readings.size(); ++i) last_busy_ns_[i] = readings[i].busy_ns;
  if (samples_.size() > kMaxSamples) samples_.pop_front();
}

std::vector<History::Sample> History::After(uint64_t number) const {
  absl::MutexLock lock(&mu_);
  const auto begin = std::upper_bound(
      samples_.begin(), samples_.end(), number,
      [](uint64_t wanted, const Sample& sample) { return wanted < sample.number; });
  return {begin, samples_.end()};
}

}  // namespace tensord
