// Elementwise operations; exponentials, trigonometry and such come from transcendental.h. Operands
// broadcast and are promoted to one dtype; a plain number is weak (number.h). Integers become
// float32 where the function needs a float.
//
//   Expr y = Where(Lt(x, 0), 0, Sqrt(x)) * 2.5;
#pragma once

#include <optional>

#include "core/tensor/build.h"
#include "core/tensor/expr.h"
#include "core/tensor/float_parts.h"  // IWYU pragma: export
#include "core/tensor/number.h"
#include "core/tensor/transcendental.h"  // IWYU pragma: export

namespace tensord {

Expr Cast(const Expr& x, DType dtype);
// The bits as another dtype (bitcast.cc). Where the sizes differ, the last axis shrinks or grows by
// their quotient: uint8 [..., 8] is uint32 [..., 2], the lowest bits first.
Expr Bitcast(const Expr& x, DType dtype);
Expr Detach(const Expr& x);      // the value without gradient
Expr Contiguous(const Expr& x);  // materialised in memory at this point

// Arithmetic.
Expr Neg(const Expr& x);
Expr Abs(const Expr& x);
Expr Sign(const Expr& x);  // -1, 0, 1; 0 for NaN
Expr Square(const Expr& x);
Expr Reciprocal(const Expr& x);
Expr Sqrt(const Expr& x);
Expr Rsqrt(const Expr& x);
Expr Deg2Rad(const Expr& x);
Expr Rad2Deg(const Expr& x);

// Rounding; integers stay as they are. The gradient is zero.
Expr Trunc(const Expr& x);
Expr Floor(const Expr& x);
Expr Ceil(const Expr& x);
Expr Round(const Expr& x);  // ties to even
Expr Round(const Expr& x, int64_t decimals);
Expr Frac(const Expr& x);  // what Trunc drops; its gradient is 1

// Tests, with bool results.
Expr IsNan(const Expr& x);
struct InfinitySigns {
  bool positive = true, negative = true;
};
Expr IsInf(const Expr& x, const InfinitySigns& signs = {});
Expr IsFinite(const Expr& x);

Expr LogicalNot(const Expr& x);  // whether it is zero, for any dtype
Expr BitwiseNot(const Expr& x);  // logical not for bool
Expr AsBool(const Expr& x);      // whether it is not zero

// Bounds are inclusive and pass the gradient; min above max gives max.
Expr Clamp(const Expr& x, std::optional<Number> min, std::optional<Number> max);
// The same with bounds that broadcast; a NaN among them gives NaN.
Expr ClampTo(const Expr& x, const std::optional<Expr>& min, const std::optional<Expr>& max);

// What stands for NaN, and for infinities (the largest finite numbers if not given).
struct NanReplacements {
  double nan = 0;
  std::optional<double> positive_infinity = std::nullopt;
  std::optional<double> negative_infinity = std::nullopt;
};
Expr NanToNum(const Expr& x, const NanReplacements& replacements = {});

// Each binary operation also takes a number on either side: for arithmetic by its bits, where one
// of the operands is picked by its value (build.h).
#define TD_BINARY(Name)                                                             \
  Expr Name(const Expr& a, const Expr& b);                                          \
  inline Expr Name(const Expr& a, Number b) { return Name(a, NumberBeside(a, b)); } \
  inline Expr Name(Number a, const Expr& b) { return Name(NumberBeside(b, a), b); }
#define TD_PICKING(Name)                                                           \
  Expr Name(const Expr& a, const Expr& b);                                         \
  inline Expr Name(const Expr& a, Number b) { return Name(a, ValueBeside(a, b)); } \
  inline Expr Name(Number a, const Expr& b) { return Name(ValueBeside(b, a), b); }

TD_BINARY(Add)
TD_BINARY(Sub)
TD_BINARY(Mul)
TD_BINARY(Div)          // true division: integers give float32
TD_BINARY(FloorDivide)  // rounds to minus infinity, as Python's //; integers by zero give 0
TD_BINARY(TruncDivide)  // rounds to zero, as C's /
TD_BINARY(Mod)          // sign of the divisor, as Python's %
TD_BINARY(Fmod)         // sign of the dividend, as C's %
TD_BINARY(Pow)          // integers to the power of a negative constant are an error
TD_BINARY(FloatPower)   // Pow in float64
TD_PICKING(Maximum)     // a NaN operand gives NaN; the gradient of a tie is one half each
TD_PICKING(Minimum)
TD_PICKING(FMax)  // a NaN operand gives the other one
TD_PICKING(FMin)
TD_BINARY(Hypot)       // sqrt(a^2 + b^2), without overflow on the way
TD_BINARY(LogAddExp)   // log(e^a + e^b)
TD_BINARY(LogAddExp2)  // log2(2^a + 2^b)
TD_PICKING(Heaviside)  // 0 for a < 0, 1 for a > 0, b for a = 0
// Of integers, never negative; with 0 the other one, and 0.
TD_BINARY(Gcd)
TD_BINARY(Lcm)

// Comparisons, with bool results; all but Ne are false where a NaN is involved.
#define TD_COMPARISON(Name)                                                             \
  Expr Name(const Expr& a, const Expr& b);                                              \
  inline Expr Name(const Expr& a, Number b) { return Name(a, NumberComparedTo(a, b)); } \
  inline Expr Name(Number a, const Expr& b) { return Name(NumberComparedTo(b, a), b); }

TD_COMPARISON(Eq)
TD_COMPARISON(Ne)
TD_COMPARISON(Lt)
TD_COMPARISON(Le)
TD_COMPARISON(Gt)
TD_COMPARISON(Ge)
#undef TD_COMPARISON

// Bits of integers and bool.
TD_BINARY(BitwiseAnd)
TD_BINARY(BitwiseOr)
TD_BINARY(BitwiseXor)
TD_BINARY(ShiftLeft)
TD_BINARY(ShiftRight)  // arithmetic for signed integers

// Of any dtype, zero being false; bool results.
TD_BINARY(LogicalAnd)
TD_BINARY(LogicalOr)
TD_BINARY(LogicalXor)
#undef TD_BINARY
#undef TD_PICKING

// |a - b| <= absolute + relative * |b|; infinities are close to themselves.
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-8;
  bool equal_nan = false;
};
Expr IsClose(const Expr& a, const Expr& b, const Tolerance& tolerance = {});

