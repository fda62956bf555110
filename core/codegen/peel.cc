#include "core/codegen/peel.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>

namespace tensord {
namespace {

// Fresh copies of the ranges of the Folds that happen inside a range of `map`; outer Folds first,
// since what they reduce is renewed with them.
void RenewInnerFolds(LoopNest& nest, RangeNumbers& numbers, const FreeRanges& free,
                     absl::Span<const Node* const> roots, ReplacementMap& map) {
  const std::vector<const Node*> order = TopologicalOrder(roots);
  for (auto place = order.rbegin(); place != order.rend(); ++place) {
    const Node* node = *place;
    const std::vector<const Node*>& around = free.Of(node);
    if (node->op != Op::kFold || std::none_of(around.begin(), around.end(), [&](const Node* range) {
          return map.contains(range);
        })) {
      continue;
    }
    for (const Node* inner : node->src.subspan(1)) {
      if (map.contains(inner)) continue;
      const Node* fresh = numbers.Copy(nest.graph, inner);
      map[inner] = {fresh, {fresh}};
    }
  }
}

// `range` becomes two, one after the other.
void PeelInto(LoopNest& nest, RangeNumbers& numbers, const Node* range, const Replacement& main,
              const Replacement& rest) {
  Graph& graph = nest.graph;
  const FreeRanges free(nest.sink);
  const ReplacementMap main_map = {{range, main}};
  ReplacementMap rest_map = {{range, rest}};

  const auto place = std::find(nest.loops.begin(), nest.loops.end(), range);
  if (place != nest.loops.end()) {
    std::vector<const Node*> loops(nest.loops.begin(), place);
    loops.insert(loops.end(), main.ranges.begin(), main.ranges.end());
    loops.insert(loops.end(), rest.ranges.begin(), rest.ranges.end());
    for (auto inner = place + 1; inner != nest.loops.end(); ++inner) {
      const Node* fresh = numbers.Copy(graph, *inner);
      rest_map[*inner] = {fresh, {fresh}};
      loops.push_back(*inner);
      loops.push_back(fresh);
    }
    std::vector<const Node*> stores, split;
    for (const Node* store : nest.sink->src) {
      (free.Depends(store, range) ? split : stores).push_back(store);
    }
    RenewInnerFolds(nest, numbers, free, split, rest_map);
    const std::vector<const Node*> main_stores = Substitute(graph, split, main_map);
    const std::vector<const Node*> rest_stores = Substitute(graph, split, rest_map);
    stores.insert(stores.end(), main_stores.begin(), main_stores.end());
    stores.insert(stores.end(), rest_stores.begin(), rest_stores.end());
    nest.sink = graph.Make(Op::kSink, stores, {});
    // Copies that no store uses (loops that only unsplit stores have) disappear.
    const FreeRanges used(nest.sink);
    absl::flat_hash_set<const Node*> live;
    for (const Node* store : nest.sink->src) {
      live.insert(used.Of(store).begin(), used.Of(store).end());
    }
    std::erase_if(loops, [&](const Node* loop) { return !live.contains(loop); });
    nest.loops = std::move(loops);
    return;
  }

  std::vector<const Node*> folds;
  for (const Node* node : TopologicalOrder({nest.sink})) {
    if (node->op != Op::kFold) continue;
    const auto ranges = node->src.subspan(1);
    if (std::find(ranges.begin(), ranges.end(), range) == ranges.end()) continue;
    folds.push_back(node);
    for (const Node* other : ranges) {
      if (rest_map.contains(other)) continue;
      const Node* fresh = numbers.Copy(graph, other);
      rest_map[other] = {fresh, {fresh}};
    }
  }
  for (const Node* fold : folds) RenewInnerFolds(nest, numbers, free, {fold->src[0]}, rest_map);
  const std::vector<const Node*> main_folds = Substitute(graph, folds, main_map);
  const std::vector<const Node*> rest_folds = Substitute(graph, folds, rest_map);
  ReplacementMap combined;
  for (size_t i = 0; i < folds.size(); ++i) {
    combined[folds[i]] = {
        graph.Make(CombineOp(folds[i]->reduce_kind()), {main_folds[i], rest_folds[i]}), {}};
  }
  // Stores inside the loop happen in both parts; what they store is rebuilt with its part.
  std::vector<const Node*> stores, inside;
  for (const Node* store : nest.sink->src) {
    (free.Depends(store, range) ? inside : stores).push_back(store);
  }
  stores = Substitute(graph, stores, combined);
  for (const ReplacementMap* map : {&main_map, static_cast<const ReplacementMap*>(&rest_map)}) {
    const std::vector<const Node*> part = Substitute(graph, inside, *map);
    stores.insert(stores.end(), part.begin(), part.end());
  }
  nest.sink = graph.Make(Op::kSink, stores, {});
}

}  // namespace

Peeled Peel(LoopNest& nest, RangeNumbers& numbers, const Node* range, int64_t main_size) {
  Graph& graph = nest.graph;
  const Node* main = numbers.Make(graph, main_size, range->range_kind());
  const Node* rest = numbers.Make(graph, range->range_size() - main_size, range->range_kind());
  const Node* rest_value = graph.Make(Op::kAdd, {rest, graph.Index(main_size)});
  PeelInto(nest, numbers, range, {main, {main}}, {rest_value, {rest}});
  return {main, rest};
}

Peeled PeelBlocks(LoopNest& nest, RangeNumbers& numbers, const Node* range, const Node* inner) {
  Graph& graph = nest.graph;
  const int64_t size = inner->range_size();
  const Node* bound = range->src[0];
  const Node* step = graph.Index(size);
  const Node* blocks = graph.Make(Op::kFloorDiv, {bound, step});
  const Node* main = numbers.Make(graph, {range->range_size() / size, blocks}, range->range_kind());
  const Node* main_value = graph.Make(Op::kAdd, {graph.Make(Op::kMul, {main, step}), inner});
  const Node* over = graph.Make(Op::kFloorMod, {bound, step});
  if (over->IsConst() && over->Int() == 0) {
    ReplaceRange(nest, range, {main_value, {main, inner}});
    return {main, nullptr};
  }
  const Node* rest = numbers.Make(graph, {size - 1, over}, range->range_kind());
  const Node* rest_value = graph.Make(Op::kAdd, {rest, graph.Make(Op::kMul, {blocks, step})});
  PeelInto(nest, numbers, range, {main_value, {main, inner}}, {rest_value, {rest}});
  return {main, rest};
}

}  // namespace tensord
