#include "core/tensor/gradient.h"

#include <cmath>
#include <limits>

#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Operands = absl::Span<const Expr>;
constexpr double kInf = std::numeric_limits<double>::infinity();

HostTensor X(std::vector<int64_t> shape, double low = -2, double high = 2, uint64_t seed = 1) {
  return Noise(DType::kFloat64, std::move(shape), low, high, seed);
}

struct Case {
  const char* name;
  Function f;
  std::vector<HostTensor> inputs;
};

void ExpectGradients(const std::vector<Case>& cases) {
  for (const Case& c : cases) ExpectGradient(c.name, c.f, c.inputs);
}

TEST(Gradient, OfUnaryOps) {
  struct Unary {
    const char* name;
    Expr (*f)(const Expr&);
    double low, high;
  };
  const Unary cases[] = {
      {"neg", Neg, -2, 2},
      {"abs", Abs, -2, 2},
      {"square", Square, -2, 2},
      {"reciprocal", Reciprocal, 0.5, 2},
      {"sqrt", Sqrt, 0.5, 2},
      {"rsqrt", Rsqrt, 0.5, 2},
      {"exp", Exp, -2, 2},
      {"exp2", Exp2, -2, 2},
      {"expm1", Expm1, -2, 2},
      {"log", Log, 0.5, 2},
      {"log2", Log2, 0.5, 2},
      {"log10", Log10, 0.5, 2},
      {"log1p", Log1p, -0.7, 2},
      {"erf", Erf, -2, 2},
      {"sin", Sin, -2, 2},
      {"cos", Cos, -2, 2},
      {"tan", Tan, -1, 1},
      {"asin", Asin, -0.9, 0.9},
      {"acos", Acos, -0.9, 0.9},
      {"atan", Atan, -3, 3},
      {"sinh", Sinh, -2, 2},
      {"cosh", Cosh, -2, 2},
      {"tanh", Tanh, -2, 2},
      {"trunc", Trunc, -2, 2},
      {"floor", Floor, -2, 2},
      {"ceil", Ceil, -2, 2},
      {"round", Round, -2, 2},
      {"relu", Relu, -2, 2},
      {"relu6", Relu6, -2, 8},
      {"sigmoid", Sigmoid, -4, 4},
      {"silu", Silu, -4, 4},
      {"logsigmoid", LogSigmoid, -4, 4},
      {"quick_gelu", QuickGelu, -2, 2},
      {"hardsigmoid", [](const Expr& x) { return HardSigmoid(x); }, -4, 4},
      {"hardswish", HardSwish, -4, 4},
      {"mish", Mish, -2, 2},
      {"softsign", Softsign, -2, 2},
      {"selu", [](const Expr& x) { return Selu(x); }, -2, 2},
      {"softplus", [](const Expr& x) { return Softplus(x, 3); }, -2, 2},
      {"gelu", [](const Expr& x) { return Gelu(x); }, -2, 2},
      {"gelu tanh", [](const Expr& x) { return Gelu(x, GeluForm::kTanh); }, -2, 2},
      {"elu", [](const Expr& x) { return Elu(x, 0.3); }, -2, 2},
      {"celu", [](const Expr& x) { return Celu(x, 3); }, -2, 2},
      {"leaky_relu", [](const Expr& x) { return LeakyRelu(x, 0.1); }, -2, 2},
      {"clamp", [](const Expr& x) { return Clamp(x, -1, 0.5); }, -2, 2},
      {"pow 3", [](const Expr& x) { return Pow(x, 3); }, -2, 2},
      {"pow -2", [](const Expr& x) { return Pow(x, -2); }, 0.5, 2},
      {"pow 1.7", [](const Expr& x) { return Pow(x, 1.7); }, 0.5, 2},
      {"2 pow", [](const Expr& x) { return Pow(2, x); }, -2, 2},
      {"cast", [](const Expr& x) { return Cast(Cast(x, DType::kFloat64), DType::kFloat64); }, -2,
       2},
  };
  for (const Unary& c : cases) {
    ExpectGradient(c.name, [&](Operands x) { return c.f(x[0]); }, {X({7}, c.low, c.high)});
  }
}

