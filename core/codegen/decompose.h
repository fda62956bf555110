// Decomposition: dtypes that a target lacks are written in others that it has, before a kernel is
// tiled.
//
// A float below float32 is its bits, an unsigned integer of its size, in memory and from op to op.
// Ops that look at bits only (Neg, Where, loads and stores) stay there; the others compute in
// float32 and round, which for + - * / and sqrt is the correctly rounded result, since float32 has
// more than twice the digits of each, plus two. A Fold is the exception: it accumulates in float32
// and rounds once, at its end.
//
// A float64 is its bits in a uint64 (double_bits.h), a 64-bit integer two words of 32 bits, in
// memory too (long_integers.h). Of float64, only what moves and converts is done so: no arithmetic.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "core/codegen/loops.h"
#include "core/device/target.h"

namespace tensord {

// Unimplemented, with the name of the op, if the kernel needs of a lacking dtype what has no
// decomposition. `params` are the kernel's, and become those of the new one.
absl::Status Decompose(LoopNest& nest, std::vector<const Node*>& params, const Target& target);

}  // namespace tensord
