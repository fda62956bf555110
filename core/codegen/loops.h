// Bringing the loops of a kernel into a form that is good to tile: split where an index divides,
// merged where two loops run over one stretch of memory, shared where reductions run alike.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <vector>

#include "core/ir/kernel.h"
#include "core/ir/substitute.h"

namespace tensord {

// A kernel while codegen works on it. The graph is codegen's own.
struct LoopNest {
  Graph graph;
  const Node* sink;
  std::vector<const Node*> loops;  // of the outputs, outermost first
};

// The loops of scans and of scattered updates, which are to run in order and whole.
absl::flat_hash_set<const Node*> OrderedLoops(const Node* sink);

// Makes Ranges with numbers that no other Range of the kernel has.
class RangeNumbers {
 public:
  explicit RangeNumbers(const Node* sink);
  const Node* Make(Graph& graph, int64_t size, RangeKind kind) {
    return graph.Range(next_++, size, kind);
  }
  // One that ends at a node; a number there makes it as above.
  const Node* Make(Graph& graph, Dim size, RangeKind kind) {
    if (size.node->IsConst()) return Make(graph, size.node->Int(), kind);
    return graph.Range(next_++, size, kind);
  }
  // Another Range that runs alike.
  const Node* Copy(Graph& graph, const Node* range) {
    return graph.Make(Op::kRange, range->src, {next_++, range->ints[1], range->ints[2]});
  }

 private:
  int64_t next_ = 0;
};

// Puts other ranges in the place of one.
void ReplaceRange(LoopNest& nest, const Node* range, const Replacement& by);

void NormalizeLoops(LoopNest& nest);

// Free ranges of each node: those it depends on and does not reduce.
class FreeRanges {
 public:
  explicit FreeRanges(const Node* sink);
  const absl::flat_hash_map<const Node*, std::vector<const Node*>>& all() const { return free_; }
  const std::vector<const Node*>& Of(const Node* node) const { return free_.at(node); }
  bool Depends(const Node* node, const Node* range) const;

 private:
  absl::flat_hash_map<const Node*, std::vector<const Node*>> free_;  // sorted by id
};

}  // namespace tensord