// The gradient goes to the branch taken; the other may be inf or NaN. A number must be one of the
// other branch's dtype.
Expr Where(const Expr& condition, const Expr& yes, const Expr& no);
inline Expr Where(const Expr& condition, const Expr& yes, Number no) {
  return Where(condition, yes, ValueBeside(yes, no));
}
inline Expr Where(const Expr& condition, Number yes, const Expr& no) {
  return Where(condition, ValueBeside(no, yes), no);
}
Expr MaskedFill(const Expr& x, const Expr& mask, const Expr& value);  // of the dtype of x
inline Expr MaskedFill(const Expr& x, const Expr& mask, Number value) {
  return MaskedFill(x, mask, ValueBeside(x, value));
}
// x + scale * a * b, and x + scale * a / b.
Expr AddCMul(const Expr& x, const Expr& a, const Expr& b, Number scale = 1);
Expr AddCDiv(const Expr& x, const Expr& a, const Expr& b, Number scale = 1);
// Exactly `from` at weight 0 and `to` at weight 1. Always a float.
Expr Lerp(const Expr& from, const Expr& to, const Expr& weight);
inline Expr Lerp(const Expr& from, const Expr& to, Number weight) {
  return Lerp(from, to, ValueBeside(from, weight));
}

#define TD_OPERATOR(symbol, Name)                                                  \
  inline Expr operator symbol(const Expr& a, const Expr& b) { return Name(a, b); } \
  inline Expr operator symbol(const Expr& a, Number b) { return Name(a, b); }      \
  inline Expr operator symbol(Number a, const Expr& b) { return Name(a, b); }
TD_OPERATOR(+, Add)
TD_OPERATOR(-, Sub)
TD_OPERATOR(*, Mul)
TD_OPERATOR(/, Div)
#undef TD_OPERATOR
inline Expr operator-(const Expr& x) { return Neg(x); }

}  // namespace tensord
