#include "core/tensor/special.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// sin(pi x) and cos(pi x), of what is left of x beyond the nearest whole number.
Expr SinPi(const Expr& x) {
  const Expr whole = Round(x);
  const Expr odd = Ne(whole * 0.5, Trunc(whole * 0.5));
  return NegateWhere(odd, Sin((x - whole) * kPi));
}

// pi / tan(pi x).
Expr PiCot(const Expr& x) {
  const Expr rest = (x - Round(x)) * kPi;
  return Cos(rest) * kPi / Sin(rest);
}

// ---- gamma

// The sum of c[k] / x^(2k + 1).
Expr InOddInverses(const Expr& x, std::span<const double> c) {
  const Expr inverse = 1 / x;
  return inverse * Polynomial(inverse * inverse, c);
}

// For x > 0.
Expr LgammaPositive(const Expr& x) {
  // lgamma(2 + z) / z between -0.5 and 0.5.
  static constexpr std::array kNearTwo = {
      0.42278433509846713,    0.3224670334241132,      -0.06735230105319809,
      0.02058080842778463,    -0.007385551028674025,   0.0028905103307344045,
      -0.0011927539116998527, 0.0005096695250241955,   -0.00022315475858818615,
      9.94575066878814e-05,   -4.4926233820610826e-05, 2.0507291996563825e-05,
      -9.439526202058818e-06, 4.374223481082048e-06,   -2.0389077825677104e-06,
      9.584207048594987e-07,  -4.508168225446838e-07,  2.0193835401136915e-07,
      -9.558178101635195e-08, 6.472569840064724e-08,   -3.085985478390577e-08};
  static constexpr std::array kStirling = {
      0.08333333333333333,   -0.002777777777777778,  0.0007936507936507937, -0.0005952380952380953,
      0.0008417508417508417, -0.0019175269175269176, 0.00641025641025641,   -0.029550653594771242};
  const Expr large = Ge(x, 10);
  // By gamma(x + 1) = x gamma(x) to between 1.5 and 2.5, where the zero at 2 is exact.
  const Expr small = Where(large, 2, x);
  Expr factor = FullLike(x, 1), at = small;
  for (int i = 0; i < 2; ++i) {
    const Expr below = Lt(at, 1.5);
    factor = Where(below, factor * at, factor);
    at = Where(below, at + 1, at);
  }
  const Expr up = Log(factor);
  Expr product = FullLike(x, 1);
  for (int i = 0; i < 8; ++i) {
    const Expr above = Ge(at, 2.5);
    at = Where(above, at - 1, at);
    product = Where(above, product * at, product);
  }
  const Expr z = at - 2;
  const Expr near = z * Polynomial(z, kNearTwo) + (Log(product) - up);
  const Expr far = Where(large, x, 10);
  const Expr stirling =
      (far - 0.5) * Log(far) - far + 0.9189385332046728 + InOddInverses(far, kStirling);
  return Where(large, Where(Eq(x, kInf), kInf, stirling), near);
}

Expr LgammaValue(const Expr& x) {
  const Expr reflected = Le(x, 0);
  const Expr positive = LgammaPositive(Where(reflected, 1 - x, x));
  const Expr size = Abs(SinPi(x));  // 0 at whole numbers, which gives infinity
  const Expr value = Where(reflected, std::log(kPi) - Log(size) - positive, positive);
  return Where(Eq(x, -kInf), kInf, value);
}

Expr DigammaValue(const Expr& x) {
  static constexpr std::array kSeries = {
      0.08333333333333333,  -0.008333333333333333, 0.003968253968253968, -0.004166666666666667,
      0.007575757575757576, -0.021092796092796094, 0.08333333333333333,  -0.4432598039215686};
  const Expr reflected = Le(x, 0);
  Expr y = Where(reflected, 1 - x, x);
  // psi(x) = psi(x + 1) - 1 / x, to where the series in 1 / x^2 is good.
  Expr sum = FullLike(x, 0);
  for (int i = 0; i < 10; ++i) {
    const Expr small = Lt(y, 10);
    sum = sum + Where(small, 1 / y, 0);
    y = Where(small, y + 1, y);
  }
  const Expr inverse = 1 / y;
  const Expr square = inverse * inverse;
  const Expr value = Log(y) - inverse * 0.5 - square * Polynomial(square, kSeries) - sum;
  // At negative whole numbers the two sides differ; at zero the sign says from which one comes.
  const Expr whole = LogicalAnd(Eq(x, Trunc(x)), reflected);
  const Expr other = value - PiCot(Where(whole, 0.5, x));
  const Expr pole = Where(Eq(x, 0), -1 / x, FullLike(x, kNan));
  return Where(reflected, Where(whole, pole, other), value);
}

