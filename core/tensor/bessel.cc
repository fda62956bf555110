// Bessel's and Airy's functions. Near 0 they are sums of powers
// (DLMF 10.2, 10.8, 10.25, 10.31, 9.4); far away an exponential or a wave times what varies slowly,
// as a polynomial interpolated at the zeros of a Chebyshev polynomial from values of 40 digits.
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
constexpr double kPi = std::numbers::pi;

// ---- modified Bessel functions of the first kind

// The sum of v^k / (k! (k + order)!), and of the same times H(k) + H(k + order), where H(n) is
// 1 + 1/2 + .. + 1/n, for |v| <= 16.
struct Series {
  Expr plain, harmonic;
};
Series SeriesOf(const Expr& v, int order) {
  std::array<double, 27> plain, harmonic;
  double term = 1, sum = order;
  for (size_t k = 0; k < plain.size(); ++k) {
    if (k > 0) {
      const double low = static_cast<double>(k), high = low + order;
      term /= low * high;
      sum += 1 / low + 1 / high;
    }
    plain[k] = term;
    harmonic[k] = term * sum;
  }
  return {Polynomial(v, plain), Polynomial(v, harmonic)};
}

// I(x) exp(-x) for x >= 0.
Expr ScaledBessel(const Expr& x, int order) {
  // Times the root of x, in 16 / x - 1.
  static constexpr std::array kTail0 = {
      0.4021765094450081,      0.003360551983667854,   0.00013621607439232746,
      1.1143033791556743e-05,  1.4838475473607391e-06, 2.973598432479169e-07,
      8.87225351128584e-08,    3.932602459703109e-08,  2.1545177650836005e-08,
      7.553516470355896e-09,   -6.729724111923548e-09, -1.3404241991980871e-08,
      -5.4685974495866e-09,    7.540601378890834e-09,  7.58022133915272e-09,
      -3.4857887470034955e-09, -6.188265090497361e-09, 1.497880830187091e-09,
      3.881151253996067e-09,   -5.562201990080394e-10, -1.7789375042917173e-09,
      1.4672236659214398e-10,  5.181936971288284e-10,  -1.9216763724933513e-11,
      -7.06893851181878e-11};
  static constexpr std::array kTail1 = {
      0.38939845902587233,     -0.009749577193235728,   -0.00021923576383430274,
      -1.5038547201176271e-05, -1.8349101134666435e-06, -3.483855609009937e-07,
      -1.0001323461066435e-07, -4.312935369971356e-08,  -2.337059627111857e-08,
      -8.426622829598154e-09,  6.715795128085017e-09,   1.4029693589852716e-08,
      6.040877342160988e-09,   -7.630751970065577e-09,  -8.044231276166508e-09,
      3.406636130196794e-09,   6.4870195719816896e-09,  -1.4171698018664596e-09,
      -4.047785403711858e-09,  5.146498826087142e-10,   1.8513716745511988e-09,
      -1.342266320082222e-10,  -5.388285995923524e-10,  1.7502497778701306e-11,
      7.347992441734663e-11};
  const Expr near = Le(x, 8);
  const Expr small = Where(near, x, 1), large = Where(near, 8, x);
  const Expr series = SeriesOf(small * small * 0.25, order).plain * Exp(-small);
  const Expr tail =
      Polynomial(16 / large - 1, order == 0 ? std::span<const double>(kTail0) : kTail1) /
      Sqrt(large);
  return Where(near, order == 0 ? series : series * small * 0.5, tail);
}

Expr BesselValue(const Expr& x, int order, bool scaled) {
  const Expr size = Abs(x);
  const Expr e = ScaledBessel(size, order);
  Expr value = e;
  if (!scaled) {
    // In two factors, so that the product does not overflow before its value does.
    const Expr half = Exp(size * 0.5);
    value = Where(Eq(size, kInf), kInf, e * half * half);
  }
  return order == 1 ? NegateWhere(Lt(x, 0), value) : value;
}

