// The first half of fusion: which tensors are to be materialised.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <vector>

#include "core/ir/graph.h"

namespace tensord {

struct Materialized {
  std::vector<const Node*> tensors;  // sources before users
  absl::flat_hash_set<const Node*> set;
  // For each: the materialised tensors and Params that it is computed from.
  absl::flat_hash_map<const Node*, std::vector<const Node*>> needs;
  // Those that contain a reduction, and those whose reduction is a contraction.
  absl::flat_hash_set<const Node*> reduces, contracts;
};

Materialized ChooseMaterialized(absl::Span<const Node* const> outputs);

}  // namespace tensord
