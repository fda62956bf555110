#include "core/tensor/float_parts.h"

#include <limits>
#include <vector>

#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/transcendental.h"

namespace tensord {
namespace {

// The signed integer as wide as a float.
DType BitsDType(DType dtype) {
  switch (BitSize(dtype)) {
    case 8:
      return DType::kInt8;
    case 16:
      return DType::kInt16;
    case 32:
      return DType::kInt32;
    default:
      return DType::kInt64;
  }
}

struct Layout {
  DType bits;
  int64_t mantissa, mask, bias;  // bits of the mantissa, ones as wide as the exponent
};
Layout LayoutOf(DType dtype) {
  return dtype == DType::kFloat64 ? Layout{DType::kInt64, 52, 0x7FF, 1023}
                                  : Layout{DType::kInt32, 23, 0xFF, 127};
}

// With bits: a weak type becomes what it is in memory.
Expr WithBits(const Expr& x) { return Cast(x, Strong(x.dtype())); }

}  // namespace

Expr SignBit(const Expr& number) {
  if (!number.ok() || !IsFloat(number.dtype())) return Lt(number, 0);
  const Expr x = WithBits(number);
  return Lt(Bitcast(x, BitsDType(x.dtype())), 0);
}

Expr WithoutSign(const Expr& number) {
  if (!number.ok()) return number;
  const Expr x = WithBits(number);
  const DType bits = BitsDType(x.dtype());
  return Bitcast(BitwiseAnd(Bitcast(x, bits), IntMax(bits)), x.dtype());
}

Expr CopySign(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  Expr x = Cast(a, LeastUpperFloat(a.dtype())), y = Cast(b, LeastUpperFloat(b.dtype()));
  if (std::optional<Expr> error = Unify("copysign", {&x, &y})) return *error;
  return NegateWhere(SignBit(y), Abs(x));
}

Expr PowerOfTwo(const Expr& number) {
  if (!number.ok()) return number;
  const Expr x = WithBits(number);
  const Layout layout = LayoutOf(x.dtype());
  const Expr exponent = Cast(x, layout.bits) + layout.bias;
  return Bitcast(ShiftLeft(exponent, layout.mantissa), x.dtype());
}

FloatParts Decompose(const Expr& number) {
  if (!number.ok()) return {number, number};
  const Expr x = WithBits(number);
  const bool wide = x.dtype() == DType::kFloat64;
  const Layout layout = LayoutOf(x.dtype());
  // Subnormal numbers are brought among the normal ones first.
  const double least =
      wide ? std::numeric_limits<double>::min() : double{std::numeric_limits<float>::min()};
  const Expr tiny = Lt(Abs(x), least);
  const int64_t lift = layout.mantissa + 1;
  const Expr normal = Where(tiny, x * static_cast<double>(int64_t{1} << lift), x);
  const Expr bits = Bitcast(normal, layout.bits);
  const Expr exponent = BitwiseAnd(ShiftRight(bits, layout.mantissa), layout.mask);
  const Expr of_half = BitwiseOr(BitwiseAnd(bits, ~(layout.mask << layout.mantissa)),
                                 (layout.bias - 1) << layout.mantissa);
  const Expr shift = Where(tiny, FullLike(bits, layout.bias - 1 + lift), layout.bias - 1);
  return {Bitcast(of_half, x.dtype()), exponent - shift};
}

FloatParts Frexp(const Expr& x) {
  if (!x.ok()) return {x, x};
  const DType dtype = LeastUpperFloat(x.dtype());
  const Expr f = Cast(x, ComputeDType(dtype));
  const Expr usual = LogicalAnd(IsFinite(f), Ne(f, 0));
  const FloatParts parts = Decompose(Where(usual, f, 1));
  const Expr exponent = Cast(Where(usual, parts.exponent, 0), DType::kInt32);
  // As a product its derivative is that of scaling.
  const Expr scale = Ldexp(FullLike(f, 1), -exponent);
  return {Cast(WithSlope(Where(usual, parts.mantissa, f), f, scale), dtype), exponent};
}

Expr Ldexp(const Expr& x, const Expr& exponent) {
  if (!x.ok()) return x;
  if (!exponent.ok()) return exponent;
  if (IsFloat(exponent.dtype())) return x * Exp2(exponent);
  const DType dtype = LeastUpperFloat(x.dtype());
  Expr f = Cast(x, ComputeDType(dtype));
  const bool wide = f.dtype() == DType::kFloat64;
  // In steps that are numbers themselves; what is beyond all of them is 0 or infinite anyway.
  const int64_t step = wide ? 1000 : 120;
  Expr rest = Clamp(Cast(exponent, DType::kInt32), -3 * step, 3 * step);
  if (std::optional<Expr> error = UnifyShapes("ldexp", {&f, &rest})) return *error;
  for (int i = 0; i < 3; ++i) {
    const Expr now = Clamp(rest, -step, step);
    f = f * PowerOfTwo(Cast(now, f.dtype()));
    rest = rest - now;
  }
  return Cast(f, dtype);
}

Expr NextAfter(const Expr& a, const Expr& b) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Unify("nextafter", {&x, &y})) return *error;
  if (!IsFloat(x.dtype())) {
    return Fail(a, "nextafter: {} has no fractions; cast to a float first", Name(x.dtype()));
  }
  x = WithBits(x);
  y = WithBits(y);
  const DType bits_dtype = BitsDType(x.dtype());
  const Expr bits = Bitcast(x, bits_dtype);
  // Bits grow with the size of a number, whatever its sign.
  const Expr away = Eq(Gt(y, x), Gt(x, 0));
  const Expr next = Bitcast(bits + Where(away, FullLike(bits, 1), -1), x.dtype());
  const Expr least =
      Bitcast(Where(SignBit(y), FullLike(bits, IntMin(bits_dtype) + 1), 1), x.dtype());
  const Expr moved = Where(Eq(x, 0), least, next);
  const Expr value = Where(LogicalOr(IsNan(x), IsNan(y)), std::numeric_limits<double>::quiet_NaN(),
                           Where(Eq(x, y), y, moved));
  // A step away from x, where there is one.
  return WithSlope(value, x, Cast(Ne(x, y), x.dtype()));
}

