// Activation functions: elementwise, for floats; integers become float32.
#pragma once

#include "core/tensor/expr.h"

namespace tensord {

Expr Relu(const Expr& x);  // NaN stays; the gradient at 0 is 0
Expr Relu6(const Expr& x);
Expr LeakyRelu(const Expr& x, double negative_slope = 0.01);
Expr Sigmoid(const Expr& x);
Expr LogSigmoid(const Expr& x);
Expr HardSigmoid(const Expr& x);
Expr HardSwish(const Expr& x);
Expr HardTanh(const Expr& x, double min = -1, double max = 1);
Expr Silu(const Expr& x);
enum class GeluForm { kErf, kTanh };
Expr Gelu(const Expr& x, GeluForm form = GeluForm::kErf);
Expr QuickGelu(const Expr& x);  // x * sigmoid(1.702 x)
Expr Elu(const Expr& x, double alpha = 1);
Expr Celu(const Expr& x, double alpha = 1);
Expr Selu(const Expr& x);
Expr Softplus(const Expr& x, double beta = 1);
Expr Mish(const Expr& x);
Expr Softsign(const Expr& x);

}  // namespace tensord
