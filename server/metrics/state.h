// What the daemon has and has done so far, read when Prometheus asks: devices, sessions, caches.
//
// Thread-safe.
#pragma once

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <atomic>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "server/session/registry.h"

namespace tensord {

class StateMetrics final : public prometheus::Collectable {
 public:
  // The `max_sessions` sessions that hold most have metrics of their own; the others are one.
  // `health` is what the last probe of a device said, if there was one.
  using Health = std::function<std::optional<absl::Status>(size_t device)>;
  StateMetrics(SessionRegistry& registry, Health health, int max_sessions)
      : registry_(registry), health_(std::move(health)), max_sessions_(max_sessions) {}

  void SetMaxSessions(int count) { max_sessions_.store(count, std::memory_order_relaxed); }
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  SessionRegistry& registry_;
  const Health health_;
  std::atomic<int> max_sessions_;  // relaxed: nothing hangs on it
  const absl::Time started_ = absl::Now();
};

}  // namespace tensord
