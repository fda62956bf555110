// Norms of matrices, and functions of square ones.
#include <algorithm>
#include <utility>

#include "core/tensor/iterate.h"
#include "core/tensor/linalg.h"
#include "core/tensor/product.h"

namespace tensord {
namespace {

Expr ToCompute(const Expr& x) { return Cast(x, ComputeDType(x.dtype())); }

}  // namespace

std::optional<MatrixNormKind> MatrixNormFromName(std::string_view name) {
  using enum MatrixNormKind;
  static constexpr std::pair<std::string_view, MatrixNormKind> kNames[] = {
      {"fro", kFrobenius}, {"nuc", kNuclear}, {"inf", kInf}, {"-inf", kMinusInf},
      {"1", kOne},         {"-1", kMinusOne}, {"2", kTwo},   {"-2", kMinusTwo},
  };
  for (const auto& [each, kind] : kNames) {
    if (each == name) return kind;
  }
  return std::nullopt;
}

Expr MatrixNorm(const Expr& a, MatrixNormKind kind) {
  using enum MatrixNormKind;
  if (auto error = CheckMatrix("matrix_norm", a)) return *error;
  const DType dtype = LeastUpperFloat(a.dtype());
  const Expr x = ToCompute(a);
  const auto largest = [](const Expr& sizes) {  // 0 if there are none
    return sizes.ok() && sizes.shape().back() == 0 ? Sum(sizes, -1) : Max(sizes, -1);
  };
  const auto result = [&]() -> Expr {
    switch (kind) {
      case kFrobenius: {
        const Expr sum = Sum(x * x, {-2, -1});
        // The root of zero has the derivative zero here.
        return Where(Eq(sum, 0), 0, Sqrt(Where(Eq(sum, 0), 1, sum)));
      }
      case kNuclear:
        return Sum(SvdVals(x), -1);
      case kInf:
        return largest(Sum(Abs(x), -1));
      case kMinusInf:
        return Min(Sum(Abs(x), -1), -1);
      case kOne:
        return largest(Sum(Abs(x), -2));
      case kMinusOne:
        return Min(Sum(Abs(x), -2), -1);
      case kTwo:
        return largest(SvdVals(x));
      case kMinusTwo:
        return Min(SvdVals(x), -1);
    }
    return x;
  };
  return Cast(result(), dtype);
}

Expr MatrixNorm(const Expr& x, MatrixNormKind kind, const Axes& axes, Keep keep) {
  if (!x.ok()) return x;
  Dims at;
  constexpr int64_t kLast[] = {-2, -1};
  for (int64_t axis : axes.all() ? absl::Span<const int64_t>(kLast) : axes.list()) {
    const std::optional<int64_t> each = ResolveAxis(axis, x.rank());
    if (!each) return AxisError("matrix_norm", x, axis);
    at.push_back(*each);
  }
  if (at.size() != 2 || at[0] == at[1] || (axes.all() && x.rank() != 2)) {
    return Fail(x, "matrix_norm: {} axes of {}; name the two of the matrices", at.size(),
                ShapeText(x.shape()));
  }
  const Expr norm = MatrixNorm(MoveAxes(x, at, {-2, -1}), kind);
  if (keep == kDropDims) return norm;
  return Unsqueeze(Unsqueeze(norm, std::min(at[0], at[1])), std::max(at[0], at[1]));
}

Expr Cond(const Expr& a, MatrixNormKind kind) {
  if (auto error = CheckMatrix("cond", a)) return *error;
  if (Rows(a) == 0 || Columns(a) == 0) {
    return Fail(a, "cond: {} has no elements", ShapeText(a.shape()));
  }
  if (kind == MatrixNormKind::kTwo || kind == MatrixNormKind::kMinusTwo) {
    const Expr s = SvdVals(a);
    const Expr largest = Max(s, -1), least = Min(s, -1);
    return kind == MatrixNormKind::kTwo ? largest / least : least / largest;
  }
  return MatrixNorm(a, kind) * MatrixNorm(Inverse(a), kind);
}

Expr Trace(const Expr& a) {
  if (auto error = CheckMatrix("trace", a)) return *error;
  return Sum(Diagonal(a), -1);
}

Expr MatrixPower(const Expr& a, int64_t n) {
  if (auto error = CheckSquare("matrix_power", a)) return *error;
  if (n < 0) return MatrixPower(Inverse(a), -n);
  std::optional<Expr> result;
  Expr square = a;
  for (uint64_t rest = static_cast<uint64_t>(n); rest > 0; rest /= 2) {
    if (rest % 2 == 1) result = result ? MatMul(*result, square) : square;
    if (rest > 1) square = MatMul(square, square);
  }
  return result ? *result : EyeLike(a, Rows(a), Rows(a));
}

Expr MatrixExp(const Expr& a) {
  if (auto error = CheckSquare("matrix_exp", a)) return *error;
  const int64_t n = Rows(a);
  const DType dtype = LeastUpperFloat(a.dtype());
  if (n == 0) return Cast(a, dtype);
  const Expr x = ToCompute(a);
  const bool wide = x.dtype() == DType::kFloat64;
  // exp(x) = exp(x / 2^s)^(2^s) with |x| / 2^s at most 1. Larger norms than 2^16 overflow anyway,
  // or have lost all digits.
  constexpr int kSquarings = 16;
  const Expr norm = Detach(Max(Sum(Abs(x), -2), -1, kKeepDims));
  const Expr fraction = Ceil(Log2(Maximum(norm, 1)));
  const Expr halvings = Unsqueeze(Minimum(fraction, kSquarings), -1);  // [.., 1, 1]
  const Expr small = Contiguous(x * Exp2(-halvings));
  // Taylor's series, by Horner.
  const Expr identity = EyeLike(x, n, n);
  Expr y = identity;
  for (int degree = wide ? 18 : 11; degree >= 1; --degree) {
    y = identity + MatMul(small, y) * (1.0 / degree);
  }
  for (int i = 0; i < kSquarings; ++i) y = Where(Gt(halvings, i), MatMul(y, y), y);
  return Cast(y, dtype);
}

Expr NewtonSchulz(const Expr& a, int64_t steps, absl::Span<const double> polynomial, double eps) {
  if (auto error = CheckMatrix("newton_schulz", a)) return *error;
  if (polynomial.empty()) return Fail(a, "newton_schulz: a polynomial without coefficients");
  const bool tall = Rows(a) > Columns(a);
  Expr x = a / (Sqrt(Sum(a * a, {-2, -1}, kKeepDims)) + eps);
  if (tall) x = Transposed(x);
  for (int64_t i = 0; i < steps; ++i) {
    const Expr square = MatMul(x, Transposed(x));
    Expr power = x, sum = x * polynomial[0];
    for (double coefficient : polynomial.subspan(1)) {
      power = MatMul(square, power);
      sum = sum + power * coefficient;
    }
    x = sum;
  }
  return tall ? Transposed(x) : x;
}

}  // namespace tensord
