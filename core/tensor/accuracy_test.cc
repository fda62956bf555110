// Bounds on the errors of elementary and special functions, in units in the last place, over
// ranges of arguments. docs/numerics.md states them.
#include <cmath>
#include <limits>

#include "core/tensor/elementwise.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Range {
  double low, high;
};
struct Case {
  const char* name;
  Expr (*function)(const Expr&);
  long double (*expected)(long double);
  std::vector<Range> ranges;
  double narrow, wide;  // bounds for float32 and float64
};

// The distance of two neighbours at `value`.
long double Ulp(DType dtype, long double value) {
  const long double size = std::abs(value);
  if (dtype == DType::kFloat64) {
    const double x = static_cast<double>(size);
    return static_cast<long double>(std::nextafter(x, kInf)) - x;
  }
  const float x = static_cast<float>(size);
  return static_cast<long double>(std::nextafter(x, static_cast<float>(kInf))) - x;
}

// Evenly spread numbers, and as many spread evenly in their logarithm if the range touches 0.
HostTensor Arguments(DType dtype, const Range& range) {
  constexpr int kCount = 1500;
  HostTensor result = Noise(dtype, {kCount}, range.low, range.high, 7);
  if (range.low <= 0 && range.high >= 0) {
    const HostTensor exponents = Noise(DType::kFloat64, {kCount}, -30, 0, 8);
    for (int i = 0; i < kCount; ++i) {
      const double end = i % 2 == 0 ? range.high : range.low;
      result.values.push_back(Scalar::Of(dtype, end * std::exp(exponents.values[i].f)));
    }
    result.shape = {2 * kCount};
  }
  return result;
}

const Case kCases[] = {
    // clang-format off
    {"exp2",  Exp2,  [](long double x) { return std::exp2(x); },  {{-120, 120}, {-1, 1}}, 2, 2},
    {"log2",  Log2,  [](long double x) { return std::log2(x); },  {{0, 4}, {0.5, 2}, {1, 1e30}}, 2, 3},
    {"log10", Log10, [](long double x) { return std::log10(x); }, {{0, 4}, {1, 1e30}}, 2, 2},
    {"expm1", Expm1, [](long double x) { return std::expm1(x); }, {{-1, 1}, {-50, 50}}, 3, 3},
    {"log1p", Log1p, [](long double x) { return std::log1p(x); }, {{-0.99, 1}, {0, 1e6}}, 2, 2},
    {"cos",   Cos,   [](long double x) { return std::cos(x); },   {{-2, 2}, {-1e3, 1e3}, {-1e6, 1e6}}, 3, 5},
    {"tan",   Tan,   [](long double x) { return std::tan(x); },   {{-2, 2}, {-1e3, 1e3}}, 4, 5},
    {"asin",  Asin,  [](long double x) { return std::asin(x); },  {{-1, 1}}, 3, 3},
    {"acos",  Acos,  [](long double x) { return std::acos(x); },  {{-1, 1}}, 3, 3},
    {"atan",  Atan,  [](long double x) { return std::atan(x); },  {{-1, 1}, {-100, 100}}, 3, 3},
    {"sinh",  Sinh,  [](long double x) { return std::sinh(x); },  {{-1, 1}, {-80, 80}}, 4, 4},
    {"cosh",  Cosh,  [](long double x) { return std::cosh(x); },  {{-1, 1}, {-80, 80}}, 4, 4},
    {"tanh",  Tanh,  [](long double x) { return std::tanh(x); },  {{-1, 1}, {-20, 20}}, 4, 4},
    {"asinh", Asinh, [](long double x) { return std::asinh(x); }, {{-1, 1}, {-3e4, 3e4}, {0, 1e30}}, 4, 4},
    {"acosh", Acosh, [](long double x) { return std::acosh(x); }, {{1, 1.1}, {1, 100}, {1, 1e30}}, 4, 4},
    {"atanh", Atanh, [](long double x) { return std::atanh(x); }, {{-0.999, 0.999}}, 4, 4},
    {"erf",   Erf,   [](long double x) { return std::erf(x); },   {{-1, 1}, {-6, 6}}, 3, 3},
    {"erfc",  Erfc,  [](long double x) { return std::erfc(x); },  {{-3, 3}, {0, 9}}, 5, 6},
    // clang-format on
};

TEST(Accuracy, IsWithinTheBound) {
  for (const Case& c : kCases) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
      const double bound = dtype == DType::kFloat32 ? c.narrow : c.wide;
      long double worst = 0;
      double worst_at = 0;
      for (const Range& range : c.ranges) {
        Bench bench;
        const HostTensor arguments = Arguments(dtype, range);
        const HostTensor results = bench.Eval(c.function(bench.Input(arguments)));
        for (size_t i = 0; i < results.values.size(); ++i) {
          const double x = arguments.values[i].f;
          const long double expected = c.expected(x);
          const long double error = std::abs(results.values[i].f - expected) / Ulp(dtype, expected);
          if (!(error <= worst)) {
            worst = error;
            worst_at = x;
          }
        }
      }
      EXPECT_LE(worst, bound) << c.name << " in " << Name(dtype) << " at " << worst_at;
      RecordProperty(std::string(c.name) + "_" + std::string(Name(dtype)),
                     std::to_string(static_cast<double>(worst)));
    }
  }
}

