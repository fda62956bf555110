#include "core/tensor/elementwise.h"

#include <cmath>
#include <functional>
#include <limits>

#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/movement.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double Sigmoid1(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus1(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

struct UnaryCase {
  const char* name;
  Expr (*function)(const Expr&);
  double (*expected)(double);
  std::vector<double> inputs;
  double tolerance = 1e-6;
};

const std::vector<double> kWide = {-300, -10, -2, -1, -0.3, -1e-4, 0, 1e-4, 0.3, 1, 2, 10, 300};
const std::vector<double> kUsual = {-3, -2, -1, -0.3, -1e-4, 0, 1e-4, 0.3, 1, 2, 3};
const std::vector<double> kPositive = {1e-6, 0.3, 1, 2, 10, 300};
const std::vector<double> kUnit = {-1, -0.9, -0.3, -1e-4, 0, 1e-4, 0.3, 0.9, 1};
const std::vector<double> kRounding = {-2.5, -1.501, -1.5, -1.499, -0.5, -0.3, 0,    0.499,
                                       0.5,  0.501,  1.5,  2.5,    3.5,  1e12, kInf, -kInf};

TEST(Unary, AgreesWithTheHost) {
  const UnaryCase cases[] = {
      {"neg", Neg, [](double x) { return -x; }, kWide},
      {"abs", Abs, [](double x) { return std::abs(x); }, {-2, -0.0, 0, 3, kInf, -kInf, kNan}},
      {"sign", Sign, [](double x) { return double((x > 0) - (x < 0)); }, {-2, 0, 3, kInf, kNan}},
      {"square", Square, [](double x) { return x * x; }, kUsual},
      {"reciprocal", Reciprocal, [](double x) { return 1 / x; }, {-2, 0, 0.5, kInf}},
      {"sqrt", Sqrt, [](double x) { return std::sqrt(x); }, {0, 1, 2, 9, -1, kInf}},
      {"rsqrt", Rsqrt, [](double x) { return 1 / std::sqrt(x); }, {0, 1, 4, kInf}},
      {"exp", Exp, [](double x) { return std::exp(x); }, {-kInf, -200, -1, 0, 1, 10, kInf, kNan}},
      {"exp2", Exp2, [](double x) { return std::exp2(x); }, {-kInf, -3, 0, 0.5, 10, kInf}, 2e-6},
      {"expm1", Expm1, [](double x) { return std::expm1(x); }, {-100, -1, -0.34, 0, 1e-7, 0.2, 3}},
      {"log", Log, [](double x) { return std::log(x); }, {0, -1, 1, 2, 100, kInf, kNan}},
      {"log2", Log2, [](double x) { return std::log2(x); }, {0, -1, 1, 8, 100, kInf}},
      {"log10", Log10, [](double x) { return std::log10(x); }, {0, -1, 1, 1000, kInf}},
      {"log1p", Log1p, [](double x) { return std::log1p(x); }, {-1, 0, 1e-7, -1e-7, 0.4, 9, kInf}},
      {"erf", Erf, [](double x) { return std::erf(x); }, kWide},
      {"sin", Sin, [](double x) { return std::sin(x); }, kWide},
      {"cos", Cos, [](double x) { return std::cos(x); }, kWide, 2e-5},
      {"tan", Tan, [](double x) { return std::tan(x); }, kUsual, 2e-6},
      {"asin", Asin, [](double x) { return std::asin(x); }, kUnit},
      {"asin outside", Asin, [](double) { return kNan; }, {-300, 300}},
      {"acos", Acos, [](double x) { return std::acos(x); }, kUnit},
      {"atan", Atan, [](double x) { return std::atan(x); }, kWide},
      {"sinh", Sinh, [](double x) { return std::sinh(x); }, kUsual},
      {"cosh", Cosh, [](double x) { return std::cosh(x); }, kUsual},
      {"tanh", Tanh, [](double x) { return std::tanh(x); }, kWide},
      {"trunc", Trunc, [](double x) { return std::trunc(x); }, kRounding},
      {"floor", Floor, [](double x) { return std::floor(x); }, kRounding},
      {"ceil", Ceil, [](double x) { return std::ceil(x); }, kRounding},
      {"round", [](const Expr& x) { return Round(x); }, [](double x) { return std::nearbyint(x); },
       kRounding},
      {"isnan", IsNan, [](double x) { return double(x != x); }, {0, kInf, -kInf, kNan}},
      {"isinf",
       [](const Expr& x) { return IsInf(x); },
       [](double x) { return double(std::isinf(x)); },
       {0, kInf, -kInf, kNan}},
      {"isfinite", IsFinite, [](double x) { return double(std::isfinite(x)); }, {0, kInf, kNan}},
      {"logical_not", LogicalNot, [](double x) { return double(x == 0); }, {0, -0.0, 2, kNan}},
      {"relu", Relu, [](double x) { return x <= 0 ? 0 : x; }, {-1, -0.0, 0, 2, kInf, -kInf, kNan}},
      {"relu6", Relu6, [](double x) { return std::min(std::max(x, 0.0), 6.0); }, kWide},
      {"sigmoid", Sigmoid, Sigmoid1, kWide},
      {"silu", Silu, [](double x) { return x * Sigmoid1(x); }, kWide},
      {"logsigmoid", LogSigmoid, [](double x) { return -Softplus1(-x); }, kWide},
      {"softplus", [](const Expr& x) { return Softplus(x); }, Softplus1, kWide},
      {"mish", Mish, [](double x) { return x * std::tanh(Softplus1(x)); }, kWide},
      {"softsign", Softsign, [](double x) { return x / (1 + std::abs(x)); }, kWide},
      {"hardsigmoid", [](const Expr& x) { return HardSigmoid(x); },
       [](double x) { return std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }, kWide},
      {"hardswish", HardSwish, [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; },
       kWide},
      {"gelu", [](const Expr& x) { return Gelu(x); },
       [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, kUsual},
      {"gelu tanh", [](const Expr& x) { return Gelu(x, GeluForm::kTanh); },
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       },
       kWide},
      {"elu", [](const Expr& x) { return Elu(x, 0.5); },
       [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); }, kWide},
      {"celu", [](const Expr& x) { return Celu(x, 2); },
       [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); }, kWide},
      {"selu", [](const Expr& x) { return Selu(x); },
       [](double x) {
         return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
       },
       kWide},
      {"leaky_relu", [](const Expr& x) { return LeakyRelu(x); },
       [](double x) { return x < 0 ? 0.01 * x : x; }, kWide},
  };
  for (const UnaryCase& c : cases) {
    Bench bench;
    const int64_t n = static_cast<int64_t>(c.inputs.size());
    const Expr x = bench.Input(DType::kFloat32, {n}, c.inputs);
    std::vector<double> expected;
    for (double value : c.inputs) {
      expected.push_back(static_cast<float>(c.expected(static_cast<float>(value))));
    }
    ExpectNear(bench.Values(c.function(x)), expected, c.tolerance, c.name);
  }
}

