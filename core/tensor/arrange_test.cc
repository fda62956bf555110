// Joining, padding, windows and rearranging: what tensors of counted elements become.
#include "core/tensor/arrange.h"

#include "core/tensor/create.h"
#include "core/tensor/join.h"
#include "core/tensor/movement.h"
#include "core/tensor/pad.h"
#include "core/tensor/testing.h"
#include "core/tensor/windows.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;

TEST(Rearrange, FollowsTheFormula) {
  struct Case {
    Sizes shape;
    const char* formula;
    std::map<std::string, int64_t> sizes;
    Sizes expected;
    Values first;  // the first elements of the result
  };
  const Case cases[] = {
      {{2, 3}, "a b -> b a", {}, {3, 2}, {0, 3, 1}},
      {{2, 6}, "b (h w) -> b h w", {{"h", 2}}, {2, 2, 3}, {0, 1, 2}},
      {{2, 6}, "b (h w) -> w (b h)", {{"w", 3}}, {3, 4}, {0, 3, 6, 9, 1}},
      {{2, 3, 4}, "a ... -> ... a", {}, {3, 4, 2}, {0, 12, 1}},
      {{2, 3, 4}, "a ... -> (...) a", {}, {12, 2}, {0, 12, 1}},
      {{2, 3, 4}, "... c -> c (...)", {}, {4, 6}, {0, 4, 8}},
      {{2, 1}, "a 1 -> 1 a", {}, {1, 2}, {0, 1}},
      {{2}, "a -> a 1 ()", {}, {2, 1, 1}, {0, 1}},
      {{4}, "(x y) -> y x", {{"x", 2}, {"y", 2}}, {2, 2}, {0, 2, 1, 3}},
      {{0, 4}, "a (b c) -> b (a c)", {{"b", 2}}, {2, 0}, {}},
  };
  for (const Case& c : cases) {
    Bench bench;
    const Expr y = Rearrange(bench.Counting(c.shape), c.formula, c.sizes);
    EXPECT_EQ(ErrorOf(y), "") << c.formula;
    EXPECT_EQ(ShapeOf(y), c.expected) << c.formula;
    Values values = bench.Values(y);
    values.resize(std::min(values.size(), c.first.size()));
    EXPECT_EQ(values, c.first) << c.formula;
  }
}

TEST(Rearrange, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"a b", "rearrange: 'a b' needs one ->"},
      {"a b -> a", "rearrange: the two sides of 'a b -> a' must have the same names"},
      {"a a -> a a", "rearrange: 'a' occurs twice in 'a a '"},
      {"a (b -> a b", "rearrange: a bracket of 'a (b ' stays open"},
      {"a b c -> a b c", "rearrange: 'a b c -> a b c' does not fit shape [2, 6]"},
      {"a (b c) -> a b c", "rearrange: give the size of 'b' or 'c' in 'a (b c) -> a b c'"},
      {"a 2b -> a 2b", "rearrange: '2' cannot stand where it does in 'a 2b '"},
      {"a 1 -> a 1", "rearrange: axis 1 of [2, 6] does not split as 'a 1 -> a 1' says"},
      {"(a ...) -> a ...",
       "rearrange: ... cannot stand in brackets on the left of '(a ...) -> a ...'"},
  };
  Bench bench;
  for (const auto& [formula, message] : cases) {
    EXPECT_EQ(ErrorOf(Rearrange(bench.Counting({2, 6}), formula)), message);
  }
  EXPECT_EQ(ErrorOf(Rearrange(bench.Counting({2, 6}), "a (b c) -> a b c", {{"b", 4}})),
            "rearrange: axis 1 of [2, 6] does not split as 'a (b c) -> a b c' says");
}

