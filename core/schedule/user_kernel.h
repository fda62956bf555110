// Kernels that users write, on their way to a Kernel: a unit of its own, whose body is there
// already. What it reads and writes lies row-major.
#pragma once

#include <functional>
#include <memory>

#include "core/rules/user_kernel.h"
#include "core/schedule/fuse.h"

namespace tensord {

// `results` are its outputs in order; `slot_of` tells the Param by which an input is read.
std::unique_ptr<LoweredUnit> LowerUserKernel(
    const Node* call, UserKernel kernel, absl::Span<const Node* const> results,
    const std::function<int64_t(const Node* input)>& slot_of);

}  // namespace tensord
