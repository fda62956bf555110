#include "core/tensor/index.h"

#include <limits>

#include "core/tensor/elementwise.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;

TEST(Index, OfNumbersSlicesAndAxes) {
  Bench bench;
  const Expr x = bench.Counting({2, 3, 4});
  EXPECT_EQ(bench.Values(Index(x, {1, Ellipsis{}, -1})), (Values{15, 19, 23}));
  EXPECT_EQ(ShapeOf(Index(x, {NewAxis{}, Slice{}, NewAxis{}, Slice{1}, 0})), (Sizes{1, 2, 1, 2}));
  EXPECT_EQ(bench.Values(Index(x, {0, Slice{.step = -2}, Slice{1, 3}})), (Values{9, 10, 1, 2}));
  EXPECT_EQ(ShapeOf(Index(x, {})), (Sizes{2, 3, 4}));
}

TEST(Index, OfTensors) {
  Bench bench;
  const Expr x = bench.Counting({2, 3, 4});
  const Expr i = bench.Input(DType::kInt64, {2}, {-1, 0});
  const Expr j = bench.Input(DType::kInt32, {3, 1}, {0, 1, -3});
  // One in the middle stays in its place.
  const Expr middle = Index(x, {Slice{}, i, Slice{0, 2}});
  EXPECT_EQ(ShapeOf(middle), (Sizes{2, 2, 2}));
  EXPECT_EQ(bench.Values(middle), (Values{8, 9, 0, 1, 20, 21, 12, 13}));
  // Adjacent ones broadcast in place; separated ones move to the front.
  EXPECT_EQ(ShapeOf(Index(x, {Slice{}, j, i})), (Sizes{2, 3, 2}));
  const Expr apart = Index(x, {i, Slice{}, j});
  EXPECT_EQ(ShapeOf(apart), (Sizes{3, 2, 3}));
  Values expected;
  for (int64_t b : {0, 1, 1}) {  // -3 is 1 of 4
    for (int64_t a : {1, 0}) {
      for (int64_t c = 0; c < 3; ++c) expected.push_back(static_cast<double>(a * 12 + c * 4 + b));
    }
  }
  EXPECT_EQ(bench.Values(apart), expected);
  // Outside reads as zero, also if the other index would make up for it.
  const Expr outside = bench.Input(DType::kInt32, {3}, {1, 7, -9}),
             first = bench.Input(DType::kInt32, {1}, {1});
  EXPECT_EQ(bench.Values(Index(x, {first, 0, outside})), (Values{13, 0, 0}));
  EXPECT_EQ(bench.Values(Index(x, {1, 1, bench.Input(DType::kUint8, {2}, {3, 255})})),
            (Values{19, 0}));
}

TEST(Index, LeavesNeighboursOfInfinitiesAlone) {
  Bench bench;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Expr x = bench.Input(DType::kFloat32, {3}, {kInf, 2, -kInf});
  EXPECT_EQ(bench.Values(Index(x, {bench.Input(DType::kInt32, {2}, {1, 0})})), (Values{2, kInf}));
}

TEST(Index, ANumberInATensorIsANumber) {
  Bench bench;
  const Expr x = bench.Counting({2, 3, 4});
  const Expr one = bench.Input(DType::kInt32, {}, {1}), j = bench.Input(DType::kInt32, {2}, {3, 0});
  EXPECT_EQ(bench.Values(Index(x, {one, Slice{}, 2})), (Values{14, 18, 22}));
  EXPECT_EQ(ShapeOf(Index(x, {one, Slice{}, j})), (Sizes{3, 2}));
  EXPECT_EQ(bench.Values(Index(x, {Slice{}, one, j})), (Values{7, 4, 19, 16}));
  EXPECT_EQ(bench.Values(Index(x, {one, one, one})), (Values{17}));
}

