#include "core/tensor/loop.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <atomic>

#include "core/ir/substitute.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// The level of a loop whose body is still being made. Negative, so that no program takes it.
int64_t UnfinishedLevel() {
  static std::atomic<int64_t> next = -1;
  return next.fetch_sub(1, std::memory_order_relaxed);
}

// One above the loops between the states and what becomes of them.
int64_t LevelAround(absl::Span<const Node* const> carries, absl::Span<const Node* const> results) {
  int64_t level = 0;
  absl::flat_hash_set<const Node*> seen(carries.begin(), carries.end());
  std::vector<const Node*> stack(results.begin(), results.end());
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if ((node->below_ops & OpBit(Op::kLoop)) == 0 || !seen.insert(node).second) continue;
    if (node->op == Op::kCarry) continue;
    if (node->op == Op::kLoop) level = std::max(level, node->ints[0] + 1);
    stack.insert(stack.end(), node->src.begin(), node->src.end());
  }
  return level;
}

std::vector<Expr> Failed(size_t count, const Expr& error) {
  return std::vector<Expr>(count, error);
}

std::optional<Expr> CheckNext(absl::Span<const Expr> stand_ins, const Expr& condition,
                              absl::Span<const Expr> next) {
  for (const Expr& stand_in : stand_ins) {
    if (!stand_in.ok()) return stand_in;
  }
  if (!condition.ok()) return condition;
  if (condition.dtype() != DType::kBool || NumElements(condition.shape()) != 1) {
    return Fail(condition, "loop: the condition is {}{}, it must be a bool of one element",
                Name(condition.dtype()), ShapeText(condition.shape()));
  }
  if (next.size() != stand_ins.size()) {
    return Fail(condition, "loop: the body returns {} values for {} states", next.size(),
                stand_ins.size());
  }
  for (size_t k = 0; k < next.size(); ++k) {
    if (!next[k].ok()) return next[k];
    if (next[k].dtype() != stand_ins[k].dtype() || next[k].shape() != stand_ins[k].shape()) {
      return Fail(next[k],
                  "loop: state {} is {}{} and the body makes it {}{}; a state keeps its dtype and "
                  "shape: cast or reshape what the body returns, or the initial value",
                  k, Name(stand_ins[k].dtype()), ShapeText(stand_ins[k].shape()),
                  Name(next[k].dtype()), ShapeText(next[k].shape()));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Expr> BeginLoop(absl::Span<const Expr> initial) {
  const int64_t level = UnfinishedLevel();
  std::vector<Expr> stand_ins;
  for (const Expr& weak : initial) {
    // A state lies in memory.
    const Expr state = weak.ok() ? Cast(weak, Strong(weak.dtype())) : weak;
    stand_ins.push_back(
        Apply(Op::kCarry, {state}, {level, static_cast<int64_t>(stand_ins.size())}));
  }
  return stand_ins;
}

std::vector<Expr> AddStates(absl::Span<const Expr> stand_ins, absl::Span<const Expr> initial) {
  if (!stand_ins[0].ok()) return Failed(initial.size(), stand_ins[0]);
  const int64_t level = stand_ins[0].node()->ints[0];
  std::vector<Expr> added;
  for (const Expr& state : initial) {
    const auto number = static_cast<int64_t>(stand_ins.size() + added.size());
    added.push_back(Apply(Op::kCarry, {state}, {level, number}));
  }
  return added;
}

std::vector<Expr> EndLoop(absl::Span<const Expr> stand_ins, const Expr& condition,
                          absl::Span<const Expr> returned, int64_t most) {
  if (stand_ins.empty()) return {};
  std::vector<Expr> next(returned.begin(), returned.end());
  for (size_t k = 0; k < std::min(next.size(), stand_ins.size()); ++k) {
    if (next[k].ok() && stand_ins[k].ok() && IsWeak(next[k].dtype())) {
      next[k] = Cast(next[k], stand_ins[k].dtype());
    }
  }
  if (auto error = CheckNext(stand_ins, condition, next)) return Failed(stand_ins.size(), *error);
  Graph& graph = condition.graph();
  std::vector<const Node*> carries, values;
  for (const Expr& stand_in : stand_ins) carries.push_back(stand_in.node());
  for (const Expr& value : next) values.push_back(value.node());

  const Node* const test = Reshape(condition, {}).node();
  const absl::StatusOr<const Node*> loop = FinishLoop(graph, test, carries, values, most);
  if (!loop.ok()) return Failed(carries.size(), Expr(&graph, loop.status()));
  std::vector<Expr> results;
  for (size_t k = 0; k < carries.size(); ++k) {
    const int64_t number[] = {static_cast<int64_t>(k)};
    const Node* const operand[] = {*loop};
    results.emplace_back(
        &graph,
        graph.TryMake(
            {.op = Op::kLoopResult, .src = operand, .ints = number, .dtype = carries[k]->dtype}));
  }
  return results;
}

const Node* UnfinishedCarry(Graph& graph, const Node* carry, const Node* init) {
  // Of levels that UnfinishedLevel() does not reach.
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  return graph.Make(Op::kCarry, {init}, {kFirst + carry->ints[0], carry->ints[1]});
}

absl::StatusOr<const Node*> FinishLoop(Graph& graph, const Node* condition,
                                       absl::Span<const Node* const> carries,
                                       absl::Span<const Node* const> next, int64_t most) {
  std::vector<const Node*> roots = {condition};
  roots.insert(roots.end(), next.begin(), next.end());
  // Now that the body is known, so is the level. Equal loops become equal nodes by it.
  const int64_t level = LevelAround(carries, roots);
  ReplacementMap finished;
  std::vector<const Node*> states;
  for (size_t k = 0; k < carries.size(); ++k) {
    states.push_back(
        graph.Make(Op::kCarry, {carries[k]->src[0]}, {level, static_cast<int64_t>(k)}));
    finished[carries[k]] = {states[k]};
  }
  const std::vector<const Node*> body = Substitute(graph, roots, finished);
  std::vector<const Node*> src = {body[0]};
  for (size_t k = 0; k < carries.size(); ++k) src.insert(src.end(), {states[k], body[1 + k]});
  const int64_t ints[] = {level, most};
  return graph.TryMake({.op = Op::kLoop, .src = src, .ints = ints});
}

std::vector<Expr> WhileLoop(absl::Span<const Expr> initial, const LoopCondition& condition,
                            const LoopBody& body, int64_t most) {
  const std::vector<Expr> states = BeginLoop(initial);
  for (const Expr& state : states) {
    if (!state.ok()) return Failed(states.size(), state);
  }
  return EndLoop(states, condition(states), body(states), most);
}

std::vector<Expr> ForLoop(int64_t count, absl::Span<const Expr> initial, const CountedBody& body) {
  if (initial.empty()) return {};
  if (count < 0 || count > std::numeric_limits<int32_t>::max()) {
    return Failed(initial.size(),
                  Fail(initial[0], "loop: {} iterations, must be within [0, 2^31)", count));
  }
  std::vector<Expr> with_number = {Full(initial[0].graph(), {}, Number(0), DType::kInt32)};
  with_number.insert(with_number.end(), initial.begin(), initial.end());
  std::vector<Expr> results = WhileLoop(
      with_number, [&](absl::Span<const Expr> s) { return Lt(s[0], Number(count)); },
      [&](absl::Span<const Expr> s) {
        std::vector<Expr> next = body(s[0], s.subspan(1));
        next.insert(next.begin(), s[0] + Number(1));
        return next;
      },
      count);
  results.erase(results.begin());
  return results;
}

Expr Row(const Expr& x, const Expr& i) {
  if (!x.ok()) return x;
  if (!i.ok()) return i;
  if (x.rank() == 0) return Fail(x, "loop: a value without axes has no rows");
  return Apply(Op::kGather, {x, i});
}

Expr WithRow(const Expr& x, const Expr& i, const Expr& value) {
  if (!x.ok()) return x;
  if (!i.ok()) return i;
  if (!value.ok()) return value;
  if (x.rank() == 0 || x.shape().subspan(1) != value.shape() || x.dtype() != value.dtype()) {
    return Fail(x, "loop: {}{} is no row of {}{}", Name(value.dtype()), ShapeText(value.shape()),
                Name(x.dtype()), ShapeText(x.shape()));
  }
  const Dims one(x.rank(), 1);
  return Apply(Op::kScatter, {x, Reshape(i, one), Unsqueeze(value, 0)},
               {static_cast<int64_t>(ScatterKind::kSet), 0});
}

Scanned ScanLoop(int64_t count, absl::Span<const Expr> initial, absl::Span<const Expr> xs,
                 const ScanBody& body, bool reverse) {
  Scanned result;
  const auto fail = [&](const Expr& error) {
    result.states = Failed(std::max<size_t>(initial.size(), 1), error);
    return result;
  };
  if (initial.empty() && xs.empty()) return result;
  Graph& graph = initial.empty() ? xs[0].graph() : initial[0].graph();
  const Expr zero = Constant(graph, 0, DType::kInt32);
  if (count < 0 || count > std::numeric_limits<int32_t>::max()) {
    return fail(Fail(zero, "scan: {} iterations, must be within [0, 2^31)", count));
  }
  std::vector<Expr> begin = {zero};
  begin.insert(begin.end(), initial.begin(), initial.end());
  std::vector<Expr> stand_ins = BeginLoop(begin);
  for (const Expr& stand_in : stand_ins) {
    if (!stand_in.ok()) return fail(stand_in);
  }
  const Expr i = reverse ? Number(count - 1) - stand_ins[0] : stand_ins[0];
  std::vector<Expr> rows;
  for (const Expr& x : xs) {
    if (x.ok() && (x.rank() == 0 || x.shape()[0] != count)) {
      return fail(
          Fail(x, "scan: {} iterations over a tensor of shape {}", count, ShapeText(x.shape())));
    }
    rows.push_back(Row(x, i));
    if (!rows.back().ok()) return fail(rows.back());
  }
  const ScanStep step = body(i, absl::MakeSpan(stand_ins).subspan(1), rows);
  std::vector<Expr> stacks;
  for (const Expr& out : step.out) {
    if (!out.ok()) return fail(out);
    Dims dims = {count};
    dims.insert(dims.end(), out.shape().begin(), out.shape().end());
    stacks.push_back(Zeros(graph, dims, out.dtype()));
  }
  const std::vector<Expr> stacking = AddStates(stand_ins, stacks);
  std::vector<Expr> next = {stand_ins[0] + Number(1)};
  next.insert(next.end(), step.next.begin(), step.next.end());
  for (size_t k = 0; k < stacking.size(); ++k) {
    next.push_back(WithRow(stacking[k], i, step.out[k]));
  }
  stand_ins.insert(stand_ins.end(), stacking.begin(), stacking.end());
  const std::vector<Expr> results =
      EndLoop(stand_ins, Lt(stand_ins[0], Number(count)), next, count);
  const auto middle = results.begin() + 1 + static_cast<int64_t>(initial.size());
  result.states.assign(results.begin() + 1, middle);
  result.stacked.assign(middle, results.end());
  return result;
}

}  // namespace tensord
