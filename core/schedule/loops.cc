#include "core/schedule/loops.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/loop.h"
#include "core/ir/substitute.h"
#include "core/rules/simplify.h"
#include "core/rules/spec.h"

namespace tensord {
namespace {

using loop::CarryOf;
using loop::Condition;
using loop::InitOf;
using loop::NextOf;
using loop::NumStates;

constexpr OpSet kLoopOps = OpBit(Op::kCarry) | OpBit(Op::kLoop);

class LoopScheduler {
 public:
  explicit LoopScheduler(const Program& program) : program_(program) {}

  absl::StatusOr<Schedule> Run() {
    std::vector<const Node*> roots;
    for (const Program::Output& output : program_.outputs) roots.push_back(output.value);
    TD_RETURN_IF_ERROR(VerifyTensor(roots));
    TD_ASSIGN_OR_RETURN(roots, SimplifyForSchedule(graph_, CopyTo(graph_, roots)));
    for (size_t slot = 0; slot < program_.inputs.size(); ++slot) {
      const Node* input = program_.inputs[slot];
      AddInput(ParamFor(static_cast<int64_t>(slot), input),
               AddBuffer(Schedule::Kind::kInput, static_cast<int64_t>(slot), input));
    }
    for (const Node* loop : OuterLoops(roots)) TD_RETURN_IF_ERROR(AddLoop(loop));
    TD_RETURN_IF_ERROR(AddOutputs(roots));
    return std::move(schedule_);
  }

 private:
  // A value that is in a buffer by now, and the Param that the parts after it read it by.
  void AddInput(const Node* value, int buffer) {
    const Node* param = ParamFor(static_cast<int64_t>(input_buffers_.size()), value);
    params_.push_back(param);
    input_buffers_.push_back(buffer);
    computed_[value] = {param};
  }

  // Of the dtype and the sizes of `value`, which may vary.
  const Node* ParamFor(int64_t slot, const Node* value) {
    const int64_t before[] = {slot};
    const SizedOp sized({}, ShapeOf(value), before);
    return graph_.Make(
        {.op = Op::kParam, .src = sized.src, .ints = sized.ints, .dtype = value->dtype});
  }

  int AddBuffer(Schedule::Kind kind, int64_t index, const Node* tensor) {
    schedule_.buffers.push_back({kind, index, tensor->dtype, NumElements(tensor->shape)});
    return static_cast<int>(schedule_.buffers.size()) - 1;
  }

  // Loops that are not in the body of another, each after those that it needs.
  std::vector<const Node*> OuterLoops(absl::Span<const Node* const> roots) {
    std::vector<const Node*> loops;
    absl::flat_hash_set<const Node*> open, done;
    std::vector<const Node*> stack(roots.begin(), roots.end());
    while (!stack.empty()) {
      const Node* node = stack.back();
      if (done.contains(node) || (node->below_ops & OpBit(Op::kLoop)) == 0) {
        stack.pop_back();
        continue;
      }
      if (!open.insert(node).second) {
        stack.pop_back();
        done.insert(node);
        if (node->op == Op::kLoop) loops.push_back(node);
        continue;
      }
      if (node->op != Op::kLoop) {
        stack.insert(stack.end(), node->src.begin(), node->src.end());
        continue;
      }
      for (size_t k = 0; k < NumStates(node); ++k) stack.push_back(InitOf(node, k));
      const std::vector<const Node*>& captured =
          captured_.emplace(node, loop::Captured(node)).first->second;
      stack.insert(stack.end(), captured.begin(), captured.end());
    }
    return loops;
  }

