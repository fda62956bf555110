#include "core/tensor/reduce.h"

#include <cmath>
#include <limits>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Sum, RunsOverTheAxesGiven) {
  Bench bench;
  const Expr x = bench.Counting({2, 3});
  EXPECT_EQ(bench.Values(Sum(x)), (Values{15}));
  EXPECT_EQ(bench.Values(Sum(x, 0)), (Values{3, 5, 7}));
  EXPECT_EQ(bench.Values(Sum(x, {-1})), (Values{3, 12}));
  EXPECT_EQ(ShapeOf(Sum(x, {0, 1}, kKeepDims)), (Sizes{1, 1}));
  EXPECT_EQ(ShapeOf(Sum(x, Axes(absl::Span<const int64_t>{}))), (Sizes{2, 3}));
  EXPECT_EQ(bench.Values(Sum(Sum(x), -1)), (Values{15}));  // no axes: 0 and -1 are fine
}

TEST(Sum, KnowsItsDTypes) {
  using enum DType;
  const std::pair<DType, DType> cases[] = {
      {kBool, kInt32},      {kInt8, kInt32},        {kUint8, kUint32},   {kInt64, kInt64},
      {kFloat16, kFloat16}, {kBFloat16, kBFloat16}, {kFloat64, kFloat64}};
  for (const auto& [from, to] : cases) {
    Bench bench;
    EXPECT_EQ(Sum(bench.Counting({2}, from)).dtype(), to) << Name(from);
    EXPECT_EQ(Prod(bench.Counting({2}, from)).dtype(), from) << Name(from);
    EXPECT_EQ(Mean(bench.Counting({2}, from)).dtype(), LeastUpperFloat(from)) << Name(from);
  }
  // 4097 ones: a float16 accumulator stops at 2048.
  Bench bench;
  EXPECT_EQ(bench.Values(Sum(Ones(bench.graph(), {4097}, kFloat16)))[0], 4096);
}

TEST(Reduce, OfNoElements) {
  Bench bench;
  const Expr x = Zeros(bench.graph(), {0, 2}, DType::kFloat32);
  EXPECT_EQ(bench.Values(Sum(x, 0)), (Values{0, 0}));
  EXPECT_EQ(bench.Values(Prod(x, 0)), (Values{1, 1}));
  EXPECT_EQ(ShapeOf(Sum(x, 1)), (Sizes{0}));
  ExpectNear(bench.Values(Mean(x, 0)), {kNan, kNan}, 0);
  EXPECT_EQ(bench.Values(All(x, 0)), (Values{1, 1}));
  EXPECT_EQ(bench.Values(Any(x, 0)), (Values{0, 0}));
  EXPECT_EQ(ErrorOf(Max(x, 0)), "max: shape [0, 2] has no elements over axes [0]");
  EXPECT_EQ(ShapeOf(Softmax(x, 0)), (Sizes{0, 2}));
}

TEST(Extremes, PropagateNanAndFindTheFirst) {
  Bench bench;
  const Expr x =
      bench.Input(DType::kFloat32, {3, 4}, {1, 7, 7, 2, 5, kNan, 9, kNan, -1, -1, -3, -3});
  ExpectNear(bench.Values(Max(x, 1)), {7, kNan, -1}, 0);
  ExpectNear(bench.Values(Min(x, 1)), {1, kNan, -3}, 0);
  EXPECT_EQ(bench.Values(ArgMax(x, 1)), (Values{1, 1, 0}));
  EXPECT_EQ(bench.Values(ArgMin(x, 1)), (Values{0, 1, 2}));
  EXPECT_EQ(ArgMax(x, 1).dtype(), DType::kInt32);
  EXPECT_EQ(ShapeOf(ArgMax(x, 0, kKeepDims)), (Sizes{1, 4}));
  const Expr n = bench.Input(DType::kInt32, {3}, {-2147483648.0, 5, 5});
  EXPECT_EQ(bench.Values(Max(n)), (Values{5}));
  EXPECT_EQ(bench.Values(ArgMin(n, 0)), (Values{0}));
  const Expr b = bench.Input(DType::kBool, {2, 2}, {0, 1, 0, 0});
  EXPECT_EQ(bench.Values(Any(b, 1)), (Values{1, 0}));
  EXPECT_EQ(bench.Values(All(b, 0)), (Values{0, 0}));
  EXPECT_EQ(bench.Values(Max(b, 1)), (Values{1, 0}));
}

TEST(Variance, DividesByWhatIsLeft) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {2, 3}, {1, 2, 6, -1, 0, 4});
  ExpectNear(bench.Values(Var(x, 1)), {7, 7}, 1e-12);
  ExpectNear(bench.Values(Var(x, 1, 0)), {14.0 / 3, 14.0 / 3}, 1e-12);
  ExpectNear(bench.Values(Std(x, Axes(), 1)), {std::sqrt(34.0 / 5)}, 1e-12);
  ExpectNear(bench.Values(Var(x, 1, 5)), {kInf, kInf}, 0);
  ExpectNear(bench.Values(Var(Select(x, 1, 0), 0, 2)), {kInf}, 0);
  const Moments moments = VarMean(x, 0, 1, kKeepDims);
  EXPECT_EQ(ShapeOf(moments.mean), (Sizes{1, 3}));
  ExpectNear(bench.Values(moments.mean), {0, 1, 5}, 1e-12);
}

TEST(Softmax, IsStableAndAddsUp) {
  Bench bench;
  const HostTensor data = Noise(DType::kFloat32, {3, 5}, -4, 4);
  const Expr x = bench.Input(data);
  for (double offset : {0.0, 1000.0}) {
    Values softmax, log_softmax, log_sum;
    for (int row = 0; row < 3; ++row) {
      double sum = 0;
      for (int i = 0; i < 5; ++i) sum += std::exp(data.values[row * 5 + i].f);
      for (int i = 0; i < 5; ++i) {
        softmax.push_back(std::exp(data.values[row * 5 + i].f) / sum);
        log_softmax.push_back(data.values[row * 5 + i].f - std::log(sum));
      }
      log_sum.push_back(std::log(sum) + offset);
    }
    const double tolerance = offset == 0 ? 1e-6 : 1e-4;  // x + 1000 has lost digits
    ExpectNear(bench.Values(Softmax(x + offset, 1)), softmax, tolerance);
    ExpectNear(bench.Values(LogSoftmax(x + offset, -1)), log_softmax, tolerance);
    ExpectNear(bench.Values(LogSumExp(x + offset, 1)), log_sum, tolerance);
  }
  const Expr infinite = bench.Input(DType::kFloat32, {2}, {-kInf, -kInf});
  ExpectNear(bench.Values(LogSumExp(infinite)), {-kInf}, 0);
  EXPECT_EQ(bench.Values(Softmax(Constant(bench.graph(), 3.0, DType::kFloat32), 0)), (Values{1}));
}

}  // namespace
}  // namespace tensord
