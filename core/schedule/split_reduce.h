// Splitting big contractions: a sum over so much that its factors don't fit a core's cache becomes
// partial sums over parts of one axis, and a sum of those. Each part's factors are then read from
// the cache by all tiles of the result, and parts run in parallel: the weight gradient of a
// convolution, which sums over the batch, lives from it.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace tensord {

std::vector<const Node*> SplitBigContractions(Graph& graph, absl::Span<const Node* const> roots);

}  // namespace tensord
