// Data for a program's inputs: numbers that keep a training step finite, the same in every run.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "core/ir/node.h"
#include "core/runtime/runtime.h"

namespace tensord {

// Row-major bytes of one input: float32 in [0, 0.1), integers with bytes below 10, so that they
// are labels, pixels and random keys alike.
std::string InputBytes(const Node* input);

absl::StatusOr<std::vector<BufferRef>> MakeInputs(const Program& program, Device& device);

}  // namespace tensord
