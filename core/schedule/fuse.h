// Fusion: which tensors of a graph live in memory, and which of them one kernel computes.
//
// First every tensor that must or should be materialised is found: program outputs, explicit
// Contiguous, each reduction (moved down past the elementwise ops that only it feeds), operands of
// contractions, and what is dear to compute and read more than once. Everything else is computed
// where it is used. Each materialised tensor starts as a kernel of its own; then kernels are merged
// as long as a merge is legal: nothing is computed twice, and no cycle arises. So softmax, layer
// norm and mean with variance end as one kernel with several reductions in sequence, and an
// optimiser step as one kernel with several outputs.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <memory>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/schedule/lower.h"

namespace tensord {

// A kernel of the fused graph: tensors it computes, in an order in which each needs only earlier
// ones and tensors of other kernels.
struct Unit {
  std::vector<const Node*> tensors;
};

struct Fusion {
  std::vector<Unit> units;  // in an order of execution
  // Tensors that live in memory: those of the units that another unit or the program needs. Params
  // are not in it.
  absl::flat_hash_set<const Node*> stored;
};

Fusion Fuse(absl::Span<const Node* const> outputs);

// One unit as kernel-level nodes, before it is put into a Kernel.
struct LoweredUnit {
  struct Output {
    const Node* tensor;
    Index index;
    const Node* value;
    // Only what LowerUpdate makes has these: where the value counts, and the loops of the updates,
    // which run in order.
    const Node* gate = nullptr;
    std::vector<const Node*> ordered = {};
  };
  std::string name = {};  // of a kernel that a user wrote; empty for others
  Graph graph;
  std::vector<Output> outputs;     // one per tensor of the unit
  std::vector<const Node*> loops;  // outermost first
  std::vector<Access> accesses;
};

// Null if the tensors can't share a kernel without computing something twice.
std::unique_ptr<LoweredUnit> LowerUnit(const Unit& unit, const Lowering::StorageOf& storage_of);

// A Scatter is a unit of its own and becomes two kernels: LowerUnit makes the one that stores what
// it starts from, this the one that takes in the values, update by update.
std::unique_ptr<LoweredUnit> LowerUpdate(const Node* scatter,
                                         const Lowering::StorageOf& storage_of);

}  // namespace tensord
