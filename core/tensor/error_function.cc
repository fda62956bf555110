// The error function's relatives and the normal distribution.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/special.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---- erfinv

Expr ErfinvValue(const Expr& y) {
  // A first guess, right to 1e-5, in the logarithm of 1 - y^2; then one step of Halley's.
  static constexpr std::array kMiddle = {1.501409360450329,      0.6166006976365915,
                                         -0.02610870547001968,   -0.019573849871456703,
                                         0.008529272899990876,   -0.00048558786029831555,
                                         -0.0008456995282308036, 0.00028572469974080887,
                                         3.560786010087296e-05,  -3.407259357545556e-05};
  static constexpr std::array kTail = {
      4.059939468927195,     2.0016499464046587,     0.0030184266772452463, -0.005017273332687204,
      0.003641501824487606,  -0.0016261343013011453, 0.0004582777097907499, -0.002368002286964702,
      0.0037581052264062907, -0.0016400845427979567};
  constexpr double kFrom = 2.23606797749979, kTo = 6.2;  // of the root of the logarithm, in kTail
  const Expr size = Abs(y);
  const Expr w = -(Log1p(-size) + Log1p(size));
  const Expr middle = Lt(w, 5);
  const Expr near = (Where(middle, w, 2.5) - 2.5) * (1 / 2.5);
  const Expr far = (Clamp(Sqrt(w), kFrom, kTo) - (kFrom + kTo) / 2) * (2 / (kTo - kFrom));
  const Expr guess = size * Where(middle, Polynomial(near, kMiddle), Polynomial(far, kTail));
  // 1 - erf is exact to the last digits where erf is close to 1.
  const Expr miss = Where(Lt(size, 0.5), Erf(guess) - size, (1 - size) - Erfc(guess));
  const Expr step = miss / (Exp(-(guess * guess)) * (2 * std::numbers::inv_sqrtpi));
  const Expr better = guess - step / (guess * step + 1);
  const Expr value = Where(Lt(size, 1), better, Where(Eq(size, 1), kInf, FullLike(y, kNan)));
  return NegateWhere(Lt(y, 0), value);
}

// ---- erfcx

// e^(x^2) erfc(x).
Expr ErfcxValue(const Expr& x) {
  // Times 1 + 2x, in (x - 4) / (x + 4), for x >= 0: interpolated at the zeros of a Chebyshev
  // polynomial from values of 40 digits.
  static constexpr std::array kErfcx = {
      1.2329951186255526,      -0.1396211168405625,     0.015379652102620031,
      0.06809705425469154,     -0.10103906603632429,    0.09373283499839756,
      -0.06633036581167101,    0.037167515536593,       -0.016197734065584925,
      0.005031969986699057,    -0.0007577732231821975,  -0.00019925674345951027,
      0.00015062133102595847,  -2.4399052544788238e-05, -1.1220857117518209e-05,
      5.709417190634565e-06,   2.912260071022385e-07,   -8.250753974840304e-07,
      7.823166108280326e-08,   1.0976976510432597e-07,  -2.0810669788607517e-08,
      -1.3550451568878536e-08, 2.7413455019389685e-09,  6.785186016374934e-11,
      4.144908056770494e-10,   1.3801411577021735e-09,  -4.4990101431479485e-10,
      -8.180452709694843e-10,  1.4999823258803167e-10,  2.503107151550298e-10,
      -2.049419284631999e-11,  -3.3423204801063394e-11};
  const Expr size = Abs(x);
  const Expr above = Polynomial(1 - 8 / (size + 4), kErfcx) / (size * 2 + 1);
  // erfc(-x) = 2 - erfc(x)
  const Expr negative = Lt(x, 0);
  const Expr below = Where(negative, x, 0);
  return Where(negative, Exp(below * below) * 2 - above, above);
}

}  // namespace

Expr Erfinv(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = ErfinvValue(f);
    // The slope e^(y^2) sqrt(pi) / 2, once more with one of its own: y is f's.
    const Expr slope = Exp(value * value) * (0.5 / std::numbers::inv_sqrtpi);
    const Expr inner = WithSlope(value, f, slope);
    return WithSlope(value, f, Exp(inner * inner) * (0.5 / std::numbers::inv_sqrtpi));
  });
}

Expr Ndtr(const Expr& x) { return Erfc(x * -(std::numbers::sqrt2 / 2)) * 0.5; }

Expr Ndtri(const Expr& x) {
  return InFloat64(x, [](const Expr& f) { return Erfinv(f * 2 - 1) * std::numbers::sqrt2; });
}

Expr LogNdtr(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    // Below, erfc underflows and erfcx does not.
    const Expr low = Lt(f, -1);
    const Expr scaled = Erfcx(f * -(std::numbers::sqrt2 / 2));
    const Expr below = Log(Where(low, scaled, 1) * 0.5) - f * f * 0.5;
    const Expr above = Log1p(Erfc(f * (std::numbers::sqrt2 / 2)) * -0.5);
    const double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    return WithSlope(Where(low, below, above), f, root / scaled);
  });
}

Expr Erfcx(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = ErfcxValue(f);
    return WithSlope(value, f, f * value * 2 - 2 * std::numbers::inv_sqrtpi);
  });
}

}  // namespace tensord
