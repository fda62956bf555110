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
  EXPECT_EQ(bench.Values(FindDistinct(x, false).count), (Values{4}));
  const UniqueResult sorted = Unique(x, 4, false);
  EXPECT_EQ(bench.Values(sorted.values), (Values{1, 3, 7, 9}));
  EXPECT_EQ(bench.Values(sorted.inverse), (Values{1, 0, 0, 2, 1, 1, 0, 3}));
  EXPECT_EQ(ShapeOf(sorted.inverse), (Sizes{2, 4}));
  EXPECT_EQ(bench.Values(sorted.counts), (Values{3, 3, 1, 1}));
  EXPECT_EQ(bench.Values(FindDistinct(x, true).count), (Values{6}));
  const UniqueResult runs = Unique(x, 6, true);
  EXPECT_EQ(bench.Values(runs.values), (Values{3, 1, 7, 3, 1, 9}));
  EXPECT_EQ(bench.Values(runs.counts), (Values{1, 2, 1, 2, 1, 1}));
  const Expr nothing = Zeros(bench.graph(), {0}, kFloat32);
  EXPECT_EQ(bench.Values(FindDistinct(nothing, false).count), (Values{0}));
  EXPECT_EQ(ShapeOf(Unique(nothing, 0, false).values), (Sizes{0}));
}

}  // namespace
}  // namespace tensord