TEST(Gradient, OfBinaryOps) {
  using Binary = Expr (*)(const Expr&, const Expr&);
  const std::pair<const char*, Binary> cases[] = {
      {"add", Add},         {"sub", Sub},         {"mul", Mul},           {"div", Div},
      {"maximum", Maximum}, {"minimum", Minimum}, {"pow", Pow},           {"logaddexp", LogAddExp},
      {"mod", Mod},         {"fmod", Fmod},       {"copysign", CopySign},
  };
  for (const auto& [name, function] : cases) {
    const Binary f = function;
    const Function call = [f](Operands x) { return f(x[0], x[1]); };
    ExpectGradient(name, call, {X({5}, 0.5, 3, 1), X({5}, 0.6, 3, 2)});
    ExpectGradient(name, call, {X({2, 1}, 0.5, 3, 1), X({3}, 0.6, 3, 2)});
  }
  ExpectGradients({
      {"where", [](Operands x) { return Where(Lt(x[0], 0), x[0] * 2, x[1]); }, {X({2, 3}), X({3})}},
      {"lerp",
       [](Operands x) { return Lerp(x[0], x[1], x[2]); },
       {X({3}), X({3}, -2, 2, 2), X({3}, 0, 1, 3)}},
      {"used twice", [](Operands x) { return x[0] * x[0] * x[0] + Exp(x[0]); }, {X({3})}},
  });
}

TEST(Gradient, OfMovement) {
  const int64_t sizes[] = {1, 3};
  ExpectGradients({
      {"reshape",
       [](Operands x) {
         return Reshape(x[0], {3, 4});
       },
       {X({2, 6})}},
      {"expand",
       [](Operands x) {
         return Expand(x[0], {4, 2, 3});
       },
       {X({2, 1})}},
      {"permute",
       [](Operands x) {
         return Permute(x[0], {2, 0, 1});
       },
       {X({2, 3, 4})}},
      {"flip", [](Operands x) { return Flip(x[0], {1}); }, {X({2, 3})}},
      {"pad",
       [](Operands x) {
         return Pad(x[0], {{1, 0}, {-1, 2}}, 3);
       },
       {X({2, 3})}},
      {"slice",
       [](Operands x) {
         return SliceAxis(x[0], 0, {4, std::nullopt, -2});
       },
       {X({6})}},
      {"cat",
       [](Operands x) {
         return Cat({x[0], x[1], x[0]}, 0);
       },
       {X({2, 2}), X({1, 2}, 1, 2)}},
      {"stack",
       [](Operands x) {
         return Stack({x[0], x[1]}, 1);
       },
       {X({2}), X({2}, 1, 2)}},
      {"split", [&](Operands x) { return (*Split(x[0], sizes, 0))[1]; }, {X({4})}},
      {"repeat",
       [](Operands x) {
         return Repeat(x[0], {2, 3});
       },
       {X({2})}},
      {"roll", [](Operands x) { return Roll(x[0], 2, 0); }, {X({5})}},
      {"tril", [](Operands x) { return Tril(x[0]); }, {X({3, 3})}},
      {"diagonal", [](Operands x) { return Diagonal(x[0], 1); }, {X({3, 4})}},
      {"windows",
       [](Operands x) {
         return Windows(x[0], 0, {3, 2, 1});
       },
       {X({8})}},
      {"windows dilated",
       [](Operands x) {
         return Windows(x[0], 1, {2, 1, 3});
       },
       {X({2, 6})}},
      {"windows side by side",
       [](Operands x) {
         return Windows(x[0], 0, {2, 2, 1});
       },
       {X({5})}},
      {"windows of windows",
       [](Operands x) {
         return Windows(Windows(x[0], 0, {2}), 0, {3, 2}) * 2;
       },
       {X({9})}},
  });
}

