// Replacing Ranges in a kernel graph: how loops are split, merged, shared and peeled.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/types/span.h>

#include <vector>

#include "core/ir/graph.h"

namespace tensord {

// What a Range becomes: its value in terms of other Ranges, which take its place in Folds.
struct RangeReplacement {
  const Node* value;
  std::vector<const Node*> ranges;
};
using RangeMap = absl::flat_hash_map<const Node*, RangeReplacement>;

// The nodes with the Ranges replaced; index arithmetic simplifies on the way.
std::vector<const Node*> Substitute(Graph& graph, absl::Span<const Node* const> roots,
                                    const RangeMap& map);

// Ranges with numbers that no other Range of the kernel has.
class RangeNumbers {
 public:
  explicit RangeNumbers(const Node* sink);
  const Node* Make(Graph& graph, int64_t size, RangeKind kind) {
    return graph.Range(next_++, size, kind);
  }

 private:
  int64_t next_ = 0;
};

}  // namespace tensord
