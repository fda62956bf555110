// Runs a linear program by definition, one scalar after the other: the oracle for what scheduling
// and codegen made, without a renderer or a device. Every access is checked against its buffer.
#pragma once

#include <absl/status/status.h>

#include <map>
#include <string>
#include <vector>

#include "core/ir/eval.h"
#include "core/ir/linear.h"

namespace tensord {

using Elements = std::vector<Scalar>;

// `buffers[slot]` is read and written. InvalidArgument: an access outside of its buffer.
absl::Status Interpret(const LinearProgram& program, const std::vector<Elements*>& buffers,
                       const std::map<std::string, int64_t, std::less<>>& variables);

}  // namespace tensord
