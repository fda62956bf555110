// First and second derivatives of elementwise functions, activations, norms, statistics and losses
// against central differences.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/distance.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/norm.h"
#include "core/tensor/polynomials.h"
#include "core/tensor/special.h"
#include "core/tensor/statistics.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Operands = absl::Span<const Expr>;

HostTensor X(std::vector<int64_t> shape, double low = -2, double high = 2, uint64_t seed = 1) {
  return Noise(DType::kFloat64, std::move(shape), low, high, seed);
}

// The derivative of the sum of f(x), as a function of x.
Function DerivativeOf(Function f) {
  return [f](Operands x) { return Gradient(Sum(Square(f(x))), {x[0]})[0]; };
}

struct UnaryCase {
  const char* name;
  Expr (*f)(const Expr&);
  double low, high;
};

TEST(MathGradient, OfUnaryFunctionsTwice) {
  const UnaryCase cases[] = {
      // clang-format off
      {"exp2",        Exp2,        -2,   2},
      {"expm1",       Expm1,       -2,   2},
      {"log2",        Log2,        0.4,  3},
      {"log1p",       Log1p,       -0.6, 3},
      {"cos",         Cos,         -4,   4},
      {"tan",         Tan,         -1,   1},
      {"asin",        Asin,        -0.8, 0.8},
      {"acos",        Acos,        -0.8, 0.8},
      {"atan",        Atan,        -4,   4},
      {"sinh",        Sinh,        -2,   2},
      {"cosh",        Cosh,        -2,   2},
      {"tanh",        Tanh,        -2,   2},
      {"asinh",       Asinh,       -4,   4},
      {"acosh",       Acosh,       1.2,  4},
      {"atanh",       Atanh,       -0.8, 0.8},
      {"erf",         Erf,         -2,   2},
      {"erfc",        Erfc,        -2,   2},
      {"erfinv",      Erfinv,      -0.8, 0.8},
      {"ndtr",        Ndtr,        -2,   2},
      {"ndtri",       Ndtri,       0.1,  0.9},
      {"log_ndtr",    LogNdtr,     -4,   4},
      {"lgamma",      Lgamma,      0.3,  5},
      {"lgamma below 0", Lgamma,   -1.8, -1.2},
      {"digamma",     Digamma,     0.5,  5},
      {"polygamma 1", [](const Expr& x) { return Polygamma(1, x); }, 0.6, 4},
      {"polygamma 2 below 0", [](const Expr& x) { return Polygamma(2, x); }, -0.7, -0.3},
      {"mvlgamma",    [](const Expr& x) { return MvLgamma(x, 2); }, 1, 4},
      {"i0",          I0,          -3,   3},
      {"i0e",         I0e,         0.5,  9},
      {"i1",          I1,          -3,   3},
      {"i1e",         I1e,         0.5,  9},
      {"sinc",        Sinc,        0.2,  1.8},
      {"entr",        Entr,        0.2,  2},
      {"logit",       [](const Expr& x) { return Logit(x); }, 0.2, 0.8},
      {"bessel_j0",   BesselJ0,    0.5,  9},
      {"bessel_j1",   BesselJ1,    0.5,  9},
      {"bessel_y0",   BesselY0,    0.5,  9},
      {"bessel_y1",   BesselY1,    0.5,  9},
      {"k0",          K0,          0.4,  4},
      {"k0e",         K0e,         0.4,  4},
      {"k1",          K1,          0.4,  4},
      {"k1e",         K1e,         0.4,  4},
      {"spherical_bessel_j0", SphericalBesselJ0, 0.2, 6},
      {"airy_ai",     AiryAi,      -3,   3},
      {"erfcx",       Erfcx,       -1,   3},
      {"log10",       Log10,       0.4,  3},
      {"pow 2.5",     [](const Expr& x) { return Pow(x, 2.5); }, 0.5, 2},
      {"pow -3",      [](const Expr& x) { return Pow(x, -3); }, 0.6, 2},
      {"pow of 1.5",  [](const Expr& x) { return Pow(1.5, x); }, -2, 2},
      {"sigmoid",     Sigmoid,     -4,   4},
      {"silu",        Silu,        -4,   4},
      {"logsigmoid",  LogSigmoid,  -4,   4},
      {"softplus",    [](const Expr& x) { return Softplus(x, 0.5); }, -4, 4},
      {"mish",        Mish,        -3,   3},
      {"gelu",        [](const Expr& x) { return Gelu(x); }, -3, 3},
      {"gelu tanh",   [](const Expr& x) { return Gelu(x, GeluForm::kTanh); }, -3, 3},
      {"tanhshrink",  TanhShrink,  -2,   2},
      // clang-format on
  };
  for (const UnaryCase& c : cases) {
    const Function f = [&c](Operands x) { return c.f(x[0]); };
    ExpectGradient(c.name, f, {X({5}, c.low, c.high)}, 2e-6);
    ExpectGradient(std::string(c.name) + " twice", DerivativeOf(f), {X({4}, c.low, c.high, 2)},
                   2e-5);
  }
}

