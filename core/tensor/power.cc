// Pow: products for whole constants, else exp and log in float64, where the rounding of their
// product, which exp enlarges, does not show in float32.
#include <cmath>
#include <limits>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// x^n by squaring, n > 0.
Expr WholePower(const Expr& x, uint64_t n) {
  std::optional<Expr> result;
  for (Expr base = x;; base = base * base) {
    if (n % 2 == 1) result = result ? *result * base : base;
    n /= 2;
    if (n == 0) return *result;
  }
}

// x^y for x > 0, in float64.
Expr Magnitude(const Expr& x, const Expr& y) { return Exp(Log(x) * y); }

// The power of a float by a constant. Its own derivative is right where the power is smooth.
Expr ConstantPower(const Expr& x, double c) {
  const bool whole = c == std::trunc(c);
  if (c == 0) return FullLike(x, 1);
  if (whole && std::abs(c) <= 64) {
    const Expr power = WholePower(x, static_cast<uint64_t>(std::abs(c)));
    return c < 0 ? 1 / power : power;
  }
  if (c == 0.5) return Where(Eq(x, -kInf), kInf, Sqrt(x));
  const Expr size = Magnitude(Abs(x), FullLike(x, c));
  if (!whole) return Where(LogicalAnd(Lt(x, 0), Gt(x, -kInf)), kNan, size);
  return std::fmod(c, 2) == 0 ? size : NegateWhere(SignBit(x), size);
}

Expr PowerOf(const Expr& x, double c) {
  if (c == 0.5 || (c == std::trunc(c) && c >= 0 && c <= 64)) return ConstantPower(x, c);
  // c x^(c - 1), and the derivative of that; further ones come from the formula itself.
  const Expr second = ConstantPower(x, c - 2) * (c - 1);
  const Expr first = WithSlope(ConstantPower(x, c - 1), x, second) * c;
  return WithSlope(ConstantPower(x, c), x, first);
}

Expr PowerValue(const Expr& x, const Expr& y) {
  const Expr zero = Eq(x, 0);
  const Expr size = Magnitude(Where(zero, 1, Abs(x)), y);
  const Expr whole = Eq(y, Trunc(y));
  const Expr odd = LogicalAnd(whole, Ne(y * 0.5, Trunc(y * 0.5)));
  const Expr no_root = LogicalAnd(LogicalNot(whole), Gt(x, -kInf));
  const Expr of_negative = Where(no_root, kNan, NegateWhere(odd, size));
  const Expr nonzero = Where(Lt(x, 0), of_negative, size);
  const Expr at_zero = Where(Eq(y, 0), 1, Where(Gt(y, 0), FullLike(y, 0), kInf));
  const Expr of_zero = Where(IsNan(y), kNan, NegateWhere(LogicalAnd(odd, SignBit(x)), at_zero));
  // Powers that are 1 although the product of exponent and logarithm is NaN.
  const Expr one =
      LogicalOr(LogicalAnd(Eq(y, 0), LogicalNot(IsFinite(x))),
                LogicalOr(LogicalAnd(Eq(x, 1), IsNan(y)), LogicalAnd(Eq(Abs(x), 1), IsInf(y))));
  return Where(one, 1, Where(zero, of_zero, nonzero));
}

// d x^y / dx = y x^(y - 1), 0 for y = 0 whatever x is.
Expr SlopeByBase(const Expr& x, const Expr& y) {
  return Where(Eq(y, 0), 0, y * PowerValue(x, y - 1));
}
// d x^y / dy = x^y log x, which at x = 0 is a limit.
Expr SlopeByExponent(const Expr& x, const Expr& y) {
  const Expr zero = Eq(x, 0);
  const Expr at_zero = Where(Lt(y, 0), -kInf, FullLike(y, 0));
  return Where(zero, at_zero, PowerValue(x, y) * Log(Where(zero, 1, x)));
}

Expr PowerOf(const Expr& x, const Expr& y) {
  return WithSlopes(PowerValue(x, y), x, SlopeByBase(x, y), y, SlopeByExponent(x, y));
}

Expr IntegerPower(const Expr& x, const Expr& y) {
  Expr result = FullLike(x, 1);
  Expr base = x;
  const int bits = BitSize(x.dtype()) - (IsUnsigned(x.dtype()) ? 0 : 1);
  for (int i = 0; i < bits; ++i) {
    if (i > 0) base = base * base;
    const Expr bit = BitwiseAnd(ShiftRight(y, i), 1);
    result = Where(AsBool(bit), result * base, result);
  }
  if (IsUnsigned(x.dtype())) return result;
  // The inverse of an integer is one only for 1 and -1.
  const Expr odd = AsBool(BitwiseAnd(y, 1));
  const Expr inverse = Where(Eq(x, 1), 1, Where(Eq(x, -1), Where(odd, x, 1), FullLike(x, 0)));
  return Where(Lt(y, 0), inverse, result);
}

}  // namespace

Expr Pow(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  const DType dtype = Promote(a.dtype(), b.dtype());
  if (!IsFloat(dtype)) {
    const DType whole = dtype == DType::kBool ? DType::kInt32 : dtype;
    if (b.node()->IsConst()) {
      if (b.node()->Int() < 0 && !IsUnsigned(dtype)) {
        return Fail(a, "pow: integers to the power {}; cast to a float first", b.node()->Int());
      }
      const uint64_t n = static_cast<uint64_t>(b.node()->Int());
      return n == 0 ? Cast(FullLike(a, 1), whole) : WholePower(Cast(a, whole), n);
    }
    Expr x = Cast(a, whole), y = Cast(b, whole);
    if (std::optional<Expr> error = Unify("pow", {&x, &y})) return *error;
    return IntegerPower(x, y);
  }
  if (b.node()->IsConst() && std::isfinite(b.node()->Float())) {
    const double c = b.node()->Float();
    // Products keep to float32, and so does the root.
    const bool simple = c == 0.5 || (c == std::trunc(c) && std::abs(c) <= 64);
    const DType compute = simple ? ComputeDType(dtype) : DType::kFloat64;
    return Cast(PowerOf(Cast(a, compute), c), dtype);
  }
  Expr x = Cast(a, DType::kFloat64), y = Cast(b, DType::kFloat64);
  if (x.node()->IsConst() && x.node()->Float() > 0) {
    const double base = x.node()->Float();
    return Cast(base == 1 ? FullLike(y, 1) : Exp(y * std::log(base)), dtype);
  }
  if (std::optional<Expr> error = Unify("pow", {&x, &y})) return *error;
  return Cast(PowerOf(x, y), dtype);
}

Expr FloatPower(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  return Pow(Cast(a, DType::kFloat64), Cast(b, DType::kFloat64));
}

}  // namespace tensord