// n! zeta(n + 1, x) up to the sign, for x > 0: the sum of 1 / (x + k)^(n + 1), by Euler and
// Maclaurin.
Expr PolygammaPositive(int64_t n, const Expr& x) {
  // Bernoulli's numbers B[2k] over (2k)!.
  static constexpr std::array kBernoulli = {0.08333333333333333,    -0.001388888888888889,
                                            3.306878306878307e-05,  -8.267195767195768e-07,
                                            2.08767569878681e-08,   -5.284190138687493e-10,
                                            1.3382536530684679e-11, -3.3896802963225827e-13,
                                            8.586062056277845e-15,  -2.174868698558062e-16};
  const auto power = [n](const Expr& inverse) { return Pow(inverse, n + 1); };
  const double s = static_cast<double>(n + 1);
  const double least = 10 + static_cast<double>(n);
  Expr y = x, sum = FullLike(x, 0);
  for (int64_t i = 0; i < 10 + n; ++i) {
    const Expr small = Lt(y, least);
    sum = sum + Where(small, power(1 / y), 0);
    y = Where(small, y + 1, y);
  }
  const Expr inverse = 1 / y;
  const Expr square = inverse * inverse;
  std::vector<double> series;
  double rising = s;  // s (s + 1) ... (s + 2k - 2)
  for (size_t k = 0; k < kBernoulli.size(); ++k) {
    series.push_back(kBernoulli[k] * rising);
    const double next = s + 2 * static_cast<double>(k) + 1;
    rising *= next * (next + 1);
  }
  const Expr first = power(inverse);
  const Expr rest =
      first * (y * (1 / static_cast<double>(n)) + 0.5 + inverse * Polynomial(square, series));
  return (sum + rest) * std::tgamma(s);
}

// d^n / dx^n of pi cot(pi x), as a polynomial in the cotangent.
Expr CotDerivative(int64_t n, const Expr& x) {
  std::vector<double> c = {0, 1};
  for (int64_t i = 0; i < n; ++i) {
    // d cot = -pi (1 + cot^2)
    std::vector<double> next(c.size() + 1, 0);
    for (size_t k = 1; k < c.size(); ++k) {
      next[k - 1] -= kPi * static_cast<double>(k) * c[k];
      next[k + 1] -= kPi * static_cast<double>(k) * c[k];
    }
    c = next;
  }
  for (double& each : c) each *= kPi;
  return Polynomial(PiCot(x) * (1 / kPi), c);
}

Expr PolygammaValue(int64_t n, const Expr& x) {
  const double sign = n % 2 == 0 ? -1 : 1;
  const Expr reflected = Le(x, 0);
  const Expr whole = LogicalAnd(reflected, Eq(x, Trunc(x)));
  const Expr positive = PolygammaPositive(n, Where(whole, 1, Where(reflected, 1 - x, x))) * sign;
  // psi_n(x) = (-1)^n psi_n(1 - x) - d^n/dx^n pi cot(pi x)
  const Expr mirrored = (n % 2 == 0 ? positive : -positive) -
                        CotDerivative(n, Where(LogicalAnd(reflected, LogicalNot(whole)), x, 0.5));
  const Expr pole = FullLike(x, n % 2 == 0 ? -kInf : kInf);
  const Expr value = Where(whole, pole, Where(reflected, mirrored, positive));
  return Where(Eq(x, kInf), 0, value);
}

// ---- incomplete gamma functions, for a > 0 and x > 0

constexpr int kGammaSteps = 110;  // enough for a below kLargeGamma, where x is close to a
constexpr double kLargeGamma = 150;

// x^a e^-x / gamma(a + 1).
Expr GammaFront(const Expr& a, const Expr& x) {
  return Exp(a * Log(x) - x - LgammaPositive(a + 1));
}

// P(a, x), by its series, for x < a + 1.
Expr GammaSeries(const Expr& a, const Expr& x) {
  Expr term = FullLike(x, 1), sum = term;
  for (int n = 1; n < kGammaSteps; ++n) {
    term = term * (x / (a + n));
    sum = sum + term;
  }
  return GammaFront(a, x) * sum;
}

// Q(a, x), by Legendre's continued fraction, from its far end, for x >= a + 1.
Expr GammaFraction(const Expr& a, const Expr& x) {
  Expr value = x + (2 * kGammaSteps + 1) - a;
  for (int n = kGammaSteps; n >= 1; --n) {
    value = x + (2 * n - 1) - a - (n - a) * n / value;
  }
  return GammaFront(a, x) * a / value;
}

