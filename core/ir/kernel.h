// Kernel: what one launch computes, as a kernel-level graph; made by the scheduler, read by
// codegen.
//
// The graph is a Sink over Stores. A Store happens once for every value of the loop Ranges that its
// index and value depend on; a Fold happens once for every value of the Ranges that it depends on
// and does not reduce itself. So what is computed how often follows from the Ranges alone, and
// `loops` adds only their order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace tensord {

struct Kernel {
  std::string name;  // for people: "fold_512x32x20x20_800"
  Graph graph;
  const Node* sink = nullptr;
  std::vector<const Node*> loops;      // Ranges of the outputs, outermost first
  std::vector<const Node*> params;     // params[i]->slot() == i, ints = {slot, number of elements}
  std::vector<const Node*> variables;  // by first use
};

// Nodes and attributes, but not the name, as bytes: equal exactly for kernels with equal code.
std::string StructuralKey(const Kernel& kernel);

}  // namespace tensord
