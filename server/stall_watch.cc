#include "server/stall_watch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr int kLooks = 8;
constexpr absl::Duration kShortestInterval = absl::Milliseconds(1);

absl::Status TooLong(const char* what, absl::Duration limit, const char* flag) {
  return DeadlineExceeded("{} took longer than the {} that --{} allows", what,
                          absl::FormatDuration(limit), flag);
}

}  // namespace

StallWatch::StallWatch(absl::Span<Device* const> devices, const StallLimits& limits)
    : limits_(limits) {
  for (const absl::Duration limit : {limits.launch, limits.run}) {
    if (limit == absl::ZeroDuration()) continue;
    interval_ = std::min(interval_, std::max(limit / kLooks, kShortestInterval));
  }
  if (interval_ == absl::InfiniteDuration()) return;
  for (Device* device : devices) devices_.push_back({.device = device});
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "td-stalls");
    Watch();
  });
}

StallWatch::~StallWatch() { stop_.Notify(); }

void StallWatch::Watch() {
  absl::Time last = SteadyNow();
  while (!stop_.WaitFor(interval_)) {
    const absl::Time now = SteadyNow();
    // A machine that slept did not work.
    const absl::Duration since = std::min(now - last, 2 * interval_);
    last = now;
    for (Watched& watched : devices_) Look(watched, since);
  }
}

void StallWatch::Look(Watched& watched, absl::Duration since) const {
  const Progress now = watched.device->progress();
  const Progress last = std::exchange(watched.last, now);
  const bool same_run = now.list != 0 && now.list == last.list;
  const bool same_launch = same_run && now.steps == last.steps && now.works;
  if (!same_launch) watched.launch = absl::ZeroDuration();
  if (!same_run) watched.run = absl::ZeroDuration();
  if (same_launch) watched.launch += since;
  if (same_run && (now.works || now.steps != last.steps)) watched.run += since;
  const auto over = [](absl::Duration time, absl::Duration limit) {
    return limit > absl::ZeroDuration() && time >= limit;
  };
  if (over(watched.launch, limits_.launch)) {
    watched.device->Abandon(now.list, TooLong("it", limits_.launch, "launch-timeout"));
  } else if (over(watched.run, limits_.run)) {
    watched.device->Abandon(now.list, TooLong("the run", limits_.run, "run-timeout"));
  }
}

}  // namespace tensord
