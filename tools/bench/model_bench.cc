// Time of one run of a model, again and again, from its submission until it is done: by a runtime
// in this process or, with --address, by a daemon.
//
//   model_bench --models=mnist_step,matmul1024 [--address=unix:./t.sock]
#include <absl/flags/flag.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "client/cc/connection.h"
#include "core/base/status.h"
#include "core/runtime/runtime.h"
#include "core/wire/program.h"
#include "tools/bench/inputs.h"
#include "tools/bench/models.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::vector<std::string>, models, std::vector<std::string>({"mnist_step"}),
          "see models.h");
ABSL_FLAG(std::string, address, "", "of a daemon; empty: in this process");
ABSL_FLAG(int, repeat, 10, "runs of each model that count; three before them don't");
ABSL_FLAG(int, threads, 0, "of the device in this process; 0: one a core");
ABSL_FLAG(std::string, cache_dir, "", "where kernels are kept; empty: not beyond this process");
ABSL_FLAG(bool, quick, false, "a small model, once: whether the benchmark works");

namespace tensord {
namespace {

constexpr int kWarmup = 3;

absl::StatusOr<std::vector<double>> Repeat(int repeat, const std::function<absl::Status()>& run) {
  std::vector<double> milliseconds;
  for (int i = -kWarmup; i < repeat; ++i) {
    const Stopwatch stopwatch;
    TD_RETURN_IF_ERROR(run());
    if (i >= 0) milliseconds.push_back(stopwatch.Milliseconds());
  }
  return milliseconds;
}

absl::StatusOr<std::vector<double>> MeasureHere(const Program& program, int repeat) {
  TD_ASSIGN_OR_RETURN(auto devices, OpenDevices("cpu", {.threads = absl::GetFlag(FLAGS_threads)}));
  TD_ASSIGN_OR_RETURN(
      const auto runtime,
      Runtime::Create({.cache_dir = absl::GetFlag(FLAGS_cache_dir)}, std::move(devices)));
  Device& device = *runtime->devices()[0];
  TD_ASSIGN_OR_RETURN(const auto executable, runtime->Prepare(program, device, nullptr));
  TD_ASSIGN_OR_RETURN(const std::vector<BufferRef> inputs, MakeInputs(program, device));
  return Repeat(repeat, [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Run run, runtime->Submit(executable, inputs, {}));
    return device.timeline().Wait(run.done, absl::InfiniteFuture());
  });
}

absl::StatusOr<std::vector<double>> MeasureDaemon(const Program& program, int repeat) {
  TD_ASSIGN_OR_RETURN(const auto connection,
                      client::Connection::Open(absl::GetFlag(FLAGS_address), {}));
  std::vector<uint64_t> inputs;
  for (const Node* input : program.inputs) {
    inputs.push_back(connection->NewHandle(Handle::kTensor));
    const std::vector<int64_t> shape(input->shape.begin(), input->shape.end());
    TD_RETURN_IF_ERROR(connection->Upload(inputs.back(), input->dtype, shape, "", InputBytes(input),
                                          absl::InfiniteFuture()));
  }
  const uint64_t handle = connection->NewHandle(Handle::kProgram);
  v1::Command command;
  command.mutable_register_program()->set_handle(handle);
  *command.mutable_register_program()->mutable_program() = Encode(program);
  connection->Send(std::move(command));
  return Repeat(repeat, [&]() -> absl::Status {
    v1::Command command;
    v1::RunProgram& run = *command.mutable_run();
    run.set_program(handle);
    run.mutable_inputs()->Add(inputs.begin(), inputs.end());
    std::vector<uint64_t> fresh;
    for (const Program::Output& output : program.outputs) {
      if (output.overwrites != Program::kFresh) {
        run.add_outputs(inputs[output.overwrites]);
      } else {
        run.add_outputs(fresh.emplace_back(connection->NewHandle(Handle::kTensor)));
      }
    }
    connection->Send(std::move(command));
    TD_RETURN_IF_ERROR(connection->Wait(fresh.at(0), absl::InfiniteFuture()));
    for (uint64_t result : fresh) connection->Release(result, 0);
    return absl::OkStatus();
  });
}

absl::Status Measure(Report& report) {
  const bool quick = absl::GetFlag(FLAGS_quick);
  const bool here = absl::GetFlag(FLAGS_address).empty();
  const int repeat = quick ? 1 : absl::GetFlag(FLAGS_repeat);
  std::vector<std::string> names = absl::GetFlag(FLAGS_models);
  if (quick) names = {"matmul512"};
  for (const std::string& name : names) {
    TD_ASSIGN_OR_RETURN(const Model* model, FindModel(name));
    const Program program = model->make();
    TD_ASSIGN_OR_RETURN(std::vector<double> milliseconds,
                        here ? MeasureHere(program, repeat) : MeasureDaemon(program, repeat),
                        "model '{}'", name);
    report.Add(name, "ms", std::move(milliseconds));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times runs of models", tensord::Measure);
}
