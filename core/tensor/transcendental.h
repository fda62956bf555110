// Elementary functions, of floats; integers become float32. Bounds on their errors stand in
// docs/numerics.md. float16 and bfloat16 are computed in float32.
//
//   Expr angle = Atan2(y, x);
#pragma once

#include <span>
#include <string_view>

#include "core/tensor/build.h"
#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

// Exponentials.
Expr Exp(const Expr& x);
Expr Exp2(const Expr& x);  // exact for whole numbers
Expr Expm1(const Expr& x);
Expr Log(const Expr& x);
Expr Log2(const Expr& x);  // exact for powers of two
Expr Log10(const Expr& x);
Expr Log1p(const Expr& x);

// Trigonometric and hyperbolic functions.
Expr Sin(const Expr& x);
Expr Cos(const Expr& x);
Expr Tan(const Expr& x);
Expr Asin(const Expr& x);
Expr Acos(const Expr& x);
Expr Atan(const Expr& x);
Expr Sinh(const Expr& x);
Expr Cosh(const Expr& x);
Expr Tanh(const Expr& x);
Expr Asinh(const Expr& x);
Expr Acosh(const Expr& x);
Expr Atanh(const Expr& x);

// The angle of the point (x, y), in [-pi, pi]; the signs of zeros count.
Expr Atan2(const Expr& y, const Expr& x);
inline Expr Atan2(const Expr& y, Number x) { return Atan2(y, NumberBeside(y, x)); }
inline Expr Atan2(Number y, const Expr& x) { return Atan2(NumberBeside(x, y), x); }

// That of a number on the real line: 0, or pi for negative ones; NaN stays.
Expr Angle(const Expr& x);

Expr Erf(const Expr& x);
Expr Erfc(const Expr& x);  // 1 - erf(x), without cancellation

// ---- for files that make functions of these

// c[0] + x (c[1] + x (c[2] + ...)).
Expr Polynomial(const Expr& x, std::span<const double> c);
// The same with the coefficients that the dtype of x needs: `narrow` up to float32.
Expr Polynomial(const Expr& x, std::span<const double> narrow, std::span<const double> wide);

// A value with the other sign where `negative`.
Expr NegateWhere(const Expr& negative, const Expr& x);

// The value of a formula, with `slope` as its derivative with respect to x: for formulas whose own
// derivative is less accurate, costs more, or is NaN where they piece branches together.
Expr WithSlope(const Expr& value, const Expr& x, const Expr& slope);
// The same for a formula of two operands.
Expr WithSlopes(const Expr& value, const Expr& x, const Expr& by_x, const Expr& y,
                const Expr& by_y);
// The value, of which the derivative with respect to x is not known: who asks for it gets an
// UNIMPLEMENTED error with that reason, instead of zeros. x has the value's shape.
Expr WithoutSlope(const Expr& value, const Expr& x, std::string_view reason);

}  // namespace tensord
