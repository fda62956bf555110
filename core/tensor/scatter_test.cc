#include "core/tensor/scatter.h"

#include <cmath>
#include <limits>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;
using enum DType;

// A small constant of integers, for functions that are differentiated by all of their inputs.
Expr HostConstant(Graph& graph, const HostTensor& value) {
  const int64_t count = static_cast<int64_t>(value.values.size());
  const Expr number = Arange(graph, 0, count, 1, kInt32);
  Expr flat = Zeros(graph, {count}, kInt32);
  for (int64_t i = 0; i < count; ++i) flat = Where(Eq(number, i), value.values[i].i, flat);
  return Reshape(flat, value.shape);
}

TEST(Scatter, LastWinsAndOutsideIsLeftOut) {
  Bench bench;
  const Expr x = bench.Counting({2, 3});
  const Expr index = bench.Input(kInt64, {2, 4}, {0, 2, 0, 9, -1, 1, 1, 1});
  const Expr src = bench.Input(kFloat32, {2, 4}, {10, 11, 12, 13, 20, 21, 22, 23});
  EXPECT_EQ(bench.Values(ScatterAlong(x, 1, index, src, ScatterKind::kSet)),
            (Values{12, 1, 11, 3, 23, 5}));
  EXPECT_EQ(bench.Values(ScatterAlong(x, 1, index, src, ScatterKind::kAdd)),
            (Values{22, 1, 13, 3, 4 + 66, 5}));
  EXPECT_EQ(bench.Values(ScatterAlong(x, 1, index, src, ScatterKind::kMin)),
            (Values{0, 1, 2, 3, 4, 5}));
}

TEST(Scatter, TakesASmallerIndexAndALargerSource) {
  Bench bench;
  const Expr x = bench.Counting({3, 3}, kInt32);
  const Expr index = bench.Input(kUint8, {2, 1}, {2, 0});
  const Expr src = bench.Input(kInt32, {2, 2}, {70, 71, 80, 81});
  EXPECT_EQ(bench.Values(ScatterAlong(x, 1, index, src, ScatterKind::kSet)),
            (Values{0, 1, 70, 80, 4, 5, 6, 7, 8}));
  EXPECT_EQ(bench.Values(ScatterAlong(x, 0, index, src, ScatterKind::kAdd)),
            (Values{80, 1, 2, 3, 4, 5, 76, 7, 8}));
  EXPECT_NE(ErrorOf(ScatterAlong(x, 1, Cast(index, kFloat32), src, ScatterKind::kSet))
                .find("must hold integers"),
            std::string::npos);
  EXPECT_NE(ErrorOf(ScatterAlong(x, 1, index, Cast(src, kFloat32), ScatterKind::kSet))
                .find("cast one of them"),
            std::string::npos);
}

TEST(ScatterReduce, CountsWhatWasThereIfAsked) {
  Bench bench;
  const Expr x = bench.Input(kFloat32, {4}, {5, 6, 7, 8});
  const Expr index = bench.Input(kInt32, {4}, {0, 0, 2, 0});
  const Expr src = bench.Input(kFloat32, {4}, {1, 2, 9, 6});
  const auto reduce = [&](ReduceMode mode, bool self) {
    return bench.Values(ScatterReduce(x, 0, index, src, mode, self));
  };
  EXPECT_EQ(reduce(ReduceMode::kSum, true), (Values{14, 6, 16, 8}));
  EXPECT_EQ(reduce(ReduceMode::kSum, false), (Values{9, 6, 9, 8}));
  EXPECT_EQ(reduce(ReduceMode::kProd, false), (Values{12, 6, 9, 8}));
  EXPECT_EQ(reduce(ReduceMode::kMean, true), (Values{3.5, 6, 8, 8}));
  EXPECT_EQ(reduce(ReduceMode::kMean, false), (Values{3, 6, 9, 8}));
  EXPECT_EQ(reduce(ReduceMode::kMax, true), (Values{6, 6, 9, 8}));
  EXPECT_EQ(reduce(ReduceMode::kMin, false), (Values{1, 6, 9, 8}));
}