// 1 / x times f, and its limit at 0.
Expr OverOr(const Expr& f, const Expr& x, double limit) {
  const Expr zero = Eq(x, 0);
  return Where(zero, limit, f / Where(zero, 1, x));
}

// ---- Bessel functions

// The factors of a wave: the value is root (p cos(angle) - q sin(angle)).
struct Modulation {
  Expr p, q;
};

Modulation BesselModulation(const Expr& x, int order) {
  // In 128 / x^2 - 1, for x >= 8; q times x.
  static constexpr std::array kP0 = {
      0.9994572757882519,      -0.0005363673192130031,  6.137416080160244e-06,
      -2.0527448162067447e-07, 1.2803760641971063e-08,  -1.2121175987643816e-09,
      1.550103424019215e-10,   -2.4885506377166766e-11, 4.774028995104146e-12,
      -1.057172655360561e-12,  2.633854117698671e-13,   -7.195322575433773e-14,
      2.1438951671430368e-14,  -7.598143597352941e-15,  2.6830192719388885e-15,
      -3.2978854574384633e-16, 7.83522241983886e-17,    -3.4884430462406087e-16,
      1.5508719169158783e-16};
  static constexpr std::array kQ0 = {
      -0.12444091103610815,    0.0005466519279475119,   -1.1817110661173097e-05,
      5.684971887173939e-07,   -4.534972894761684e-08,  5.146225891240849e-09,
      -7.576285804583074e-10,  1.3626122492427185e-10,  -2.8724096232905605e-11,
      6.891100889671377e-12,   -1.8397736052511392e-12, 5.323586593953769e-13,
      -1.6715626317446952e-13, 6.40686591526891e-14,    -2.3777883796318645e-14,
      1.9797124065580614e-15,  -2.818853242584215e-16,  3.571570893324707e-15,
      -1.6385486167090078e-15};
  static constexpr std::array kP1 = {
      1.0009070262780821,      0.0008988049416705562,   -7.959694698491884e-06,
      2.453676622874098e-07,   -1.4708512147731871e-08, 1.3603051641271868e-09,
      -1.713156987838464e-10,  2.720702278764875e-11,   -5.177462417455656e-12,
      1.1393577989873446e-12,  -2.8244430547175534e-13, 7.685430376752383e-14,
      -2.2822019851560526e-14, 8.053924632298253e-15,   -2.83611521319148e-15,
      3.533721416808183e-16,   -8.476752825019993e-17,  3.6598334244540676e-16,
      -1.6246571071186008e-16};
  static constexpr std::array kQ1 = {
      0.3742149922195918,     -0.0007697167057643551,  1.4569614809822146e-05,
      -6.633568566751844e-07, 5.136106057327835e-08,   -5.720884880824692e-09,
      8.316030425659489e-10,  -1.4819350479353363e-10, 3.102137847514751e-11,
      -7.401244179334336e-12, 1.967158790979912e-12,   -5.672212378051656e-13,
      1.7755984066084436e-13, -6.776304091492963e-14,  2.508409114320971e-14,
      -2.13923337645191e-15,  3.1960652128215966e-16,  -3.741997721616048e-15,
      1.714368508148433e-15};
  const Expr z = 128 / (x * x) - 1;
  if (order == 0) return {Polynomial(z, kP0), Polynomial(z, kQ0) / x};
  return {Polynomial(z, kP1), Polynomial(z, kQ1) / x};
}