TEST(Gradient, OfReductions) {
  ExpectGradients({
      {"sum",
       [](Operands x) {
         return Sum(x[0], {0, 2});
       },
       {X({2, 3, 2})}},
      {"prod", [](Operands x) { return Prod(x[0], 1); }, {X({2, 3})}},
      {"max", [](Operands x) { return Max(x[0], 1); }, {X({2, 4})}},
      {"min", [](Operands x) { return Min(x[0]); }, {X({2, 4})}},
      {"mean", [](Operands x) { return Mean(x[0], 0, kKeepDims); }, {X({3, 2})}},
      {"var", [](Operands x) { return Var(x[0], 1); }, {X({2, 4})}},
      {"std", [](Operands x) { return Std(x[0], 1, 0); }, {X({2, 4})}},
      {"logsumexp", [](Operands x) { return LogSumExp(x[0], 1); }, {X({2, 4})}},
      {"softmax", [](Operands x) { return Softmax(x[0], 1); }, {X({2, 4})}},
      {"log_softmax", [](Operands x) { return LogSoftmax(x[0], 0); }, {X({3, 2})}},
      {"cumsum", [](Operands x) { return CumSum(x[0], 0); }, {X({4, 2})}},
      {"cumprod", [](Operands x) { return CumProd(x[0], 0); }, {X({4})}},
      {"cumsum, back and exclusive",
       [](Operands x) { return CumSum(x[0], 1, {.reverse = true, .exclusive = true}); },
       {X({2, 4})}},
      {"cumprod, back",
       [](Operands x) { return CumProd(x[0], 1, {.reverse = true}); },
       {X({2, 3})}},
      {"cumprod, exclusive",
       [](Operands x) { return CumProd(x[0], 0, {.exclusive = true}); },
       {X({4, 2})}},
      {"logcumsumexp", [](Operands x) { return LogCumSumExp(x[0], 1); }, {X({2, 4})}},
      {"logcumsumexp, back",
       [](Operands x) { return LogCumSumExp(x[0], 0, {.reverse = true}) * -1.0; },
       {X({4})}},
      {"cummin, back",
       [](Operands x) { return Scan(ScanKind::kMin, x[0], 0, {.reverse = true}); },
       {X({5, 2})}},
      {"cumprod through a zero",
       [](Operands x) { return CumProd(x[0], 0); },
       {HostTensor::Of(DType::kFloat64, {4}, {0.5, 0, -2, 3})}},
      {"cumprod through two zeros",
       [](Operands x) { return CumProd(x[0], 0); },
       {HostTensor::Of(DType::kFloat64, {5}, {0.5, 0, -2, 0, 3})}},
      {"cummax", [](Operands x) { return CumMax(x[0], 0).values; }, {X({5})}},
  });
}

TEST(Gradient, OfProductsAndConvolutions) {
  const int64_t two[] = {2, 2}, three[] = {3, 3}, one[] = {1}, by_two[] = {2};
  const PadAmount pad[] = {{1, 1}}, uneven[] = {{0, 2}, {1, -1}};
  const auto conv = [](ConvOptions options) {
    return [options](Operands x) {
      return Conv(x[0], x[1], x.size() > 2 ? std::optional(x[2]) : std::nullopt, options);
    };
  };
  const auto turned = [](ConvOptions options) {
    return [options](Operands x) { return ConvTranspose(x[0], x[1], std::nullopt, options); };
  };
  const auto pool = [](bool max, PoolOptions options) {
    return [=](Operands x) { return max ? MaxPool(x[0], options) : AvgPool(x[0], options); };
  };
  ExpectGradients({
      {"matmul", [](Operands x) { return MatMul(x[0], x[1]); }, {X({2, 3}), X({3, 2})}},
      {"matmul batch", [](Operands x) { return MatMul(x[0], x[1]); }, {X({2, 1, 2}), X({2, 3})}},
      {"matmul vector", [](Operands x) { return MatMul(x[0], x[1]); }, {X({3}), X({3, 2})}},
      {"linear",
       [](Operands x) { return Linear(x[0], x[1], x[2]); },
       {X({2, 3}), X({4, 3}), X({4})}},
      {"conv", conv({}), {X({1, 2, 4, 3}), X({3, 2, 2, 2}), X({3})}},
      {"conv 1x1", conv({}), {X({2, 2, 3, 3}), X({2, 2, 1, 1})}},
      {"conv 1d", conv({.padding = pad}), {X({2, 1, 5}), X({2, 1, 3})}},
      {"conv 3d", conv({}), {X({1, 1, 2, 3, 3}), X({1, 1, 2, 2, 2})}},
      {"conv stride", conv({.stride = by_two, .padding = pad}), {X({1, 1, 5, 4}), X({2, 1, 3, 3})}},
      {"conv groups", conv({.padding = uneven, .groups = 2}), {X({1, 2, 3, 3}), X({4, 1, 2, 2})}},
      {"conv dilation",
       conv({.stride = by_two, .dilation = by_two}),
       {X({1, 1, 6, 5}), X({1, 1, 2, 2})}},
      {"conv side by side", conv({.stride = by_two}), {X({1, 2, 4, 5}), X({2, 2, 2, 2})}},
      {"conv transpose",
       turned({.stride = by_two, .padding = pad}),
       {X({1, 2, 3, 3}), X({2, 1, 3, 3})}},
      {"conv twice",
       [](Operands x) { return Conv(Relu(Conv(x[0], x[1])), x[1]); },
       {X({1, 1, 5, 5}), X({1, 1, 2, 2})}},
      {"max pool", pool(true, {.kernel = two}), {X({1, 1, 4, 5})}},
      {"max pool overlap",
       pool(true, {.kernel = three, .stride = one, .padding = pad}),
       {X({1, 4, 4})}},
      {"avg pool", pool(false, {.kernel = two}), {X({1, 4, 4})}},
      {"avg pool overlap",
       pool(false, {.kernel = three, .stride = by_two, .padding = pad, .count_include_pad = false}),
       {X({1, 5, 4})}},
      {"attention",
       [](Operands x) {
         return ScaledDotProductAttention(x[0], x[1], x[2],
                                          {.is_causal = true, .grouped_heads = true});
       },
       {X({2, 3, 2}), X({1, 3, 2}), X({1, 3, 2})}},
  });
}