TEST(Unary, IntegersBecomeFloat32OnlyWhereNeeded) {
  Bench bench;
  const Expr x = bench.Input(DType::kInt32, {2}, {4, 9});
  EXPECT_EQ(Sqrt(x).dtype(), DType::kFloat32);
  EXPECT_EQ(bench.Values(Sqrt(x)), (std::vector<double>{2, 3}));
  EXPECT_EQ(Floor(x).dtype(), DType::kInt32);
  EXPECT_EQ(Abs(x).dtype(), DType::kInt32);
  EXPECT_EQ(bench.Values(BitwiseNot(x)), (std::vector<double>{-5, -10}));
  EXPECT_EQ(Exp(bench.Input(DType::kFloat16, {1}, {1})).dtype(), DType::kFloat16);
  EXPECT_EQ(Sigmoid(bench.Input(DType::kBFloat16, {1}, {1})).dtype(), DType::kBFloat16);
}

struct BinaryCase {
  const char* name;
  std::function<Expr(const Expr&, const Expr&)> function;
  DType dtype;
  std::vector<double> a, b, expected;
};

TEST(Binary, HasTheExpectedValues) {
  using enum DType;
  const auto of = [](Expr (*function)(const Expr&, const Expr&)) { return function; };
  const std::vector<double> n = {-7, -5, 5, 7, 0, 3}, d = {2, -3, -3, 2, 5, 0};
  const BinaryCase cases[] = {
      {"floor_divide int", of(FloorDivide), kInt32, n, d, {-4, 1, -2, 3, 0, 0}},
      {"trunc_divide int", of(TruncDivide), kInt32, n, d, {-3, 1, -1, 3, 0, 0}},
      {"mod int", of(Mod), kInt32, n, d, {1, -2, -1, 1, 0, 0}},
      {"fmod int", of(Fmod), kInt32, n, d, {-1, -2, 2, 1, 0, 0}},
      {"floor_divide float", of(FloorDivide), kFloat32, {-7, 7, 3.5}, {2, -2, 1}, {-4, -4, 3}},
      {"trunc_divide float", of(TruncDivide), kFloat32, {-7, 7, 3.5}, {2, -2, 1}, {-3, -3, 3}},
      {"mod float", of(Mod), kFloat32, {-7, 7, 3.5}, {2, -2, 1}, {1, -1, 0.5}},
      {"fmod float", of(Fmod), kFloat32, {-7, 7, 3.5}, {2, -2, 1}, {-1, 1, 0.5}},
      {"div int", of(Div), kInt32, {7, -1}, {2, 4}, {3.5, -0.25}},
      {"maximum", of(Maximum), kFloat32, {1, kNan, 2}, {2, 1, kNan}, {2, kNan, kNan}},
      {"minimum", of(Minimum), kInt8, {1, -128}, {2, 127}, {1, -128}},
      {"pow",
       of(Pow),
       kFloat32,
       {2, -2, -2, 0, 0, 0, -8, kInf, -kInf, 1, kNan, 5.5, -1},
       {3, 3, -2, 0, 2, -1, 0.5, 0, 0.3, kInf, 0, 0, kInf},
       {8, -8, 0.25, 1, 0, kInf, kNan, 1, kInf, 1, 1, 1, 1}},
      {"pow int",
       of(Pow),
       kInt32,
       {2, -3, 0, 7, 1, 2, -1},
       {10, 3, 0, 1, -5, -1, -3},
       {1024, -27, 1, 7, 1, 0, -1}},
      {"logaddexp",
       of(LogAddExp),
       kFloat32,
       {0, 1000, -kInf, -kInf},
       {0, 0, -kInf, 3},
       {std::log(2.0), 1000, -kInf, 3}},
      {"copysign", of(CopySign), kFloat32, {1, -1, 2, 3}, {-0.0, 0, -kInf, 5}, {-1, 1, -2, 3}},
      {"le", of(Le), kFloat32, {1, 2, 3, kNan}, {2, 2, 2, 1}, {1, 1, 0, 0}},
      {"ge", of(Ge), kFloat32, {1, 2, 3, kNan}, {2, 2, 2, 1}, {0, 1, 1, 0}},
      {"gt", of(Gt), kInt32, {1, 2, 3}, {2, 2, 2}, {0, 0, 1}},
      {"le int", of(Le), kInt32, {1, 2, 3}, {2, 2, 2}, {1, 1, 0}},
      {"ne", of(Ne), kFloat32, {1, 2, kNan}, {1, 1, kNan}, {0, 1, 1}},
      {"and", of(BitwiseAnd), kUint8, {12, 255}, {10, 1}, {8, 1}},
      {"xor bool", of(BitwiseXor), kBool, {0, 1, 1}, {1, 1, 0}, {1, 0, 1}},
      {"logical_or", of(LogicalOr), kInt32, {0, 2, 0}, {0, 0, 4}, {0, 1, 1}},
      {"shift_right", of(ShiftRight), kInt32, {-8, 8, -1}, {1, 2, 31}, {-4, 2, -1}},
      {"shift_left", of(ShiftLeft), kUint8, {1, 255, 1}, {7, 1, 8}, {128, 254, 0}},
      {"add bool", of(Add), kBool, {0, 1, 1}, {0, 0, 1}, {0, 1, 1}},
  };
  for (const BinaryCase& c : cases) {
    Bench bench;
    const int64_t size = static_cast<int64_t>(c.a.size());
    const Expr a = bench.Input(c.dtype, {size}, c.a), b = bench.Input(c.dtype, {size}, c.b);
    ExpectNear(bench.Values(c.function(a, b)), c.expected, 1e-6, c.name);
  }
}

