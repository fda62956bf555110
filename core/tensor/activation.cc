#include "core/tensor/activation.h"

#include <cmath>
#include <numbers>

#include "core/tensor/build.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

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
Expr HardSigmoid(const Expr& x, double alpha, double beta) { return Clamp(x * alpha + beta, 0, 1); }
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

Expr Selu(const Expr& x, double alpha, double gamma) { return Elu(x, alpha) * gamma; }

Expr Softplus(const Expr& x, double beta) {
  return InFloat32(x, [beta](const Expr& f) {
    // max(y, 0) + log(1 + exp(-|y|)): at 0 the shared tie gives the slope of one half.
    const Expr y = f * beta;
    return (Maximum(y, 0) + Log1p(Exp(-Abs(y)))) * (1 / beta);
  });
}

Expr Mish(const Expr& x) { return x * Tanh(Softplus(x)); }
Expr Softsign(const Expr& x) { return x / (Abs(x) + 1); }

Expr Threshold(const Expr& x, double threshold, double value) {
  return Where(Le(x, threshold), value, x);
}

Expr HardShrink(const Expr& x, double lambda) { return Where(Le(Abs(x), lambda), 0, x); }

Expr SoftShrink(const Expr& x, double lambda) {
  if (x.ok() && !(lambda >= 0)) return Fail(x, "softshrink: lambda {} is negative", lambda);
  return Where(Gt(x, lambda), x - lambda, Where(Lt(x, -lambda), x + lambda, x * 0));
}

Expr TanhShrink(const Expr& x) { return x - Tanh(x); }

Expr Prelu(const Expr& x, const Expr& weight) {
  if (!x.ok()) return x;
  if (!weight.ok()) return weight;
  const int64_t count = NumElements(weight.shape());
  Dims dims(std::max<int64_t>(x.rank(), weight.rank()), 1);
  if (count != 1) {
    if (x.rank() < 2 || weight.rank() != 1 || count != x.shape()[1]) {
      return Fail(x, "prelu: weight {} for input {}; it needs one number, or one per channel",
                  ShapeText(weight.shape()), ShapeText(x.shape()));
    }
    dims[1] = count;
  }
  dims.resize(x.rank());
  return Where(Gt(x, 0), x, Reshape(weight, dims) * x);
}

Expr Rrelu(const Expr& x, const Expr& random, double lower, double upper) {
  return Where(Ge(x, 0), x, x * (random * (upper - lower) + lower));
}

Expr Glu(const Expr& x, int64_t axis) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("glu", x, axis);
  const int64_t size = x.shape()[*at];
  if (size % 2 != 0) return Fail(x, "glu: axis {} has size {}, which is odd", axis, size);
  return Shrink(x, *at, 0, size / 2) * Sigmoid(Shrink(x, *at, size / 2, size));
}

}  // namespace tensord
