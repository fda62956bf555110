// What it costs that devices put their values together: an all-reduce of each kind, by size. The
// devices share this machine's cores and memory, so figures tell kinds apart, and not how fast
// devices of their own would be.
#include <absl/flags/flag.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "core/base/status.h"
#include "core/runtime/runtime.h"
#include "core/tensor/collective.h"
#include "tools/bench/inputs.h"
#include "tools/bench/report.h"

ABSL_FLAG(int, devices, 4, "that reduce together");
ABSL_FLAG(int, repeat, 20, "runs of each");
ABSL_FLAG(bool, quick, false, "few runs of small sizes: whether the benchmark works");

namespace tensord {
namespace {

struct Kind {
  std::string_view name;
  AllReduceKind kind;
};
constexpr Kind kKinds[] = {{"gather", AllReduceKind::kGather},
                           {"swap", AllReduceKind::kSwap},
                           {"ring", AllReduceKind::kRing}};

Program AllReduceOf(int64_t elements, int64_t devices, AllReduceKind kind) {
  Program program;
  program.name = "all_reduce";
  program.devices = devices;
  program.inputs = {program.graph.Param(0, DType::kFloat32, {elements})};
  const Expr x(&program.graph, program.inputs[0]);
  program.outputs.push_back({AllReduce(x, ReduceKind::kAdd, devices, kind).node()});
  for (const Node* node : TopologicalOrder({program.outputs[0].value})) {
    if (node->op == Op::kVariable) program.variables.push_back(node);
  }
  return program;
}

absl::Status Measure(Report& report) {
  const bool quick = absl::GetFlag(FLAGS_quick);
  const int count = absl::GetFlag(FLAGS_devices);
  TD_ASSIGN_OR_RETURN(auto opened, OpenDevices(fmt::format("cpu:{}", count)));
  TD_ASSIGN_OR_RETURN(const auto runtime, Runtime::Create({}, std::move(opened)));
  const absl::Span<Device* const> devices = runtime->devices();
  for (const int64_t kib : {4, 64, 1024, 16 << 10, 64 << 10}) {
    if (quick && kib > 64) break;
    for (const Kind& kind : kKinds) {
      const Program program = AllReduceOf(kib * 256, count, kind.kind);
      TD_ASSIGN_OR_RETURN(const auto executable, runtime->Prepare(program, devices, nullptr));
      std::vector<BufferRef> inputs;
      for (Device* device : devices) {
        TD_ASSIGN_OR_RETURN(const std::vector<BufferRef> made, MakeInputs(program, *device));
        inputs.insert(inputs.end(), made.begin(), made.end());
      }
      std::vector<double> times;
      for (int i = -2; i < (quick ? 2 : absl::GetFlag(FLAGS_repeat)); ++i) {
        const Stopwatch stopwatch;
        TD_ASSIGN_OR_RETURN(const Run run, runtime->Submit(executable, inputs, {}));
        TD_RETURN_IF_ERROR(devices[0]->timeline().Wait(run.done, absl::InfiniteFuture()));
        for (const auto& [device, done] : run.done_on_others) {
          TD_RETURN_IF_ERROR(device->timeline().Wait(done, absl::InfiniteFuture()));
        }
        if (i >= 0) times.push_back(stopwatch.Milliseconds());
      }
      report.Add(fmt::format("{} KiB/{}", kib, kind.name), "ms", std::move(times));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times all-reduces among devices", tensord::Measure);
}