struct Special {
  const char* name;
  Expr (*function)(const Expr&);
  std::vector<double> at, expected;
};

TEST(Accuracy, EndsAndBeyond) {
  const Special cases[] = {
      // clang-format off
      {"exp2",  Exp2,  {0, 3, -3, 127, 128, -149, -160, kInf, -kInf, kNan},
                       {1, 8, 0.125, std::ldexp(1, 127), kInf, std::ldexp(1, -149), 0, kInf, 0, kNan}},
      {"log2",  Log2,  {1, 8, 0.25, 1e-40, 0, -1, kInf, kNan},
                       {0, 3, -2, std::log2(static_cast<float>(1e-40)), -kInf, kNan, kInf, kNan}},
      {"expm1", Expm1, {0, kInf, -kInf, kNan, -100}, {0, kInf, -1, kNan, -1}},
      {"log1p", Log1p, {0, -1, -2, kInf, kNan}, {0, -kInf, kNan, kInf, kNan}},
      {"cos",   Cos,   {0, kInf, -kInf, kNan, 3e38}, {1, kNan, kNan, kNan, std::cos(static_cast<float>(3e38))}},
      {"tan",   Tan,   {0, kInf, kNan, 1e-40}, {0, kNan, kNan, 1e-40}},
      {"asin",  Asin,  {1, -1, 0, 1.1, -300, kNan}, {M_PI / 2, -M_PI / 2, 0, kNan, kNan, kNan}},
      {"acos",  Acos,  {1, -1, 0, 1.1, -300, kNan}, {0, M_PI, M_PI / 2, kNan, kNan, kNan}},
      {"atan",  Atan,  {0, kInf, -kInf, kNan, 1e38}, {0, M_PI / 2, -M_PI / 2, kNan, M_PI / 2}},
      {"sinh",  Sinh,  {0, 300, -300, 89, kInf, kNan}, {0, kInf, -kInf, std::sinh(89.0), kInf, kNan}},
      {"cosh",  Cosh,  {0, 300, -300, 89, kInf, kNan}, {1, kInf, kInf, std::cosh(89.0), kInf, kNan}},
      {"tanh",  Tanh,  {0, 300, -300, kInf, -kInf, kNan}, {0, 1, -1, 1, -1, kNan}},
      {"asinh", Asinh, {0, -300, 3e38, kInf, -kInf, kNan}, {0, std::asinh(-300.0), std::asinh(3e38), kInf, -kInf, kNan}},
      {"acosh", Acosh, {1, 0.9, -300, 3e38, kInf, kNan}, {0, kNan, kNan, std::acosh(3e38), kInf, kNan}},
      {"atanh", Atanh, {0, 1, -1, 300, -300, kNan}, {0, kInf, -kInf, kNan, kNan, kNan}},
      {"erf",   Erf,   {0, 20, -20, kInf, kNan}, {0, 1, -1, 1, kNan}},
      {"erfc",  Erfc,  {0, 20, -20, kInf, -kInf, kNan}, {1, 0, 2, 0, 2, kNan}},
      // clang-format on
  };
  for (const Special& c : cases) {
    Bench bench;
    const Expr x = bench.Input(DType::kFloat32, {static_cast<int64_t>(c.at.size())}, c.at);
    ExpectNear(bench.Values(c.function(x)), c.expected, 3e-7, c.name);
  }
}

TEST(Atan2, KnowsItsQuadrantAndSignedZeros) {
  const double values[] = {0.0, -0.0, 1, -1, 3e38, -3e38, 1e-38, 0.3, -7, kInf, -kInf, kNan};
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    std::vector<double> y, x, expected;
    for (double a : values) {
      for (double b : values) {
        y.push_back(a);
        x.push_back(b);
        expected.push_back(dtype == DType::kFloat32
                               ? std::atan2(static_cast<float>(a), static_cast<float>(b))
                               : std::atan2(a, b));
      }
    }
    Bench bench;
    const int64_t n = static_cast<int64_t>(y.size());
    const std::vector<double> actual =
        bench.Values(Atan2(bench.Input(dtype, {n}, y), bench.Input(dtype, {n}, x)));
    ExpectNear(actual, expected, dtype == DType::kFloat32 ? 2e-7 : 4e-16, "atan2");
    for (size_t i = 0; i < actual.size(); ++i) {
      if (std::isnan(expected[i])) continue;
      EXPECT_EQ(std::signbit(actual[i]), std::signbit(expected[i])) << y[i] << " " << x[i];
    }
  }
}

}  // namespace
}  // namespace tensord