// Q(a, x) for a large a, by Temme's expansion about the normal distribution.
Expr GammaUniform(const Expr& a, const Expr& x) {
  const Expr mu = (x - a) / a;
  const Expr log = Log1p(mu);
  // eta^2 / 2 = mu - log(1 + mu), whose difference cancels near 0.
  static constexpr std::array kSeries = {1.0 / 2, -1.0 / 3, 1.0 / 4,  -1.0 / 5,  1.0 / 6, -1.0 / 7,
                                         1.0 / 8, -1.0 / 9, 1.0 / 10, -1.0 / 11, 1.0 / 12};
  const Expr near = Lt(Abs(mu), 0.05);
  const Expr small = Where(near, mu, 0);
  const Expr half = Where(near, small * small * Polynomial(small, kSeries), mu - log);
  const Expr eta = NegateWhere(Lt(mu, 0), Sqrt(half * 2));
  // The first coefficients as series in eta where their closed forms cancel.
  static constexpr std::array kFirst = {-1.0 / 3,   1.0 / 12,        -2.0 / 135, 1.0 / 864,
                                        1.0 / 2835, -139.0 / 777600, 1.0 / 25515};
  static constexpr std::array kSecond = {-1.0 / 540, -1.0 / 288, 1.0 / 378, -77.0 / 77760};
  const Expr close = Lt(Abs(eta), 0.2);
  const Expr e = Where(close, eta, 0);
  const Expr safe_eta = Where(close, 1, eta), safe_mu = Where(close, 1, mu);
  const Expr c0 = Where(close, Polynomial(e, kFirst), 1 / safe_mu - 1 / safe_eta);
  const Expr cube = safe_eta * safe_eta * safe_eta;
  const Expr c1 = Where(
      close, Polynomial(e, kSecond),
      1 / cube - 1 / (safe_mu * safe_mu * safe_mu) - 1 / (safe_mu * safe_mu) - 1 / (safe_mu * 12));
  const Expr decay = Exp(-(a * half)) / Sqrt(a * (2 * kPi));
  return Erfc(eta * Sqrt(a * 0.5)) * 0.5 + decay * (c0 + c1 / a);
}

struct GammaParts {
  Expr lower, upper;
};
GammaParts IncompleteGamma(const Expr& a, const Expr& x) {
  const Expr valid =
      LogicalAnd(LogicalAnd(Gt(a, 0), Gt(x, 0)), LogicalAnd(IsFinite(a), IsFinite(x)));
  const Expr shape = Where(valid, a, 1), at = Where(valid, x, 1);
  const Expr large = Gt(shape, kLargeGamma), below = Lt(at, shape + 1);
  const Expr small_a = Where(large, 1, shape);
  const Expr series = GammaSeries(small_a, Where(LogicalOr(large, LogicalNot(below)), 1, at));
  const Expr fraction = GammaFraction(small_a, Where(LogicalOr(large, below), 3, at));
  const Expr uniform =
      GammaUniform(Where(large, shape, kLargeGamma), Where(large, at, kLargeGamma));
  const Expr upper = Where(large, uniform, Where(below, 1 - series, fraction));
  const Expr lower = Where(large, 1 - uniform, Where(below, series, 1 - fraction));
  // The ends: P(a, 0) = 0, P(a, inf) = 1, P(0, x) = 1, P(inf, x) = 0.
  const Expr wrong = LogicalOr(LogicalOr(Lt(a, 0), Lt(x, 0)), LogicalOr(IsNan(a), IsNan(x)));
  const Expr both = LogicalOr(LogicalAnd(Eq(a, 0), Eq(x, 0)), LogicalAnd(Eq(a, kInf), Eq(x, kInf)));
  const Expr one = LogicalOr(Eq(a, 0), Eq(x, kInf));
  const Expr end = Where(LogicalOr(wrong, both), kNan, Cast(one, DType::kFloat64));
  return {Where(valid, lower, end), Where(valid, upper, 1 - end)};
}

}  // namespace

Expr Lgamma(const Expr& x) {
  return InFloat64(x, [](const Expr& f) { return WithSlope(LgammaValue(f), f, Digamma(f)); });
}

Expr Digamma(const Expr& x) {
  return InFloat64(x, [](const Expr& f) { return WithSlope(DigammaValue(f), f, Polygamma(1, f)); });
}

Expr Polygamma(int64_t n, const Expr& x) {
  if (!x.ok()) return x;
  if (n < 0) return Fail(x, "polygamma: n is {}, it cannot be negative", n);
  if (n > 30) return Fail(x, "polygamma: n is {}, at most 30", n);
  if (n == 0) return Digamma(x);
  return InFloat64(x, [n](const Expr& f) {
    return WithSlope(PolygammaValue(n, f), f, PolygammaValue(n + 1, f));
  });
}

Expr MvLgamma(const Expr& x, int64_t p) {
  if (!x.ok()) return x;
  if (p < 1) return Fail(x, "mvlgamma: p is {}, it must be positive", p);
  return InFloat64(x, [p](const Expr& f) {
    Expr sum = FullLike(f, static_cast<double>(p * (p - 1)) / 4 * std::log(kPi));
    for (int64_t i = 0; i < p; ++i) sum = sum + Lgamma(f - static_cast<double>(i) / 2);
    return sum;
  });
}

Expr Sinc(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr zero = Eq(f, 0);
    const Expr safe = Where(zero, 1, f);
    const Expr rest = (safe - Round(safe)) * kPi;
    const Expr even = Eq(Round(safe) * 0.5, Trunc(Round(safe) * 0.5));
    const Expr cosine = NegateWhere(LogicalNot(even), Cos(rest));
    const Expr value = SinPi(safe) / (safe * kPi);
    return WithSlope(Where(zero, 1, value), f, Where(zero, 0, (cosine - value) / safe));
  });
}

Expr Entr(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr positive = Gt(f, 0);
    const Expr value = -f * Log(Where(positive, f, 1));
    return WithSlope(Where(Lt(f, 0), -kInf, Where(Eq(f, 0), f * 0, value)), f, -1 - Log(f));
  });
}

Expr Logit(const Expr& x, std::optional<double> eps) {
  return InFloat32(x, [&](const Expr& f) {
    if (!eps) return WithSlope(Log(f / (1 - f)), f, 1 / (f * (1 - f)));
    // Bounds that cross are no error: the lower one counts first.
    const Expr low = Lt(f, *eps), high = Gt(f, 1 - *eps);
    const Expr p = Where(low, *eps, Where(high, 1 - *eps, f));
    const Expr slope = Where(LogicalOr(low, high), 0, 1 / (p * (1 - p)));
    return WithSlope(Log(p / (1 - p)), f, slope);
  });
}

Expr XLogY(const Expr& a, const Expr& b) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Unify("xlogy", {&x, &y})) return *error;
  const Expr nothing = LogicalAnd(Eq(x, 0), LogicalNot(IsNan(y)));
  return Where(nothing, 0, x * Log(Where(nothing, 1, y)));
}

Expr XLog1Py(const Expr& a, const Expr& b) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Unify("xlog1py", {&x, &y})) return *error;
  const Expr nothing = LogicalAnd(Eq(x, 0), LogicalNot(IsNan(y)));
  return Where(nothing, 0, x * Log1p(Where(nothing, 1, y)));
}

Expr Zeta(const Expr& a, const Expr& b) {
  return InFloat64("zeta", a, b, [](const Expr& s, const Expr& q) {
    static constexpr std::array kBernoulli = {0.08333333333333333,    -0.001388888888888889,
                                              3.306878306878307e-05,  -8.267195767195768e-07,
                                              2.08767569878681e-08,   -5.284190138687493e-10,
                                              1.3382536530684679e-11, -3.3896802963225827e-13};
    const Expr valid = LogicalAnd(Gt(s, 1), Gt(q, 0));
    const Expr power = Where(valid, s, 2);
    Expr y = Where(valid, q, 1);
    Expr sum = Detach(FullLike(y, 0));
    constexpr int kTerms = 12;
    for (int i = 0; i < kTerms; ++i) {
      sum = sum + Exp(-power * Log(y));
      y = y + 1;
    }
    const Expr first = Exp(-power * Log(y));
    Expr rising = power / y, rest = first * y / (power - 1) + first * 0.5;
    for (size_t k = 0; k < kBernoulli.size(); ++k) {
      rest = rest + first * rising * kBernoulli[k];
      const double next = 2 * static_cast<double>(k) + 1;
      rising = rising * ((power + next) / y) * ((power + (next + 1)) / y);
    }
    const Expr pole =
        LogicalOr(Eq(s, 1), LogicalAnd(LogicalAnd(Le(q, 0), Gt(s, 1)), Eq(q, Trunc(q))));
    return Where(valid, sum + rest, Where(pole, kInf, FullLike(s, kNan)));
  });
}

// The derivative in x is x^(a - 1) e^-x / gamma(a); that in a has no closed form.
Expr Igamma(const Expr& a, const Expr& b) {
  return InFloat64("igamma", a, b, [](const Expr& s, const Expr& x) {
    const Expr density = Exp((s - 1) * Log(x) - x - Lgamma(s));
    return WithoutSlope(WithSlope(IncompleteGamma(s, x).lower, x, density), s,
                        "igamma has no derivative in its first argument; detach it");
  });
}

Expr Igammac(const Expr& a, const Expr& b) {
  return InFloat64("igammac", a, b, [](const Expr& s, const Expr& x) {
    const Expr density = Exp((s - 1) * Log(x) - x - Lgamma(s));
    return WithoutSlope(WithSlope(IncompleteGamma(s, x).upper, x, -density), s,
                        "igammac has no derivative in its first argument; detach it");
  });
}

}  // namespace tensord
