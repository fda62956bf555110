#include "core/schedule/user_kernel.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>

#include "core/ir/substitute.h"
#include "core/ir/user_kernel.h"

namespace tensord {
namespace {

// Each Fold gets ranges of its own, as codegen wants them: it finds out by itself which may run in
// one loop. One that is reduced inside of another is not touched by the other's.
std::vector<const Node*> SeparateFolds(Graph& graph, std::vector<const Node*> roots) {
  int64_t next = 0;
  std::vector<const Node*> folds;
  for (const Node* node : TopologicalOrder(roots)) {
    if (node->op == Op::kRange) next = std::max(next, node->range_id() + 1);
    if (node->op == Op::kFold) folds.push_back(node);
  }
  ReplacementMap done;
  for (const Node* fold : folds) {  // inner ones first
    ReplacementMap fresh;
    for (const Node* range : fold->src.subspan(1)) {
      const Node* own = graph.Range(next++, range->range_size(), RangeKind::kReduce);
      fresh[range] = {own, {own}};
    }
    std::vector<const Node*> src = {Substitute(graph, {fold->src[0]}, done)[0]};
    src.insert(src.end(), fold->src.begin() + 1, fold->src.end());
    const Node* separate = graph.WithSources(fold, src);
    done[fold] = {Substitute(graph, {separate}, fresh)[0]};
  }
  return Substitute(graph, roots, done);
}

}  // namespace

std::unique_ptr<LoweredUnit> LowerUserKernel(
    const Node* call, UserKernel kernel, absl::Span<const Node* const> results,
    const std::function<int64_t(const Node* input)>& slot_of) {
  auto unit = std::make_unique<LoweredUnit>();
  unit->name = "user_" + std::string(user_kernel::NameOf(call));
  unit->graph = std::move(kernel.graph);
  Graph& graph = unit->graph;

  ReplacementMap map;
  absl::flat_hash_map<int64_t, const Node*> input_of;  // by slot
  std::vector<const Node*> roots;
  for (const Node* store : kernel.sink->src) {
    roots.insert(roots.end(), store->src.begin() + 1, store->src.end());
  }
  for (const Node* node : TopologicalOrder(roots)) {
    if (node->op == Op::kRange && node->range_size() == 1) map[node] = {graph.Index(0)};
    if (node->op != Op::kParam) continue;
    const Node* input = call->src[static_cast<size_t>(node->slot()) - results.size()];
    const int64_t slot = slot_of(input);
    map[node] = {graph.Param(slot, node->dtype, node->ints.subspan(1))};
    input_of[slot] = input;
  }
  roots = SeparateFolds(graph, Substitute(graph, roots, map));

  for (size_t k = 0; k < results.size(); ++k) {
    unit->outputs.push_back({results[k], {roots[2 * k]}, roots[2 * k + 1]});
  }
  for (const Node* loop : kernel.loops) {
    if (loop->range_size() > 1) unit->loops.push_back(loop);
  }
  for (const Node* node : TopologicalOrder(roots)) {
    if (node->op != Op::kLoad) continue;
    unit->accesses.push_back({input_of.at(node->src[0]->slot()), {node->src[1]}, node});
  }
  return unit;
}

}  // namespace tensord
