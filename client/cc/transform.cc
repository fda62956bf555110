// Session's functions that are made others: derivatives of a function at new arguments, and a
// function of one example made one of a batch. Each was called with tensors that stand for its
// arguments; what it returned is an expression in which others take their place.
#include <absl/container/flat_hash_map.h>

#include <algorithm>

#include "client/cc/session.h"
#include "core/base/status.h"
#include "core/ir/substitute.h"
#include "core/tensor/batch.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"

namespace tensord::client {

std::vector<StateRef> Session::Rewritten(absl::Span<const StateRef> operands, size_t count,
                                         const Expressions& expressions) {
  if (graph_.size() > compact_at_) CompactGraph();
  std::vector<ValueRef> values;
  std::vector<Expr> sources;
  const auto failed = [&](absl::Status error) {
    return std::vector<StateRef>(count, Failed(std::move(error)));
  };
  for (const StateRef& operand : operands) {
    absl::StatusOr<ValueRef> value = Use(operand);
    if (!value.ok()) return failed(value.status());
    const Node* node = NodeOf(**value);
    if (node->dtype != operand->dtype) node = graph_.Cast(node, operand->dtype);
    sources.emplace_back(&graph_, node);
    values.push_back(*std::move(value));
  }
  const std::vector<Expr> results = expressions(graph_, sources);
  absl::flat_hash_map<const Node*, std::vector<ValueRef>> known;
  for (Value* value : ValuesBelow(values)) {
    if (value->leaf || value->target) known[NodeOf(*value)].push_back(value->shared_from_this());
  }
  std::vector<StateRef> states;
  for (const Expr& result : results) {
    if (!result.ok()) return failed(result.status());
    const auto same = std::find_if(values.begin(), values.end(), [&result](const ValueRef& value) {
      return value->node == result.node();
    });
    if (same != values.end()) {
      states.push_back(Alias(*same, result.dtype()));
      continue;
    }
    std::vector<ValueRef> parents;
    const Node* root = result.node();
    for (const Node* node : TopologicalOrder({&root, 1})) {
      if (auto found = known.find(node); found != known.end()) {
        parents.insert(parents.end(), found->second.begin(), found->second.end());
      }
    }
    const absl::StatusOr<std::vector<int64_t>> devices = DevicesFor(root, values);
    if (!devices.ok()) return failed(devices.status());
    states.push_back(NewState(NewExpression(result, parents)));
    if (!devices->empty()) states.back()->value->devices = *devices;
    states.back()->dtype = result.dtype();
  }
  return states;
}

StateRef Session::Independent(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  if (graph_.size() > compact_at_) CompactGraph();
  StateRef made = ApplyLocked({&state, 1}, 1, [](Graph&, absl::Span<const Expr> sources) {
    const Expr x = Cast(sources[0], Strong(sources[0].dtype()));
    // A node that no other computation makes.
    const Expr stand_in = StandIn(x);
    return std::vector<Expr>{WithGradient(x, {&x, 1}, stand_in, {&stand_in, 1})};
  })[0];
  if (made->error.ok()) made->value->target = made->value->differentiable = true;
  return made;
}

std::vector<StateRef> Session::Substituted(absl::Span<const StateRef> results,
                                           absl::Span<const StateRef> from,
                                           absl::Span<const StateRef> to) {
  std::vector<StateRef> operands(results.begin(), results.end());
  operands.insert(operands.end(), from.begin(), from.end());
  operands.insert(operands.end(), to.begin(), to.end());
  absl::MutexLock lock(&mu_);
  return Rewritten(operands, results.size(), [&](Graph& graph, absl::Span<const Expr> sources) {
    ReplacementMap map;
    for (size_t i = 0; i < from.size(); ++i) {
      const Expr& old = sources[results.size() + i];
      const Expr& other = sources[results.size() + from.size() + i];
      map[old.node()] = {graph.Cast(other.node(), old.dtype())};
    }
    std::vector<const Node*> roots;
    for (const Expr& root : sources.first(results.size())) roots.push_back(root.node());
    std::vector<Expr> replaced;
    for (const Node* node : Substitute(graph, roots, map)) replaced.emplace_back(&graph, node);
    return replaced;
  });
}

std::vector<StateRef> Session::Batched(absl::Span<const StateRef> results,
                                       absl::Span<const StateRef> stand_ins,
                                       absl::Span<const StateRef> batches, int64_t size) {
  std::vector<StateRef> operands(results.begin(), results.end());
  operands.insert(operands.end(), stand_ins.begin(), stand_ins.end());
  operands.insert(operands.end(), batches.begin(), batches.end());
  absl::MutexLock lock(&mu_);
  return Rewritten(operands, results.size(), [&](Graph&, absl::Span<const Expr> sources) {
    std::vector<std::pair<Expr, Expr>> examples;
    for (size_t i = 0; i < stand_ins.size(); ++i) {
      examples.emplace_back(sources[results.size() + i],
                            sources[results.size() + stand_ins.size() + i]);
    }
    return tensord::Batch(sources.first(results.size()), examples, size);
  });
}

}  // namespace tensord::client
