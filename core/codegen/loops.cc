#include "core/codegen/loops.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/ir/affine.h"

namespace tensord {
namespace {

bool ById(const Node* a, const Node* b) { return a->id < b->id; }

void Apply(LoopNest& nest, const ReplacementMap& map) {
  nest.sink = Substitute(nest.graph, {nest.sink}, map)[0];
  std::vector<const Node*> loops;
  for (const Node* loop : nest.loops) {
    auto found = map.find(loop);
    if (found == map.end()) {
      loops.push_back(loop);
      continue;
    }
    for (const Node* range : found->second.ranges) {
      if (std::find(loops.begin(), loops.end(), range) == loops.end()) loops.push_back(range);
    }
  }
  nest.loops = std::move(loops);
}

// Loops that a store inside a reduction's loop needs. The reduction needs them whole as well, but
// may depend on a part of a split one only.
absl::flat_hash_set<const Node*> LoopsOfInnerStores(const LoopNest& nest) {
  absl::flat_hash_set<const Node*> loops;
  const FreeRanges free(nest.sink);
  for (const Node* store : nest.sink->src) {
    const std::vector<const Node*>& ranges = free.Of(store);
    if (std::any_of(ranges.begin(), ranges.end(),
                    [](const Node* range) { return range->range_kind() == RangeKind::kReduce; })) {
      loops.insert(ranges.begin(), ranges.end());
    }
  }
  return loops;
}

// r // c and r % c, c dividing the size of r, become ranges of their own.
bool SplitOne(LoopNest& nest, RangeNumbers& numbers) {
  absl::flat_hash_set<const Node*> whole = LoopsOfInnerStores(nest);
  whole.merge(OrderedLoops(nest.sink));
  const Node* range = nullptr;
  int64_t divisor = 0;
  for (const Node* node : TopologicalOrder({nest.sink})) {
    if (node->op != Op::kFloorDiv && node->op != Op::kFloorMod) continue;
    if (node->dtype != DType::kIndex || node->src[0]->op != Op::kRange ||
        node->src[0]->is_bounded() || !node->src[1]->IsConst()) {
      continue;
    }
    const int64_t c = node->src[1]->Int();
    if (c <= 1 || node->src[0]->range_size() % c != 0 || whole.contains(node->src[0])) continue;
    if (range == nullptr || (node->src[0] == range && c > divisor)) {
      range = node->src[0];
      divisor = c;
    }
  }
  if (range == nullptr) return false;
  Graph& graph = nest.graph;
  const Node* high = numbers.Make(graph, range->range_size() / divisor, range->range_kind());
  const Node* low = numbers.Make(graph, divisor, range->range_kind());
  const Node* value =
      graph.Make(Op::kAdd, {graph.Make(Op::kMul, {high, graph.Index(divisor)}), low});
  Apply(nest, {{range, {value, {high, low}}}});
  return true;
}

// Index expressions as whole sums: those that something other than a sum or a multiple uses.
std::vector<Affine> WholeIndices(const Node* sink) {
  std::vector<Affine> result;
  absl::flat_hash_set<const Node*> seen;
  for (const Node* node : TopologicalOrder({sink})) {
    const bool is_sum =
        node->dtype == DType::kIndex && (node->op == Op::kAdd || node->op == Op::kMul);
    if (is_sum || node->op == Op::kFold) continue;
    for (const Node* src : node->src) {
      if (src->dtype == DType::kIndex && seen.insert(src).second) result.push_back(ToAffine(src));
    }
  }
  return result;
}

bool CanMerge(const std::vector<Affine>& indices, const Node* outer, const Node* inner) {
  return std::all_of(indices.begin(), indices.end(), [&](const Affine& index) {
    return index.CoefficientOf(outer) == index.CoefficientOf(inner) * inner->range_size();
  });
}

// Merges two neighbours of `order` that run over one stretch of every tensor.
bool MergeOne(LoopNest& nest, RangeNumbers& numbers, absl::Span<const Node* const> order,
              const std::vector<Affine>& indices) {
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const Node *outer = order[i], *inner = order[i + 1];
    if (outer->is_bounded() || inner->is_bounded() || !CanMerge(indices, outer, inner)) continue;
    Graph& graph = nest.graph;
    const Node* size = graph.Index(inner->range_size());
    const Node* merged =
        numbers.Make(graph, outer->range_size() * inner->range_size(), outer->range_kind());
    Apply(nest, {{outer, {graph.Make(Op::kFloorDiv, {merged, size}), {merged}}},
                 {inner, {graph.Make(Op::kFloorMod, {merged, size}), {}}}});
    return true;
  }
  return false;
}

bool MergeAny(LoopNest& nest, RangeNumbers& numbers) {
  const std::vector<Affine> indices = WholeIndices(nest.sink);
  const absl::flat_hash_set<const Node*> ordered = OrderedLoops(nest.sink);
  std::vector<const Node*> loops;
  for (const Node* loop : nest.loops) {
    if (!ordered.contains(loop)) loops.push_back(loop);
  }
  if (MergeOne(nest, numbers, loops, indices)) return true;
  for (const Node* node : TopologicalOrder({nest.sink})) {
    if (node->op != Op::kFold) continue;
    // A range that several Folds share merges only if they all have both; that they have equal
    // lists is enough to know.
    if (MergeOne(nest, numbers, node->src.subspan(1), indices)) return true;
  }
  return false;
}

// Reductions of equal sizes over the same outer ranges run in one loop, unless one needs the other.
void ShareLoops(LoopNest& nest) {
  const FreeRanges free(nest.sink);
  absl::flat_hash_map<const Node*, int> level;
  using Key = std::tuple<int, std::vector<int64_t>, std::vector<uint32_t>>;
  std::map<Key, const Node*> first;
  ReplacementMap map;
  for (const Node* node : TopologicalOrder({nest.sink})) {
    int below = 0;
    for (const Node* src : node->src) below = std::max(below, level[src]);
    if (node->op != Op::kFold) {
      level[node] = below;
      continue;
    }
    level[node] = below + 1;
    Key key{below, {}, {}};
    for (const Node* range : node->src.subspan(1)) {
      std::get<1>(key).push_back(range->range_size());
      std::get<1>(key).push_back(range->is_bounded() ? range->src[0]->id : -1);
    }
    for (const Node* range : free.Of(node)) std::get<2>(key).push_back(range->id);
    auto [place, is_new] = first.emplace(key, node);
    if (is_new) continue;
    for (size_t i = 1; i < node->src.size(); ++i) {
      const Node* shared = place->second->src[i];
      if (shared != node->src[i]) map[node->src[i]] = {shared, {shared}};
    }
  }
  if (!map.empty()) Apply(nest, map);
}

}  // namespace