TEST(MathGradient, OfFunctionsWithCorners) {
  const UnaryCase cases[] = {
      // clang-format off
      {"frac",       Frac, -2, 2},
      {"hardshrink", [](const Expr& x) { return HardShrink(x); }, -2, 2},
      {"softshrink", [](const Expr& x) { return SoftShrink(x); }, -2, 2},
      {"threshold",  [](const Expr& x) { return Threshold(x, 0.3, 7); }, -2, 2},
      {"deg2rad",    Deg2Rad, -200, 200},
      {"frexp",      [](const Expr& x) { return Frexp(x).mantissa; }, 1, 7},
      {"nan_to_num", [](const Expr& x) { return NanToNum(x); }, -2, 2},
      {"clamp",      [](const Expr& x) {
         return ClampTo(x, FullLike(x, -0.5), FullLike(x, 0.7));
       }, -2, 2},
      // clang-format on
  };
  for (const UnaryCase& c : cases) {
    const Function f = [&c](Operands x) { return c.f(x[0]); };
    ExpectGradient(c.name, f, {X({6}, c.low, c.high)});
    ExpectGradient(std::string(c.name) + " twice", DerivativeOf(f), {X({6}, c.low, c.high)}, 2e-5);
  }
}

TEST(MathGradient, OfBinaryFunctionsTwice) {
  using Binary = Expr (*)(const Expr&, const Expr&);
  const std::pair<const char*, Binary> cases[] = {
      {"atan2", Atan2},
      {"hypot", Hypot},
      {"pow", Pow},
      {"logaddexp", LogAddExp},
      {"logaddexp2", LogAddExp2},
      {"xlogy", XLogY},
      {"zeta", Zeta},
      {"xlog1py", XLog1Py},
      {"fmax", FMax},
      {"fmin", FMin},
      {"fmod", Fmod},
      {"mod", Mod},
  };
  for (const auto& [name, function] : cases) {
    const Binary f = function;
    const Function call = [f](Operands x) { return f(x[0], x[1]); };
    ExpectGradient(name, call, {X({2, 1}, 1.5, 3, 1), X({3}, 0.6, 2, 2)}, 2e-6);
    ExpectGradient(std::string(name) + " twice", DerivativeOf(call),
                   {X({3}, 1.5, 3, 1), X({3}, 0.6, 2, 2)}, 2e-5);
  }
  for (const Binary f : {Binary(Igamma), Binary(Igammac)}) {
    ExpectGradient(
        "igamma in x",
        [f](Operands x) { return f(Full(x[0].graph(), {3}, 2.5, DType::kFloat64), x[0]); },
        {X({3}, 0.5, 6)}, 2e-6);
    ExpectGradient("igamma in x twice", DerivativeOf([f](Operands x) {
                     return f(Full(x[0].graph(), {3}, 2.5, DType::kFloat64), x[0]);
                   }),
                   {X({3}, 0.5, 6)}, 2e-5);
  }
}