TEST(Fma, RoundsOnce) {
  const double half = std::ldexp(1, -24);  // of what is between 1 and the next float32
  const HostTensor noise[] = {Noise(DType::kFloat32, {200}, -2, 2, 1),
                              Noise(DType::kFloat32, {200}, -2, 2, 2),
                              Noise(DType::kFloat32, {200}, -2, 2, 3)};
  std::vector<double> a = noise[0].AsDoubles(), b = noise[1].AsDoubles(), c = noise[2].AsDoubles();
  // So near to the middle of two numbers that float64 takes it for the middle; and the extremes.
  const double hard[][3] = {{1 + 2 * half, half * (1 - 2 * half), 1 + 2 * half},
                            {1 + 2 * half, -half * (1 - 2 * half), -1 - 2 * half},
                            {1 - half, half * (1 + 2 * half), 1 + 2 * half},
                            {3e38, 2, -3e38},
                            {1e-38, 1e-7, 1e-45},
                            {kInf, 2, 1},
                            {kInf, 1, -kInf},
                            {-0.0, 1, -0.0}};
  for (const double(&row)[3] : hard) {
    a.push_back(static_cast<float>(row[0]));
    b.push_back(static_cast<float>(row[1]));
    c.push_back(static_cast<float>(row[2]));
  }
  const int64_t size = static_cast<int64_t>(a.size());
  std::vector<double> expected;
  for (int64_t i = 0; i < size; ++i) {
    expected.push_back(
        std::fma(static_cast<float>(a[i]), static_cast<float>(b[i]), static_cast<float>(c[i])));
  }
  Bench bench;
  const auto input = [&](const std::vector<double>& values) {
    return bench.Input(DType::kFloat32, {size}, values);
  };
  const auto sum = CustomGradient::Of(Fma(input(a), input(b), input(c)).node());
  ASSERT_TRUE(sum.has_value());
  ExpectNear(bench.Values(Expr(&bench.graph(), sum->value)), expected, 0, "fma");
  const Expr wide = bench.Input(DType::kFloat64, {1}, {1});
  EXPECT_NE(ErrorOf(Fma(wide, wide, wide)).find("float64"), std::string::npos);
}