// J for x >= 0, and Y for x > 0; the other one is left out.
enum class Kind { kFirst, kSecond };
Expr Bessel(const Expr& x, int order, Kind kind) {
  const Expr near = Le(x, 8), infinite = Eq(x, kInf);
  const Expr small = Where(near, x, 1), large = Where(LogicalOr(near, infinite), 8, x);
  const Series series = SeriesOf(small * small * -0.25, order);
  const Expr power = order == 0 ? FullLike(x, 1) : small * 0.5;
  const Expr first = power * series.plain;
  // The angle is x - (2 order + 1) pi / 4; its sine and cosine without that difference, whose
  // rounding would count where x is large.
  const Expr sine = Sin(large), cosine = Cos(large);
  const Expr sum = sine + cosine, difference = sine - cosine;
  const Expr c = order == 0 ? sum : difference, s = order == 0 ? difference : -sum;
  const Modulation by = BesselModulation(large, order);
  const Expr root = 1 / Sqrt(large * kPi);
  if (kind == Kind::kFirst) {
    const Expr far = root * (by.p * c - by.q * s);
    return Where(near, first, Where(infinite, 0, far));
  }
  const Expr zero = Eq(small, 0), safe = Where(zero, 1, small);
  Expr second = (Log(safe * 0.5) + std::numbers::egamma) * first * 2 - power * series.harmonic;
  if (order == 1) second = second - 2 / safe;
  const Expr far = root * (by.p * s + by.q * c);
  const Expr value = Where(near, Where(zero, -kInf, second * (1 / kPi)), Where(infinite, 0, far));
  return Where(Lt(x, 0), kNan, value);
}

Expr BesselOdd(const Expr& x) { return NegateWhere(Lt(x, 0), Bessel(Abs(x), 1, Kind::kFirst)); }

// ---- modified Bessel functions of the second kind

Expr ModifiedSecond(const Expr& x, int order, bool scaled) {
  // Times e^x and the root of x, in 4 / x - 1, for x >= 2.
  static constexpr std::array kK0 = {
      1.2185953385133905,      -0.031071461824889558,   0.0030328918102739653,
      -0.00047976905676235193, 9.956054748366607e-05,   -2.4735204677699383e-05,
      7.0022444887777474e-06,  -2.1911761833516648e-06, 7.427909936226364e-07,
      -2.689189164523558e-07,  1.028943428184129e-07,   -4.128181502174517e-08,
      1.7256117287836605e-08,  -7.457867827974298e-09,  3.3338533809120016e-09,
      -1.599132725961088e-09,  7.642051402280018e-10,   -2.2558265214641848e-10,
      9.584826782514774e-11,   -2.798062691421631e-10,  1.6361337072375035e-10,
      1.7787783902903237e-10,  -1.1172302101500116e-10, -1.4704571361554237e-10,
      9.006180978525009e-11,   5.747464936229535e-11,   -3.541062929822172e-11,
      -1.282166026736494e-11,  7.812461357480806e-12};
  static constexpr std::array kK1 = {
      1.363151890371342,       0.10334973775386527,     -0.005566729880073115,
      0.0007357241549039439,   -0.00013959021963159105, 3.28438656842939e-05,
      -8.961206130307403e-06,  2.7300396932113207e-06,  -9.067205787597653e-07,
      3.229945259928267e-07,   -1.21966668440189e-07,   4.839964725313159e-08,
      -2.0044334972041654e-08, 8.595565511086123e-09,   -3.816008251498107e-09,
      1.8152670260039968e-09,  -8.624549714396097e-10,  2.602467991868031e-10,
      -1.1105513884577894e-10, 3.0467178883993586e-10,  -1.7753912364563117e-10,
      -1.9072557475104336e-10, 1.1971775464014506e-10,  1.58510991749998e-10,
      -9.692790499255198e-11,  -6.187800878305739e-11,  3.807099791748071e-11,
      1.3833585992473136e-11,  -8.415806822648061e-12};
  const Expr near = Le(x, 2), zero = Eq(x, 0);
  const Expr small = Where(LogicalAnd(near, Gt(x, 0)), x, 1), large = Where(near, 2, x);
  const Series series = SeriesOf(small * small * 0.25, order);
  const Expr power = order == 0 ? FullLike(x, 1) : small * 0.5;
  const Expr sum = (Log(small * 0.5) + std::numbers::egamma) * power * series.plain -
                   power * series.harmonic * 0.5;
  Expr low = order == 0 ? -sum : 1 / small + sum;
  Expr high =
      Polynomial(4 / large - 1, order == 0 ? std::span<const double>(kK0) : kK1) / Sqrt(large);
  if (scaled) {
    low = low * Exp(small);
  } else {
    high = high * Exp(-large);
  }
  const Expr value = Where(near, Where(zero, kInf, low), high);
  return Where(Lt(x, 0), kNan, value);
}