TEST(MathGradient, OfNormsAndStatistics) {
  struct Case {
    const char* name;
    Function f;
    std::vector<HostTensor> inputs;
  };
  const Case cases[] = {
      {"glu", [](Operands x) { return Glu(x[0], 1); }, {X({2, 4})}},
      {"prelu", [](Operands x) { return Prelu(x[0], x[1]); }, {X({2, 3}), X({3})}},
      {"instance_norm",
       [](Operands x) { return InstanceNorm(x[0], x[1], x[2]); },
       {X({2, 2, 5}), X({2}), X({2})}},
      {"rms_norm",
       [](Operands x) { return RmsNorm(x[0], x[1], 1e-5, 2); },
       {X({2, 3, 2}), X({3, 2})}},
      {"local_response_norm",
       [](Operands x) { return LocalResponseNorm(x[0], {.size = 3}); },
       {X({2, 4, 2})}},
      {"standardize",
       [](Operands x) {
         return Standardize(x[0], {0, 1});
       },
       {X({3, 4})}},
      {"norm 2", [](Operands x) { return VectorNorm(x[0], 2, 1); }, {X({3, 4})}},
      {"norm 3", [](Operands x) { return VectorNorm(x[0], 3, 1); }, {X({3, 4})}},
      {"norm 1", [](Operands x) { return VectorNorm(x[0], 1); }, {X({3, 4})}},
      {"normalize", [](Operands x) { return NormalizeNorm(x[0], 2, 1); }, {X({3, 4})}},
      {"diff", [](Operands x) { return Diff(x[0], 2); }, {X({2, 5})}},
      {"numerical_gradient",
       [](Operands x) { return NumericalGradient(x[0], 1, {.spacing = 0.5, .edge_order = 2}); },
       {X({2, 4})}},
      {"sum_to",
       [](Operands x) {
         return SumTo(x[0], {1, 3});
       },
       {X({2, 4, 3})}},
      {"trapezoid", [](Operands x) { return Trapezoid(x[0], x[1]); }, {X({2, 4}), X({4})}},
      {"cumulative_trapezoid",
       [](Operands x) { return CumulativeTrapezoid(x[0], x[1]); },
       {X({2, 4}), X({4})}},
      {"renorm", [](Operands x) { return Renorm(x[0], 2, 0, 1.5); }, {X({2, 4})}},
      {"cov", [](Operands x) { return Covariance(x[0]); }, {X({2, 5})}},
      {"corrcoef", [](Operands x) { return Correlation(x[0]); }, {X({2, 5})}},
      {"cosine_similarity",
       [](Operands x) { return CosineSimilarity(x[0], x[1]); },
       {X({2, 4}), X({2, 4}, -2, 2, 5)}},
      {"pairwise_distance",
       [](Operands x) { return PairwiseDistance(x[0], x[1]); },
       {X({2, 4}), X({2, 4}, -2, 2, 5)}},
      {"pdist", [](Operands x) { return Pdist(x[0]); }, {X({4, 3})}},
  };
  for (const Case& c : cases) {
    ExpectGradient(c.name, c.f, c.inputs, 2e-6);
    ExpectGradient(std::string(c.name) + " twice", DerivativeOf(c.f), c.inputs, 2e-5);
  }
}