TEST(Binary, BroadcastsAndPromotes) {
  Bench bench;
  const Expr column = bench.Input(DType::kInt8, {2, 1}, {10, 20});
  const Expr row = bench.Input(DType::kUint8, {3}, {1, 2, 3});
  const Expr sum = column + row;
  EXPECT_EQ(sum.dtype(), DType::kInt16);
  EXPECT_EQ(ShapeOf(sum), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(bench.Values(sum), (std::vector<double>{11, 12, 13, 21, 22, 23}));
}

TEST(Number, TakesTheDTypeOfTheTensor) {
  using enum DType;
  const std::tuple<DType, Number, DType> cases[] = {
      {kFloat16, 2.5, kFloat16}, {kInt32, 2.5, kWeakFloat}, {kBool, 2, kWeakInt},
      {kUint8, 1, kUint8},       {kBool, true, kBool},      {kFloat64, 1, kFloat64},
      {kInt64, 7, kInt64},       {kBool, 1.5, kWeakFloat},
  };
  for (const auto& [dtype, number, expected] : cases) {
    Bench bench;
    EXPECT_EQ((bench.Input(dtype, {1}, {1}) + number).dtype(), expected) << Name(dtype);
  }
  Bench bench;
  EXPECT_EQ(bench.Values(BitwiseOr(bench.Input(DType::kInt32, {1}, {5}), 0xFFFFFFFF))[0], -1);
  EXPECT_EQ(bench.Values(Lt(bench.Input(DType::kUint8, {1}, {5}), -1))[0], 0);
  EXPECT_EQ(bench.Values(Lt(bench.Input(DType::kUint8, {1}, {5}), 300))[0], 1);
}

TEST(Pow, OfConstants) {
  const std::vector<double> bases = {-30, -2, -1, 0, 0.7, 1, 2, 5.5, kInf};
  for (double exponent : {0.0, 1.0, 2.0, 3.0, -2.0, 8.0, 5.5, -5.5, 0.2, 0.5, 101.0}) {
    Bench bench;
    const Expr x = bench.Input(DType::kFloat64, {9}, bases);
    std::vector<double> power, other;
    for (double base : bases) {
      power.push_back(std::pow(base, exponent));
      other.push_back(std::pow(exponent, base));
    }
    const std::string name = "exponent " + std::to_string(exponent);
    ExpectNear(bench.Values(Pow(x, exponent)), power, 1e-9, name);
    ExpectNear(bench.Values(Pow(exponent, x)), other, 1e-9, "base " + name);
  }
  Bench bench;
  const Expr x = bench.Input(DType::kInt32, {3}, {3, -2, 0});
  EXPECT_EQ(bench.Values(Pow(x, 5)), (std::vector<double>{243, -32, 0}));
  EXPECT_EQ(bench.Values(Pow(x, 0)), (std::vector<double>{1, 1, 1}));
}

// A plain number, and the same as a tensor of the weak dtype, beside integers.
TEST(Number, CountsByItsBitsInArithmeticAndByItsValueElsewhere) {
  using Make = std::function<Expr(const Expr& x, const Expr& number)>;
  constexpr DType kU8 = DType::kUint8, kI32 = DType::kInt32;
  const struct {
    const char* name;
    Make make;
    DType dtype;
    int64_t number;
    double expected;  // of x = 5
    const char* error = "";
  } cases[] = {
      {"add wraps", [](auto& x, auto& n) { return x + n; }, kU8, 255, 4},
      {"add by bits", [](auto& x, auto& n) { return x + n; }, kU8, -1, 4},
      {"add", [](auto& x, auto& n) { return x + n; }, kU8, 300, 0,
       "the number 300 does not fit uint8; cast the tensor to a wider dtype first"},
      {"or", [](auto& x, auto& n) { return BitwiseOr(x, n); }, kI32, 0xFFFFFFFF, -1},
      {"lt", [](auto& x, auto& n) { return Lt(x, n); }, kU8, 300, 1},
      {"lt -1", [](auto& x, auto& n) { return Lt(x, n); }, kU8, -1, 0},
      {"ge -1", [](auto& x, auto& n) { return Ge(n, x); }, kU8, -1, 0},
      {"eq", [](auto& x, auto& n) { return Eq(x, n); }, kU8, 261, 0},
      {"ne", [](auto& x, auto& n) { return Ne(n, x); }, kU8, 261, 1},
      {"lt -1 of uint64", [](auto& x, auto& n) { return Lt(x, n); }, DType::kUint64, -1, 0},
      {"gt -1 of uint64", [](auto& x, auto& n) { return Gt(x, n); }, DType::kUint64, -1, 1},
      {"where", [](auto& x, auto& n) { return Where(Eq(x, 0), x, n); }, kU8, 255, 255},
      {"where", [](auto& x, auto& n) { return Where(Eq(x, 0), x, n); }, kU8, 300, 0,
       "the number 300 does not fit uint8, which goes from 0 to 255; use a wider dtype"},
      {"masked_fill", [](auto& x, auto& n) { return MaskedFill(x, Eq(x, 5), n); }, kU8, -1, 0,
       "the number -1 does not fit uint8, which goes from 0 to 255; use a wider dtype"},
      {"clamp", [](auto& x, auto& n) { return ClampTo(x, n, std::nullopt); }, kU8, 7, 7},
      {"clamp", [](auto& x, auto& n) { return ClampTo(x, std::nullopt, n); }, kU8, 300, 5},
      {"clamp", [](auto& x, auto& n) { return ClampTo(x, n, std::nullopt); }, kU8, -1, 5},
      {"clamp", [](auto& x, auto& n) { return ClampTo(x, n, std::nullopt); }, kU8, 300, 0,
       "the number 300 does not fit uint8, which goes from 0 to 255; use a wider dtype"},
      {"maximum", [](auto& x, auto& n) { return Maximum(x, n); }, kU8, -1, 0,
       "the number -1 does not fit uint8, which goes from 0 to 255; use a wider dtype"},
  };
  for (const auto& c : cases) {
    Bench bench;
    const Expr x = bench.Input(c.dtype, {1}, {5});
    const Expr made = c.make(x, Constant(bench.graph(), c.number, DType::kWeakInt));
    EXPECT_EQ(ErrorOf(made), c.error) << c.name;
    if (!made.ok()) continue;
    EXPECT_EQ(bench.Values(made), std::vector{c.expected}) << c.name;
  }
  // The forms that take numbers.
  Bench bench;
  const Expr x = bench.Input(kU8, {2}, {5, 250});
  const Expr long_x = bench.Input(DType::kInt64, {1}, {5});
  const Number large = ~uint64_t{0};
  const std::pair<Expr, std::vector<double>> values[] = {
      {x + 10, {15, 4}},
      {x - 6, {255, 244}},
      {BitwiseAnd(x, -2), {4, 250}},
      {Lt(x, 300), {1, 1}},
      {Gt(-1, x), {0, 0}},
      {Lt(long_x, large), {1}},
      {Ge(long_x, large), {0}},
      {Lt(x, large), {1, 1}},
      {Clamp(x, -1, 300), {5, 250}},
      {Clamp(long_x, std::nullopt, large), {5}},
      {Eq(Cast(x, DType::kBool), large), {0, 0}},
  };
  for (const auto& [made, expected] : values) EXPECT_EQ(bench.Values(made), expected);
  for (const Expr& refused :
       {Where(Lt(x, 9), x, 256), Where(Lt(x, 9), -1, x), MaskedFill(x, Lt(x, 9), 256),
        Clamp(x, 256, std::nullopt), Clamp(x, std::nullopt, -1), Minimum(x, 256),
        Pad(x, {{1, 0}}, 256), FullLike(x, 256), x + 256}) {
    EXPECT_TRUE(IsOverflow(refused.status())) << refused.status();
  }
}

TEST(Where, TakesNumbersAndKeepsDTypes) {
  Bench bench;
  const Expr c = bench.Input(DType::kBool, {2}, {1, 0});
  const Expr x = bench.Input(DType::kFloat16, {2, 1}, {1, 2});
  const Expr y = Where(c, x, -kInf);
  EXPECT_EQ(y.dtype(), DType::kFloat16);
  ExpectNear(bench.Values(y), {1, -kInf, 2, -kInf}, 0);
  EXPECT_EQ(bench.Values(Where(c, 7, bench.Input(DType::kInt32, {1}, {3}))),
            (std::vector<double>{7, 3}));
}

TEST(Clamp, MinimumAboveMaximumGivesMaximum) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {3}, {-1, 0.5, kNan});
  ExpectNear(bench.Values(Clamp(x, 0, 1)), {0, 0.5, kNan}, 0);
  ExpectNear(bench.Values(Clamp(x, 3, 1)), {1, 1, kNan}, 0);
  ExpectNear(bench.Values(Clamp(x, std::nullopt, 0)), {-1, 0, kNan}, 0);
}

