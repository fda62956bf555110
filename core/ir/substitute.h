// Replacing nodes of a kernel graph by others: how loops are split, merged and peeled, and how
// expressions inside are exchanged.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/types/span.h>

#include <vector>

#include "core/ir/graph.h"

namespace tensord {

struct Replacement {
  const Node* value;
  // For a Range: the Ranges that take its place in Folds.
  std::vector<const Node*> ranges = {};
};
using ReplacementMap = absl::flat_hash_map<const Node*, Replacement>;

// `roots` with the mapped nodes replaced; what is above them is made anew, and simplifies.
std::vector<const Node*> Substitute(Graph& graph, absl::Span<const Node* const> roots,
                                    const ReplacementMap& map);

}  // namespace tensord
