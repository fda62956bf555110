#include "tools/tensorctl/bench.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "client/cc/connection.h"
#include "core/base/status.h"
#include "core/ir/program.h"
#include "core/wire/program.h"
#include "tools/tensorctl/table.h"

namespace tensord {
namespace {

using client::Connection;

constexpr int64_t kElements = 16;
constexpr uint64_t kBulkBytes = 64 << 20;
constexpr int kDefaultRounds = 1000;
constexpr int kTransfers = 5;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One session with a program that adds two small tensors.
class Bencher {
 public:
  // Each step may take `timeout`.
  Bencher(std::unique_ptr<Connection> connection, absl::Duration timeout)
      : connection_(std::move(connection)), timeout_(timeout) {}

  absl::Status Prepare() {
    for (uint64_t& handle : inputs_) {
      handle = connection_->NewHandle(Handle::kTensor);
      const std::vector<char> zeros(kElements * sizeof(float));
      TD_RETURN_IF_ERROR(
          connection_->Upload(handle, DType::kFloat32, {kElements}, "", zeros, Deadline()));
    }
    Program program;
    program.name = "bench";
    const Node* x = program.graph.Param(0, DType::kFloat32, {kElements});
    const Node* y = program.graph.Param(1, DType::kFloat32, {kElements});
    program.inputs = {x, y};
    program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, y})}};
    program_ = connection_->NewHandle(Handle::kProgram);
    v1::Command command;
    command.mutable_register_program()->set_handle(program_);
    *command.mutable_register_program()->mutable_program() = Encode(program);
    connection_->Send(std::move(command));
    return connection_->Wait(program_, Deadline());
  }

  // Microseconds of a run whose end is waited for.
  absl::StatusOr<double> RoundTrip() {
    const absl::Time begin = absl::Now();
    TD_RETURN_IF_ERROR(Await(Run(/*notify=*/true)));
    return absl::ToDoubleMicroseconds(absl::Now() - begin);
  }

  // Runs a second if only the last is waited for.
  absl::StatusOr<double> RunsPerSecond(int runs) {
    const absl::Time begin = absl::Now();
    for (int i = 1; i < runs; ++i) {
      Run(/*notify=*/false);
      TD_RETURN_IF_ERROR(connection_->WaitForRoom(Deadline()));
    }
    TD_RETURN_IF_ERROR(Await(Run(/*notify=*/true)));
    return runs / absl::ToDoubleSeconds(absl::Now() - begin);
  }

  // Bytes a second, up and down.
  absl::StatusOr<std::pair<double, double>> Bandwidth() {
    const uint64_t handle = connection_->NewHandle(Handle::kTensor);
    bulk_.resize(kBulkBytes);
    const absl::Time begin = absl::Now();
    TD_RETURN_IF_ERROR(
        connection_->Upload(handle, DType::kUint8, {kBulkBytes}, "", bulk_, Deadline()));
    const absl::Time uploaded = absl::Now();
    TD_RETURN_IF_ERROR(connection_->Download(handle, absl::MakeSpan(bulk_), Deadline()));
    const absl::Time downloaded = absl::Now();
    connection_->Release(handle, kBulkBytes);
    return std::pair(kBulkBytes / absl::ToDoubleSeconds(uploaded - begin),
                     kBulkBytes / absl::ToDoubleSeconds(downloaded - uploaded));
  }

 private:
  absl::Time Deadline() const { return absl::Now() + timeout_; }

  uint64_t Run(bool notify) {
    v1::Command command;
    v1::RunProgram& run = *command.mutable_run();
    run.set_program(program_);
    for (const uint64_t input : inputs_) run.add_inputs(input);
    const uint64_t result = connection_->NewHandle(Handle::kTensor);
    run.add_outputs(result);
    run.set_notify(notify);
    const uint64_t sequence = connection_->Send(std::move(command));
    connection_->Release(result, kElements * sizeof(float));
    return sequence;
  }

  absl::Status Await(uint64_t sequence) {
    const std::optional<absl::Status> status = connection_->AwaitRun(sequence, Deadline());
    return status ? *status : Internal("the daemon forgot run {}", sequence);
  }

  const std::unique_ptr<Connection> connection_;
  const absl::Duration timeout_;
  uint64_t inputs_[2] = {};
  uint64_t program_ = 0;
  std::vector<char> bulk_;
};

}  // namespace

absl::StatusOr<std::string> Bench(const Daemon& daemon, absl::Span<const std::string>) {
  const ControlOptions& options = daemon.options();
  const int rounds = options.count > 0 ? options.count : kDefaultRounds;
  ConnectOptions connect;
  connect.client_name = "tensorctl bench";
  connect.connect_timeout = options.timeout;
  TD_ASSIGN_OR_RETURN(auto connection, Connection::Open(options.address, connect));
  Bencher bencher(std::move(connection), options.timeout);
  TD_RETURN_IF_ERROR(bencher.Prepare());
  std::vector<double> trips, runs, up, down;
  for (int i = 0; i < rounds; ++i) {
    TD_ASSIGN_OR_RETURN(const double us, bencher.RoundTrip());
    trips.push_back(us);
  }
  for (int i = 0; i < kTransfers; ++i) {
    TD_ASSIGN_OR_RETURN(const double per_second, bencher.RunsPerSecond(rounds));
    runs.push_back(per_second);
    TD_ASSIGN_OR_RETURN(const auto bandwidth, bencher.Bandwidth());
    up.push_back(bandwidth.first);
    down.push_back(bandwidth.second);
  }
  if (options.json) {
    return fmt::format(
        "{{\"rounds\": {}, \"round_trip_us\": {:.1f}, \"runs_per_second\": {:.0f}, "
        "\"upload_bytes_per_second\": {:.0f}, \"download_bytes_per_second\": {:.0f}}}\n",
        rounds, Median(trips), Median(runs), Median(up), Median(down));
  }
  const auto rate = [](double bytes) { return FormatBytes(static_cast<uint64_t>(bytes)) + "/s"; };
  return FormatPairs({
      {"round trip",
       fmt::format("{:.1f} us for a small run, waited for (median of {})", Median(trips), rounds)},
      {"runs", fmt::format("{:.0f} a second, one after another (median of {} x {})", Median(runs),
                           kTransfers, rounds)},
      {"upload", fmt::format("{} of {}", rate(Median(up)), FormatBytes(kBulkBytes))},
      {"download", fmt::format("{} of {}", rate(Median(down)), FormatBytes(kBulkBytes))},
  });
}

}  // namespace tensord