TEST(Gradient, OfNormsAndLosses) {
  Bench bench;
  const auto labels = [](const Expr& x) { return Arange(x.graph(), 0, 2, 1, DType::kInt32); };
  ExpectGradients({
      {"batch_norm",
       [](Operands x) { return BatchNormTrain(x[0], x[1], x[2]).y; },
       {X({2, 2, 3}), X({2}), X({2})}},
      {"layer_norm",
       [](Operands x) { return LayerNorm(x[0], 1, x[1], x[2]); },
       {X({2, 4}), X({4}), X({4})}},
      {"group_norm", [](Operands x) { return GroupNorm(x[0], 2, x[1]); }, {X({2, 4, 2}), X({4})}},
      {"rms_norm", [](Operands x) { return RmsNorm(x[0], x[1]); }, {X({2, 4}), X({4})}},
      {"mse", [](Operands x) { return MseLoss(x[0], x[1]); }, {X({4}), X({4}, -2, 2, 2)}},
      {"bce",
       [](Operands x) { return BinaryCrossEntropy(x[0], x[1]); },
       {X({4}, 0.1, 0.9), X({4}, 0.1, 0.9, 2)}},
      {"bce logits",
       [](Operands x) { return BinaryCrossEntropyWithLogits(x[0], x[1]); },
       {X({4}), X({4}, 0, 1, 2)}},
      {"cross entropy",
       [&](Operands x) { return CrossEntropy(x[0], labels(x[0]), {.label_smoothing = 0.2}); },
       {X({2, 4})}},
      {"cross entropy of probabilities",
       [](Operands x) { return CrossEntropy(x[0], x[1]); },
       {X({2, 4}), X({2, 4}, 0, 1)}},
      {"embedding",
       [&](Operands x) { return Embedding(x[0], OneHot(labels(x[0]), 3)); },
       {X({3, 2})}},
      {"gather along",
       [](Operands x) {
         return GatherAlong(x[0], 1, Ones(x[0].graph(), {2, 2}, DType::kInt32));
       },
       {X({2, 3})}},
      {"index",
       [&](Operands x) {
         return Index(x[0], {Slice{}, labels(x[0]), Slice{.step = -1}});
       },
       {X({2, 3, 2})}},
      {"dropout",
       [](Operands x) {
         return Dropout(x[0], Linspace(x[0].graph(), 0, 1, 4, DType::kFloat32), 0.5);
       },
       {X({4})}},
  });
}