Expr Fma(const Expr& a, const Expr& b, const Expr& c) {
  Expr x = a, y = b, z = c;
  if (std::optional<Expr> error = Unify("fma", {&x, &y, &z})) return *error;
  const DType dtype = Strong(x.dtype());
  if (!IsFloat(dtype)) return x * y + z;
  if (dtype == DType::kFloat64) {
    return Fail(x,
                "fma: float64 has nothing wider to be rounded from once; a * b + c rounds twice");
  }
  x = Cast(x, dtype), y = Cast(y, dtype), z = Cast(z, dtype);
  // The product is exact in float64. `rest` is what its sum with z lost, exactly (Knuth's TwoSum;
  // NaN where the sum is infinite).
  const Expr product = Cast(x, DType::kFloat64) * Cast(y, DType::kFloat64);
  const Expr term = Cast(z, DType::kFloat64);
  const Expr sum = product + term, added = sum - product;
  const Expr rest = (product - (sum - added)) + (term - added);
  // Rounded to odd, an inexact sum lies on no border between numbers of the narrower dtype, so that
  // narrowing rounds as if it were the only rounding.
  const Expr bits = Bitcast(sum, DType::kInt64);
  const Expr inexact = LogicalAnd(Gt(Abs(rest), 0), Eq(BitwiseAnd(bits, 1), 0));
  const Expr away = Eq(Gt(rest, 0), Gt(sum, 0));
  const Expr odd = Where(inexact, bits + (Cast(away, DType::kInt64) * 2 - 1), bits);
  return WithGradient(Cast(Bitcast(odd, DType::kFloat64), dtype), {x, y, z}, [=](const Expr& g) {
    return std::vector<Expr>{g * y, g * x, g};
  });
}

}  // namespace tensord
