#include "core/tensor/transcendental.h"

#include <array>
#include <limits>
#include <numbers>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/float_parts.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;
constexpr double kPiRest = 1.2246467991473532e-16;  // pi - kPi

Expr FloatUnary(Op op, const Expr& x) {
  return x.ok() ? Apply(op, {Cast(x, LeastUpperFloat(x.dtype()))}) : x;
}

bool IsWide(const Expr& f) { return f.ok() && f.dtype() == DType::kFloat64; }

// `constant` + `rest` as a rounded number of the dtype of f, and what rounding lost.
struct Split {
  double high, low;
};
Split SplitFor(const Expr& f, double constant, double rest) {
  if (IsWide(f)) return {constant, rest};
  const double high = static_cast<float>(constant);
  return {high, constant - high};
}

// Largest |f| whose double is finite.
double HalfMax(const Expr& f) {
  return IsWide(f) ? std::numeric_limits<double>::max() / 2
                   : double{std::numeric_limits<float>::max()} / 2;
}

// e^f - 1 for f between -0.7 and 0.7, where the difference would cancel; elsewhere by difference.
Expr Expm1Value(const Expr& f) {
  static constexpr std::array kSeries = {1.0,
                                         1.0 / 2,
                                         1.0 / 6,
                                         1.0 / 24,
                                         1.0 / 120,
                                         1.0 / 720,
                                         1.0 / 5040,
                                         1.0 / 40320,
                                         1.0 / 362880,
                                         1.0 / 3628800,
                                         1.0 / 39916800,
                                         1.0 / 479001600,
                                         1.0 / 6227020800,
                                         1.0 / 87178291200,
                                         1.0 / 1307674368000,
                                         1.0 / 20922789888000};
  const Expr near = Lt(Abs(f), 0.7);
  const Expr small = Where(near, f, 0);
  const Expr series = small * Polynomial(small, std::span<const double>(kSeries).first(9), kSeries);
  return Where(near, series, Exp(f) - 1);
}

// Cosine as sin(2x) / (2 sin x): Sin is accurate relative to its result everywhere and doubling is
// exact, so this is accurate at the zeros too, where sin(x + pi/2) has lost the low bits of x.
Expr CosValue(const Expr& f) {
  const Expr direct = LogicalOr(Lt(Abs(f), 0.8), Gt(Abs(f), HalfMax(f)));
  const Expr s = Sin(Where(direct, f * 0.5, f));
  const Expr twice = Sin(Where(direct, 1, f * 2));
  const Expr ratio = Clamp(twice / (s * 2), -1, 1);
  return Where(direct, 1 - s * s * 2, ratio);
}

// asin(x) for |x| <= 0.5.
Expr AsinNearZero(const Expr& x) {
  static constexpr std::array kNarrow = {0.16666672414795305, 0.07498855072600821,
                                         0.04500138006991017, 0.026554542206161328,
                                         0.038085023561092654};
  static constexpr std::array kWide = {
      0.16666666666666669, 0.07499999999998433,  0.04464285714635543,  0.030381944138531247,
      0.02237217294214989, 0.017352392720869973, 0.013971212973552933, 0.011479177415184906,
      0.01032281435018578, 0.005457506718640358, 0.01740087944269402,  -0.014851887071247204,
      0.028757851367421566};
  const Expr z = x * x;
  return x + x * z * Polynomial(z, kNarrow, kWide);
}