TEST(Gradient, AtEdges) {
  using Unary = Expr (*)(const Expr&);
  const struct {
    const char* name;
    Unary f;
    double at, expected;
  } cases[] = {
      {"relu at 0", Relu, 0, 0},
      {"relu6 at 6", Relu6, 6, 1},
      {"abs at 0", Abs, 0, 0},
      {"sigmoid far left", Sigmoid, -300, 0},
      {"sigmoid far right", Sigmoid, 300, 0},
      {"sigmoid at 0", Sigmoid, 0, 0.25},
      {"tanh at 0", Tanh, 0, 1},
      {"tanh far", Tanh, -300, 0},
      {"softplus at 0", [](const Expr& x) { return Softplus(x); }, 0, 0.5},
      {"softplus far", [](const Expr& x) { return Softplus(x); }, 300, 1},
      {"gelu tanh far", [](const Expr& x) { return Gelu(x, GeluForm::kTanh); }, -300, 0},
      {"elu far", [](const Expr& x) { return Elu(x); }, 300, 1},
      {"mish far", Mish, 300, 1},
      {"sqrt at 0", Sqrt, 0, kInf},
      {"expm1 at 0", Expm1, 0, 1},
      {"log1p at 0", Log1p, 0, 1},
      {"clamp on the bound", [](const Expr& x) { return Clamp(x, 0, 1); }, 1, 1},
      {"x^0 at inf", [](const Expr& x) { return Pow(x, 0); }, kInf, 0},
      {"x^2 at 0", [](const Expr& x) { return Pow(x, 2); }, 0, 0},
      {"x^0.3 at 0", [](const Expr& x) { return Pow(x, 0.3); }, 0, kInf},
      {"x^1.3 at 0", [](const Expr& x) { return Pow(x, 1.3); }, 0, 0},
      {"x^-1 at 0", [](const Expr& x) { return Pow(x, -1); }, 0, -kInf},
      {"not through the other branch", [](const Expr& x) { return Where(Gt(x, 0), Log(x), x); },
       0.5, 2},
      {"detach", Detach, 1, 0},
      {"detached factor", [](const Expr& x) { return Detach(x) * x; }, 3, 3},
      {"cast to int", [](const Expr& x) { return Cast(Cast(x, DType::kInt32), x.dtype()); }, 1, 0},
      {"comparison", [](const Expr& x) { return x * Cast(Gt(x, 0), x.dtype()); }, 2, 1},
  };
  for (const auto& c : cases) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
      Bench bench;
      const Expr x = bench.Input(dtype, {}, {c.at});
      ExpectNear(bench.Values(Gradient(c.f(x), {x})[0]), {c.expected}, 1e-6, c.name);
    }
  }
}

TEST(Gradient, SharesTies) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {4}, {3, 1, 3, 3});
  ExpectNear(bench.Values(Gradient(Max(x), {x})[0]), {1.0 / 3, 0, 1.0 / 3, 1.0 / 3}, 1e-6);
  const Expr y = bench.Input(DType::kFloat32, {4}, {3, 2, 1, 3});
  EXPECT_EQ(bench.Values(Gradient(Sum(Maximum(x, y)), {x})[0]), (Values{0.5, 0, 1, 0.5}));
  EXPECT_EQ(bench.Values(Gradient(Sum(Minimum(x, y)), {x})[0]), (Values{0.5, 1, 0, 0.5}));
}

TEST(Gradient, OfProductsWithZeros) {
  Bench bench;
  const Expr one = bench.Input(DType::kFloat32, {3}, {2, 0, 5});
  EXPECT_EQ(bench.Values(Gradient(Prod(one), {one})[0]), (Values{0, 10, 0}));
  const Expr two = bench.Input(DType::kFloat32, {3}, {0, 0, 5});
  EXPECT_EQ(bench.Values(Gradient(Prod(two), {two})[0]), (Values{0, 0, 0}));
}

TEST(Gradient, AddsUpDuplicateIndices) {
  Bench bench;
  const Expr table = bench.Counting({3, 2});
  const Expr index = bench.Input(DType::kInt32, {4}, {2, 0, 2, 9});
  const Expr g = Gradient(Sum(Embedding(table, index)), {table})[0];
  EXPECT_EQ(bench.Values(g), (Values{1, 1, 0, 0, 2, 2}));
}

TEST(Gradient, OfIntermediatesAndStrangers) {
  Bench bench;
  const Expr x = bench.Counting({3}), stranger = bench.Counting({2}, DType::kFloat16);
  const Expr square = x * x;
  const Expr loss = Sum(square * 3);
  const std::vector<Expr> g = Gradient(loss, {square, x, stranger, loss});
  EXPECT_EQ(bench.Values(g[0]), (Values{3, 3, 3}));
  EXPECT_EQ(bench.Values(g[1]), (Values{0, 6, 12}));
  EXPECT_EQ(bench.Values(g[2]), (Values{0, 0}));
  EXPECT_EQ(g[2].dtype(), DType::kFloat16);
  EXPECT_EQ(bench.Values(g[3]), (Values{1}));
}

