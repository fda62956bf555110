// Tiling: which loops become vector lanes, register tiles and workgroups. Hand-made heuristics that
// look at strides and sizes only:
//
//   contraction (sum of a * b): lanes along an output axis on which one factor and the store are
//     contiguous and the other factor does not depend; a register tile over axes of the other
//     factor, so that each load feeds many multiply-adds. Failing that, lanes along the reduction.
//   anything else: lanes along the loop with the most contiguous accesses; reductions that don't
//     depend on it get lanes of their own.
//
// Sizes that are no multiple of a tile are peeled.
#pragma once

#include "core/codegen/loops.h"
#include "core/device/target.h"

namespace tensord {

// Splits the loops of `nest` into Ranges of kinds loop, reduce, unroll, vector and grid.
void Tile(LoopNest& nest, const Target& target);

}  // namespace tensord
