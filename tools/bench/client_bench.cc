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

// Into and out of memory that has its pages, as the daemon's has after the first time; memcpy in
// turn with them.
absl::Status MeasureBulk(Client& client, Report& report) {
  const int64_t bytes = absl::GetFlag(FLAGS_quick) ? 2 << 20 : 64 << 20;
  const int rounds = absl::GetFlag(FLAGS_quick) ? 3 : 30;
  const std::vector<char> data(static_cast<size_t>(bytes), 'x');
  std::vector<char> out(data.size());
  std::vector<double> up, down, memcpy;
  constexpr double kGiB = 1 << 30;
  for (int i = -3; i < rounds; ++i) {
    const Stopwatch copies;
    std::copy(data.begin(), data.end(), out.begin());
    const double copied = copies.Seconds();
    const Stopwatch uploads;
    const Tensor tensor = client.FromHost(data, DType::kUint8, {bytes});
    TD_RETURN_IF_ERROR(tensor.status());
    const double uploaded = uploads.Seconds();
    out[0] = 'y';
    const Stopwatch downloads;
    TD_RETURN_IF_ERROR(tensor.CopyTo(absl::MakeSpan(out)));
    const double downloaded = downloads.Seconds();
    if (out != data) return Internal("what was uploaded came back as something else");
    if (i < 0) continue;
    const double size = static_cast<double>(bytes) / kGiB;
    memcpy.push_back(size / copied);
    up.push_back(size / uploaded);
    down.push_back(size / downloaded);
  }
  report.Add("C++ client, bulk upload", "GiB/s", std::move(up));
  report.Add("C++ client, bulk download", "GiB/s", std::move(down));
  report.Add("memcpy", "GiB/s", std::move(memcpy));
  return absl::OkStatus();
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
  return MeasureBulk(*client, report);
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times round trips of the C++ client", tensord::Measure);
}
