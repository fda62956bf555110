// Layout: the order in which the axes of a materialised tensor lie in memory. Contractions want one
// axis of one factor, and the same axis of the result, to be the innermost, so that vectors of it
// can be loaded and stored; each votes with its work. Inputs can't change: a contraction that reads
// an input over and over gets a packed copy of it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <optional>
#include <vector>

#include "core/ir/graph.h"
#include "core/schedule/fuse.h"

namespace tensord {

// What one contraction wants.
struct LayoutVote {
  const Node* tensor;
  int64_t axis;   // to be innermost
  double weight;  // multiplications
};
std::vector<LayoutVote> VotesOf(const LoweredUnit& unit);

// A product in a contraction that is zero where one factor would be read outside of its tensor, as
// in the gradient of a convolution. With zeros around the tensor the guard is not needed.
struct GuardedProduct {
  const Node* tensor;           // that is read outside
  std::vector<int64_t> margin;  // zeros that it needs, per axis, on both sides
};
std::optional<GuardedProduct> FindGuardedProduct(LoweredUnit& unit);

// Removes the guards of products that read a tensor outside where it has zeros around it now.
void DropGuards(LoweredUnit& unit,
                const absl::flat_hash_map<const Node*, std::vector<int64_t>>& margins);

// `axis` innermost and the other axes in their order.
Layout WithInnermost(Shape shape, int64_t axis);
// `axis` cut into blocks, each of which holds all of the other axes: what a row of register tiles
// reads lies in one piece, wherever the tensor is big.
Layout Blocked(Shape shape, int64_t axis, int64_t block);

}  // namespace tensord
