// What floats are made of: sign, exponent, mantissa, and the numbers next to them. By their bits,
// so exact.
//
//   FloatParts parts = Frexp(x);  // x = parts.mantissa * 2^parts.exponent
#pragma once

#include "core/tensor/build.h"
#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

// Whether the sign is set, that of -0 and NaN included. Integers: whether they are negative.
Expr SignBit(const Expr& x);

// The size of a with the sign of b, that of zero and NaN included.
Expr CopySign(const Expr& a, const Expr& b);
inline Expr CopySign(const Expr& a, Number b) { return CopySign(a, NumberBeside(a, b)); }
inline Expr CopySign(Number a, const Expr& b) { return CopySign(NumberBeside(b, a), b); }

struct FloatParts {
  Expr mantissa;  // of size in [0.5, 1); 0, infinities and NaN are their own
  Expr exponent;  // int32
};
FloatParts Frexp(const Expr& x);
// x * 2^exponent. With an integer exponent the power is exact.
Expr Ldexp(const Expr& x, const Expr& exponent);
inline Expr Ldexp(const Expr& x, Number exponent) { return Ldexp(x, NumberBeside(x, exponent)); }
inline Expr Ldexp(Number x, const Expr& exponent) {
  return Ldexp(NumberBeside(exponent, x), exponent);
}

// The number after a on the way to b, of the dtype of both.
Expr NextAfter(const Expr& a, const Expr& b);
inline Expr NextAfter(const Expr& a, Number b) { return NextAfter(a, NumberBeside(a, b)); }
inline Expr NextAfter(Number a, const Expr& b) { return NextAfter(NumberBeside(b, a), b); }

// a * b + c, rounded once: of floats below float64 by float64, rounded to odd before it is
// narrowed. Integers wrap. float64, which has nothing wider, is an error.
Expr Fma(const Expr& a, const Expr& b, const Expr& c);

// ---- for files that make functions of these

// Any float with its sign bit cleared; has no derivative.
Expr WithoutSign(const Expr& x);

// The others are for float32 and float64.
// 2^x for a whole x whose power is a normal number.
Expr PowerOfTwo(const Expr& x);
// Frexp of finite numbers other than 0; the exponent is an integer as wide as x.
FloatParts Decompose(const Expr& x);

}  // namespace tensord
