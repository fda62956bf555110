// Codegen: one kernel graph becomes one linear program for a target, in four steps: dtypes that the
// target lacks are written in others (decompose.h), loops are normalized (loops.h), tiled (tile.h)
// and put in order (linearize.h). What a renderer makes of the result is its own matter. The result
// is verified (rules/spec.h), always, and each access is proven to stay in its buffer
// (rules/bounds.h) or guarded (guard.h): a fault in here must not
// become a kernel that reads other memory than its own.
//
// Thread-safe: works on a graph of its own, so kernels are lowered in parallel.
#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "core/device/target.h"
#include "core/ir/kernel.h"
#include "core/ir/linear.h"

namespace tensord {

struct LinearKernel {
  Graph graph;  // owns the program's nodes
  LinearProgram program;
};

// A kernel that tiling cuts in more pieces than can be put in order (see linearize.h) is lowered
// untiled; its name tells. Any other error of tiling is a fault in here: builds with assertions
// return it, others warn and lower untiled.
absl::StatusOr<std::unique_ptr<LinearKernel>> LowerKernel(const Kernel& kernel,
                                                          const Target& target);

}  // namespace tensord
