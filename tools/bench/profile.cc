// Where the time of a program goes: compiles a model phase by phase, then runs each kernel alone.
//
//   profile --model=mnist_step [--repeat=5] [--kernels]
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <absl/time/clock.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "backends/registry.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/compile/compiler.h"
#include "core/ir/text.h"
#include "core/schedule/schedule.h"
#include "tools/bench/models.h"

ABSL_FLAG(std::string, model, "mnist_step", "see models.h");
ABSL_FLAG(int, repeat, 5, "runs of each kernel; the fastest counts");
ABSL_FLAG(bool, kernels, true, "run the kernels one by one");
ABSL_FLAG(bool, schedule_only, false, "schedule ten times and stop");
ABSL_FLAG(bool, print, false, "print the graph for tools/inspect, and nothing else");

namespace tensord {
namespace {

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

// Time on all cores that this process took, spinning included: steadier than the wall clock on a
// machine with other work.
double CpuMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Floating-point operations of a kernel: those of the nodes times how often each is evaluated.
double FlopsOf(const Kernel& kernel) {
  const std::vector<const Node*> order = TopologicalOrder({kernel.sink});
  absl::flat_hash_map<const Node*, absl::flat_hash_map<const Node*, int64_t>> ranges;
  double flops = 0;
  for (const Node* node : order) {
    auto& own = ranges[node];
    if (node->op == Op::kRange) own[node] = node->range_size();
    const size_t operands = node->op == Op::kFold ? 1 : node->src.size();
    for (size_t i = 0; i < operands; ++i) {
      const auto more = ranges[node->src[i]];
      ranges[node].insert(more.begin(), more.end());
    }
    double times = 1;
    for (const auto& [range, size] : ranges[node]) times *= static_cast<double>(size);
    if (node->op == Op::kFold) {
      for (const Node* range : node->src.subspan(1)) ranges[node].erase(range);
    }
    if (IsFloat(node->dtype) && (In(node->op, ElementwiseOps()) || node->op == Op::kFold)) {
      flops += times;
    }
  }
  return flops;
}

absl::Status Profile() {
  const std::string name = absl::GetFlag(FLAGS_model);
  TD_ASSIGN_OR_RETURN(const Model* model, FindModel(name));
  TD_ASSIGN_OR_RETURN(auto devices, OpenDevices("cpu"));
  Device& device = *devices[0];

  absl::Time start = absl::Now();
  const Program program = model->make();
  const double build_ms = Milliseconds(absl::Now() - start);
  if (absl::GetFlag(FLAGS_print)) {
    std::vector<const Node*> roots;
    for (const Program::Output& output : program.outputs) roots.push_back(output.value);
    fmt::print("{}", Print(roots));
    return absl::OkStatus();
  }
  if (absl::GetFlag(FLAGS_schedule_only)) {
    for (int i = 0; i < 10; ++i) {
      start = absl::Now();
      TD_RETURN_IF_ERROR(MakeSchedule(program).status());
      fmt::print("schedule {:8.1f} ms\n", Milliseconds(absl::Now() - start));
    }
    return absl::OkStatus();
  }
  start = absl::Now();
  TD_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(program));
  fmt::print("build graph   {:8.1f} ms, {} nodes\n", build_ms, program.graph.size());
  fmt::print("schedule      {:8.1f} ms, {} steps, {} kernels, {} MiB scratch\n",
             Milliseconds(absl::Now() - start), schedule.steps.size(), schedule.kernels.size(),
             schedule.scratch_bytes >> 20);
  absl::Duration lower, compile;
  std::vector<CompiledKernel> compiled;
  std::vector<double> compile_ms;
  for (const auto& kernel : schedule.kernels) {
    start = absl::Now();
    TD_ASSIGN_OR_RETURN(const auto linear, LowerKernel(*kernel, device.target()));
    lower += absl::Now() - start;
    start = absl::Now();
    TD_ASSIGN_OR_RETURN(CompiledKernel binary, CompileKernel(linear->program, device.target()));
    compile_ms.push_back(Milliseconds(absl::Now() - start));
    compile += absl::Now() - start;
    compiled.push_back(std::move(binary));
  }
  fmt::print("lower         {:8.1f} ms\nLLVM          {:8.1f} ms, one thread\n",
             Milliseconds(lower), Milliseconds(compile));
  if (!absl::GetFlag(FLAGS_kernels)) return absl::OkStatus();