absl::flat_hash_set<const Node*> OrderedLoops(const Node* sink) {
  absl::flat_hash_set<const Node*> loops;
  for (const Node* node : TopologicalOrder({sink})) {
    if (node->op == Op::kRunning) loops.insert(node->src[1]);
    if (node->op == Op::kModify) loops.insert(node->src.begin() + 4, node->src.end());
  }
  return loops;
}

RangeNumbers::RangeNumbers(const Node* sink) {
  for (const Node* node : TopologicalOrder({sink})) {
    if (node->op == Op::kRange) next_ = std::max(next_, node->range_id() + 1);
  }
}

FreeRanges::FreeRanges(const Node* sink) {
  for (const Node* node : TopologicalOrder({sink})) {
    std::vector<const Node*>& free = free_[node];
    if (node->op == Op::kRange) {
      free = {node};
      continue;
    }
    const size_t operands = node->op == Op::kFold ? 1 : node->src.size();
    for (size_t i = 0; i < operands; ++i) {
      const std::vector<const Node*>& more = free_.at(node->src[i]);
      std::vector<const Node*> both;
      std::set_union(free.begin(), free.end(), more.begin(), more.end(), std::back_inserter(both),
                     ById);
      free = std::move(both);
    }
    if (node->op == Op::kFold) {
      std::erase_if(free, [&](const Node* range) {
        return std::find(node->src.begin() + 1, node->src.end(), range) != node->src.end();
      });
    }
  }
}

bool FreeRanges::Depends(const Node* node, const Node* range) const {
  const std::vector<const Node*>& free = free_.at(node);
  return std::binary_search(free.begin(), free.end(), range, ById);
}

void ReplaceRange(LoopNest& nest, const Node* range, const Replacement& by) {
  Apply(nest, {{range, by}});
}

void NormalizeLoops(LoopNest& nest) {
  RangeNumbers numbers(nest.sink);
  while (SplitOne(nest, numbers)) {
  }
  ShareLoops(nest);
  while (MergeAny(nest, numbers)) {
  }
}

}  // namespace tensord
