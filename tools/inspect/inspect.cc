// Prints what the compiler makes of a tensor graph, stage by stage.
//
//   inspect [--stage=schedule|kernel|linear|llvm] [--kernel=N] < graph.txt
//   inspect --stage=object --kernel=N < graph.txt > kernel.o; objdump -d kernel.o
//
// The graph is in the text form of core/ir/text.h; its last lines are the outputs.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <string>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/compile/compiler.h"
#include "core/compile/llvm_host.h"
#include "core/ir/text.h"
#include "core/render/llvm.h"
#include "core/schedule/schedule.h"

ABSL_FLAG(std::string, stage, "schedule", "schedule, kernel, linear, llvm or object");
ABSL_FLAG(int, kernel, -1, "only this kernel; -1: all");

namespace tensord {
namespace {

absl::Status Inspect(const std::string& text) {
  Program program;
  program.name = "inspected";
  TD_ASSIGN_OR_RETURN(const std::vector<const Node*> roots, Parse(text, program.graph));
  for (const Node* node : TopologicalOrder(roots)) {
    if (node->op == Op::kVariable) program.variables.push_back(node);
    if (node->op != Op::kParam) continue;
    const size_t slot = static_cast<size_t>(node->slot());
    if (program.inputs.size() <= slot) program.inputs.resize(slot + 1, nullptr);
    program.inputs[slot] = node;
  }
  for (size_t slot = 0; slot < program.inputs.size(); ++slot) {
    if (program.inputs[slot] == nullptr) return InvalidArgument("no Param has slot {}", slot);
  }
  for (const Node* root : roots) program.outputs.push_back({root});
  TD_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(program));

  const std::string stage = absl::GetFlag(FLAGS_stage);
  const Target& target = LlvmHostTarget();
  if (stage == "object") {
    const int index = absl::GetFlag(FLAGS_kernel);
    if (index < 0 || index >= static_cast<int>(schedule.kernels.size())) {
      return InvalidArgument("--stage=object needs --kernel=0...{}", schedule.kernels.size() - 1);
    }
    TD_ASSIGN_OR_RETURN(const auto linear, LowerKernel(*schedule.kernels[index], target));
    TD_ASSIGN_OR_RETURN(const CompiledKernel compiled, CompileKernel(linear->program, target));
    std::cout << compiled.binary;
    return absl::OkStatus();
  }
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Schedule::Step& step = schedule.steps[i];
    if (step.kernel == Schedule::Step::kCopy) {
      fmt::print("step {}: copy buffer {} to {}\n", i, step.buffers[1], step.buffers[0]);
    } else if (step.kernel == Schedule::Step::kLoop) {
      fmt::print("step {}: while buffer {}, {} times at most, the next {} steps\n", i,
                 step.buffers[0], step.most, step.body);
    } else {
      fmt::print("step {}: kernel {} {} on buffers {}\n", i, step.kernel,
                 schedule.kernels[step.kernel]->name, fmt::join(step.buffers, " "));
    }
  }
  fmt::print("scratch {} bytes\n", schedule.scratch_bytes);
  if (stage == "schedule") return absl::OkStatus();
  for (size_t i = 0; i < schedule.kernels.size(); ++i) {
    if (absl::GetFlag(FLAGS_kernel) >= 0 && absl::GetFlag(FLAGS_kernel) != static_cast<int>(i)) {
      continue;
    }
    const Kernel& kernel = *schedule.kernels[i];
    fmt::print("\n--- kernel {} {}\n", i, kernel.name);
    if (stage == "kernel") {
      fmt::print("{}", Print({kernel.sink}));
      continue;
    }
    TD_ASSIGN_OR_RETURN(const std::unique_ptr<LinearKernel> linear, LowerKernel(kernel, target));
    if (stage == "linear") {
      fmt::print("grid {}\n{}", linear->program.grid, PrintList(linear->program.body));
      continue;
    }
    if (stage != "llvm") return InvalidArgument("unknown stage '{}'", stage);
    TD_ASSIGN_OR_RETURN(const std::string rendered, RenderLlvm(linear->program, target));
    fmt::print("{}", rendered);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("prints what the compiler makes of a graph given on standard input");
  absl::ParseCommandLine(argc, argv);
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  const absl::Status status = tensord::Inspect(text);
  if (!status.ok()) fmt::print(stderr, "inspect: {}\n", tensord::Message(status));
  return status.ok() ? 0 : 1;
}
