// Linearization: a tiled kernel graph becomes an ordered list of instructions.
//
// Loops nest as the Ranges that a node depends on say: each node stands in the innermost loop that
// it needs, so what does not change inside a loop is computed outside. Unroll Ranges replicate
// nodes, the vector Range of a node becomes its lanes, Folds become accumulators around loops.
#pragma once

#include <absl/status/statusor.h>

#include "core/codegen/loops.h"
#include "core/device/target.h"
#include "core/ir/linear.h"

namespace tensord {

// Fills body and grid; the nodes are made in the nest's graph. ResourceExhausted if the kernel is
// tiled in too many pieces: more than 36 unrolled and vector ranges. InvalidArgument if it is tiled
// in a way that can't be put in order, which is a fault of tiling: with lanes along two loops at
// once, or too many of them.
absl::Status Linearize(LoopNest& nest, const Target& target, LinearProgram& program);

}  // namespace tensord