// The angle of the point (x, y) for y and x >= 0, in [0, pi/2].
Expr QuadrantAngle(const Expr& y, const Expr& x) {
  static constexpr std::array kNarrow = {-0.33333331760434554, 0.1999954031495797,
                                         -0.14263949753605723, 0.10743668324830098,
                                         -0.06451718869358958};
  static constexpr std::array kWide = {
      -0.3333333333333333,  0.19999999999999804,  -0.14285714285659779, 0.11111111105150588,
      -0.09090908753259112, 0.07692296368042296,  -0.0666642476020052,  0.05878927554473807,
      -0.05230443640686948, 0.045515447340221615, -0.03456931506332609, 0.016284375050043393};
  // Turned by pi/4 or pi/2, so that what is left has a tangent of at most tan(pi/8).
  constexpr double kTan = std::numbers::sqrt2 - 1;
  const Expr steep = Lt(x, y * kTan), flat = Le(y, x * kTan);
  const Expr unit = Where(Gt(Maximum(x, y), 1), 0.5, FullLike(x, 1));  // x + y must not overflow
  const Expr a = x * unit, b = y * unit;
  const Expr rise = Where(flat, y, Where(steep, -x, b - a));
  const Expr run = Where(flat, Where(Eq(x, 0), 1, x), Where(steep, y, b + a));
  const Expr tangent = rise / run;
  const Expr z = tangent * tangent;
  const Expr turned = tangent * z * Polynomial(z, kNarrow, kWide);
  const Split quarter = SplitFor(x, kPi / 4, kPiRest / 4);
  const auto base = [&](double part) {
    return Where(flat, 0, Where(steep, FullLike(x, 2 * part), part));
  };
  return base(quarter.high) + (tangent + (turned + base(quarter.low)));
}

// e^-x^2 / (1 + x/2) times a smooth function, for x >= 0.5.
Expr ErfcTail(const Expr& x) {
  static constexpr std::array kNarrow = {
      0.49684853472443935,    0.21299306555905093,    0.05649122171238932,   0.005258144039132379,
      -0.0016986790620068706, -0.0003910694615587659, 9.626946593999478e-05, 2.355540706966861e-05,
      -7.110267837364052e-06, -1.0031867293461102e-06};
  static constexpr std::array kWide = {
      0.4677658877753235,      0.22528629878352988,    0.07048019404186603,
      0.009137105546315053,    -0.002371140799454411,  -0.0008986913189569246,
      0.00015469009465902828,  8.317191924081677e-05,  -2.0639040220323684e-05,
      -7.369676829319325e-06,  3.512985150223553e-06,  3.4591770951596675e-07,
      -5.49887752296257e-07,   7.986268786170256e-08,  6.125674025963635e-08,
      -3.038487882941412e-08,  -4.728690001959053e-10, 5.5356960387142825e-09,
      -1.7550058295468789e-09, -5.402419785948394e-10, 4.255913116601108e-10,
      1.477242305335509e-11,   -4.1915687339772334e-11};
  // The fits are in t = 1 / (1 + x/2), from the largest x whose result is not zero to 0.5.
  const double largest = IsWide(x) ? 27.5 : 10.6;
  const double from = 2 / (2 + largest), to = 0.8;
  const Expr bounded = Clamp(x, 0.5, largest);
  const Expr t = 2 / (bounded + 2);
  const Expr s = (t - (from + to) / 2) * (2 / (to - from));
  // What rounding x^2 loses matters: it is large in the exponent.
  const double step = IsWide(x) ? 65536 : 256;
  const Expr high = Trunc(bounded * step) * (1 / step), low = bounded - high;
  const Expr square = bounded * bounded;
  const Expr lost = (high * high - square) + low * (high + bounded);
  const Expr decay = Exp(-square);
  const Expr tail = t * Polynomial(s, kNarrow, kWide) * (decay - decay * lost);
  return Where(Gt(x, largest), 0, tail);
}

// erf(x) for |x| < 1.
Expr ErfNearZero(const Expr& x) {
  static constexpr std::array kNarrow = {
      0.12837916584835093,  -0.37612626666720334,  0.11283594715160218,  -0.026854212010626412,
      0.005189087423433974, -0.000801686428716587, 7.875875062685488e-05};
  static constexpr std::array kWide = {
      0.1283791670955126,      -0.3761263890318375,     0.11283791670954879,
      -0.026866170645076792,   0.0052239776248180145,   -0.000854832698083379,
      0.0001205533111164271,   -1.4925595266831182e-05, 1.6461000484121368e-06,
      -1.6350312701054695e-07, 1.4659775274047436e-08,  -1.1372848856791674e-09,
      5.957176147748911e-11};
  return x + x * Polynomial(x * x, kNarrow, kWide);
}

