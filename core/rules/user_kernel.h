// Reading a kernel that a user wrote (core/ir/user_kernel.h). It may come from anywhere, so all
// that the compiler takes for granted of its own kernels is shown here or the kernel is refused:
//
// - the body is a legal kernel graph of Ranges of kinds loop and reduce, Loads of inputs,
//   elementwise ops, Folds over reduce ranges, and Stores to outputs;
// - no Load leaves its buffer: its index and its gate prove it (bounds.h);
// - each output has one Store, whose index takes every place of the output exactly once, so nothing
//   races and nothing is left out;
// - the loops of the Stores nest: those of one are those of the next or fewer;
// - it is small enough for passes that recurse, and its index arithmetic does not overflow.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "core/ir/graph.h"

namespace tensord {

struct UserKernel {
  Graph graph;
  const Node* sink;                // Stores, in the order of the outputs
  std::vector<const Node*> loops;  // Ranges of the outputs, outermost first
};

// InvalidArgument names the kernel, the rule and the node that breaks it.
absl::StatusOr<UserKernel> ReadUserKernel(const Node* call);

// Whether the index of each of these Loads, which may have a gate, is in bounds of its Param.
// Otherwise the first that isn't known to be.
const Node* FirstUnproven(absl::Span<const Node* const> loads);

}  // namespace tensord
