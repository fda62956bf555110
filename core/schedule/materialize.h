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
  // For those that contain a reduction: how many elements each result is made from, at most.
  absl::flat_hash_map<const Node*, int64_t> reduces;
  absl::flat_hash_set<const Node*> contracts;  // those with a contraction
  // How deep the expression is that computes each from what it needs.
  absl::flat_hash_map<const Node*, int> depth;
};

// The product that a contraction sums: a product of two tensors that are each read many times, as
// in matmul and convolution, through movement and inner sums. Null for other reductions.
const Node* ContractionProduct(const Node* reduce);

Materialized ChooseMaterialized(absl::Span<const Node* const> outputs);

}  // namespace tensord
