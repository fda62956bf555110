// Which loads need a gate because they may stand before a loop that has no turn.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <vector>

#include "core/codegen/loops.h"

namespace tensord {

// What a loop needs and what doesn't change in it stands before it. But where the loop may have no
// turn, a tensor that is read in it may have no elements.
class TurnGuards {
 public:
  TurnGuards(const Node* sink, const FreeRanges& free);

  // Numbers that must be positive where a load is done, and which no loop around it says to be.
  std::vector<const Node*> Of(const Node* load) const;

 private:
  const FreeRanges& free_;
  // Numbers that may be zero and are not where a node is used.
  absl::flat_hash_map<const Node*, std::vector<const Node*>> guards_;
};

}  // namespace tensord
