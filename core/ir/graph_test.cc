#include "core/ir/graph.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/ir/affine.h"

namespace tensord {
namespace {

TEST(Graph, EqualNodesAreOnePointer) {
  Graph graph;
  const Node* x = graph.Param(0, DType::kFloat32, {2, 3});
  EXPECT_EQ(graph.Param(0, DType::kFloat32, {2, 3}), x);
  EXPECT_NE(graph.Param(1, DType::kFloat32, {2, 3}), x);
  EXPECT_EQ(graph.Make(Op::kExp, {x}), graph.Make(Op::kExp, {x}));
}

TEST(Graph, HashDependsOnStructureOnly) {
  Graph a, b;
  b.Param(7, DType::kInt8, {1});
  const Node* x = a.Make(Op::kExp, {a.Param(0, DType::kFloat32, {2, 3})});
  const Node* y = b.Make(Op::kExp, {b.Param(0, DType::kFloat32, {2, 3})});
  EXPECT_NE(x->id, y->id);
  EXPECT_EQ(x->hash, y->hash);
}

TEST(Graph, RefusesWithTheRule) {
  Graph graph;
  const Node* x = graph.Param(0, DType::kFloat32, {2, 3});
  const Node* y = graph.Param(1, DType::kFloat32, {3, 2});
  const Node* i = graph.Param(2, DType::kInt32, {2, 3});
  const struct {
    Op op;
    std::vector<const Node*> src;
    std::vector<int64_t> ints;
    std::string_view message;
    DType dtype = DType::kVoid;
  } cases[] = {
      {Op::kAdd, {x, y}, {}, "shapes [2, 3] and [3, 2] differ"},
      {Op::kAdd, {x, i}, {}, "operands are float32 and int32"},
      {Op::kAdd, {x}, {}, "1 operands, needs 2"},
      {Op::kExp, {i}, {}, "needs a float"},
      {Op::kReshape, {x}, {4}, "6 elements, [4] has 4"},
      {Op::kExpand, {x}, {4, 3}, "only axes of size 1"},
      {Op::kPermute, {x}, {0, 0}, "axis 0 occurs twice"},
      {Op::kShrink, {x}, {0, 3, 0, 1}, "outside of axis 0"},
      {Op::kPad, {x}, {-1, 0, 0, 0}, "out of range"},
      {Op::kReduce, {x}, {0, 2}, "axis 2 is outside"},
      {Op::kReduce, {x}, {9, 0}, "unknown kind of reduction"},
      {Op::kWhere, {x, x, x}, {}, "needs bool"},
      {Op::kSlide, {x}, {0, 1, 1, 1, 1}, "exceed size 2"},
      {Op::kParam, {}, {0, 1 << 30, 1 << 30}, "overflows", DType::kInt8},
      {Op::kGather, {x, x}, {}, "needs an integer"},
      {Op::kScan, {x}, {0, 2, 0, 0}, "axis 2 is outside"},
      {Op::kScan, {x}, {5, 0, 0, 0}, "unknown kind of reduction 5"},
      {Op::kScan, {x}, {0, 0, 2, 0}, "flag 2 is neither 0 nor 1"},
      {Op::kScan, {x}, {0, 0, 0}, "3 numbers in the attribute"},
      {Op::kScan, {i}, {4, 0, 0, 0}, "the operand of logadd is int32"},
      {Op::kScatter, {x, i, x}, {5, 0}, "unknown kind of reduction 5"},
      {Op::kScatter, {x, i, x}, {0, -1}, "axis -1 is outside"},
      {Op::kScatter, {x, x, x}, {0, 0}, "the index is float32"},
      {Op::kScatter, {x, i, i}, {0, 0}, "values of int32 into float32"},
      {Op::kScatter, {y, i, x}, {0, 0}, "do not fit [3, 2] with 0 axes"},
      {Op::kScatter, {y, i, x}, {0, 1}, "do not fit [3, 2] with 1 axes"},
  };
  for (const auto& c : cases) {
    auto made = graph.TryMake({.op = c.op, .src = c.src, .ints = c.ints, .dtype = c.dtype});
    ASSERT_FALSE(made.ok()) << c.message;
    EXPECT_NE(Message(made.status()).find(c.message), std::string_view::npos) << made.status();
  }
}

TEST(Graph, ConstantsFoldByTheirDType) {
  Graph graph;
  const Node* a = graph.Int(DType::kUint8, 200);
  EXPECT_EQ(graph.Make(Op::kAdd, {a, graph.Int(DType::kUint8, 100)})->Int(), 44);
  EXPECT_EQ(graph.Cast(graph.Float(DType::kFloat32, 3e9), DType::kInt32)->Int(), 2147483647);
}

class Indices : public testing::Test {
 protected:
  const Node* Div(const Node* x, int64_t c) { return g.Make(Op::kFloorDiv, {x, g.Index(c)}); }
  const Node* Mod(const Node* x, int64_t c) { return g.Make(Op::kFloorMod, {x, g.Index(c)}); }
  const Node* Mul(const Node* x, int64_t c) { return g.Make(Op::kMul, {x, g.Index(c)}); }
  const Node* Add(const Node* x, const Node* y) { return g.Make(Op::kAdd, {x, y}); }
  Graph g;
  const Node* i = g.Range(0, 6, RangeKind::kLoop);
  const Node* j = g.Range(1, 4, RangeKind::kLoop);
  const Node* k = g.Range(2, 12, RangeKind::kLoop);
};

TEST_F(Indices, ReshapesCancel) {
  const Node* flat = Add(Mul(i, 4), j);
  EXPECT_EQ(Div(flat, 4), i);
  EXPECT_EQ(Mod(flat, 4), j);
  EXPECT_EQ(Div(flat, 24), g.Index(0));
  EXPECT_EQ(Mod(flat, 24), flat);
  EXPECT_EQ(Add(Mul(Div(k, 4), 4), Mod(k, 4)), k);
  EXPECT_EQ(Div(Div(k, 2), 3), Div(k, 6));
  EXPECT_EQ(Mod(Mod(k, 6), 3), Mod(k, 3));
  // 24 = 2 * 12: the split at 8 only sees the leading part.
  EXPECT_EQ(Div(flat, 8), Div(i, 2));
}

TEST_F(Indices, ComparisonsFollowBounds) {
  EXPECT_EQ(g.Make(Op::kCmpLt, {i, g.Index(6)}), g.Bool(true));
  EXPECT_EQ(g.Make(Op::kCmpLt, {Mul(i, 2), g.Index(5)}), g.Make(Op::kCmpLt, {i, g.Index(3)}));
  EXPECT_EQ(g.Make(Op::kCmpEq, {i, j}), g.Make(Op::kCmpEq, {j, i}));
  EXPECT_EQ(g.Make(Op::kCmpEq, {Mul(i, 2), g.Index(5)}), g.Bool(false));
}

TEST_F(Indices, OrderOfTermsDoesNotMatter) {
  EXPECT_EQ(Add(Add(i, j), k), Add(k, Add(j, i)));
  EXPECT_EQ(g.Make(Op::kSub, {Add(i, j), j}), i);
}

}  // namespace
}  // namespace tensord