TEST(Pad, TakesFromTheEndsInEachMode) {
  struct Case {
    PadMode mode;
    PadAmount amount;
    Values expected;
  };
  const Case cases[] = {
      {PadMode::kConstant, {1, 2}, {9, 0, 1, 2, 9, 9}},
      {PadMode::kReflect, {2, 1}, {2, 1, 0, 1, 2, 1}},
      {PadMode::kReplicate, {2, 4}, {0, 0, 0, 1, 2, 2, 2, 2, 2}},
      {PadMode::kCircular, {3, 1}, {0, 1, 2, 0, 1, 2, 0}},
      // Cropped after the other end was padded, from what was there before.
      {PadMode::kConstant, {-2, 1}, {2, 9}},
      {PadMode::kReflect, {-1, 2}, {1, 2, 1, 0}},
      {PadMode::kReplicate, {2, -3}, {0, 0}},
      {PadMode::kCircular, {-1, 1}, {1, 2, 1}},
      {PadMode::kReplicate, {-1, -2}, {}},
  };
  for (const Case& c : cases) {
    Bench bench;
    EXPECT_EQ(bench.Values(PadBy(bench.Counting({3}), {c.amount}, c.mode, 9)), c.expected);
  }
  Bench bench;
  const Expr x = bench.Counting({3}), none = bench.Counting({0});
  EXPECT_EQ(ErrorOf(PadBy(x, {{3, 0}}, PadMode::kReflect)),
            "pad: (3, 0) is more than mode reflect finds on axis 0 of [3], which is 2");
  EXPECT_EQ(ErrorOf(PadBy(x, {{0, 4}}, PadMode::kCircular)),
            "pad: (0, 4) is more than mode circular finds on axis 0 of [3], which is 3");
  EXPECT_EQ(ErrorOf(PadBy(none, {{1, 0}}, PadMode::kReplicate)),
            "pad: (1, 0) is more than mode replicate finds on axis 0 of [0], which is 0");
  EXPECT_EQ(ErrorOf(PadBy(x, {{-2, -2}}, PadMode::kReplicate)),
            "pad: (-2, -2) crops more than axis 0 of [3] has");
}

TEST(Join, SideBySide) {
  Bench bench;
  const Expr v = bench.Counting({2}), m = bench.Counting({2, 2});
  EXPECT_EQ(bench.Values(HStack({v, v})), (Values{0, 1, 0, 1}));
  EXPECT_EQ(bench.Values(HStack({m, m})), (Values{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(ShapeOf(VStack({v, m})), (Sizes{3, 2}));
  EXPECT_EQ(ShapeOf(DStack({v, v})), (Sizes{1, 2, 2}));
  EXPECT_EQ(bench.Values(ColumnStack({v, m})), (Values{0, 0, 1, 1, 2, 3}));
  const auto grid = Meshgrid({v, bench.Counting({3})}, true);
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(bench.Values((*grid)[0]), (Values{0, 1, 0, 1, 0, 1}));
}

TEST(Windows, FoldAddsWhatUnfoldCopies) {
  Bench bench;
  const Expr image = bench.Counting({1, 1, 3, 3});
  const Patches patches = {.kernel = {2, 2}};
  const Expr columns = Im2Col(image, patches);
  EXPECT_EQ(ShapeOf(columns), (Sizes{1, 4, 4}));
  EXPECT_EQ(bench.Values(Select(columns, 2, 1)), (Values{1, 2, 4, 5}));
  // Each element as often as patches cover it.
  EXPECT_EQ(bench.Values(Col2Im(columns, 3, 3, patches)), (Values{0, 2, 2, 6, 16, 10, 6, 14, 8}));
  EXPECT_EQ(ErrorOf(Col2Im(columns, 4, 3, patches)),
            "fold: [1, 4, 4] is not [n, channels * 4, 6], which an image of 4 x 3 has");
  EXPECT_EQ(ShapeOf(Unfold(bench.Counting({5}), 0, 0, 2)), (Sizes{3, 0}));
}

TEST(Arrange, BlocksAndStrides) {
  Bench bench;
  const Expr x = bench.Counting({4, 2, 3});
  EXPECT_EQ(ShapeOf(PixelShuffle(x, 2)), (Sizes{1, 4, 6}));
  EXPECT_EQ(bench.Values(PixelUnshuffle(PixelShuffle(x, 2), 2)), bench.Values(x));
  EXPECT_EQ(bench.Values(AsStrided(x, {2, 3}, {1, 2}, 5)), (Values{5, 7, 9, 6, 8, 10}));
  EXPECT_EQ(ErrorOf(AsStrided(x, {2, 12}, {1, 2}, 1)),
            "as_strided: sizes [2, 12], strides [1, 2] and offset 1 reach beyond the 24 elements");
  EXPECT_EQ(bench.Values(Rot90(bench.Counting({2, 2}), 1, 0, 1)), (Values{1, 3, 0, 2}));
  EXPECT_EQ(bench.Values(Rot90(bench.Counting({2, 2}), -1, 0, 1)), (Values{2, 0, 3, 1}));
  EXPECT_EQ(bench.Values(DiagEmbed(bench.Counting({2}), -1)), (Values{0, 0, 0, 0, 0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace tensord