TEST(Gradient, TakesASeed) {
  Bench bench;
  const Expr x = bench.Counting({2, 2});
  const Expr seed = bench.Input(DType::kFloat32, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(bench.Values(Gradient(x * x, {x}, seed)[0]), (Values{0, 4, 12, 24}));
}

TEST(Gradient, OfTheGradient) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {2}, {1, 2});
  const Expr first = Gradient(Sum(x * x * x), {x})[0];
  ExpectNear(bench.Values(Gradient(Sum(first), {x})[0]), {6, 12}, 1e-12);
  // Second derivatives through windows, by differences of the first.
  ExpectGradient(
      "conv twice",
      [](Operands v) {
        const Expr y = Conv(v[0], v[1]);
        return Gradient(Sum(y * y * y), {v[0]})[0];
      },
      {X({1, 1, 4, 3}), X({1, 1, 2, 2})}, 1e-5);
  ExpectGradient("softmax",
                 [](Operands v) { return Gradient(Sum(Square(Softmax(v[0], 0))), v)[0]; },
                 {X({4})});
}

TEST(Gradient, OfHalfIsHalf) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat16, {1, 2}, {1, 2}),
             w = bench.Input(DType::kFloat16, {2, 1}, {3, 4});
  const std::vector<Expr> g = Gradient(Sum(MatMul(x, w)), {x, w});
  EXPECT_EQ(g[0].dtype(), DType::kFloat16);
  EXPECT_EQ(bench.Values(g[0]), (Values{3, 4}));
  EXPECT_EQ(bench.Values(g[1]), (Values{1, 2}));
}

// Sums of products of views: how often each op occurs below `root`.
int Count(const Expr& root, Op op) {
  const Node* const roots[] = {root.node()};
  int count = 0;
  for (const Node* node : TopologicalOrder(roots)) count += node->op == op;
  return count;
}

TEST(Gradient, OfConvIsOneSumOverOneProduct) {
  Bench bench;
  const Expr x = bench.Counting({2, 3, 6, 6}), w = bench.Counting({4, 3, 3, 3});
  const PadAmount pad[] = {{1, 1}};
  const Expr y = Conv(x, w, std::nullopt, {.padding = pad});
  const Expr seed = bench.Counting({2, 4, 6, 6});
  for (const Expr& g : Gradient(y, {x, w}, seed)) {
    EXPECT_EQ(Count(g, Op::kReduce), 1);
    EXPECT_EQ(Count(g, Op::kMul), 1);
    const Node* const roots[] = {g.node()};
    for (const Node* node : TopologicalOrder(roots)) {
      if (node->op == Op::kReduce) {
        EXPECT_EQ(node->src[0]->op, Op::kMul);
      }
      if (node->op == Op::kMul) {
        for (const Node* side : node->src) EXPECT_TRUE(In(side->op, MovementOps()));
      }
    }
  }
}

TEST(Gradient, OfWindowsThatOverlapIsOneSum) {
  Bench bench;
  const Expr x = bench.Counting({1, 1, 6, 6});
  const int64_t kernel[] = {3, 3}, stride[] = {1};
  const Expr g = Gradient(Sum(AvgPool(x, {.kernel = kernel, .stride = stride})), {x})[0];
  EXPECT_EQ(Count(g, Op::kReduce), 1);
}

TEST(Gradient, OfDeepGraphsIsIterative) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {}, {1});
  Expr y = x;
  for (int i = 0; i < 20000; ++i) y = Sin(y);
  EXPECT_TRUE(Gradient(y, {x})[0].ok());
  // Each square doubles the paths to x.
  Expr power = x;
  for (int i = 0; i < 60; ++i) power = power * power;
  EXPECT_TRUE(Gradient(power, {x})[0].ok());
}

TEST(Gradient, RefusesWhatHasNone) {
  Bench bench;
  const Expr x = bench.Counting({3}), n = bench.Counting({3}, DType::kInt32);
  const std::pair<Expr, const char*> cases[] = {
      {Gradient(x, {x})[0],
       "gradient: the loss has shape [3]; reduce it to one element, or give the gradient with "
       "respect to it"},
      {Gradient(Sum(n), {x})[0], "gradient: the loss is int32, it must be a float"},
      {Gradient(Sum(x), {x, n})[0], "gradient: target 1 is int32, only floats have gradients"},
      {Gradient(x, {x}, Sum(x))[0], "gradient: the gradient [] and the loss [3] differ in shape"},
      {Gradient(Sum(MatMul(x, Sum(x))), {x})[0],
       "matmul: [3] @ []: an operand has no axes; use mul"},
  };
  for (const auto& [expr, message] : cases) EXPECT_EQ(ErrorOf(expr), message);
}

}  // namespace
}  // namespace tensord
