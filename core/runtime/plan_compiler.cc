#include "core/runtime/plan_compiler.h"

#include <absl/time/clock.h>

#include <utility>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/compile/compiler.h"

namespace tensord {
namespace {

class LocalJob : public PlanCompiler::Job {
 public:
  LocalJob(Schedule schedule, Target target) : target_(std::move(target)) {
    kernels_ = std::move(schedule.kernels);
    schedule.kernels.clear();
    plan_.schedule = std::move(schedule);
    for (const auto& kernel : kernels_) {
      Plan::Kernel& row = plan_.kernels.emplace_back();
      row.name = kernel->name;
      row.content = HashKernelKey(StructuralKey(*kernel)).Hex();
      for (const Node* variable : kernel->variables) row.variables.emplace_back(variable->text);
    }
  }

  Plan& plan() override { return plan_; }

  absl::StatusOr<CompiledKernel> Compile(size_t kernel, PlanCompiler::Times* times) override {
    const absl::Time start = absl::Now();
    TD_ASSIGN_OR_RETURN(const std::unique_ptr<LinearKernel> linear,
                        LowerKernel(*kernels_[kernel], target_));
    const absl::Time lowered = absl::Now();
    absl::StatusOr<CompiledKernel> compiled = CompileKernel(linear->program, target_);
    *times = {.lower = lowered - start, .compile = absl::Now() - lowered};
    return compiled;
  }

 private:
  const Target target_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  Plan plan_;
};

class LocalCompiler : public PlanCompiler {
 public:
  absl::StatusOr<std::unique_ptr<Job>> Begin(const Program& program,
                                             const Target& target) override {
    TD_ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(program));
    return std::make_unique<LocalJob>(std::move(schedule), target);
  }
};

}  // namespace

std::unique_ptr<PlanCompiler> CompileInProcess() { return std::make_unique<LocalCompiler>(); }

}  // namespace tensord
