// The derivative of a structured loop. Not for front ends.
#pragma once

#include <optional>
#include <vector>

#include "core/tensor/expr.h"

namespace tensord {

struct LoopGradient {
  std::vector<std::optional<Expr>> initial;  // by state: with respect to its initial value
  std::vector<Expr> captured;                // as `captured` below
};

// `seeds`: the derivative with respect to the states after the loop, nothing where there is none.
// `captured`: values of loop::Captured that derivatives are wanted of. An error for loops that may
// run any number of times. A state that the body's derivative needs is kept for each iteration.
LoopGradient GradientOfLoop(Graph& graph, const Node* loop,
                            absl::Span<const std::optional<Expr>> seeds,
                            absl::Span<const Expr> captured);

}  // namespace tensord