  TD_ASSIGN_OR_RETURN(auto scratch, device.allocator().Allocate(schedule.scratch_bytes));
  std::memset(scratch->address(), 0, scratch->size());
  std::vector<void*> addresses;
  std::vector<std::shared_ptr<DeviceMemory>> memory;
  for (const Schedule::Buffer& buffer : schedule.buffers) {
    if (buffer.kind == Schedule::Kind::kTemporary) {
      addresses.push_back(static_cast<std::byte*>(scratch->address()) + buffer.offset);
      continue;
    }
    TD_ASSIGN_OR_RETURN(auto own, device.allocator().Allocate(buffer.bytes()));
    std::memset(own->address(), 0, own->size());
    addresses.push_back(own->address());
    memory.push_back(std::move(own));
  }
  std::vector<std::unique_ptr<LoadedKernel>> loaded;
  for (const CompiledKernel& kernel : compiled) {
    TD_ASSIGN_OR_RETURN(auto one, device.Load(kernel.binary, kernel.entry));
    loaded.push_back(std::move(one));
  }
  double total = 0, total_cpu = 0;
  fmt::print("{:>9} {:>9} {:>9} {:>8} {:>5} {:>7}  kernel\n", "ms", "cpu ms", "MFLOP", "GFLOP/s",
             "grid", "LLVM ms");
  for (const Schedule::Step& step : schedule.steps) {
    if (step.kernel == Schedule::Step::kCopy) {
      fmt::print("{:>9} copy of {} bytes to input {}\n", "",
                 schedule.buffers[step.buffers[0]].bytes(),
                 schedule.buffers[step.buffers[0]].index);
      continue;
    }
    if (step.kernel == Schedule::Step::kLoop) continue;  // its kernels are timed once each
    KernelArgs args;
    for (int buffer : step.buffers) args.buffers.push_back(addresses[buffer]);
    absl::Duration best = absl::InfiniteDuration();
    double best_cpu_ms = 1e9;
    for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
      CommandList list;
      Timeline& timeline = device.timeline();
      const uint64_t done = timeline.Reserve();
      list.Exec(loaded[step.kernel].get(), &args, compiled[step.kernel].grid);
      list.Signal(timeline.signal(), done);
      start = absl::Now();
      const double cpu = CpuMilliseconds();
      TD_RETURN_IF_ERROR(device.Submit(std::move(list)));
      TD_RETURN_IF_ERROR(timeline.Wait(done, absl::InfiniteFuture()));
      best = std::min(best, absl::Now() - start);
      best_cpu_ms = std::min(best_cpu_ms, CpuMilliseconds() - cpu);
    }
    const double flops = FlopsOf(*schedule.kernels[step.kernel]);
    total += Milliseconds(best);
    total_cpu += best_cpu_ms;
    fmt::print("{:9.3f} {:9.3f} {:9.1f} {:8.1f} {:5} {:7.1f}  {} {}\n", Milliseconds(best),
               best_cpu_ms, flops / 1e6, flops / absl::ToDoubleNanoseconds(best),
               compiled[step.kernel].grid, compile_ms[step.kernel], step.kernel,
               compiled[step.kernel].name);
  }
  fmt::print("{:9.3f} {:9.3f} all\n", total, total_cpu);
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("profiles compilation and kernels of a model");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = tensord::Profile();
  if (!status.ok()) fmt::print(stderr, "profile: {}\n", tensord::Message(status));
  return status.ok() ? 0 : 1;
}
