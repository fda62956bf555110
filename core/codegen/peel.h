// Peeling: a loop whose size is no multiple of a tile becomes a main loop and a rest.
#pragma once

#include "core/codegen/loops.h"

namespace tensord {

struct Peeled {
  const Node* main;
  const Node* rest;
};

// Splits `range`, a loop of the nest or a range of Folds, at `main_size` (0 < main_size < size).
// The rest has loops of its own inside, so that every Range still belongs to one place of the nest.
Peeled Peel(LoopNest& nest, RangeNumbers& numbers, const Node* range, int64_t main_size);

// The same for a loop that ends at a number which is known in a run only: `main` makes whole blocks
// of `inner->range_size()`, with the range `inner` inside. The rest may have no turn.
// There is no rest if the block divides every such number.
Peeled PeelBlocks(LoopNest& nest, RangeNumbers& numbers, const Node* range, const Node* inner);

}  // namespace tensord
