// Movement applied to a product without hiding that it is one: the movement goes below Mul and
// Expand. Gradients use it so that those of convolutions are again one sum over a product of views.
// Internal to core/tensor.
#pragma once

#include "core/tensor/expr.h"

namespace tensord {

// The movement op over x, which has the value of Apply(op, {x}, ints); except that where padding
// meets an infinity the result may be NaN instead of zero.
Expr MoveBelow(Op op, absl::Span<const int64_t> ints, const Expr& x);

}  // namespace tensord
