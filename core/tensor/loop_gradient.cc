#include "core/tensor/loop_gradient.h"

#include <absl/container/flat_hash_set.h>

#include "core/ir/loop.h"
#include "core/ir/substitute.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/loop.h"

namespace tensord {
namespace {

// The original loop, run again so that some of its states are kept: at [i] as iteration i found it.
std::vector<Expr> History(Graph& graph, const Node* loop, int64_t count,
                          absl::Span<const size_t> kept) {
  const size_t states = loop::NumStates(loop);
  std::vector<Expr> initial;
  std::vector<const Node*> next;
  for (size_t k = 0; k < states; ++k) {
    initial.emplace_back(&graph, loop::InitOf(loop, k));
    next.push_back(loop::NextOf(loop, k));
  }
  for (size_t k : kept) {
    Dims dims = {count};
    const Node* carry = loop::CarryOf(loop, k);
    dims.insert(dims.end(), carry->shape.begin(), carry->shape.end());
    initial.push_back(Zeros(graph, dims, carry->dtype));
  }
  const std::vector<Expr> stand_ins = BeginLoop(initial);
  ReplacementMap inside;
  for (size_t k = 0; k < states; ++k) inside[loop::CarryOf(loop, k)] = {stand_ins[k].node()};
  next.push_back(loop::Condition(loop));
  std::vector<Expr> made;
  for (const Node* node : Substitute(graph, next, inside)) made.emplace_back(&graph, node);
  const Expr condition = made.back();
  made.pop_back();
  for (size_t i = 0; i < kept.size(); ++i) {
    made.push_back(WithRow(stand_ins[states + i], stand_ins[0], stand_ins[kept[i]]));
  }
  std::vector<Expr> results = EndLoop(stand_ins, condition, made, loop->ints[1]);
  results.erase(results.begin(), results.begin() + static_cast<int64_t>(states));
  return results;
}

// What of the loop's states the expressions are made from.
std::vector<size_t> StatesIn(absl::Span<const Expr> expressions, const Node* loop) {
  std::vector<const Node*> roots;
  for (const Expr& expression : expressions) roots.push_back(expression.node());
  const std::vector<const Node*> order = TopologicalOrder(roots);
  const absl::flat_hash_set<const Node*> used(order.begin(), order.end());
  std::vector<size_t> states;
  for (size_t k = 1; k < loop::NumStates(loop); ++k) {
    if (used.contains(loop::CarryOf(loop, k))) states.push_back(k);
  }
  return states;
}

}  // namespace

LoopGradient GradientOfLoop(Graph& graph, const Node* loop,
                            absl::Span<const std::optional<Expr>> seeds,
                            absl::Span<const Expr> captured) {
  LoopGradient result;
  result.initial.resize(loop::NumStates(loop));
  const auto fail = [&](const Expr& error) {
    for (size_t k = 0; k < result.initial.size(); ++k) {
      if (IsFloat(loop::CarryOf(loop, k)->dtype)) result.initial[k] = error;
    }
    result.captured.assign(captured.size(), error);
    return result;
  };
  const int64_t count = loop::TripCount(loop);
  if (count < 0) {
    return fail(
        Expr(&graph,
             InvalidArgument("gradient: a while loop has none, because how often it runs is not "
                             "known before; use a loop of a fixed count, or detach its results")));
  }

  // Backwards through the iterations: the derivatives with respect to the float states, then sums
  // of those with respect to what is captured.
  std::vector<size_t> floats;
  std::vector<Expr> carries, next, initial = {Constant(graph, 0, DType::kInt32)};
  for (size_t k = 0; k < loop::NumStates(loop); ++k) {
    const Expr carry(&graph, loop::CarryOf(loop, k));
    if (!IsFloat(carry.dtype())) continue;
    floats.push_back(k);
    carries.push_back(carry);
    next.emplace_back(&graph, loop::NextOf(loop, k));
    initial.push_back(seeds[k] ? *seeds[k] : FullLike(carry, 0));
  }
  for (const Expr& value : captured) initial.push_back(FullLike(value, 0));
  const std::vector<Expr> stand_ins = BeginLoop(initial);
  const absl::Span<const Expr> incoming = absl::MakeSpan(stand_ins).subspan(1, floats.size());

  // One iteration, in terms of the states that the original body found.
  std::vector<Expr> targets = carries;
  targets.insert(targets.end(), captured.begin(), captured.end());
  std::vector<Expr> outgoing = Pullback(next, incoming, targets);
  for (const Expr& derivative : outgoing) {
    if (!derivative.ok()) return fail(derivative);
  }
  for (size_t j = 0; j < captured.size(); ++j) {
    Expr& sum = outgoing[floats.size() + j];
    sum = stand_ins[1 + floats.size() + j] + sum;
  }
  const Expr i = Number(count - 1) - stand_ins[0];
  const std::vector<size_t> kept = StatesIn(outgoing, loop);
  const std::vector<Expr> history = History(graph, loop, count, kept);
  ReplacementMap found;
  // The seeds below them may hold the loop itself.
  for (const Expr& stand_in : stand_ins) found[stand_in.node()] = {stand_in.node()};
  found[loop::CarryOf(loop, 0)] = {Cast(i, loop::CarryOf(loop, 0)->dtype).node()};
  for (size_t n = 0; n < kept.size(); ++n) {
    const Expr row = Row(history[n], i);
    if (!row.ok()) return fail(row);
    found[loop::CarryOf(loop, kept[n])] = {row.node()};
  }
  std::vector<const Node*> roots;
  for (const Expr& derivative : outgoing) roots.push_back(derivative.node());
  std::vector<Expr> made = {stand_ins[0] + 1};
  for (const Node* node : Substitute(graph, roots, found)) made.emplace_back(&graph, node);
  const std::vector<Expr> sums = EndLoop(stand_ins, Lt(stand_ins[0], Number(count)), made, count);
  for (size_t n = 0; n < floats.size(); ++n) result.initial[floats[n]] = sums[1 + n];
  result.captured.assign(sums.begin() + 1 + static_cast<int64_t>(floats.size()), sums.end());
  return result;
}

}  // namespace tensord
