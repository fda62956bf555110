// Round trips of a daemon as users of the C++ client have them: a captured function of 64 bytes in
// and out is called, and waited for or read.
#include <absl/flags/flag.h>

#include <string>
#include <vector>

#include "client/cc/client.h"
#include "client/cc/jit.h"
#include "client/cc/ops.h"
#include "core/base/status.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::string, address, "", "of a daemon");
ABSL_FLAG(int, rounds, 5000, "round trips of each kind");
ABSL_FLAG(bool, quick, false, "few rounds: whether the benchmark works");

namespace tensord {
namespace {

constexpr int kWarmup = 20;
constexpr int64_t kElements = 16;

absl::StatusOr<std::vector<double>> Repeat(int rounds, const std::function<absl::Status()>& trip) {
  std::vector<double> microseconds;
  for (int i = -kWarmup; i < rounds; ++i) {
    const Stopwatch stopwatch;
    TD_RETURN_IF_ERROR(trip());
    if (i >= 0) microseconds.push_back(stopwatch.Microseconds());
  }
  return microseconds;
}

absl::Status Measure(Report& report) {
  const int rounds = absl::GetFlag(FLAGS_quick) ? 50 : absl::GetFlag(FLAGS_rounds);
  TD_ASSIGN_OR_RETURN(const auto client, Client::Connect(absl::GetFlag(FLAGS_address)));
  const Tensor x = client->FromHost<float>(std::vector<float>(kElements, 1.0f), {kElements});
  Jit twice(*client, "twice", [](std::vector<Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    return std::vector<Tensor>{in[0] + in[0]};
  });
  TD_ASSIGN_OR_RETURN(std::vector<double> wait, Repeat(rounds, [&]() -> absl::Status {
                        TD_ASSIGN_OR_RETURN(const std::vector<Tensor> y, twice({x}));
                        return y[0].Wait();
                      }));
  report.Add("C++ client, run until done", "us", std::move(wait));
  TD_ASSIGN_OR_RETURN(std::vector<double> read, Repeat(rounds, [&]() -> absl::Status {
                        TD_ASSIGN_OR_RETURN(const std::vector<Tensor> y, twice({x}));
                        return y[0].ToHost<float>().status();
                      }));
  report.Add("C++ client, run and download", "us", std::move(read));

  std::vector<double> rates;
  constexpr int kRuns = 500;
  for (int i = 0; i < std::max(1, rounds / kRuns); ++i) {
    const Stopwatch stopwatch;
    std::vector<Tensor> last;
    for (int j = 0; j < kRuns; ++j) {
      TD_ASSIGN_OR_RETURN(last, twice({x}));
    }
    TD_RETURN_IF_ERROR(last[0].Wait());
    rates.push_back(kRuns / stopwatch.Seconds());
  }
  report.Add("C++ client, pipelined runs", "1/s", std::move(rates));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times round trips of the C++ client", tensord::Measure);
}
