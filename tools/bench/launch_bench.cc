// What a launch costs: a program of tiny kernels in a row is run again and again; what it takes
// beyond the kernels' own time is the queue's and the runtime's.
#include <absl/flags/flag.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/kernel.h"
#include "backends/registry.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/compile/compiler.h"
#include "core/runtime/runtime.h"
#include "core/schedule/schedule.h"
#include "tools/bench/inputs.h"
#include "tools/bench/models.h"
#include "tools/bench/report.h"

ABSL_FLAG(int, repeat, 2000, "runs of each program");
ABSL_FLAG(bool, quick, false, "few runs: whether the benchmark works");

namespace tensord {
namespace {

// Time of the kernels of a program by themselves, in microseconds: their functions are called one
// after the other, without a queue. The fastest counts, as what a run takes more is overhead.
absl::StatusOr<double> OwnMicroseconds(const Program& program, int repeat) {
  TD_ASSIGN_OR_RETURN(const auto devices, OpenDevices("cpu"));
  Device& device = *devices[0];
  TD_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(program));
  std::vector<std::unique_ptr<LoadedKernel>> loaded;
  std::vector<int64_t> grids;
  for (const auto& kernel : schedule.kernels) {
    TD_ASSIGN_OR_RETURN(const auto linear, LowerKernel(*kernel, device.target()));
    TD_ASSIGN_OR_RETURN(const CompiledKernel compiled,
                        CompileKernel(linear->program, device.target()));
    TD_ASSIGN_OR_RETURN(loaded.emplace_back(), device.Load(compiled.binary, compiled.entry));
    grids.push_back(compiled.grid);
  }
  TD_ASSIGN_OR_RETURN(const auto scratch, device.allocator().Allocate(schedule.scratch_bytes));
  std::vector<std::shared_ptr<DeviceMemory>> memory;
  const auto address = [&](int index) -> absl::StatusOr<void*> {
    const Schedule::Buffer& buffer = schedule.buffers[index];
    if (buffer.kind == Schedule::Kind::kTemporary) {
      return static_cast<std::byte*>(scratch->address()) + buffer.offset;
    }
    TD_ASSIGN_OR_RETURN(memory.emplace_back(), device.allocator().Allocate(buffer.bytes()));
    return memory.back()->address();
  };
  std::vector<std::vector<void*>> arguments;
  for (const Schedule::Step& step : schedule.steps) {
    std::vector<void*>& addresses = arguments.emplace_back();
    for (int buffer : step.buffers) {
      TD_ASSIGN_OR_RETURN(addresses.emplace_back(), address(buffer));
    }
  }
  double best = 1e30;
  for (int i = 0; i < repeat; ++i) {
    const Stopwatch stopwatch;
    for (size_t s = 0; s < schedule.steps.size(); ++s) {
      const int kernel = schedule.steps[s].kernel;
      if (kernel < 0) return Internal("the chain of kernels has a step that is no kernel");
      cpu::KernelFunction* function = static_cast<const cpu::Kernel&>(*loaded[kernel]).function();
      for (int64_t group = 0; group < grids[kernel]; ++group) {
        function(arguments[s].data(), nullptr, group);
      }
    }
    best = std::min(best, stopwatch.Microseconds());
  }
  // Workgroups run at the same time; the kernels of a chain have as many each.
  return best / static_cast<double>(std::min<int64_t>(grids[0], device.target().cores));
}

struct Times {
  std::vector<double> run;        // from Submit until done
  std::vector<double> pipelined;  // per run, when many are submitted at once
};

absl::StatusOr<Times> MeasureRuns(const Program& program, int kernels, int repeat) {
  TD_ASSIGN_OR_RETURN(auto devices, OpenDevices("cpu"));
  TD_ASSIGN_OR_RETURN(const auto runtime, Runtime::Create({}, std::move(devices)));
  Device& device = *runtime->devices()[0];
  TD_ASSIGN_OR_RETURN(const auto executable, runtime->Prepare(program, device, nullptr));
  if (executable->num_kernels() != kernels) {
    return Internal("the chain became {} kernels, not {}", executable->num_kernels(), kernels);
  }
  TD_ASSIGN_OR_RETURN(const std::vector<BufferRef> inputs, MakeInputs(program, device));
  Times times;
  constexpr int kWarmup = 20;
  for (int i = -kWarmup; i < repeat; ++i) {
    const Stopwatch stopwatch;
    TD_ASSIGN_OR_RETURN(const Run run, runtime->Submit(executable, inputs, {}));
    TD_RETURN_IF_ERROR(device.timeline().Wait(run.done, absl::InfiniteFuture()));
    if (i >= 0) times.run.push_back(stopwatch.Microseconds());
  }
  constexpr int kAtOnce = 32;
  for (int i = 0; i < std::max(1, repeat / kAtOnce); ++i) {
    const Stopwatch stopwatch;
    uint64_t done = 0;
    for (int j = 0; j < kAtOnce; ++j) {
      TD_ASSIGN_OR_RETURN(const Run run, runtime->Submit(executable, inputs, {}));
      done = run.done;
    }
    TD_RETURN_IF_ERROR(device.timeline().Wait(done, absl::InfiniteFuture()));
    times.pipelined.push_back(stopwatch.Microseconds() / kAtOnce);
  }
  return times;
}

std::vector<double> Map(std::vector<double> samples, double minus, double over) {
  for (double& sample : samples) sample = (sample - minus) / over;
  return samples;
}

absl::Status Measure(Report& report) {
  const int repeat = absl::GetFlag(FLAGS_quick) ? 20 : absl::GetFlag(FLAGS_repeat);
  // The last chain's kernels are large enough to be shared by the workers.
  struct Chain {
    int kernels;
    int64_t elements;
  };
  for (const Chain& chain : {Chain{1, 256}, {40, 256}, {200, 256}, {40, 1 << 18}}) {
    const Program program = ChainOfKernels(chain.kernels, chain.elements);
    TD_ASSIGN_OR_RETURN(const double own, OwnMicroseconds(program, repeat));
    TD_ASSIGN_OR_RETURN(const Times times, MeasureRuns(program, chain.kernels, repeat));
    const auto add = [&](std::string_view row, std::string unit, std::vector<double> samples) {
      report.Add(fmt::format("{} of {} elements/{}", chain.kernels, chain.elements, row),
                 std::move(unit), std::move(samples));
    };
    add("kernels alone", "us", {own});
    add("run until done", "us", times.run);
    add("above the kernels", "us", Map(times.run, own, 1));
    add("above, per kernel", "us", Map(times.run, own, chain.kernels));
    add("pipelined run", "us", times.pipelined);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times what a launch costs beyond the kernel",
                               tensord::Measure);
}