Expr SinhValue(const Expr& f) {
  const Expr negative = Lt(f, 0);
  const Expr size = NegateWhere(negative, f);
  const Expr t = Expm1Value(size);
  // Beyond 20, e^-size does not count, and e^size alone would overflow too early.
  const Expr half = Exp(size * 0.5);
  return NegateWhere(negative, Where(Gt(size, 20), half * 0.5 * half, (t + t / (t + 1)) * 0.5));
}

Expr CoshValue(const Expr& f) {
  const Expr half = Exp(Abs(f) * 0.5);
  const Expr e = half * half;
  return Where(Gt(Abs(f), 20), half * 0.5 * half, e * 0.5 + 0.5 / e);
}

Expr TanhValue(const Expr& f) {
  // Of -2 |x|, so that the exponential never overflows.
  const Expr negative = Lt(f, 0);
  const Expr t = Expm1Value(NegateWhere(negative, f) * -2);
  return NegateWhere(negative, -t / (t + 2));
}

}  // namespace

Expr Polynomial(const Expr& x, std::span<const double> c) {
  Expr result = FullLike(x, c.back());
  for (auto it = c.rbegin() + 1; it != c.rend(); ++it) result = result * x + *it;
  return result;
}

Expr Polynomial(const Expr& x, std::span<const double> narrow, std::span<const double> wide) {
  return Polynomial(x, IsWide(x) ? wide : narrow);
}

Expr NegateWhere(const Expr& negative, const Expr& x) { return Where(negative, -x, x); }

Expr WithSlope(const Expr& value, const Expr& x, const Expr& slope) {
  if (!value.ok()) return value;
  // The value may have got a dtype in memory that x, being weak, has not.
  const DType dtype = value.dtype();
  return Apply(Op::kWithSlope, {Detach(value), Cast(x, dtype), Cast(slope, dtype)});
}

Expr WithSlopes(const Expr& value, const Expr& x, const Expr& by_x, const Expr& y,
                const Expr& by_y) {
  if (!value.ok()) return value;
  const DType dtype = value.dtype();
  return Apply(Op::kWithSlope, {WithSlope(value, x, by_x), Cast(y, dtype), Cast(by_y, dtype)});
}

Expr WithoutSlope(const Expr& value, const Expr& x, std::string_view reason) {
  if (!value.ok()) return value;
  const Expr like_value = Cast(x, value.dtype()), zero = FullLike(value, 0);
  if (!like_value.ok()) return like_value;
  Graph& graph = value.graph();
  return Expr(&graph, graph.TryMake({.op = Op::kWithSlope,
                                     .src = {{value.node(), like_value.node(), zero.node()}},
                                     .text = reason}));
}

Expr Exp(const Expr& x) { return FloatUnary(Op::kExp, x); }
Expr Log(const Expr& x) { return FloatUnary(Op::kLog, x); }
Expr Sin(const Expr& x) { return FloatUnary(Op::kSin, x); }

Expr Exp2(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // The whole part goes into the exponent, in two steps so that each is a number.
    const double limit = IsWide(f) ? 1100 : 160;
    const Expr bounded = Clamp(f, -limit, limit);
    const Expr whole = Floor(bounded + 0.5);
    const Expr half = Trunc(whole * 0.5);
    const Expr value =
        Exp((bounded - whole) * std::numbers::ln2) * PowerOfTwo(half) * PowerOfTwo(whole - half);
    return WithSlope(value, f, Exp(f * std::numbers::ln2) * std::numbers::ln2);
  });
}