  absl::Status AddLoop(const Node* loop) {
    const size_t count = NumStates(loop);
    ReplacementMap initial, next;
    for (size_t k = 0; k < count; ++k) {
      initial[CarryOf(loop, k)] = {InitOf(loop, k)};
      next[CarryOf(loop, k)] = {NextOf(loop, k)};
    }
    const Node* condition[] = {Condition(loop)};
    const Node* first = Substitute(graph_, condition, initial)[0];
    const Node* again = Substitute(graph_, condition, next)[0];

    // Before: the initial states, each in a buffer of its own, and what the body reads.
    const std::vector<const Node*>& captured = captured_.at(loop);
    std::vector<const Node*> before;
    for (size_t k = 0; k < count; ++k) before.push_back(InitOf(loop, k));
    before.push_back(first);
    std::vector<const Node*> fresh;
    for (const Node* value : captured) {
      if (!computed_.contains(value)) fresh.push_back(value);
    }
    before.insert(before.end(), fresh.begin(), fresh.end());
    std::vector<int> buffers;
    for (const Node* value : before) {
      buffers.push_back(AddBuffer(Schedule::Kind::kTemporary, -1, value));
    }
    TD_RETURN_IF_ERROR(AddPart(before, buffers));
    for (size_t i = 0; i < fresh.size(); ++i) AddInput(fresh[i], buffers[count + 1 + i]);

    // The body: a program whose inputs are the states, whether to go on, and what it reads.
    Program body;
    body.name = program_.name;
    body.fast_math = program_.fast_math;
    body.variables = program_.variables;
    std::vector<int> body_buffers(buffers.begin(),
                                  buffers.begin() + static_cast<int64_t>(count) + 1);
    ReplacementMap inside;
    const auto add_input = [&](const Node* value) {
      const auto slot = static_cast<int64_t>(body.inputs.size());
      body.inputs.push_back(ParamFor(slot, value));
      inside[value] = {body.inputs.back()};
    };
    for (size_t k = 0; k < count; ++k) add_input(CarryOf(loop, k));
    body.inputs.push_back(graph_.Param(static_cast<int64_t>(count), DType::kBool, {}));
    for (const Node* value : captured) {
      add_input(value);
      body_buffers.push_back(input_buffers_[computed_.at(value).value->slot()]);
    }
    std::vector<const Node*> results;
    for (size_t k = 0; k < count; ++k) results.push_back(NextOf(loop, k));
    results.push_back(again);
    results = Substitute(graph_, results, inside);
    for (size_t k = 0; k <= count; ++k) {
      if (results[k] == body.inputs[k]) continue;  // stays as it is
      body.outputs.push_back({results[k], static_cast<int64_t>(k)});
    }
    TD_RETURN_IF_ERROR(AddSteps(loop, std::move(body), body_buffers));

    // After: the states as they are then.
    for (size_t k = 0; k < count; ++k) {
      const int64_t number[] = {static_cast<int64_t>(k)};
      const Node* const operand[] = {loop};
      AddInput(graph_.Intern({.op = Op::kLoopResult,
                              .src = operand,
                              .ints = number,
                              .dtype = CarryOf(loop, k)->dtype}),
               buffers[k]);
    }
    return absl::OkStatus();
  }

  absl::Status AddSteps(const Node* loop, Program body, absl::Span<const int> buffers) {
    const size_t at = schedule_.steps.size();
    const int go_on = buffers[NumStates(loop)];
    schedule_.steps.push_back({Schedule::Step::kLoop, {go_on}, loop->ints[1]});
    TD_ASSIGN_OR_RETURN(Schedule part, ScheduleOf(std::move(body)));
    Join(std::move(part), buffers, {});
    schedule_.steps[at].body = static_cast<int>(schedule_.steps.size() - at) - 1;
    return absl::OkStatus();
  }

  // The values, computed from what is in buffers by now, into these buffers.
  absl::Status AddPart(absl::Span<const Node* const> values, absl::Span<const int> buffers) {
    if (values.empty()) return absl::OkStatus();
    Program part;
    part.name = program_.name;
    part.fast_math = program_.fast_math;
    part.inputs = params_;
    part.variables = program_.variables;
    for (const Node* value : Substitute(graph_, values, computed_)) part.outputs.push_back({value});
    TD_ASSIGN_OR_RETURN(Schedule schedule, ScheduleOf(std::move(part)));
    Join(std::move(schedule), input_buffers_, buffers);
    return absl::OkStatus();
  }