TEST(ScatterReduce, NarrowFloatsAddUpInFloat32) {
  Bench bench;
  const Expr zero = Zeros(bench.graph(), {1}, kFloat16);
  const Expr index = Zeros(bench.graph(), {3000}, kInt32);
  const Expr ones = Full(bench.graph(), {3000}, 1, kFloat16);
  EXPECT_EQ(bench.Values(ScatterAlong(zero, 0, index, ones, ScatterKind::kAdd)), (Values{3000}));
}

TEST(IndexWrites, TakeSlices) {
  Bench bench;
  const Expr x = bench.Counting({2, 3}, kInt32);
  const Expr index = bench.Input(kInt32, {2}, {2, 0});
  const Expr source = bench.Input(kInt32, {2, 2}, {10, 20, 30, 40});
  EXPECT_EQ(bench.Values(IndexAdd(x, 1, index, source, 2)), (Values{40, 1, 22, 83, 4, 65}));
  EXPECT_EQ(bench.Values(IndexCopy(x, 1, index, source)), (Values{20, 1, 10, 40, 4, 30}));
  EXPECT_EQ(bench.Values(IndexFill(x, -1, index, Constant(bench.graph(), 7, kInt32))),
            (Values{7, 1, 7, 7, 4, 7}));
  EXPECT_EQ(bench.Values(IndexReduce(x, 1, index, source, ReduceMode::kProd)),
            (Values{0, 1, 20, 120, 4, 150}));
  EXPECT_EQ(bench.Values(IndexSelect(x, 1, index)), (Values{2, 0, 5, 3}));
  EXPECT_NE(ErrorOf(IndexAdd(x, 0, index, source)).find("the source must be [2, 3]"),
            std::string::npos);
}

TEST(ScatterAt, MirrorsGatherAt) {
  Bench bench;
  const Expr x = bench.Counting({2, 3, 4});
  const Expr first = bench.Input(kInt32, {2, 1}, {1, 0});
  const Expr last = bench.Input(kInt8, {3}, {-1, 2, 9});
  const Expr read = GatherAt(x, {0, 2}, {{first, last}});
  EXPECT_EQ(ShapeOf(read), (Sizes{2, 3, 3}));
  EXPECT_EQ(bench.Values(read), (Values{15, 19, 23, 14, 18, 22, 0, 0, 0,  //
                                        3, 7, 11, 2, 6, 10, 0, 0, 0}));
  // Back to where they are from, what was read twice excepted.
  EXPECT_EQ(bench.Values(ScatterAt(x, {0, 2}, {{first, last}}, read * 10.0, ScatterKind::kSet)),
            (Values{0,  1,  20,  30,  4,  5,  60,  70,  8,  9,  100, 110,  //
                    12, 13, 140, 150, 16, 17, 180, 190, 20, 21, 220, 230}));
  EXPECT_NE(ErrorOf(ScatterAt(x, {0, 2}, {{first, last}}, x, ScatterKind::kSet))
                .find("do not broadcast to [2, 3, 3]"),
            std::string::npos);
}

TEST(Put, AndMaskedScatterGoThroughTheElements) {
  Bench bench;
  const Expr x = bench.Counting({2, 3});
  const Expr index = bench.Input(kInt32, {4}, {-1, 0, 0, 7});
  const Expr source = bench.Input(kFloat32, {4}, {10, 20, 30, 40});
  EXPECT_EQ(bench.Values(Put(x, index, source, false)), (Values{30, 1, 2, 3, 4, 10}));
  EXPECT_EQ(bench.Values(Put(x, index, source, true)), (Values{50, 1, 2, 3, 4, 15}));
  EXPECT_EQ(bench.Values(Take(x, index)), (Values{5, 0, 0, 0}));
  const Expr mask = bench.Input(kBool, {2, 3}, {0, 1, 1, 0, 1, 1});
  EXPECT_EQ(bench.Values(MaskedScatter(x, mask, source)), (Values{0, 10, 20, 3, 30, 40}));
}

