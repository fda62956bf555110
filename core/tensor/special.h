// Special functions, of floats; integers become float32. They are computed in float64, whatever the
// dtype, so in float32 they are right to about one unit in the last place; docs/numerics.md states
// their errors in float64.
#pragma once

#include <optional>

#include "core/tensor/build.h"
#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

Expr Erfinv(const Expr& x);
Expr Ndtr(const Expr& x);     // the normal distribution's share below x
Expr Ndtri(const Expr& x);    // its inverse
Expr LogNdtr(const Expr& x);  // log(ndtr(x)), without underflow
Expr Erfcx(const Expr& x);    // exp(x^2) erfc(x), without underflow

Expr Lgamma(const Expr& x);
Expr Digamma(const Expr& x);
Expr Polygamma(int64_t n, const Expr& x);  // n-th derivative of digamma
Expr MvLgamma(const Expr& x, int64_t p);   // of the multivariate gamma function

// Modified Bessel functions of the first kind; e: times exp(-|x|).
Expr I0(const Expr& x);
Expr I0e(const Expr& x);
Expr I1(const Expr& x);
Expr I1e(const Expr& x);
// Of the second kind, for x > 0; e: times exp(x).
Expr K0(const Expr& x);
Expr K0e(const Expr& x);
Expr K1(const Expr& x);
Expr K1e(const Expr& x);

// Bessel functions of the first kind, of the second (for x > 0), and sin(x) / x.
Expr BesselJ0(const Expr& x);
Expr BesselJ1(const Expr& x);
Expr BesselY0(const Expr& x);
Expr BesselY1(const Expr& x);
Expr SphericalBesselJ0(const Expr& x);

Expr AiryAi(const Expr& x);  // the solution of y'' = x y that vanishes at infinity

Expr Sinc(const Expr& x);  // sin(pi x) / (pi x)
Expr Entr(const Expr& x);  // -x log x
// log(x / (1 - x)), of x brought into [eps, 1 - eps] if eps is given.
Expr Logit(const Expr& x, std::optional<double> eps = std::nullopt);

#define TD_BINARY(Name)                                                             \
  Expr Name(const Expr& a, const Expr& b);                                          \
  inline Expr Name(const Expr& a, Number b) { return Name(a, NumberBeside(a, b)); } \
  inline Expr Name(Number a, const Expr& b) { return Name(NumberBeside(b, a), b); }
TD_BINARY(XLogY)    // a log b, 0 for a = 0
TD_BINARY(XLog1Py)  // a log(1 + b), 0 for a = 0
TD_BINARY(Zeta)     // sum of (k + b)^-a over k >= 0, for a > 1 and b > 0
TD_BINARY(Igamma)   // regularised incomplete gamma functions of a at b, from below
TD_BINARY(Igammac)  // and from above
#undef TD_BINARY

}  // namespace tensord