Expr Log2(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr usual = LogicalAnd(Gt(f, 0), IsFinite(f));
    const FloatParts parts = Decompose(Where(usual, f, 1));  // size in [0.5, 1)
    const Expr low = Lt(parts.mantissa, std::numbers::sqrt2 / 2);
    const Expr mantissa = Where(low, parts.mantissa * 2, parts.mantissa);
    const Expr exponent = Cast(parts.exponent, f.dtype()) - Where(low, FullLike(f, 1), 0);
    const Expr value = exponent + Log(mantissa) * std::numbers::log2e;
    return WithSlope(Where(usual, value, Log(f)), f, std::numbers::log2e / f);
  });
}

Expr Log10(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return Log(f) * std::numbers::log10e; });
}

Expr Expm1(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return WithSlope(Expm1Value(f), f, Exp(f)); });
}

Expr Log1p(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // 1 + x loses the low bits of a small x; what was lost, to first order, is added again.
    const Expr sum = f + 1;
    const Expr small = Lt(Abs(f), 1);
    const Expr lost = Where(small, f - (sum - 1), 0) / Where(small, sum, 1);
    return WithSlope(Where(Eq(f, 0), f, Log(sum) + lost), f, 1 / (f + 1));  // 0 keeps its sign
  });
}

Expr Cos(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return WithSlope(CosValue(f), f, -Sin(f)); });
}

Expr Tan(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr value = Sin(f) / CosValue(f);
    const Expr cosine = Cos(f);
    return WithSlope(value, f, 1 / (cosine * cosine));
  });
}

Expr Asin(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr negative = Lt(f, 0);
    const Expr size = NegateWhere(negative, f);
    const Expr near = Le(size, 0.5);
    // asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2))
    const Expr angle = AsinNearZero(Where(near, size, Sqrt((1 - size) * 0.5)));
    const Split right = SplitFor(f, kPi / 2, kPiRest / 2);
    const Expr value = Where(near, angle, right.high - (angle * 2 - right.low));
    return WithSlope(NegateWhere(negative, value), f, 1 / Sqrt((1 - f) * (1 + f)));
  });
}

Expr Acos(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr negative = Lt(f, 0);
    const Expr size = NegateWhere(negative, f);
    const Expr near = Le(size, 0.5);
    const Expr angle = AsinNearZero(Where(near, f, Sqrt((1 - size) * 0.5)));
    const Split right = SplitFor(f, kPi / 2, kPiRest / 2), half = SplitFor(f, kPi, kPiRest);
    const Expr value = Where(near, right.high - (angle - right.low),
                             Where(negative, half.high - (angle * 2 - half.low), angle * 2));
    return WithSlope(value, f, -1 / Sqrt((1 - f) * (1 + f)));
  });
}

Expr Atan(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr negative = SignBit(f);
    const Expr size = NegateWhere(negative, f);
    // The angle of (1, x); an infinite x has that of (0, 1).
    const Expr infinite = Eq(size, kInf);
    const Expr value = QuadrantAngle(Where(infinite, 1, size), Where(infinite, FullLike(f, 0), 1));
    return WithSlope(NegateWhere(negative, value), f, 1 / (f * f + 1));
  });
}