TEST(MathGradient, OfLosses) {
  const HostTensor x = X({3, 4}), y = X({3, 4}, -2, 2, 9), p = X({3, 4}, 0.2, 0.8, 4);
  const auto with = [](auto loss) {
    return [loss](Operands x) { return loss(x[0], x[1], Reduction::kMean); };
  };
  struct Case {
    const char* name;
    Function f;
    std::vector<HostTensor> inputs;
  };
  const auto signs = [](const Expr& like) {
    return Where(Eq(Mod(IndexAlong(like, 0), 2), 0), FullLike(like, 1), -1);
  };
  const Case cases[] = {
      {"mse", with([](auto& a, auto& b, auto r) { return MseLoss(a, b, r); }), {x, y}},
      {"smooth_l1",
       with([](auto& a, auto& b, auto r) { return SmoothL1Loss(a, b, 0.7, r); }),
       {x, y}},
      {"huber", with([](auto& a, auto& b, auto r) { return HuberLoss(a, b, 0.7, r); }), {x, y}},
      {"soft_margin",
       with([](auto& a, auto& b, auto r) { return SoftMarginLoss(a, b, r); }),
       {x, y}},
      {"kl_div", with([](auto& a, auto& b, auto r) { return KlDiv(a, b, false, r); }), {x, p}},
      {"kl_div log", with([](auto& a, auto& b, auto r) { return KlDiv(a, b, true, r); }), {x, y}},
      {"poisson",
       with([](auto& a, auto& b, auto r) { return PoissonNllLoss(a, b, {}, r); }),
       {x, p}},
      {"gaussian", [](Operands x) { return GaussianNllLoss(x[0], x[1], x[2], true); }, {x, y, p}},
      {"bce", with([](auto& a, auto& b, auto r) { return BinaryCrossEntropy(a, b, r); }), {p, p}},
      {"bce logits",
       with([](auto& a, auto& b, auto r) {
         return BinaryCrossEntropyWithLogits(a, b, std::nullopt, r);
       }),
       {x, p}},
      {"hinge", [signs](Operands x) { return HingeEmbeddingLoss(x[0], signs(x[0]), 1.5); }, {x}},
      {"cosine_embedding",
       [signs](Operands x) { return CosineEmbeddingLoss(x[0], x[1], signs(Sum(x[0], 1)), -0.9); },
       {x, y}},
      {"margin_ranking",
       [signs](Operands x) { return MarginRankingLoss(x[0], x[1], signs(x[0]), 0.5); },
       {x, y}},
      {"triplet",
       [](Operands x) { return TripletMarginLoss(x[0], x[1], x[2], {.margin = 5, .swap = true}); },
       {x, y, X({3, 4}, -2, 2, 11)}},
      {"multi_margin",
       [](Operands x) {
         return MultiMarginLoss(x[0], Arange(x[0].graph(), 0, 3, 1, DType::kInt32), {.p = 2});
       },
       {x}},
      {"multilabel_margin",
       [](Operands x) {
         return MultilabelMarginLoss(x[0], IndexAlong(x[0], 0) - IndexAlong(x[0], 1));
       },
       {x}},
      {"multilabel_soft_margin",
       with([](auto& a, auto& b, auto r) {
         return MultilabelSoftMarginLoss(a, b, std::nullopt, r);
       }),
       {x, p}},
      {"ctc",
       [](Operands x) {
         Graph& graph = x[0].graph();
         const Expr labels = Arange(graph, 1, 3, 1, DType::kInt32);
         const Expr targets = BroadcastTo(labels, {2, 2});
         return CtcLoss(LogSoftmax(x[0], 2), targets, Arange(graph, 3, 5, 1, DType::kInt32),
                        Arange(graph, 1, 3, 1, DType::kInt32));
       },
       {X({4, 2, 3})}},
  };
  for (const Case& c : cases) {
    ExpectGradient(c.name, c.f, c.inputs, 2e-6);
    ExpectGradient(std::string(c.name) + " twice", DerivativeOf(c.f), c.inputs, 2e-5);
  }
}

TEST(MathGradient, IsAnErrorWhereItIsNotKnown) {
  Bench bench;
  const Expr x = bench.Input(X({3}, 0.5, 0.9)), n = bench.Input(X({3}, 2, 3));
  const auto slope = [](const Expr& y, const Expr& by) { return Gradient(Sum(y), {by})[0]; };
  const std::pair<Expr, const char*> cases[] = {
      {slope(Igamma(n, x), n),
       "gradient: igamma has no derivative in its first argument; detach it"},
      {slope(Igammac(n, x), n),
       "gradient: igammac has no derivative in its first argument; detach it"},
      {slope(LegendreP(x, n), n),
       "gradient: legendre_polynomial_p has no derivative in its degree; detach it"},
      {slope(slope(LegendreP(x, n), x), x),
       "gradient: legendre_polynomial_p has no second derivative"},
      {slope(Igamma(n, x), x), ""},
      {slope(slope(Igamma(n, x), x), n), ""},  // of the density in x
      {slope(Igamma(Detach(n), x) * n, n), ""},
      {slope(HermiteH(x, n), x), ""},
  };
  for (const auto& [gradient, message] : cases) {
    EXPECT_EQ(ErrorOf(gradient), message);
    EXPECT_EQ(gradient.ok() || gradient.status().code() == absl::StatusCode::kUnimplemented, true);
  }
}

