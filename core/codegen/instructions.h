// The instructions of a kernel, each placed in the innermost loop that it needs.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <variant>
#include <vector>

#include "core/ir/graph.h"

namespace tensord {

// One loop with what happens in it, in order; the root is the kernel itself.
struct Region {
  const Node* range = nullptr;
  Region* parent = nullptr;
  int depth = 0;
  std::vector<std::variant<const Node*, Region*>> items;
};

class Instructions {
 public:
  explicit Instructions(Graph& graph) : graph_(graph), root_(AddLoop(nullptr, nullptr, nullptr)) {}

  Region* root() const { return root_; }
  // The loop of a kernel-level range, which counts by `linear`; where it stands is yet to be said.
  Region* AddLoop(const Node* range, const Node* linear, Region* parent);
  Region* LoopOf(const Node* range) const;  // null if there is none yet
  static Region* Deeper(Region* a, Region* b) { return a->depth >= b->depth ? a : b; }

  // Makes a node and puts it where its sources are known.
  const Node* Emit(const NodeSpec& spec, Region* at_least = nullptr);
  const Node* EmitOp(Op op, std::vector<const Node*> src, std::vector<int64_t> ints = {});
  const Node* Widen(const Node* value, int lanes);

  // All of them in order, loops with their Ends.
  void AppendTo(std::vector<const Node*>& body) { Flatten(root_, body); }

 private:
  Region* RegionOf(const Node* linear) const;
  void Place(const Node* node, Region* region);
  void Flatten(const Region* region, std::vector<const Node*>& body);

  Graph& graph_;
  std::vector<std::unique_ptr<Region>> regions_;
  absl::flat_hash_map<const Node*, Region*> region_of_range_, region_of_;
  Region* root_;
};

}  // namespace tensord
