// Activation functions: elementwise unless an axis is given, for floats; integers become float32.
#pragma once

#include <optional>

#include "core/tensor/expr.h"

namespace tensord {

Expr Relu(const Expr& x);  // NaN stays; the gradient at 0 is 0
Expr Relu6(const Expr& x);
Expr LeakyRelu(const Expr& x, double negative_slope = 0.01);
Expr Sigmoid(const Expr& x);
Expr LogSigmoid(const Expr& x);
Expr HardSigmoid(const Expr& x, double alpha = 1.0 / 6, double beta = 0.5);
Expr HardSwish(const Expr& x);
Expr HardTanh(const Expr& x, double min = -1, double max = 1);
Expr Silu(const Expr& x);
enum class GeluForm { kErf, kTanh };
Expr Gelu(const Expr& x, GeluForm form = GeluForm::kErf);
Expr QuickGelu(const Expr& x);  // x * sigmoid(1.702 x)
Expr Elu(const Expr& x, double alpha = 1);
Expr Celu(const Expr& x, double alpha = 1);
Expr Selu(const Expr& x, double alpha = 1.6732632423543772848170429916717,
          double gamma = 1.0507009873554804934193349852946);
Expr Softplus(const Expr& x, double beta = 1);
Expr Mish(const Expr& x);
Expr Softsign(const Expr& x);

Expr Threshold(const Expr& x, double threshold, double value);  // x where it is above, else value
Expr HardShrink(const Expr& x, double lambda = 0.5);            // 0 within lambda of 0
Expr SoftShrink(const Expr& x, double lambda = 0.5);            // lambda closer to 0
Expr TanhShrink(const Expr& x);                                 // x - tanh(x)

// `weight` has one element, or one per channel, axis 1.
Expr Prelu(const Expr& x, const Expr& weight);
// `random` uniform in [0, 1): negative elements get a slope between lower and upper.
Expr Rrelu(const Expr& x, const Expr& random, double lower, double upper);
// The first half of the axis times a gate made of the second.
Expr Glu(const Expr& x, int64_t axis = -1);

}  // namespace tensord
