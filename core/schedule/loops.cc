#include "core/schedule/loops.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/loop.h"
#include "core/ir/substitute.h"
#include "core/schedule/parts.h"

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
  explicit LoopScheduler(const Program& program) : parts_(program) {}

  absl::StatusOr<Schedule> Run() {
    TD_ASSIGN_OR_RETURN(const std::vector<const Node*> roots, parts_.Begin());
    for (const Node* loop : OuterLoops(roots)) TD_RETURN_IF_ERROR(AddLoop(loop));
    TD_RETURN_IF_ERROR(parts_.AddOutputs(roots));
    return std::move(parts_.schedule());
  }

 private:
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
      if (!parts_.IsComputed(value)) fresh.push_back(value);
    }
    before.insert(before.end(), fresh.begin(), fresh.end());
    std::vector<int> buffers;
    for (const Node* value : before) {
      buffers.push_back(parts_.AddBuffer(Schedule::Kind::kTemporary, -1, value));
    }
    TD_RETURN_IF_ERROR(parts_.AddPart(before, buffers));
    for (size_t i = 0; i < fresh.size(); ++i) parts_.AddInput(fresh[i], buffers[count + 1 + i]);

    // The body: a program whose inputs are the states, whether to go on, and what it reads.
    Program body = parts_.NewPart();
    std::vector<int> body_buffers(buffers.begin(),
                                  buffers.begin() + static_cast<int64_t>(count) + 1);
    ReplacementMap inside;
    const auto add_input = [&](const Node* value) {
      const auto slot = static_cast<int64_t>(body.inputs.size());
      body.inputs.push_back(parts_.ParamFor(slot, value));
      inside[value] = {body.inputs.back()};
    };
    for (size_t k = 0; k < count; ++k) add_input(CarryOf(loop, k));
    body.inputs.push_back(graph_.Param(static_cast<int64_t>(count), DType::kBool, {}));
    for (const Node* value : captured) {
      add_input(value);
      body_buffers.push_back(parts_.BufferOf(value));
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
      parts_.AddInput(graph_.Intern({.op = Op::kLoopResult,
                                     .src = operand,
                                     .ints = number,
                                     .dtype = CarryOf(loop, k)->dtype}),
                      buffers[k]);
    }
    return absl::OkStatus();
  }

  absl::Status AddSteps(const Node* loop, Program body, absl::Span<const int> buffers) {
    std::vector<Schedule::Step>& steps = parts_.schedule().steps;
    const size_t at = steps.size();
    const int go_on = buffers[NumStates(loop)];
    steps.push_back({.kernel = Schedule::Step::kLoop, .buffers = {go_on}, .most = loop->ints[1]});
    TD_ASSIGN_OR_RETURN(Schedule part, Parts::ScheduleOf(std::move(body)));
    parts_.Join(std::move(part), buffers, {});
    steps[at].body = static_cast<int>(steps.size() - at) - 1;
    return absl::OkStatus();
  }

  Parts parts_;
  Graph& graph_ = parts_.graph();
  absl::flat_hash_map<const Node*, std::vector<const Node*>> captured_;  // by Loop
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