Expr Atan2(const Expr& y, const Expr& x) {
  Expr b = y, a = x;
  if (std::optional<Expr> error = Unify("atan2", {&b, &a})) return *error;
  const DType dtype = LeastUpperFloat(a.dtype());
  b = Cast(b, ComputeDType(dtype));
  a = Cast(a, ComputeDType(dtype));
  const Expr up = Abs(b), right = Abs(a);
  // Of two infinities, the direction between them.
  const Expr diagonal = LogicalAnd(Eq(up, kInf), Eq(right, kInf));
  const Expr only_up = LogicalAnd(Eq(up, kInf), LogicalNot(diagonal));
  const Expr only_right = LogicalAnd(Eq(right, kInf), LogicalNot(diagonal));
  const Expr rise = Where(diagonal, 1, Where(only_up, 1, Where(only_right, 0, up)));
  const Expr run = Where(diagonal, 1, Where(only_right, 1, Where(only_up, 0, right)));
  const Expr nan = LogicalOr(IsNan(a), IsNan(b));
  const Expr angle = Where(nan, kNan, QuadrantAngle(rise, run));
  const Split half = SplitFor(a, kPi, kPiRest);
  const Expr turned = Where(SignBit(a), half.high - (angle - half.low), angle);
  const Expr value = NegateWhere(SignBit(b), turned);
  const Expr square = a * a + b * b;
  return Cast(WithSlopes(value, b, a / square, a, -b / square), dtype);
}

Expr Angle(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr fixed = Detach(f);
    return Where(IsNan(fixed), fixed, Where(Lt(fixed, 0), std::numbers::pi, FullLike(fixed, 0)));
  });
}

Expr Sinh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    return WithSlope(SinhValue(f), f, WithSlope(CoshValue(f), f, (Exp(f) - Exp(-f)) * 0.5));
  });
}

Expr Cosh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    return WithSlope(CoshValue(f), f, WithSlope(SinhValue(f), f, (Exp(f) + Exp(-f)) * 0.5));
  });
}

Expr Tanh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr value = TanhValue(f);
    return WithSlope(value, f, 1 - value * value);
  });
}

Expr Asinh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr negative = SignBit(f);
    const Expr size = NegateWhere(negative, f);
    const Expr large = Gt(size, 1e4), usual = Where(large, 1, size);
    const Expr root = Sqrt(usual * usual + 1);
    // log(x + sqrt(x^2 + 1)), which is log(2 x) up to 1 / (4 x^2) for a large x.
    const Expr far = Where(large, size, 1);
    const Expr value = Where(large, Log(far) + (std::numbers::ln2 + 0.25 / far / far),
                             Log1p(usual + usual * usual / (root + 1)));
    return WithSlope(NegateWhere(negative, value), f,
                     Where(large, 1 / far, 1 / Sqrt(usual * usual + 1)));
  });
}

Expr Acosh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr large = Gt(f, 1e4), usual = Where(large, 2, f) - 1;
    const Expr far = Where(large, f, 1);
    const Expr near = Log1p(usual + Sqrt(usual * (usual + 2)));
    const Expr value = Where(large, Log(far) + (std::numbers::ln2 - 0.25 / far / far), near);
    return WithSlope(Where(Lt(f, 1), kNan, value), f, 1 / (Sqrt(f - 1) * Sqrt(f + 1)));
  });
}

Expr Atanh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr negative = SignBit(f);
    const Expr size = NegateWhere(negative, f);
    const Expr value = Log1p(size * 2 / (1 - size)) * 0.5;
    return WithSlope(NegateWhere(negative, value), f, 1 / ((1 - f) * (1 + f)));
  });
}

Expr Erf(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr negative = Lt(f, 0);
    const Expr size = NegateWhere(negative, f);
    const Expr near = Lt(size, 1);
    const Expr value = Where(near, ErfNearZero(Where(near, size, 0)), 1 - ErfcTail(size));
    return WithSlope(NegateWhere(negative, value), f,
                     Exp(-(f * f)) * (2 * std::numbers::inv_sqrtpi));
  });
}

Expr Erfc(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    const Expr near = Lt(Abs(f), 0.5);
    const Expr tail = ErfcTail(Abs(f));
    const Expr value =
        Where(near, 1 - ErfNearZero(Where(near, f, 0)), Where(Lt(f, 0), 2 - tail, tail));
    return WithSlope(value, f, Exp(-(f * f)) * (-2 * std::numbers::inv_sqrtpi));
  });
}

}  // namespace tensord
