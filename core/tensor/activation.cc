#include "core/tensor/activation.h"

#include <cmath>
#include <numbers>

#include "core/tensor/build.h"
#include "core/tensor/elementwise.h"

namespace tensord {

// By Where and not Max, which would give half of the gradient at 0; Le is false for NaN.
Expr Relu(const Expr& x) { return Where(Le(x, 0), 0, x); }

Expr Relu6(const Expr& x) { return Clamp(Relu(x), std::nullopt, 6); }

Expr LeakyRelu(const Expr& x, double negative_slope) {
  return Where(Lt(x, 0), x * negative_slope, x);
}

Expr Sigmoid(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // Of -|x|, so that the exponential never overflows; at 0 both branches have one gradient.
    const Expr negative = Lt(f, 0);
    const Expr e = Exp(Where(negative, f, -f));
    return Where(negative, e, 1) / (e + 1);
  });
}

Expr LogSigmoid(const Expr& x) { return -Softplus(-x); }
Expr HardSigmoid(const Expr& x) { return Clamp(x * (1.0 / 6) + 0.5, 0, 1); }
Expr HardSwish(const Expr& x) { return x * Relu6(x + 3) * (1.0 / 6); }
Expr HardTanh(const Expr& x, double min, double max) { return Clamp(x, min, max); }
Expr Silu(const Expr& x) { return x * Sigmoid(x); }

Expr Gelu(const Expr& x, GeluForm form) {
  return InFloat32(x, [form](const Expr& f) {
    if (form == GeluForm::kErf) return f * 0.5 * (Erf(f * (1 / std::numbers::sqrt2)) + 1);
    // (1 + tanh(z)) / 2 is sigmoid(2 z).
    const double scale = 2 * std::sqrt(2 / std::numbers::pi);
    return f * Sigmoid((f + f * f * f * 0.044715) * scale);
  });
}

Expr QuickGelu(const Expr& x) { return x * Sigmoid(x * 1.702); }

Expr Elu(const Expr& x, double alpha) {
  // The branch not taken sees 0, where its gradient is finite.
  const Expr negative = Le(x, 0);
  return Where(negative, Expm1(Where(negative, x, 0)) * alpha, x);
}

Expr Celu(const Expr& x, double alpha) {
  const Expr negative = Le(x, 0);
  return Where(negative, Expm1(Where(negative, x, 0) / alpha) * alpha, x);
}

Expr Selu(const Expr& x) {
  return Elu(x, 1.6732632423543772848170429916717) * 1.0507009873554804934193349852946;
}

Expr Softplus(const Expr& x, double beta) {
  return InFloat32(x, [beta](const Expr& f) {
    // max(y, 0) + log(1 + exp(-|y|)): at 0 the shared tie gives the slope of one half.
    const Expr y = f * beta;
    return (Maximum(y, 0) + Log1p(Exp(-Abs(y)))) * (1 / beta);
  });
}

Expr Mish(const Expr& x) { return x * Tanh(Softplus(x)); }
Expr Softsign(const Expr& x) { return x / (Abs(x) + 1); }

}  // namespace tensord
