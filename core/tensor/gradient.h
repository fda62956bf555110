// Reverse-mode derivatives. The result is made of ordinary nodes, so forward and backward are
// compiled as one graph and second derivatives come from calling it again.
//
//   std::vector<Expr> g = Gradient(loss, {w, b});
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/tensor/expr.h"

namespace tensord {

// d loss / d target for each target, in its shape and dtype. Without a seed, which is the
// derivative of something further on with respect to `loss`, the loss must have one element. Zeros
// for a target that has no influence. An error is given in every result.
//
// At Detach, Bitcast, comparisons, rounding and casts to integers the derivative ends. Tied
// extremes share it equally. That of Gather costs the number of rows times that of indices.
//
// `given`: values on the way whose derivative is said, whatever arrives there; what is below goes
// on with that. It has the value's shape and dtype.
std::vector<Expr> Gradient(const Expr& loss, absl::Span<const Expr> targets,
                           const std::optional<Expr>& seed = std::nullopt,
                           absl::Span<const std::pair<Expr, Expr>> given = {});

// The nodes to which a derivative of the node goes on, each once or more. Not through Detach or
// what is no float; those of a loop are what it starts from and what its body reads.
std::vector<const Node*> DerivativesGoTo(const Node* node);

// The derivative of the sum of all outputs[k] * seeds[k] with respect to each target. It doesn't go
// on through a target to others below it: each is what it would be if the targets were independent.
// For loops and custom derivatives.
std::vector<Expr> Pullback(absl::Span<const Expr> outputs, absl::Span<const Expr> seeds,
                           absl::Span<const Expr> targets);

}  // namespace tensord
