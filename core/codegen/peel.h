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

}  // namespace tensord
