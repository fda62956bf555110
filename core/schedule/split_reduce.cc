#include "core/schedule/split_reduce.h"

#include <algorithm>

#include "core/ir/substitute.h"
#include "core/schedule/fuse.h"
#include "core/schedule/materialize.h"

namespace tensord {
namespace {

// What the factors of one part may take: half of a second-level cache.
constexpr int64_t kPartBytes = 512 << 10;
// Less work than this per part is not worth the partial result.
constexpr int64_t kMinWorkPerResult = 256;

// Elements of a factor, without what is repeated for the product.
int64_t BaseElements(const Node* factor) {
  while (In(factor->op, MovementOps()) && factor->op != Op::kPad) factor = factor->src[0];
  return NumElements(factor->shape);
}

// In how many parts to split which axis; one part means not at all.
struct Choice {
  int64_t axis = 0;
  int64_t parts = 1;
};

Choice Choose(const Node* reduce) {
  Choice choice;
  const Node* product = ContractionProduct(reduce);
  if (product == nullptr || product != reduce->src[0] || product->has_dims()) return choice;
  const int64_t item = ItemSize(product->dtype);
  int64_t bytes = 0;
  for (const Node* factor : product->src) {
    // Both factors must be streamed for it to pay; a small one stays in the cache anyhow.
    const int64_t own = BaseElements(factor) * item;
    if (own < kPartBytes) return choice;
    bytes += own;
  }
  // The outermost axis is what is furthest apart in memory.
  const int64_t axis = reduce->reduce_axes()[0];
  const int64_t size = product->shape[axis];
  const int64_t results = NumElements(reduce->shape);
  const int64_t reduced = NumElements(product->shape) / results;
  int64_t parts = 1;
  for (int64_t candidate = 2; candidate <= size; ++candidate) {
    if (size % candidate != 0 || reduced / candidate < kMinWorkPerResult) continue;
    // Writing and reading a partial result must stay cheap beside reading the factors again.
    if (results * item * candidate * 2 > bytes) break;
    parts = candidate;
    if (bytes / candidate <= kPartBytes) break;
  }
  return {axis, parts};
}

}  // namespace

std::vector<const Node*> SplitBigContractions(Graph& graph, absl::Span<const Node* const> roots) {
  ReplacementMap map;
  for (const Node* node : TopologicalOrder(roots)) {
    if (node->op != Op::kReduce) continue;
    const Choice choice = Choose(node);
    if (choice.parts == 1) continue;
    // [.., size, ..] becomes [.., parts, size / parts, ..].
    const Node* product = node->src[0];
    std::vector<int64_t> split(product->shape.begin(), product->shape.end());
    split[choice.axis] /= choice.parts;
    split.insert(split.begin() + choice.axis, choice.parts);
    std::vector<int64_t> axes = {static_cast<int64_t>(ReduceKind::kAdd)};
    for (int64_t axis : node->reduce_axes()) axes.push_back(axis + 1);
    const Node* reshaped = graph.Make({.op = Op::kReshape, .src = {product}, .ints = split});
    const Node* partial = graph.Make({.op = Op::kReduce, .src = {reshaped}, .ints = axes});
    const Node* stored = graph.Make(Op::kContiguous, {partial});
    std::vector<int64_t> whole(node->shape.begin(), node->shape.end());
    const Node* total =
        graph.Make(Op::kReduce, {stored}, {static_cast<int64_t>(ReduceKind::kAdd), choice.axis});
    map[node] = {graph.Make({.op = Op::kReshape, .src = {total}, .ints = whole})};
  }
  if (map.empty()) return {roots.begin(), roots.end()};
  return Substitute(graph, roots, map);
}

}  // namespace tensord