// ---- Airy's function

Expr AiryValue(const Expr& x) {
  // Above 2, times 2 sqrt(pi) x^(1/4) e^zeta, in 2 zeta(2) / zeta - 1.
  static constexpr std::array kAiDecay = {
      0.983679282828043,       -0.014613458724023249,   0.0014132014717017454,
      -0.00022785221368774484, 4.846334059160086e-05,   -1.2354390788588664e-05,
      3.5878318906972488e-06,  -1.1510246631885352e-06, 3.9971919548465126e-07,
      -1.4813223990949042e-07, 5.7961210756394545e-08,  -2.376358645738101e-08,
      1.0197902864995009e-08,  -4.519306650184218e-09,  1.9111063677174768e-09,
      -8.781361310256964e-10,  7.251137398138905e-10,   -3.874124274521793e-10,
      -2.1759543389891374e-10, 1.4286446028646038e-10,  3.0554782840129076e-10,
      -1.8282471208261877e-10, -1.2738393330982088e-10, 7.747807129974057e-11,
      3.526198929950861e-11,   -2.1086797348882255e-11};
  // Below -5, the factors of the wave, in 2 (zeta(5) / zeta)^2 - 1; q times zeta.
  static constexpr std::array kAiP = {
      0.9996702731603566,      -0.00032543198726407404, 4.1286661583844295e-06,
      -1.5421120183993896e-07, 1.0673425225515338e-08,  -1.1119466271716775e-09,
      1.5523083095987268e-10,  -2.700957535849165e-11,  5.5804672421557525e-12,
      -1.321068456860122e-12,  3.5037364960720653e-13,  -1.0654910508471989e-13,
      3.426382412593957e-14,   -7.047312395545908e-15,  2.1596635951693272e-15,
      -3.4038901836999526e-15, 1.4540140707662563e-15};
  static constexpr std::array kAiQ = {
      0.06911133919898425,    -0.0003247868744479708,  7.854002446771604e-06,
      -4.215741963259432e-07, 3.722533351297808e-08,   -4.636455946351637e-09,
      7.433205799496103e-10,  -1.4458451986302107e-10, 3.276462925443125e-11,
      -8.380439014562042e-12, 2.377015542950793e-12,   -7.784432471734984e-13,
      2.649296000070822e-13,  -4.906911334241398e-14,  1.4809048052708426e-14,
      -3.134770148300909e-14, 1.3884001428360162e-14};
  const auto zeta = [](const Expr& at) { return at * Sqrt(at) * (2.0 / 3); };
  const Expr above = Gt(x, 2), below = Lt(x, -5);
  const Expr none = LogicalOr(Gt(x, 200), Eq(x, -kInf));

  const Expr cube = Where(LogicalOr(above, below), 0, x);
  std::array<double, 26> even, odd;
  double first = 0.35502805388781723926, second = 0.25881940379280679841;  // Ai(0), -Ai'(0)
  for (size_t k = 0; k < even.size(); ++k) {
    const double at = 3 * static_cast<double>(k);
    if (k > 0) {
      first /= at * (at - 1);
      second /= at * (at + 1);
    }
    even[k] = first;
    odd[k] = second;
  }
  const Expr third = cube * cube * cube;
  const Expr middle = Polynomial(third, even) - cube * Polynomial(third, odd);

  const Expr high = Where(LogicalAnd(above, LogicalNot(none)), x, 2), up = zeta(high);
  const double zeta2 = std::pow(2, 1.5) * 2 / 3, zeta5 = std::pow(5, 1.5) * 2 / 3;
  const Expr decay = Polynomial(2 * zeta2 / up - 1, kAiDecay) * Exp(-up) /
                     (Sqrt(Sqrt(high)) * (2 / std::numbers::inv_sqrtpi));

  const Expr low = Where(LogicalAnd(below, LogicalNot(none)), -x, 5), down = zeta(low);
  const Expr square = zeta5 * zeta5 / (down * down) * 2 - 1;
  const Expr sine = Sin(down), cosine = Cos(down);  // of an angle pi / 4 larger
  const Expr wave = (Polynomial(square, kAiP) * (cosine + sine) +
                     Polynomial(square, kAiQ) / down * (sine - cosine)) *
                    (std::numbers::inv_sqrtpi / std::numbers::sqrt2) / Sqrt(Sqrt(low));
  return Where(none, 0, Where(above, decay, Where(below, wave, middle)));
}

}  // namespace