TEST(IsClose, KnowsInfinitiesAndNan) {
  const double values[] = {kInf, -kInf, kNan, 0};
  for (double a : values) {
    for (double b : values) {
      for (bool equal_nan : {false, true}) {
        Bench bench;
        const Expr close =
            IsClose(bench.Input(DType::kFloat32, {1}, {a}), bench.Input(DType::kFloat32, {1}, {b}),
                    {.equal_nan = equal_nan});
        const bool both_nan = std::isnan(a) && std::isnan(b);
        EXPECT_EQ(bench.Values(close)[0], a == b || (both_nan && equal_nan)) << a << " " << b;
      }
    }
  }
}

TEST(Lerp, GoesFromOneToTheOther) {
  Bench bench;
  const Expr a = bench.Input(DType::kFloat32, {2}, {0, 10}),
             b = bench.Input(DType::kFloat32, {2}, {4, 20});
  ExpectNear(bench.Values(Lerp(a, b, 0.25)), {1, 12.5}, 1e-6);
  // Of integers, whose differences would wrap.
  const Expr c = bench.Input(DType::kUint8, {3}, {200, 10, 0}),
             d = bench.Input(DType::kUint8, {3}, {100, 250, 255});
  EXPECT_EQ(bench.Values(Lerp(c, d, 0.5)), (std::vector<double>{150, 130, 127.5}));
  EXPECT_EQ(bench.Values(Lerp(c, d, 1)), (std::vector<double>{100, 250, 255}));
  EXPECT_TRUE(IsFloat(Lerp(c, d, 1).dtype()));
}

}  // namespace
}  // namespace tensord
