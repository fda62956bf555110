// What clients that share one device do to each other. Run it against a daemon whose device has a
// set service time, such as paced(launch_us=100): then a run's length is the number of its kernels,
// whatever the machine does.
#include <absl/flags/flag.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cc/client.h"
#include "client/cc/jit.h"
#include "client/cc/ops.h"
#include "core/base/status.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::string, address, "", "of a daemon");
ABSL_FLAG(int, rounds, 1000, "runs of the light client");
ABSL_FLAG(double, seconds, 5, "how long the equal clients run");
ABSL_FLAG(bool, quick, false, "few rounds: whether the benchmark works");

namespace tensord {
namespace {

constexpr size_t kQueued = 128;  // runs that a saturating client keeps on their way
constexpr int kEqualClients = 16;

// A session that runs a program of so many kernels, one after the other.
class Load {
 public:
  static absl::StatusOr<std::unique_ptr<Load>> Connect(int kernels) {
    TD_ASSIGN_OR_RETURN(auto client, Client::Connect(absl::GetFlag(FLAGS_address)));
    auto load = std::unique_ptr<Load>(new Load(std::move(client), kernels));
    // Compiled, and of known length.
    for (int i = 0; i < 20; ++i) TD_RETURN_IF_ERROR(load->RunUntilDone());
    return load;
  }
  absl::Status RunUntilDone() {
    TD_ASSIGN_OR_RETURN(const std::vector<Tensor> result, chain_({x_}));
    return result[0].Wait();
  }
  absl::Status KeepQueued(size_t runs, const std::atomic<bool>& stop) {
    std::deque<std::vector<Tensor>> results;
    while (!stop.load(std::memory_order_relaxed)) {  // a hint, publishes nothing
      if (results.size() >= runs) {
        TD_RETURN_IF_ERROR(results.front()[0].Wait());
        results.pop_front();
      }
      TD_ASSIGN_OR_RETURN(results.emplace_back(), chain_({x_}));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<double> DeviceSeconds() {
    TD_ASSIGN_OR_RETURN(const v1::CountersReply counters, client_->Counters());
    return static_cast<double>(counters.device_ns()) * 1e-9;
  }

 private:
  Load(std::unique_ptr<Client> client, int kernels)
      : client_(std::move(client)),
        x_(client_->FromHost<float>(std::vector<float>(64, 0.5f), {8, 8})),
        chain_(*client_, "chain",
               [kernels](std::vector<Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
                 Tensor y = in[0];
                 for (int i = 0; i < kernels; ++i) y = MatMul(y, in[0]);
                 return std::vector<Tensor>{y};
               }) {}

  std::unique_ptr<Client> client_;
  Tensor x_;
  Jit chain_;
};

// Runs of a light client, in microseconds, alone or while others saturate the device.
absl::StatusOr<std::vector<double>> Latencies(int kernels, int heavies, int heavy_kernels) {
  TD_ASSIGN_OR_RETURN(const auto light, Load::Connect(kernels));
  std::vector<std::unique_ptr<Load>> loads;
  for (int i = 0; i < heavies; ++i) {
    TD_ASSIGN_OR_RETURN(loads.emplace_back(), Load::Connect(heavy_kernels));
  }
  std::atomic<bool> stop{false};
  std::vector<absl::Status> statuses(loads.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < loads.size(); ++i) {
    threads.emplace_back([&, i] { statuses[i] = loads[i]->KeepQueued(kQueued, stop); });
  }
  // Until the device is busy, and the light client's first run was told how long it takes.
  for (int i = 0; i < 20; ++i) TD_RETURN_IF_ERROR(light->RunUntilDone());
  std::vector<double> microseconds;
  const int rounds = absl::GetFlag(FLAGS_quick) ? 20 : absl::GetFlag(FLAGS_rounds);
  absl::Status status;
  for (int i = 0; i < rounds && status.ok(); ++i) {
    const Stopwatch stopwatch;
    status = light->RunUntilDone();
    microseconds.push_back(stopwatch.Microseconds());
  }
  stop.store(true, std::memory_order_relaxed);
  threads.clear();
  TD_RETURN_IF_ERROR(status);
  for (const absl::Status& each : statuses) TD_RETURN_IF_ERROR(each);
  return microseconds;
}

// Jain's index of the device time that equal clients got: 1 if all got the same, 1/n if one got
// all.
absl::StatusOr<double> JainsIndex() {
  std::vector<std::unique_ptr<Load>> loads;
  for (int i = 0; i < kEqualClients; ++i) {
    // Of several lengths, for what is shared is time and not runs.
    TD_ASSIGN_OR_RETURN(loads.emplace_back(), Load::Connect(1 + i % 4));
  }
  std::vector<double> seconds;
  for (const auto& load : loads) {
    TD_ASSIGN_OR_RETURN(const double before, load->DeviceSeconds());
    seconds.push_back(-before);
  }
  std::atomic<bool> stop{false};
  std::vector<absl::Status> statuses(loads.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < loads.size(); ++i) {
    threads.emplace_back([&, i] { statuses[i] = loads[i]->KeepQueued(8, stop); });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(
      absl::GetFlag(FLAGS_quick) ? 0.1 : absl::GetFlag(FLAGS_seconds)));
  // While all still want more.
  for (size_t i = 0; i < loads.size(); ++i) {
    TD_ASSIGN_OR_RETURN(const double after, loads[i]->DeviceSeconds());
    seconds[i] += after;
  }
  stop.store(true, std::memory_order_relaxed);
  threads.clear();
  for (const absl::Status& each : statuses) TD_RETURN_IF_ERROR(each);
  double sum = 0, squares = 0;
  for (const double each : seconds) {
    sum += each;
    squares += each * each;
  }
  return sum * sum / (static_cast<double>(seconds.size()) * squares);
}

absl::Status Measure(Report& report) {
  struct Case {
    std::string name;
    int kernels, heavies, heavy_kernels;
  };
  for (const Case& c : {Case{"10 kernels, alone", 10, 0, 0},
                        {"10 kernels, beside 1 of 10", 10, 1, 10},
                        {"10 kernels, beside 4 of 10", 10, 4, 10},
                        {"1 kernel, alone", 1, 0, 0},
                        {"1 kernel, beside 1 of 50", 1, 1, 50}}) {
    TD_ASSIGN_OR_RETURN(std::vector<double> samples,
                        Latencies(c.kernels, c.heavies, c.heavy_kernels));
    report.Add(c.name, "us", std::move(samples));
  }
  TD_ASSIGN_OR_RETURN(const double index, JainsIndex());
  report.Add("Jain index, 16 clients", "", {index});
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "measures how clients share a device", tensord::Measure);
}