Expr I0(const Expr& x) {
  return InFloat64(x, [](const Expr& f) { return WithSlope(BesselValue(f, 0, false), f, I1(f)); });
}

Expr I0e(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    return WithSlope(BesselValue(f, 0, true), f, I1e(f) - Sign(f) * BesselValue(f, 0, true));
  });
}

Expr I1(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = BesselValue(f, 1, false);
    return WithSlope(value, f, BesselValue(f, 0, false) - OverOr(value, f, 0.5));
  });
}

Expr I1e(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = BesselValue(f, 1, true);
    return WithSlope(value, f, BesselValue(f, 0, true) - OverOr(value, f, 0.5) - Sign(f) * value);
  });
}

Expr BesselJ0(const Expr& x) {
  return InFloat64(
      x, [](const Expr& f) { return WithSlope(Bessel(Abs(f), 0, Kind::kFirst), f, -BesselJ1(f)); });
}

Expr BesselJ1(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = BesselOdd(f);
    return WithSlope(value, f, Bessel(Abs(f), 0, Kind::kFirst) - OverOr(value, f, 0.5));
  });
}

Expr BesselY0(const Expr& x) {
  return InFloat64(
      x, [](const Expr& f) { return WithSlope(Bessel(f, 0, Kind::kSecond), f, -BesselY1(f)); });
}

Expr BesselY1(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = Bessel(f, 1, Kind::kSecond);
    return WithSlope(value, f, Bessel(f, 0, Kind::kSecond) - value / f);
  });
}

Expr K0(const Expr& x) {
  return InFloat64(x,
                   [](const Expr& f) { return WithSlope(ModifiedSecond(f, 0, false), f, -K1(f)); });
}

Expr K0e(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = ModifiedSecond(f, 0, true);
    return WithSlope(value, f, value - K1e(f));
  });
}

Expr K1(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = ModifiedSecond(f, 1, false);
    return WithSlope(value, f, -ModifiedSecond(f, 0, false) - value / f);
  });
}

Expr K1e(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = ModifiedSecond(f, 1, true);
    return WithSlope(value, f, value - ModifiedSecond(f, 0, true) - value / f);
  });
}

Expr SphericalBesselJ0(const Expr& x) {
  return InFloat64(x, [](const Expr& f) {
    const Expr value = Where(IsInf(f), 0, OverOr(Sin(f), f, 1));
    // The difference of the two would lose all digits near 0: there -x/3 + x^3/30 - ...
    static constexpr std::array kSlope = {-1.0 / 3, 1.0 / 30, -1.0 / 840, 1.0 / 45360};
    const Expr small = Lt(Abs(f), 0.05);
    const Expr usual = (Cos(f) - value) / Where(small, 1, f);
    const Expr slope = Where(small, f * Polynomial(f * f, kSlope), usual);
    return WithSlope(value, f, Where(IsInf(f), 0, slope));
  });
}

Expr AiryAi(const Expr& x) { return InFloat64(x, AiryValue); }

}  // namespace tensord
