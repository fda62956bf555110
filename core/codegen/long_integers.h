// 64-bit integers as two words of 32 bits, the low one first: in memory (a buffer of n becomes one
// of 2n uint32) and in every op. Internal to codegen.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "core/codegen/loops.h"

namespace tensord {

// Rewrites every int64 and uint64 of the kernel. Unimplemented, with the name of the op, for
// variables, sums and products over ranges, and conversions with float64 in registers.
absl::Status SplitLongIntegers(LoopNest& nest, std::vector<const Node*>& params);

}  // namespace tensord
