// Families of orthogonal polynomials. The degree n may differ from element to element: both
// operands broadcast, integers become float32, and the numbers are computed in float64 by the
// family's recurrence, in a loop on the device. A fraction of n is dropped; below 0 the polynomial
// is 0, and above kMaxDegree it is NaN. There is no derivative by n, and no second one by x.
//
//   Expr y = LegendreP(x, 3);  // (5 x^3 - 3 x) / 2
#pragma once

#include "core/tensor/build.h"
#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

inline constexpr int64_t kMaxDegree = int64_t{1} << 20;

#define TD_POLYNOMIAL(Name)                                                         \
  Expr Name(const Expr& x, const Expr& n);                                          \
  inline Expr Name(const Expr& x, Number n) { return Name(x, NumberBeside(x, n)); } \
  inline Expr Name(Number x, const Expr& n) { return Name(NumberBeside(n, x), n); }
// Chebyshev's of the first to fourth kind, and the same of 2x - 1.
TD_POLYNOMIAL(ChebyshevT)
TD_POLYNOMIAL(ChebyshevU)
TD_POLYNOMIAL(ChebyshevV)
TD_POLYNOMIAL(ChebyshevW)
TD_POLYNOMIAL(ShiftedChebyshevT)
TD_POLYNOMIAL(ShiftedChebyshevU)
TD_POLYNOMIAL(ShiftedChebyshevV)
TD_POLYNOMIAL(ShiftedChebyshevW)
TD_POLYNOMIAL(HermiteH)   // orthogonal by the weight e^(-x^2)
TD_POLYNOMIAL(HermiteHe)  // and by e^(-x^2 / 2)
TD_POLYNOMIAL(LaguerreL)
TD_POLYNOMIAL(LegendreP)
#undef TD_POLYNOMIAL

}  // namespace tensord