TEST(Histograms, CountWhatIsInside) {
  Bench bench;
  const Expr labels = bench.Input(kInt32, {6}, {1, 3, 1, 0, 7, -2});
  EXPECT_EQ(bench.Values(BinCount(labels, 4)), (Values{1, 2, 0, 1}));
  const Expr weights = bench.Input(kFloat32, {6}, {0.5, 1, 2, 4, 8, 16});
  EXPECT_EQ(bench.Values(BinCount(labels, 4, weights)), (Values{4, 2.5, 0, 1}));
  const Expr x = bench.Input(kFloat32, {6}, {0, 1, 1.5, 4, 5, std::nan("")});
  EXPECT_EQ(bench.Values(HistC(x, 4, 0, 4)), (Values{1, 2, 0, 1}));
  EXPECT_EQ(bench.Values(HistC(Shrink(x, 0, 0, 5), 5, 0, 0)), (Values{1, 2, 0, 0, 2}));
}

TEST(TakeAlong, BroadcastsAndCountsFromTheEnd) {
  Bench bench;
  const Expr x = bench.Counting({2, 3});
  EXPECT_EQ(bench.Values(TakeAlong(x, 1, bench.Input(kInt32, {1, 2}, {-1, 0}))),
            (Values{2, 0, 5, 3}));
}

// Each kind, with places hit twice, once and never; mul meets a zero.
TEST(ScatterGradients, AgreeWithDifferences) {
  const HostTensor x = Noise(kFloat64, {3, 4}, 0.5, 1.5, 1);
  HostTensor values = Noise(kFloat64, {3, 5}, 0.6, 1.6, 2);
  HostTensor rows = Noise(kFloat64, {5, 4}, 0.6, 1.6, 3);
  const HostTensor places =
      HostTensor::Of(kInt32, {3, 5}, Values{0, 2, 0, 9, 3, -1, 1, 1, 1, 0, 3, 2, 1, 0, 3});
  const HostTensor numbers = HostTensor::Of(kInt32, {5, 1}, Values{2, 0, 2, 5, 2});
  for (int kind = 0; kind < 5; ++kind) {
    const auto by_place = [&](absl::Span<const Expr> e) {
      const Expr index = HostConstant(e[0].graph(), places);
      return Scatter(static_cast<ScatterKind>(kind), e[0], index, e[1], 1);
    };
    const auto by_row = [&](absl::Span<const Expr> e) {
      const Expr index = HostConstant(e[0].graph(), numbers);
      return Scatter(static_cast<ScatterKind>(kind), e[0], index, e[1], 0);
    };
    ExpectGradient(std::string(Name(static_cast<ScatterKind>(kind))), by_place, {x, values});
    ExpectGradient(std::string(Name(static_cast<ScatterKind>(kind))), by_row, {x, rows});
    const auto twice = [&](absl::Span<const Expr> e) {
      const Expr y = by_row(e);
      return Gradient(Sum(y * y * y), {e[1]})[0];
    };
    ExpectGradient("second derivative", twice, {x, rows}, 1e-4);
  }
  values.values[2].f = 0;  // the second of its place
  ExpectGradient("mul by zero",
                 [&](absl::Span<const Expr> e) {
                   return Scatter(ScatterKind::kMul, e[0], HostConstant(e[0].graph(), places), e[1],
                                  1);
                 },
                 {x, values});
}

TEST(ScatterGradients, OfTheFunctionsOnTop) {
  const HostTensor x = Noise(kFloat64, {3, 4}, 0.5, 1.5, 1), source = Noise(kFloat64, {3, 2});
  const HostTensor index = HostTensor::Of(kInt32, {2}, Values{1, 3});
  for (const ReduceMode mode : {ReduceMode::kSum, ReduceMode::kProd, ReduceMode::kMean,
                                ReduceMode::kMax, ReduceMode::kMin}) {
    for (const bool self : {false, true}) {
      ExpectGradient("index_reduce",
                     [&](absl::Span<const Expr> e) {
                       return IndexReduce(e[0], 1, HostConstant(e[0].graph(), index), e[1], mode,
                                          self);
                     },
                     {x, source});
    }
  }
  ExpectGradient("take_along_dim",
                 [&](absl::Span<const Expr> e) {
                   return TakeAlong(e[0], 0, Reshape(HostConstant(e[0].graph(), index), {2, 1}));
                 },
                 {x});
}

}  // namespace
}  // namespace tensord