  absl::Status AddOutputs(absl::Span<const Node* const> roots) {
    Program part;
    part.name = program_.name;
    part.fast_math = program_.fast_math;
    part.inputs = params_;
    part.variables = program_.variables;
    std::vector<int> buffers;
    for (size_t i = 0; i < roots.size(); ++i) {
      const int64_t overwrites = program_.outputs[i].overwrites;
      buffers.push_back(overwrites == Program::kFresh
                            ? AddBuffer(Schedule::Kind::kOutput, static_cast<int64_t>(i), roots[i])
                            : static_cast<int>(overwrites));
    }
    const std::vector<const Node*> values = Substitute(graph_, roots, computed_);
    for (size_t i = 0; i < values.size(); ++i) {
      part.outputs.push_back({values[i], program_.outputs[i].overwrites});
    }
    schedule_.outputs = buffers;
    TD_ASSIGN_OR_RETURN(Schedule schedule, ScheduleOf(std::move(part)));
    Join(std::move(schedule), input_buffers_, buffers);
    return absl::OkStatus();
  }

  // With the nodes of the program in a graph of its own.
  static absl::StatusOr<Schedule> ScheduleOf(Program part) {
    std::vector<const Node*> roots = part.inputs;
    roots.insert(roots.end(), part.variables.begin(), part.variables.end());
    for (const Program::Output& output : part.outputs) roots.push_back(output.value);
    const std::vector<const Node*> copies = CopyTo(part.graph, roots);
    auto copy = copies.begin();
    for (const Node*& input : part.inputs) input = *copy++;
    for (const Node*& variable : part.variables) variable = *copy++;
    for (Program::Output& output : part.outputs) output.value = *copy++;
    return HasLoops(part) ? ScheduleLoops(part) : MakeScheduleOfPart(part);
  }

  // Appends the steps of a part whose inputs and outputs lie in these buffers.
  void Join(Schedule part, absl::Span<const int> inputs, absl::Span<const int> outputs) {
    std::vector<int> buffer_of;
    for (const Schedule::Buffer& buffer : part.buffers) {
      switch (buffer.kind) {
        case Schedule::Kind::kInput:
          buffer_of.push_back(inputs[buffer.index]);
          break;
        case Schedule::Kind::kOutput:
          buffer_of.push_back(outputs[buffer.index]);
          break;
        case Schedule::Kind::kTemporary:
          buffer_of.push_back(static_cast<int>(schedule_.buffers.size()));
          schedule_.buffers.push_back(buffer);
          break;
      }
    }
    std::vector<int> kernel_of;
    for (std::unique_ptr<Kernel>& kernel : part.kernels) {
      const auto [known, is_new] =
          kernel_of_.emplace(StructuralKey(*kernel), static_cast<int>(schedule_.kernels.size()));
      if (is_new) schedule_.kernels.push_back(std::move(kernel));
      kernel_of.push_back(known->second);
    }
    for (Schedule::Step& step : part.steps) {
      for (int& buffer : step.buffers) buffer = buffer_of[buffer];
      if (step.kernel >= 0) step.kernel = kernel_of[step.kernel];
      schedule_.steps.push_back(std::move(step));
    }
  }

  const Program& program_;
  Graph graph_;
  absl::flat_hash_map<const Node*, std::vector<const Node*>> captured_;  // by Loop
  ReplacementMap computed_;          // values in buffers -> their Params
  std::vector<const Node*> params_;  // the program's inputs, then the others
  std::vector<int> input_buffers_;   // by slot of params_
  absl::flat_hash_map<std::string, int> kernel_of_;
  Schedule schedule_;
};

}  // namespace

bool HasLoops(const Program& program) {
  return std::ranges::any_of(program.outputs, [](const Program::Output& output) {
    return (output.value->below_ops & kLoopOps) != 0;
  });
}

absl::StatusOr<Schedule> ScheduleLoops(const Program& program) {
  return LoopScheduler(program).Run();
}

}  // namespace tensord
