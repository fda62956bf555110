#include "server/metrics/metrics.h"

namespace tensord {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// Seconds. A ping takes tens of microseconds, a download may wait for minutes.
const Buckets kCallBuckets = {1e-4, 2.5e-4, 1e-3, 2.5e-3, 1e-2, 2.5e-2, 0.1, 0.25, 1, 2.5, 10, 60};
const Buckets kScheduleBuckets = {1e-4, 2.5e-4, 1e-3, 2.5e-3, 1e-2, 2.5e-2, 0.1, 0.25, 1, 2.5, 10};
const Buckets kCompileBuckets = {1e-3, 2.5e-3, 1e-2, 2.5e-2, 0.1, 0.25, 1, 2.5, 10, 60};

prometheus::Family<prometheus::Histogram>& Histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

}  // namespace

Metrics::Metrics()
    : call_duration_(Histograms(*registry_, "tensord_rpc_duration_seconds",
                                "Time from the start to the end of a call, waiting included")),
      calls_(Counters(*registry_, "tensord_rpc_calls_total",
                      "Calls that have ended, by their status")),
      schedule_duration_(Histograms(*registry_, "tensord_schedule_duration_seconds",
                                    "Time to schedule a program that had no plan yet")
                             .Add({}, kScheduleBuckets)),
      compile_duration_(
          Histograms(*registry_, "tensord_compile_duration_seconds",
                     "Time to lower and compile the new kernels of a program, summed over threads")
              .Add({}, kCompileBuckets)) {}

void Metrics::CallEnded(std::string_view method, absl::Duration duration, absl::StatusCode code) {
  const std::string name(method);
  call_duration_.Add({{"method", name}}, kCallBuckets).Observe(absl::ToDoubleSeconds(duration));
  calls_.Add({{"method", name}, {"code", absl::StatusCodeToString(code)}}).Increment();
}

void Metrics::Prepared(const CompileStats& stats) {
  if (stats.plan_cached) return;
  schedule_duration_.Observe(absl::ToDoubleSeconds(stats.schedule));
  if (stats.kernels_compiled > 0) {
    compile_duration_.Observe(absl::ToDoubleSeconds(stats.lower + stats.compile));
  }
}

}  // namespace tensord
