// What the daemon measures while it runs, beyond what devices, caches and sessions count anyway:
// how long calls, schedules and compilations take.
//
//   Metrics metrics;
//   metrics.CallEnded("Upload", absl::Milliseconds(3), absl::StatusCode::kOk);
//
// docs/metrics.md lists all metrics. Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/runtime/runtime.h"

namespace tensord {

class Metrics {
 public:
  Metrics();

  void CallEnded(std::string_view method, absl::Duration duration, absl::StatusCode code);
  void Prepared(const CompileStats& stats);

  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  // Shared with the endpoint that serves it.
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Histogram>& call_duration_;
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Histogram& schedule_duration_;
  prometheus::Histogram& compile_duration_;
};

}  // namespace tensord
