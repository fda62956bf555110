#include "core/tensor/compact.h"

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
using enum DType;

TEST(MaskedSelect, CutsAndFills) {
  Bench bench;
  const Expr x = bench.Counting({2, 3});
  const Expr mask = bench.Input(kBool, {2, 3}, {0, 1, 1, 0, 0, 1});
  EXPECT_EQ(bench.Values(MaskedSelect(x, mask, 3)), (Values{1, 2, 5}));
  EXPECT_EQ(bench.Values(MaskedSelect(x, mask, 2)), (Values{1, 2}));
  EXPECT_EQ(bench.Values(MaskedSelect(x, mask, 5, -7)), (Values{1, 2, 5, -7, -7}));
  const Expr row = bench.Input(kBool, {3}, {1, 0, 1});
  EXPECT_EQ(bench.Values(MaskedSelect(x, row, 4)), (Values{0, 2, 3, 5}));
  EXPECT_EQ(bench.Values(MaskedSelect(x, Constant(bench.graph(), true, kBool), 6)),
            (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ShapeOf(MaskedSelect(x, mask, 0)), (Sizes{0}));
  EXPECT_NE(ErrorOf(MaskedSelect(x, x, 2)).find("must be bool"), std::string::npos);
  EXPECT_EQ(bench.Values(Gradient(Sum(Square(MaskedSelect(x, mask, 2))), {x})[0]),
            (Values{0, 2, 4, 0, 0, 0}));
}

TEST(NonZero, GivesAnIndexAnAxis) {
  Bench bench;
  const Expr x = bench.Input(kFloat32, {2, 3}, {0, 1, 0, -2, 0, 0.5});
  EXPECT_EQ(bench.Values(NonZero(x, 3)), (Values{0, 1, 1, 0, 1, 2}));
  EXPECT_EQ(bench.Values(NonZero(x, 4, -1)), (Values{0, 1, 1, 0, 1, 2, -1, -1}));
  EXPECT_EQ(ShapeOf(NonZero(Constant(bench.graph(), 3, kInt32), 1)), (Sizes{1, 0}));
}

TEST(Unique, TellsWhichAndHowOften) {
  Bench bench;
  const Expr x = bench.Input(kInt64, {2, 4}, {3, 1, 1, 7, 3, 3, 1, 9});
  EXPECT_EQ(bench.Values(FindDistinct(x).count), (Values{4}));
  const UniqueResult sorted = Unique(x, 4);
  EXPECT_EQ(bench.Values(sorted.values), (Values{1, 3, 7, 9}));
  EXPECT_EQ(bench.Values(sorted.inverse), (Values{1, 0, 0, 2, 1, 1, 0, 3}));
  EXPECT_EQ(ShapeOf(sorted.inverse), (Sizes{2, 4}));
  EXPECT_EQ(bench.Values(sorted.counts), (Values{3, 3, 1, 1}));
  EXPECT_EQ(bench.Values(FindDistinct(x, {.consecutive = true}).count), (Values{6}));
  const UniqueResult runs = Unique(x, 6, {.consecutive = true});
  EXPECT_EQ(bench.Values(runs.values), (Values{3, 1, 7, 3, 1, 9}));
  EXPECT_EQ(bench.Values(runs.counts), (Values{1, 2, 1, 2, 1, 1}));
  const Expr rows = bench.Input(kInt64, {4, 2}, {3, 1, 0, 7, 3, 0, 3, 1});
  EXPECT_EQ(bench.Values(FindDistinct(rows, {.axis = 0}).count), (Values{3}));
  const UniqueResult slices = Unique(rows, 3, {.axis = 0});
  EXPECT_EQ(bench.Values(slices.values), (Values{0, 7, 3, 0, 3, 1}));
  EXPECT_EQ(bench.Values(slices.inverse), (Values{2, 0, 1, 2}));
  EXPECT_EQ(bench.Values(slices.counts), (Values{1, 1, 2}));
  const Expr nothing = Zeros(bench.graph(), {0}, kFloat32);
  EXPECT_EQ(bench.Values(FindDistinct(nothing).count), (Values{0}));
  EXPECT_EQ(ShapeOf(Unique(nothing, 0).values), (Sizes{0}));
}

TEST(RepeatInterleave, TakesANumberForEachSlice) {
  Bench bench;
  const Expr x = bench.Counting({3, 2});
  const Expr times = bench.Input(kInt32, {3}, {2, 0, 1});
  EXPECT_EQ(bench.Values(RepeatInterleave(x, times, 0, 3)), (Values{0, 1, 0, 1, 4, 5}));
  EXPECT_EQ(bench.Values(RepeatsOfSlices(x, Constant(bench.graph(), 4, kInt32), 1)),
            (Values{4, 4}));
  EXPECT_EQ(ErrorOf(RepeatInterleave(x, times, 1, 3)),
            "repeat_interleave: repeats int32 [3] for 2 slices; give as many integers, or one");
}

}  // namespace
}  // namespace tensord
