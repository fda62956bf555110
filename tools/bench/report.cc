#include "tools/bench/report.h"

#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/check.h"
#include "core/base/status.h"

namespace tensord {
namespace {

double At(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

}  // namespace

double Median(std::vector<double> samples) {
  TD_CHECK(!samples.empty(), "a median of nothing");
  std::sort(samples.begin(), samples.end());
  return At(samples, 0.5);
}

void Report::Add(std::string name, std::string unit, std::vector<double> samples) {
  TD_CHECK(!samples.empty(), name);
  std::sort(samples.begin(), samples.end());
  rows_.push_back(fmt::format(R"({{"name": "{}", "unit": "{}", "median": {:.6g}, "min": {:.6g}, )"
                              R"("max": {:.6g}, "p99": {:.6g}, "samples": {}}})",
                              name, unit, At(samples, 0.5), samples.front(), samples.back(),
                              At(samples, 0.99), samples.size()));
}

std::string Report::Json() const {
  return fmt::format("{{\"rows\": [\n  {}\n]}}\n", fmt::join(rows_, ",\n  "));
}

int RunBenchmark(int argc, char** argv, std::string_view usage,
                 const std::function<absl::Status(Report&)>& measure) {
  absl::SetProgramUsageMessage({usage.data(), usage.size()});
  absl::ParseCommandLine(argc, argv);
  Report report;
  const absl::Status status = measure(report);
  if (!status.ok()) {
    fmt::print(stderr, "{}: {}\n", argv[0], Message(status));
    return 1;
  }
  std::fputs(report.Json().c_str(), stdout);
  return 0;
}

}  // namespace tensord