// What SetIndex changes is what Index reads, with the last of several values.
TEST(SetIndex, WritesWhereIndexReads) {
  Bench bench;
  const Expr i = bench.Input(DType::kInt64, {2}, {-1, 0});
  const Expr j = bench.Input(DType::kInt32, {3, 1}, {0, 1, -3});
  const Expr one = bench.Input(DType::kInt32, {}, {1});
  const Expr outside = bench.Input(DType::kInt32, {3}, {1, 7, -9});
  const std::vector<IndexItem> cases[] = {
      {},
      {1},
      {Ellipsis{}, -1},
      {Slice{}, Slice{.step = -2}, NewAxis{}, Slice{1, 3}},
      {i},
      {Slice{}, j, i},
      {i, Slice{}, j},
      {i, Slice{1}, NewAxis{}, j},
      {one},
      {one, Slice{}, i},
      {Slice{}, one, Slice{.step = 2}},
      {0, one, i},
      {Slice{}, outside},
      {1, outside, 2},
  };
  for (const std::vector<IndexItem>& items : cases) {
    const Expr x = bench.Counting({2, 3, 4}) + 1;
    const Expr read = Index(x, items);
    ASSERT_EQ(ErrorOf(read), "");
    const Values places = bench.Values(read);  // 1 is the first element, 0 is outside
    Values expected = bench.Values(x), numbers;
    for (size_t k = 0; k < places.size(); ++k) {
      numbers.push_back(-1 - static_cast<double>(k));
      if (places[k] > 0) expected[static_cast<size_t>(places[k]) - 1] = numbers.back();
    }
    const Expr value = bench.Input(DType::kFloat32, ShapeOf(read), numbers);
    EXPECT_EQ(bench.Values(SetIndex(x, items, value)), expected);
  }
}

TEST(SetIndex, BroadcastsAndCasts) {
  Bench bench;
  const Expr x = bench.Counting({2, 3}, DType::kInt32);
  const Expr rows = bench.Input(DType::kInt32, {2}, {1, 1});
  EXPECT_EQ(bench.Values(SetIndex(x, {Slice{}, 1}, bench.Input(DType::kFloat32, {}, {7.5}))),
            (Values{0, 7, 2, 3, 7, 5}));
  EXPECT_EQ(bench.Values(SetIndex(x, {rows}, bench.Input(DType::kInt32, {2, 1}, {8, 9}))),
            (Values{0, 1, 2, 9, 9, 9}));
  EXPECT_EQ(bench.Values(SetIndex(x, {0}, bench.Input(DType::kInt32, {1, 1, 3}, {6, 7, 8}))),
            (Values{6, 7, 8, 3, 4, 5}));
  EXPECT_EQ(ErrorOf(SetIndex(x, {0}, bench.Counting({2}))),
            "expand: [2] does not become [3]: only axes of size 1 and new axes in front repeat");
}

TEST(Take, ElementsAndSlices) {
  Bench bench;
  const Expr x = bench.Counting({2, 3});
  EXPECT_EQ(bench.Values(Take(x, bench.Input(DType::kInt32, {2}, {4, -1}))), (Values{4, 5}));
  EXPECT_EQ(bench.Values(IndexSelect(x, 1, bench.Input(DType::kInt64, {2}, {2, 0}))),
            (Values{2, 0, 5, 3}));
  EXPECT_EQ(bench.Values(TakeAlong(x, 1, bench.Input(DType::kInt64, {1, 2}, {-1, 0}))),
            (Values{2, 0, 5, 3}));
}

TEST(Embedding, TakesRows) {
  Bench bench;
  const Expr table = bench.Counting({4, 2});
  const Expr index = bench.Input(DType::kInt32, {2, 2}, {3, 0, 4, -1});
  EXPECT_EQ(ShapeOf(Embedding(table, index)), (Sizes{2, 2, 2}));
  EXPECT_EQ(bench.Values(Embedding(table, index)), (Values{6, 7, 0, 1, 0, 0, 0, 0}));
}

TEST(GatherAlong, TakesAnElementPerIndex) {
  Bench bench;
  const Expr x = bench.Counting({3, 4});
  const Expr index = bench.Input(DType::kInt64, {2, 3}, {3, 0, -1, 1, 4, 2});
  EXPECT_EQ(bench.Values(GatherAlong(x, 1, index)), (Values{3, 0, 0, 5, 0, 6}));
  EXPECT_EQ(bench.Values(GatherAlong(x, 0, bench.Input(DType::kInt32, {1, 2}, {2, 1}))),
            (Values{8, 5}));
}

TEST(OneHot, IsZeroOutside) {
  Bench bench;
  const Expr labels = bench.Input(DType::kInt32, {3}, {1, -1, 3});
  EXPECT_EQ(bench.Values(OneHot(labels, 3)), (Values{0, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(ShapeOf(OneHot(labels, 0)), (Sizes{3, 0}));
}

}  // namespace
}  // namespace tensord
