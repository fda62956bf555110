#include "core/tensor/movement.h"

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;

TEST(Create, Sequences) {
  Bench bench;
  Graph& g = bench.graph();
  using enum DType;
  EXPECT_EQ(bench.Values(Arange(g, 0, 10, 3, kInt32)), (Values{0, 3, 6, 9}));
  EXPECT_EQ(bench.Values(Arange(g, 5, 0, -2, kInt8)), (Values{5, 3, 1}));
  EXPECT_EQ(bench.Values(Arange(g, 0, 1, 0.25, kFloat32)), (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(bench.Values(Arange(g, 3, 3, 1, kInt32)), (Values{}));
  EXPECT_EQ(bench.Values(Arange(g, 120, 128, 7, kInt8)), (Values{120, 127}));
  EXPECT_EQ(bench.Values(Linspace(g, 0, 1, 5, kFloat64)), (Values{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(bench.Values(Linspace(g, 5, 9, 1, kFloat32)), (Values{5}));
  EXPECT_EQ(bench.Values(Linspace(g, 0, 3, 3, kInt32)), (Values{0, 1, 3}));
  EXPECT_EQ(bench.Values(Eye(g, 2, 3, kFloat32)), (Values{1, 0, 0, 0, 1, 0}));
  EXPECT_TRUE(IsOverflow(Full(g, {2}, 300, kUint8).status()));
  EXPECT_EQ(ShapeOf(Zeros(g, {0, 3}, kFloat32)), (Sizes{0, 3}));
}

TEST(Shape, ReshapeInfersOneSize) {
  Bench bench;
  const Expr x = bench.Counting({2, 6});
  EXPECT_EQ(ShapeOf(Reshape(x, {3, -1})), (Sizes{3, 4}));
  EXPECT_EQ(ShapeOf(Reshape(x, {-1})), (Sizes{12}));
  EXPECT_EQ(ShapeOf(Flatten(Reshape(x, {2, 2, 3}), 1)), (Sizes{2, 6}));
  EXPECT_EQ(ShapeOf(Unflatten(x, -1, {2, -1})), (Sizes{2, 2, 3}));
  EXPECT_EQ(ShapeOf(Squeeze(Reshape(x, {1, 12, 1}))), (Sizes{12}));
  EXPECT_EQ(ShapeOf(Squeeze(Reshape(x, {1, 12, 1}), 0)), (Sizes{12, 1}));
  EXPECT_EQ(ShapeOf(Unsqueeze(x, -1)), (Sizes{2, 6, 1}));
  EXPECT_EQ(ShapeOf(Flatten(Constant(bench.graph(), 1, DType::kInt32))), (Sizes{1}));
}

TEST(Shape, ExpandRepeats) {
  Bench bench;
  const Expr x = bench.Counting({2, 1});
  EXPECT_EQ(bench.Values(Expand(x, {-1, 3})), (Values{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(ShapeOf(Expand(x, {4, 2, 3})), (Sizes{4, 2, 3}));
  EXPECT_EQ(ShapeOf(Expand(x, {2, 0})), (Sizes{2, 0}));
}

TEST(Move, PermuteAndFlip) {
  Bench bench;
  const Expr x = bench.Counting({2, 3});
  EXPECT_EQ(bench.Values(Transpose(x, 0, -1)), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(bench.Values(Permute(x, {-1, 0})), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(bench.Values(Flip(x, {1})), (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(bench.Values(Flip(x, {-1, 0})), (Values{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(ShapeOf(MoveAxis(bench.Counting({2, 3, 4}), 0, 2)), (Sizes{3, 4, 2}));
}

TEST(Move, PadFillsAndCrops) {
  Bench bench;
  const Expr x = bench.Counting({2, 2});
  EXPECT_EQ(bench.Values(Pad(x, {{0, 0}, {1, 0}})), (Values{0, 0, 1, 0, 2, 3}));
  EXPECT_EQ(bench.Values(Pad(x, {{0, 1}, {0, 0}}, 5)), (Values{0, 1, 2, 3, 5, 5}));
  EXPECT_EQ(bench.Values(Pad(x, {{-1, 0}, {0, 1}}, -1)), (Values{2, 3, -1}));
}

TEST(Slice, AgreesWithPython) {
  // Expected values are range(6)[begin:end:step].
  const struct {
    Slice slice;
    Values expected;
  } cases[] = {
      {{}, {0, 1, 2, 3, 4, 5}},
      {{1, 4}, {1, 2, 3}},
      {{-2}, {4, 5}},
      {{std::nullopt, -4}, {0, 1}},
      {{2, 100}, {2, 3, 4, 5}},
      {{4, 2}, {}},
      {{100, 200}, {}},
      {{-100, 2}, {0, 1}},
      {{.step = 2}, {0, 2, 4}},
      {{1, std::nullopt, 4}, {1, 5}},
      {{.step = -1}, {5, 4, 3, 2, 1, 0}},
      {{4, 1, -2}, {4, 2}},
      {{4, std::nullopt, -3}, {4, 1}},
      {{std::nullopt, 2, -1}, {5, 4, 3}},
      {{1, 4, -1}, {}},
      {{-100, std::nullopt, -1}, {}},
      {{100, -100, -4}, {5, 1}},
      {{.step = 7}, {0}},
  };
  for (const auto& c : cases) {
    Bench bench;
    EXPECT_EQ(bench.Values(SliceAxis(bench.Counting({6}), 0, c.slice)), c.expected);
  }
  Bench bench;
  EXPECT_EQ(bench.Values(Select(bench.Counting({2, 3}), 1, -1)), (Values{2, 5}));
}

TEST(Join, CatStackSplit) {
  Bench bench;
  const Expr a = bench.Input(DType::kInt32, {1, 2}, {1, 2});
  const Expr b = bench.Input(DType::kFloat32, {2, 2}, {3, 4, -0.0, 6});
  const Expr none = bench.Input(DType::kInt32, {0, 2}, {});
  const Expr cat = Cat({a, none, b}, 0);
  EXPECT_EQ(cat.dtype(), DType::kFloat32);
  EXPECT_EQ(bench.Values(cat), (Values{1, 2, 3, 4, -0.0, 6}));
  EXPECT_TRUE(std::signbit(bench.Values(cat)[4]));
  EXPECT_EQ(ShapeOf(Stack({a, a, a}, -1)), (Sizes{1, 2, 3}));
  EXPECT_EQ(bench.Values(Stack({a, a + 10}, 1)), (Values{1, 2, 11, 12}));

  const auto pieces = Split(bench.Counting({5}), {2, 0, 3}, 0);
  ASSERT_TRUE(pieces.ok());
  EXPECT_EQ(bench.Values((*pieces)[2]), (Values{2, 3, 4}));
  EXPECT_EQ(ShapeOf((*pieces)[1]), (Sizes{0}));
  const auto chunks = Chunk(bench.Counting({13}), 6, -1);
  ASSERT_TRUE(chunks.ok());
  EXPECT_EQ(chunks->size(), 5u);
  EXPECT_EQ(bench.Values(chunks->back()), (Values{12}));
}

TEST(Copy, RepeatAndRoll) {
  Bench bench;
  const Expr x = bench.Counting({3});
  EXPECT_EQ(bench.Values(Repeat(x, {2})), (Values{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(ShapeOf(Repeat(x, {2, 2})), (Sizes{2, 6}));
  EXPECT_EQ(ShapeOf(Repeat(x, {0})), (Sizes{0}));
  EXPECT_EQ(bench.Values(RepeatInterleave(x, 2, 0)), (Values{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(bench.Values(Roll(x, 1, 0)), (Values{2, 0, 1}));
  EXPECT_EQ(bench.Values(Roll(x, -4, 0)), (Values{1, 2, 0}));
}

TEST(Matrix, TrianglesAndDiagonals) {
  for (int64_t diagonal = -6; diagonal <= 6; ++diagonal) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{4, 5}, {5, 2}}) {
      Bench bench;
      const Expr x = bench.Counting({rows, columns}) + 1;
      Values lower, upper, line;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          const double value = static_cast<double>(i * columns + j + 1);
          lower.push_back(j <= i + diagonal ? value : 0);
          upper.push_back(j >= i + diagonal ? value : 0);
          if (j == i + diagonal) line.push_back(value);
        }
      }
      EXPECT_EQ(bench.Values(Tril(x, diagonal)), lower) << diagonal;
      EXPECT_EQ(bench.Values(Triu(x, diagonal)), upper) << diagonal;
      EXPECT_EQ(bench.Values(Diagonal(x, diagonal)), line) << diagonal;
    }
  }
}

TEST(Windows, AreWhatSlidingGives) {
  for (int64_t size : {1, 5, 8}) {
    for (int64_t taps : {1, 2, 3}) {
      for (int64_t stride : {1, 2, 3}) {
        for (int64_t dilation : {1, 2}) {
          if ((taps - 1) * dilation + 1 > size) continue;
          Bench bench;
          const Expr x = Windows(bench.Counting({size}), 0, {taps, stride, dilation});
          Values expected;
          for (int64_t o = 0; o * stride + (taps - 1) * dilation < size; ++o) {
            for (int64_t k = 0; k < taps; ++k) {
              expected.push_back(static_cast<double>(o * stride + k * dilation));
            }
          }
          EXPECT_EQ(bench.Values(x), expected) << size << taps << stride << dilation;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensord
