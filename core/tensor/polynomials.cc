#include "core/tensor/polynomials.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/loop.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

// A number that depends on the degree k.
struct Coefficient {
  double constant = 0, by_degree = 0;

  Expr At(const Expr& k) const { return k * by_degree + constant; }
};

// p[0] = 1, p[1] = slope x + offset, and (1 + divided k) p[k + 1] = (a x + b) p[k] - c p[k - 1]
// with a, b and c at k; DLMF 18.9.
struct Family {
  const char* name;
  double slope, offset;
  Coefficient a, b, c;
  double divided = 0;
};

// clang-format off
constexpr Family kChebyshevT = {"chebyshev_polynomial_t", 1, 0,  {2}, {}, {1}};
constexpr Family kChebyshevU = {"chebyshev_polynomial_u", 2, 0,  {2}, {}, {1}};
constexpr Family kChebyshevV = {"chebyshev_polynomial_v", 2, -1, {2}, {}, {1}};
constexpr Family kChebyshevW = {"chebyshev_polynomial_w", 2, 1,  {2}, {}, {1}};
constexpr Family kShiftedT = {"shifted_chebyshev_polynomial_t", 2, -1, {4}, {-2}, {1}};
constexpr Family kShiftedU = {"shifted_chebyshev_polynomial_u", 4, -2, {4}, {-2}, {1}};
constexpr Family kShiftedV = {"shifted_chebyshev_polynomial_v", 4, -3, {4}, {-2}, {1}};
constexpr Family kShiftedW = {"shifted_chebyshev_polynomial_w", 4, -1, {4}, {-2}, {1}};
constexpr Family kHermiteH =  {"hermite_polynomial_h",  2, 0, {2}, {}, {0, 2}};
constexpr Family kHermiteHe = {"hermite_polynomial_he", 1, 0, {1}, {}, {0, 1}};
constexpr Family kLaguerreL = {"laguerre_polynomial_l", -1, 1, {-1},   {1, 2}, {0, 1}, 1};
constexpr Family kLegendreP = {"legendre_polynomial_p", 1, 0,  {1, 2}, {},     {0, 1}, 1};
// clang-format on

// Value and derivative of degree n, a whole number in [0, kMaxDegree].
std::vector<Expr> Recurrence(const Family& family, const Expr& x, const Expr& n) {
  const Expr one = FullLike(x, 1), first = x * family.slope + family.offset;
  const Expr k = Constant(x.graph(), 1, DType::kFloat64);
  const auto active = [&n](const Expr& degree) { return Lt(degree, Max(n)); };
  const std::vector<Expr> states = {k, one, first, FullLike(x, 0), FullLike(x, family.slope)};
  const std::vector<Expr> last = WhileLoop(
      states, [&](absl::Span<const Expr> s) { return active(s[0]); },
      [&](absl::Span<const Expr> s) {
        const Expr& degree = s[0];
        const Expr here = Lt(degree, n);
        const Expr factor = family.a.At(degree) * x + family.b.At(degree);
        const Expr divisor = degree * family.divided + 1;
        // Beyond the largest number only the sign still counts; infinities have no difference.
        const auto step = [&](const Expr& up, const Expr& now, const Expr& before) {
          const Expr next = up - Where(IsFinite(now), family.c.At(degree) * before, 0);
          return Where(here, next / divisor, now);
        };
        const Expr value = step(factor * s[2], s[2], s[1]);
        const Expr slope = step(family.a.At(degree) * s[2] + factor * s[4], s[4], s[3]);
        return std::vector<Expr>{degree + 1, Where(here, s[2], s[1]), value,
                                 Where(here, s[4], s[3]), slope};
      },
      kMaxDegree);
  const Expr none = Lt(n, 1);
  return {Where(none, 1, last[2]), Where(none, 0, last[4])};
}

Expr PolynomialOf(const Family& family, const Expr& a, const Expr& b) {
  return InFloat64(family.name, a, b, [&family](const Expr& x, const Expr& n) {
    const Expr given = Trunc(Detach(n));
    if (NumElements(x.shape()) == 0) return x;
    const Expr usual = LogicalAnd(Ge(given, 0), Le(given, kMaxDegree));
    const std::vector<Expr> made = Recurrence(family, x, Where(usual, given, 0));
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    const Expr other = Where(Lt(given, 0), FullLike(x, 0), kNan);
    const Expr slope = WithoutSlope(Detach(Where(usual, made[1], other)), x,
                                    fmt::format("{} has no second derivative", family.name));
    return WithoutSlope(WithSlope(Where(usual, made[0], other), x, slope), n,
                        fmt::format("{} has no derivative in its degree; detach it", family.name));
  });
}

}  // namespace

#define TD_POLYNOMIAL(Name) \
  Expr Name(const Expr& x, const Expr& n) { return PolynomialOf(k##Name, x, n); }
TD_POLYNOMIAL(ChebyshevT)
TD_POLYNOMIAL(ChebyshevU)
TD_POLYNOMIAL(ChebyshevV)
TD_POLYNOMIAL(ChebyshevW)
TD_POLYNOMIAL(HermiteH)
TD_POLYNOMIAL(HermiteHe)
TD_POLYNOMIAL(LaguerreL)
TD_POLYNOMIAL(LegendreP)
#undef TD_POLYNOMIAL
#define TD_POLYNOMIAL(Name)                                   \
  Expr ShiftedChebyshev##Name(const Expr& x, const Expr& n) { \
    return PolynomialOf(kShifted##Name, x, n);                \
  }
TD_POLYNOMIAL(T)
TD_POLYNOMIAL(U)
TD_POLYNOMIAL(V)
TD_POLYNOMIAL(W)
#undef TD_POLYNOMIAL

}  // namespace tensord