TEST(MathGradient, OfHypotAtTheLargestAndTheLeast) {
  constexpr double kMax = std::numeric_limits<float>::max();
  constexpr double kLeast = std::numeric_limits<float>::denorm_min();
  const double half = std::sqrt(0.5);
  const struct {
    double x, y, by_x, by_y;
  } cases[] = {{kMax, kMax, half, half},    {kMax, -kMax, half, -half}, {kMax, 0, 1, 0},
               {-kMax, 1, -1, 0},           {3, 4, 0.6, 0.8},           {1e-30, 1e-30, half, half},
               {kLeast, kLeast, half, half}};
  for (const auto& c : cases) {
    Bench bench;
    const Expr x = bench.Input(DType::kFloat32, {1}, {c.x});
    const Expr y = bench.Input(DType::kFloat32, {1}, {c.y});
    const std::vector<Expr> slopes = Gradient(Hypot(x, y), {x, y});
    ExpectNear(bench.Values(slopes[0]), {c.by_x}, 1e-6, fmt::format("{} {}", c.x, c.y));
    ExpectNear(bench.Values(slopes[1]), {c.by_y}, 1e-6, fmt::format("{} {}", c.x, c.y));
  }
}

TEST(MathGradient, OfTheEnds) {
  // Slopes where a formula's own would be NaN.
  const double inf = std::numeric_limits<double>::infinity();
  struct Edge {
    const char* name;
    Expr (*f)(const Expr&);
    double at, slope;
  };
  const Edge cases[] = {
      {"sqrt", Sqrt, 0, inf},
      {"rsqrt", Rsqrt, 0, -inf},
      {"abs", Abs, 0, 0},
      {"abs", Abs, -inf, -1},
      {"sigmoid", Sigmoid, 300, 0},
      {"sigmoid", Sigmoid, -300, 0},
      {"softplus", [](const Expr& x) { return Softplus(x); }, 400, 1},
      {"softplus", [](const Expr& x) { return Softplus(x); }, -400, 0},
      {"mish", Mish, 400, 1},
      {"gelu", [](const Expr& x) { return Gelu(x); }, -400, 0},
      {"tanh", Tanh, 400, 0},
      {"erf", Erf, 30, 0},
      {"asinh", Asinh, 0, 1},
      {"round", [](const Expr& x) { return Round(x); }, 1.5, 0},
      {"norm", [](const Expr& x) { return VectorNorm(x); }, 0, 0},
      {"pow -1", [](const Expr& x) { return Pow(x, -1); }, 0, -inf},
      {"pow 0", [](const Expr& x) { return Pow(x, 0); }, inf, 0},
      {"pow 0.3", [](const Expr& x) { return Pow(x, 0.3); }, 0, inf},
      {"pow 0.3", [](const Expr& x) { return Pow(x, 0.3); }, inf, 0},
      {"pow 2", [](const Expr& x) { return Pow(x, 2); }, inf, inf},
      {"pow -8", [](const Expr& x) { return Pow(x, -8); }, 0.5, -8 * 512},
      {"0 pow", [](const Expr& x) { return Pow(0, x); }, 0, 0},
      {"relu6", Relu6, 6, 1},
      {"hardtanh", [](const Expr& x) { return HardTanh(x); }, -1, 1},
  };
  for (const Edge& c : cases) {
    Bench bench;
    const Expr x = bench.Input(DType::kFloat32, {1}, {c.at});
    const std::vector<double> slope = bench.Values(Gradient(Sum(c.f(x)), {x})[0]);
    ExpectNear(slope, {c.slope}, 1e-6, std::string(c.name) + " at " + std::to_string(c.at));
  }
}

}  // namespace
}  // namespace tensord
