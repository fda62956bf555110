#include "core/tensor/order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/histogram.h"
#include "core/tensor/movement.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;
using enum DType;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Where the elements go, by a stable sort of the standard library.
std::vector<int64_t> Order(const std::vector<Scalar>& values, bool descending) {
  const auto less = [](const Scalar& a, const Scalar& b) {
    if (!IsFloat(a.dtype)) {
      return a.dtype == kUint64 ? static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i)
                                : a.i < b.i;
    }
    return std::isnan(b.f) ? !std::isnan(a.f) : a.f < b.f;
  };
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? less(values[b], values[a]) : less(values[a], values[b]);
  });
  return order;
}

class EachDType : public testing::TestWithParam<DType> {};

// Every length up to a few runs, with many ties.
TEST_P(EachDType, SortsStably) {
  const DType dtype = GetParam();
  for (int64_t size : {1, 2, 3, 5, 8, 13, 33}) {
    for (bool descending : {false, true}) {
      Bench bench;
      HostTensor data = Noise(dtype, {size}, dtype == kBool || IsUnsigned(dtype) ? 0 : -6, 6, size);
      if (IsFloat(dtype) && size > 4) {
        data.values[1] = Scalar::Float(dtype, kNan);
        data.values[3] = Scalar::Float(dtype, -0.0);
        data.values[4] = Scalar::Float(dtype, 0.0);
        data.values[size - 1] = Scalar::Float(dtype, kNan);
        data.values[size / 2] = Scalar::Float(dtype, -kInf);
      } else if (size > 3 && IsInt(dtype)) {
        data.values[0] = Scalar::Int(dtype, IntMax(dtype));
        data.values[2] = Scalar::Int(dtype, IntMin(dtype));
      }
      const Expr x = bench.Input(data);
      const std::vector<int64_t> order = Order(data.values, descending);
      const Sorted sorted = Sort(x, 0, descending);
      EXPECT_EQ(sorted.indices.dtype(), kInt32);
      EXPECT_EQ(bench.Values(sorted.indices), Values(order.begin(), order.end()))
          << size << (descending ? " descending" : "");
      Values expected;
      const Values given = data.AsDoubles();
      for (int64_t i : order) expected.push_back(given[i]);
      ExpectNear(bench.Values(sorted.values), expected, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, EachDType,
                         testing::Values(kBool, kInt8, kUint16, kInt32, kUint32, kInt64, kUint64,
                                         kFloat16, kBFloat16, kFloat32, kFloat64),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(Sort, GoesAlongAnyAxis) {
  Bench bench;
  const Expr x = bench.Input(kFloat32, {2, 3}, {3, 1, 2, 0, 5, 4});
  EXPECT_EQ(bench.Values(Sort(x, 1).values), (Values{1, 2, 3, 0, 4, 5}));
  EXPECT_EQ(bench.Values(Sort(x, 0).values), (Values{0, 1, 2, 3, 5, 4}));
  EXPECT_EQ(bench.Values(ArgSort(x, 0, true)), (Values{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(ShapeOf(Sort(Zeros(bench.graph(), {2, 0}, kFloat32)).values), (Sizes{2, 0}));
  EXPECT_EQ(bench.Values(Sort(Constant(bench.graph(), 3.0, kFloat32)).values), (Values{3}));
  EXPECT_NE(ErrorOf(Sort(x, 2).values).find("axes go from -2 to 1"), std::string::npos);
}

TEST(TopK, TakesTheFirstOfTies) {
  Bench bench;
  const Expr x = bench.Input(kInt32, {6}, {5, 7, 7, 1, 5, 7});
  EXPECT_EQ(bench.Values(TopK(x, 4).indices), (Values{1, 2, 5, 0}));
  EXPECT_EQ(bench.Values(TopK(x, 3, 0, false).values), (Values{1, 5, 5}));
  EXPECT_NE(ErrorOf(TopK(x, 7).values).find("k is 7"), std::string::npos);
}

TEST(Statistics, OfOrderedRows) {
  Bench bench;
  const Expr x = bench.Input(kFloat32, {3, 4}, {4, 1, 3, 2, 5, kNan, 1, 1, 2, 2, 1, 1});
  EXPECT_EQ(bench.Values(Median(x, 1).values)[0], 2);
  EXPECT_TRUE(std::isnan(bench.Values(Median(x, 1).values)[1]));
  EXPECT_EQ(bench.Values(NanMedian(x, 1).values), (Values{2, 1, 1}));
  EXPECT_EQ(bench.Values(Median(x, 1).indices)[0], 3);
  EXPECT_EQ(bench.Values(KthValue(x, 3, 1).values), (Values{3, 5, 2}));
  EXPECT_EQ(bench.Values(Mode(x, 1).values), (Values{1, 1, 1}));
  EXPECT_EQ(bench.Values(Mode(x, 1).indices), (Values{1, 3, 3}));
  EXPECT_EQ(ShapeOf(Median(x, 0, kKeepDims).values), (Sizes{1, 4}));

  const Expr q = bench.Input(kFloat32, {3}, {0, 0.5, 1});
  const Expr row = bench.Input(kFloat32, {4}, {4, 1, 3, 2});
  ExpectNear(bench.Values(Quantile(row, q, 0)), {1, 2.5, 4}, 1e-6);
  const Expr half = Constant(bench.graph(), 0.4, kFloat32);
  const auto quantile = [&](Interpolation how) {
    return bench.Values(Quantile(row, half, 0, kDropDims, how))[0];
  };
  EXPECT_NEAR(quantile(Interpolation::kLinear), 2.2, 1e-6);
  EXPECT_EQ(quantile(Interpolation::kLower), 2);
  EXPECT_EQ(quantile(Interpolation::kHigher), 3);
  EXPECT_EQ(quantile(Interpolation::kNearest), 2);
  EXPECT_EQ(quantile(Interpolation::kMidpoint), 2.5);
  EXPECT_TRUE(std::isnan(bench.Values(Quantile(x, q, 1))[1]));
  EXPECT_EQ(ShapeOf(Quantile(x, q, 1, kKeepDims)), (Sizes{3, 3, 1}));
  ExpectNear(bench.Values(NanQuantile(x, Constant(bench.graph(), 0.5, kFloat32), 1)), {2.5, 1, 1.5},
             1e-6);
}

TEST(SearchSorted, CountsWhatIsBelow) {
  Bench bench;
  const Expr sorted = bench.Input(kFloat32, {5}, {1, 3, 3, 5, kNan});
  const Expr values = bench.Input(kFloat32, {2, 4}, {0, 1, 3, 4, 6, kNan, -kInf, kInf});
  EXPECT_EQ(bench.Values(SearchSorted(sorted, values)), (Values{0, 0, 1, 3, 4, 4, 0, 4}));
  EXPECT_EQ(bench.Values(SearchSorted(sorted, values, true)), (Values{0, 1, 3, 3, 4, 5, 0, 4}));
  const Expr rows = bench.Input(kInt32, {2, 3}, {1, 2, 3, 10, 20, 30});
  const Expr wanted = bench.Input(kInt32, {2, 2}, {2, 9, 9, 20});
  EXPECT_EQ(bench.Values(SearchSorted(rows, wanted)), (Values{1, 3, 0, 1}));
  EXPECT_EQ(bench.Values(SearchSorted(Zeros(bench.graph(), {0}, kFloat32), values)),
            (Values(8, 0)));
  EXPECT_EQ(bench.Values(IsIn(wanted, rows)), (Values{1, 0, 0, 1}));
}

TEST(Histogram, PutsTheEndIntoTheLastBin) {
  Bench bench;
  const Expr x = bench.Input(kFloat32, {5}, {0, 1, 2, 3, 4});
  const Expr edges = bench.Input(kFloat32, {4}, {0, 1, 2.5, 3});
  EXPECT_EQ(bench.Values(Histogram(x, edges, std::nullopt, false)), (Values{1, 2, 1}));
  EXPECT_EQ(bench.Values(HistogramEdges(x, 4, std::nullopt)), (Values{0, 1, 2, 3, 4}));
  ExpectNear(bench.Values(Histogram(x, edges, std::nullopt, true)), {0.25, 1.0 / 3, 0.5}, 1e-6);
}

TEST(Multinomial, DrawsByWeight) {
  Bench bench;
  const Expr weights = bench.Input(kFloat32, {4}, {0, 1, 3, 0});
  const Expr uniform = bench.Input(kFloat32, {4}, {0, 0.24, 0.26, 0.999});
  EXPECT_EQ(bench.Values(Multinomial(weights, uniform, 4, true)), (Values{1, 1, 2, 2}));
  Values drawn = bench.Values(Multinomial(weights, uniform, 2, false));
  std::sort(drawn.begin(), drawn.end());
  EXPECT_EQ(drawn, (Values{1, 2}));
}

TEST(Gradients, FollowTheElements) {
  const HostTensor x = Noise(kFloat64, {3, 5});
  ExpectGradient("sort", [](absl::Span<const Expr> e) { return Sort(e[0], 0, true).values; }, {x});
  ExpectGradient("topk", [](absl::Span<const Expr> e) { return TopK(e[0], 2, 1).values; }, {x});
  ExpectGradient("median", [](absl::Span<const Expr> e) { return Median(e[0], 1).values; }, {x});
  ExpectGradient("quantile",
                 [](absl::Span<const Expr> e) {
                   return Quantile(e[0], Constant(e[0].graph(), 0.3, kFloat64), 1);
                 },
                 {x});
}

TEST(Extremes, AreAtTheFirstPlaceWhichAloneHasTheDerivative) {
  Bench bench;
  const Expr x = bench.Input(kFloat32, {2, 3}, Values{1, 3, 3, 2, kNan, kNan});
  const Sorted most = MaxAt(x, 1), least = MinAt(x, -1, kKeepDims);
  EXPECT_EQ(bench.Values(most.indices), (Values{1, 1}));
  EXPECT_EQ(bench.Values(Select(most.values, 0, 0)), (Values{3}));
  EXPECT_EQ(ShapeOf(least.values), (Sizes{2, 1}));
  EXPECT_EQ(bench.Values(least.indices), (Values{0, 1}));
  const Expr row = bench.Input(kFloat32, {3}, Values{1, 3, 3});
  EXPECT_EQ(bench.Values(Gradient(MaxAt(row, 0).values, {row})[0]), (Values{0, 1, 0}));
  EXPECT_EQ(bench.Values(Gradient(Max(row, 0), {row})[0]), (Values{0, 0.5, 0.5}));
  EXPECT_FALSE(MaxAt(x, 2).values.ok());
}

}  // namespace
}  // namespace tensord
