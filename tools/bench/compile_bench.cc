// What a first call waits for: a model's way from graph to loaded kernels, phase by phase on one
// thread, and as a whole through the runtime with empty and with warm caches.
//
//   compile_bench --models=mnist_step,resnet50
//   compile_bench --models=mnist_step --cache_dir=D   // only Prepare, as the first of a process
#include <absl/flags/flag.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/compile/compiler.h"
#include "core/runtime/runtime.h"
#include "core/schedule/schedule.h"
#include "tools/bench/models.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::vector<std::string>, models,
          std::vector<std::string>({"mnist_step", "resnet50", "transformer"}), "see models.h");
ABSL_FLAG(int, repeat, 5, "how often everything is measured");
ABSL_FLAG(int, threads, 0, "that compile in the runtime; 0: one a core");
ABSL_FLAG(std::string, cache_dir, "", "measure one Prepare over this disk cache, and nothing else");
ABSL_FLAG(bool, quick, false, "a small model, once: whether the benchmark works");

namespace tensord {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "tensord-bench-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }  // empty if there is none

 private:
  std::string path_;
};

struct Phases {
  std::vector<double> build, schedule, lower, without_llvm, llvm;
};

absl::Status MeasurePhases(const Model& model, const Target& target, Phases& phases) {
  const Stopwatch build;
  const Program program = model.make();
  phases.build.push_back(build.Milliseconds());
  const Stopwatch scheduling;
  TD_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(program));
  phases.schedule.push_back(scheduling.Milliseconds());
  double lower = 0, llvm = 0;
  for (const auto& kernel : schedule.kernels) {
    const Stopwatch lowering;
    TD_ASSIGN_OR_RETURN(const auto linear, LowerKernel(*kernel, target));
    lower += lowering.Milliseconds();
    const Stopwatch compiling;
    TD_RETURN_IF_ERROR(CompileKernel(linear->program, target).status());
    llvm += compiling.Milliseconds();
  }
  phases.lower.push_back(lower);
  phases.without_llvm.push_back(phases.schedule.back() + lower);
  phases.llvm.push_back(llvm);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Runtime>> NewRuntime(const std::string& cache_dir) {
  TD_ASSIGN_OR_RETURN(auto devices, OpenDevices("cpu"));
  return Runtime::Create({.cache_dir = cache_dir, .compile_threads = absl::GetFlag(FLAGS_threads)},
                         std::move(devices));
}

absl::StatusOr<double> PrepareMilliseconds(Runtime& runtime, const Program& program,
                                           CompileStats& stats) {
  const Stopwatch stopwatch;
  TD_RETURN_IF_ERROR(runtime.Prepare(program, *runtime.devices()[0], &stats).status());
  return stopwatch.Milliseconds();
}

struct Prepares {
  std::vector<double> cold, disk, memory;
  CompileStats cold_stats;
};

absl::Status MeasurePrepare(const Program& program, Prepares& prepares) {
  const TemporaryFolder cache;
  if (cache.path().empty()) return Unavailable("no temporary folder can be made");
  {
    TD_ASSIGN_OR_RETURN(const auto runtime, NewRuntime(cache.path()));
    TD_ASSIGN_OR_RETURN(const double ms,
                        PrepareMilliseconds(*runtime, program, prepares.cold_stats));
    prepares.cold.push_back(ms);
  }
  TD_ASSIGN_OR_RETURN(const auto runtime, NewRuntime(cache.path()));
  CompileStats stats;
  TD_ASSIGN_OR_RETURN(const double disk, PrepareMilliseconds(*runtime, program, stats));
  prepares.disk.push_back(disk);
  if (stats.kernels_compiled > 0) {
    return Internal("{}: {} kernels were compiled with a warm disk cache", program.name,
                    stats.kernels_compiled);
  }
  TD_ASSIGN_OR_RETURN(const double memory, PrepareMilliseconds(*runtime, program, stats));
  prepares.memory.push_back(memory);
  if (!stats.plan_cached) return Internal("{}: the plan was not cached", program.name);
  return absl::OkStatus();
}

absl::Status MeasureModel(const Model& model, int repeat, Report& report) {
  TD_ASSIGN_OR_RETURN(const auto devices, OpenDevices("cpu"));
  const Program program = model.make();
  Phases phases;
  Prepares prepares;
  for (int i = 0; i < repeat; ++i) {
    TD_RETURN_IF_ERROR(MeasurePrepare(program, prepares));
    TD_RETURN_IF_ERROR(MeasurePhases(model, devices[0]->target(), phases));
  }
  const auto add = [&](std::string_view row, std::string unit, std::vector<double> samples) {
    report.Add(fmt::format("{}/{}", model.name, row), std::move(unit), std::move(samples));
  };
  add("launches", "", {static_cast<double>(prepares.cold_stats.kernels)});
  add("kernels compiled", "", {static_cast<double>(prepares.cold_stats.kernels_compiled)});
  add("build graph", "ms", phases.build);
  add("schedule", "ms", phases.schedule);
  add("lower", "ms", phases.lower);
  add("schedule + lower", "ms", phases.without_llvm);
  add("LLVM, one thread", "ms", phases.llvm);
  add("prepare, cold", "ms", prepares.cold);
  add("prepare, warm disk", "ms", prepares.disk);
  add("prepare, plan cached", "ms", prepares.memory);
  return absl::OkStatus();
}

absl::Status MeasureOnce(const Model& model, Report& report) {
  TD_ASSIGN_OR_RETURN(const auto runtime, NewRuntime(absl::GetFlag(FLAGS_cache_dir)));
  CompileStats stats;
  TD_ASSIGN_OR_RETURN(const double ms, PrepareMilliseconds(*runtime, model.make(), stats));
  report.Add(fmt::format("{}/{}", model.name,
                         stats.kernels_compiled > 0 ? "prepare, new process, cold"
                                                    : "prepare, new process, warm disk"),
             "ms", {ms});
  return absl::OkStatus();
}

absl::Status Measure(Report& report) {
  const bool quick = absl::GetFlag(FLAGS_quick);
  std::vector<std::string> names = absl::GetFlag(FLAGS_models);
  if (quick) names = {"matmul512"};
  for (const std::string& name : names) {
    TD_ASSIGN_OR_RETURN(const Model* model, FindModel(name));
    if (absl::GetFlag(FLAGS_cache_dir).empty()) {
      TD_RETURN_IF_ERROR(MeasureModel(*model, quick ? 1 : absl::GetFlag(FLAGS_repeat), report),
                         "model '{}'", name);
    } else {
      TD_RETURN_IF_ERROR(MeasureOnce(*model, report), "model '{}'", name);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times compilation by phase, cold and warm",
                               tensord::Measure);
}
