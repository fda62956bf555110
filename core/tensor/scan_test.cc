#include "core/tensor/scan.h"

#include <cmath>
#include <limits>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/reduce.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Cumulative, RunsAlongTheAxis) {
  Bench bench;
  const Expr x = bench.Input(DType::kInt8, {2, 3}, {1, 2, 3, -4, 5, -6});
  EXPECT_EQ(bench.Values(CumSum(x, 1)), (Values{1, 3, 6, -4, 1, -5}));
  EXPECT_EQ(CumSum(x, 1).dtype(), DType::kInt32);
  EXPECT_EQ(bench.Values(CumSum(x, 0)), (Values{1, 2, 3, -3, 7, -3}));
  EXPECT_EQ(bench.Values(CumProd(x, -1)), (Values{1, 2, 6, -4, -20, 120}));
  EXPECT_EQ(CumProd(x, -1).dtype(), DType::kInt8);
  EXPECT_EQ(ShapeOf(CumSum(Zeros(bench.graph(), {0}, DType::kFloat32), 0)), (Sizes{0}));
  EXPECT_EQ(ShapeOf(CumSum(Zeros(bench.graph(), {3, 0}, DType::kFloat32), 0)), (Sizes{3, 0}));
  EXPECT_EQ(bench.Values(CumSum(Constant(bench.graph(), 3.0, DType::kFloat32), -1)), (Values{3}));
  EXPECT_NE(ErrorOf(CumSum(x, 2)).find("axes go from -2 to 1"), std::string::npos);
}

TEST(Scan, RunsBackAndWithoutTheElementItself) {
  Bench bench;
  const Expr x = bench.Input(DType::kInt32, {2, 3}, {1, 2, 3, -4, 5, -6});
  const auto scan = [&](ScanKind kind, bool reverse, bool exclusive) {
    return bench.Values(Scan(kind, x, 1, {.reverse = reverse, .exclusive = exclusive}));
  };
  constexpr double kLeast = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(scan(ScanKind::kAdd, true, false), (Values{6, 5, 3, -5, -1, -6}));
  EXPECT_EQ(scan(ScanKind::kAdd, false, true), (Values{0, 1, 3, 0, -4, 1}));
  EXPECT_EQ(scan(ScanKind::kMul, true, true), (Values{6, 3, 1, -30, -6, 1}));
  EXPECT_EQ(scan(ScanKind::kMax, false, true), (Values{kLeast, 1, 2, kLeast, -4, 5}));
  EXPECT_EQ(scan(ScanKind::kMin, true, false), (Values{1, 2, 3, -6, -6, -6}));
}

TEST(LogCumSumExp, NeitherOverflowsNorUnderflows) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {6}, {-500, 0, 100, 0, 900, -kInf});
  ExpectNear(bench.Values(LogCumSumExp(x, 0)), {-500, 0, 100, 100, 900, 900}, 1e-6);
  const Expr y = bench.Input(DType::kFloat32, {4}, {-kInf, -kInf, 1, 1});
  ExpectNear(bench.Values(LogCumSumExp(y, 0)), {-kInf, -kInf, 1, 1 + std::log(2)}, 1e-6);
  ExpectNear(bench.Values(LogCumSumExp(y, 0, {.reverse = true})),
             {1 + std::log(2), 1 + std::log(2), 1 + std::log(2), 1}, 1e-6);
  EXPECT_EQ(LogCumSumExp(Cast(x, DType::kInt32), 0).dtype(), DType::kFloat32);
}

TEST(CumMax, TellsWhereTheExtremeIs) {
  Bench bench;
  const double nan = std::nan("");
  const Expr x = bench.Input(DType::kFloat32, {2, 5}, {1, 3, 3, 2, 4, -kInf, -1, nan, 5, nan});
  const CumExtreme most = CumMax(x, 1), least = CumMin(x, 1);
  ExpectNear(bench.Values(most.values), {1, 3, 3, 3, 4, -kInf, -1, nan, nan, nan}, 0);
  EXPECT_EQ(bench.Values(most.indices), (Values{0, 1, 1, 1, 4, 0, 1, 2, 2, 2}));
  EXPECT_EQ(bench.Values(least.indices), (Values{0, 0, 0, 0, 0, 0, 0, 2, 2, 2}));
  EXPECT_EQ(most.indices.dtype(), DType::kInt32);
  const Expr n = bench.Input(DType::kInt8, {3}, {-128, -128, 5});
  EXPECT_EQ(bench.Values(CumMax(n, 0).values), (Values{-128, -128, 5}));
  EXPECT_EQ(bench.Values(CumMax(n, 0).indices), (Values{0, 0, 2}));
  const Expr m = bench.Input(DType::kFloat32, {4}, {1, 2, 2, 0});
  EXPECT_EQ(bench.Values(Gradient(Sum(CumMax(m, 0).values), {m})[0]), (Values{1, 3, 0, 0}));
}

// float16 has 11 bits: adding ones stops at 2048 unless the total is kept in float32.
TEST(Cumulative, NarrowFloatsAddUpInFloat32) {
  Bench bench;
  const Expr ones = Full(bench.graph(), {3000}, 1.0, DType::kFloat16);
  const Values sums = bench.Values(CumSum(ones, 0));
  EXPECT_EQ(sums[2047], 2048);
  EXPECT_EQ(sums[2999], 3000);
}

TEST(Cumulative, HasSecondDerivatives) {
  const auto slope_of = [](auto f) {
    return [f](absl::Span<const Expr> x) {
      const Expr y = f(x[0]);
      return Gradient(Sum(y * y * y), {x[0]})[0];
    };
  };
  const HostTensor x = Noise(DType::kFloat64, {2, 4}, 0.5, 1.5);
  ExpectGradient("cumsum", slope_of([](const Expr& x) { return CumSum(x, 1); }), {x}, 1e-5);
  ExpectGradient("cumprod", slope_of([](const Expr& x) { return CumProd(x, 1); }), {x}, 1e-5);
  ExpectGradient("logcumsumexp", slope_of([](const Expr& x) { return LogCumSumExp(x, 1); }), {x},
                 1e-5);
  ExpectGradient("cummax", slope_of([](const Expr& x) { return CumMax(x, 1).values; }), {x}, 1e-5);
  const HostTensor zero = HostTensor::Of(DType::kFloat64, {4}, std::vector<double>{2, 0, 3, -1});
  ExpectGradient("cumprod of 0", slope_of([](const Expr& x) { return CumProd(x, 0) + 1; }), {zero},
                 1e-4);
}

}  // namespace
}  // namespace tensord
