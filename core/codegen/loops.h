// Bringing the loops of a kernel into a form that is good to tile: split where an index divides,
// merged where two loops run over one stretch of memory, shared where reductions run alike.
#pragma once

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

// Makes Ranges with numbers that no other Range of the kernel has.
class RangeNumbers {
 public:
  explicit RangeNumbers(const Node* sink);
  const Node* Make(Graph& graph, int64_t size, RangeKind kind) {
    return graph.Range(next_++, size, kind);
  }

 private:
  int64_t next_ = 0;
};

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
