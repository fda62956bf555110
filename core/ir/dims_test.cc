#include "core/ir/dims.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/ir/affine.h"
#include "core/ir/text.h"

namespace tensord {
namespace {

struct SizesTest : testing::Test {
  Dim Variable(std::string_view name, int64_t min, int64_t max) {
    return DimOf(graph.Cast(graph.Variable(name, min, max, DType::kInt32), DType::kIndex));
  }
  Dim Times(Dim a, Dim b) { return TimesAll(graph, {a, b}); }
  Dim Made(Op op, Dim a, Dim b) {
    return DimOf(graph.Make(op, {NodeOf(graph, a), NodeOf(graph, b)}));
  }
  const Node* Input(const Sizes& shape) { return graph.SizedParam(0, DType::kFloat32, shape); }

  Graph graph;
  const Dim n = Variable("n", 1, 8), m = Variable("m", 0, 3), large = Variable("large", 0, 1 << 20);
};

TEST_F(SizesTest, EqualSizesAreOneNode) {
  EXPECT_EQ(Plus(graph, n, m), Plus(graph, m, n));
  EXPECT_EQ(Minus(graph, Plus(graph, n, {3}), {3}), n);
  EXPECT_EQ(Minus(graph, n, n), Dim{0});
  EXPECT_EQ(Times(n, m), Times(m, n));
  EXPECT_EQ(Times(Times({2}, n), m), Times(Times(m, {2}), n));
  EXPECT_EQ(Times(Times({2}, n), m), Made(Op::kMul, Times(n, m), {2}));
  EXPECT_EQ(Times(Plus(graph, Times(n, {2}), {4}), m), Times({2}, Times(m, Plus(graph, n, {2}))));
  EXPECT_NE(Times(n, n), n);
  EXPECT_EQ(n.size, 8);
  EXPECT_EQ(Times(n, m).size, 24);
}

TEST_F(SizesTest, AreWrittenAsOneReads) {
  const struct {
    Dim dim;
    std::string_view text;
  } cases[] = {
      {{7}, "7"},
      {n, "n"},
      {Plus(graph, n, {1}), "n + 1"},
      {Minus(graph, Times({2}, n), m), "2*n - m"},
      {Times(n, m), "n*m"},
      {Times(Plus(graph, n, {1}), m), "m*(n + 1)"},
      {Made(Op::kFloorDiv, Plus(graph, n, {1}), {2}), "(n + 1)//2"},
      {Made(Op::kFloorMod, n, {3}), "n%3"},
      {Made(Op::kMin, n, {5}), "min(n, 5)"},
  };
  for (const auto& c : cases) EXPECT_EQ(TextOf(c.dim), c.text);
}

TEST_F(SizesTest, CompareByBounds) {
  const struct {
    Dim a, b;
    bool at_most;
  } cases[] = {
      {{3}, {3}, true},
      {n, {8}, true},
      {n, {7}, false},
      {{1}, n, true},
      {{2}, n, false},
      {n, Plus(graph, n, m), true},
      {Plus(graph, n, m), n, false},
      {n, Times({2}, n), true},
      {Minus(graph, n, {1}), n, true},
      {Times(n, m), {24}, true},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(AtMost(c.a, c.b), c.at_most) << TextOf(c.a) << " <= " << TextOf(c.b);
  }
}

TEST_F(SizesTest, ShapeRules) {
  const Dim n1 = Plus(graph, n, {1}), nm = Times(n, m);
  const struct {
    Op op;
    Sizes shape;  // of the source
    Sizes attribute;
    std::string_view result;  // the shape, or what the error says
  } cases[] = {
      {Op::kReshape, {n, {4}}, {{2}, n, {2}}, "[2, n, 2]"},
      {Op::kReshape, {n, m}, {nm}, "[n*m]"},
      {Op::kReshape, {nm, {2}}, {m, Times({2}, n)}, "[m, 2*n]"},
      {Op::kReshape, {n}, {m}, "[n] has n elements, [m] has m"},
      {Op::kReshape, {n, {4}}, {{8}, {4}}, "4*n elements"},
      {Op::kReshape, {n1}, {n, {1}}, "n + 1 elements"},
      {Op::kExpand, {{1}, {3}}, {n, {3}}, "[n, 3]"},
      {Op::kExpand, {n}, {n}, "[n]"},
      {Op::kExpand, {n}, {{8}}, "only axes of size 1"},
      {Op::kExpand, {Variable("one", 0, 1)}, {n}, "only axes of size 1"},
      {Op::kExpand, {{1}}, {Minus(graph, m, {1})}, "may be negative"},
      {Op::kPad, {n, {2}}, {{1}, m, {0}, {0}}, "[n + m + 1, 2]"},
      {Op::kPad, {n}, {{0}, Minus(graph, {8}, n)}, "[8]"},
      {Op::kPad, {n}, {{0}, Minus(graph, {7}, n)}, "out of range"},
      {Op::kShrink, {{8}}, {{0}, n}, "[n]"},
      {Op::kShrink, {{12}}, {n, Plus(graph, n, {4})}, "[4]"},
      {Op::kShrink, {{12}}, {n, Plus(graph, n, m)}, "[m]"},
      {Op::kShrink, {{10}}, {n, Plus(graph, n, m)}, "outside of axis 0 of [10]"},
      {Op::kShrink, {n}, {m, n}, "outside of axis 0 of [n]"},
      {Op::kShrink, {n1}, {{1}, n1}, "[n]"},
      {Op::kShrink, {{8}}, {Minus(graph, m, {1}), {8}}, "outside of axis 0"},
  };
  for (const auto& c : cases) {
    const SizedOp sized({Input(c.shape)}, c.attribute);
    auto made = graph.TryMake({.op = c.op, .src = sized.src, .ints = sized.ints});
    const std::string text = made.ok() ? ShapeText(*made) : std::string(Message(made.status()));
    EXPECT_NE(text.find(c.result), std::string::npos) << text << "; expected " << c.result;
  }
}

TEST_F(SizesTest, OnlyScalarsOverVariablesAreSizes) {
  const Node* x = graph.Param(1, DType::kInt32, {});
  const Node* data = graph.Cast(x, DType::kIndex);
  const Node* range = graph.Range(0, 4, RangeKind::kLoop);
  for (const Node* size : {x, data, range}) {
    auto made = graph.TryMake({.op = Op::kIota,
                               .src = absl::MakeConstSpan({size}),
                               .ints = absl::MakeConstSpan({kSymbolic}),
                               .dtype = DType::kInt32});
    ASSERT_FALSE(made.ok());
    EXPECT_NE(Message(made.status()).find("made of variables"), std::string_view::npos);
  }
  EXPECT_FALSE(graph
                   .TryMake({.op = Op::kReshape,
                             .src = absl::MakeConstSpan({x}),
                             .ints = absl::MakeConstSpan({kSymbolic})})
                   .ok());
}

TEST_F(SizesTest, ElementwiseWantsEqualSizes) {
  const Node* a = Input({n});
  const Node* b = graph.Param(1, DType::kFloat32, {8});
  auto made = graph.TryMake({.op = Op::kAdd, .src = {{a, b}}});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(Message(made.status()).find("shapes [n] and [8] differ"), std::string_view::npos);
}

TEST_F(SizesTest, ANumberInPlaceOfAVariableMakesTheStaticNode) {
  const SizedOp sized({graph.Param(0, DType::kFloat32, {5, 4})}, {{20}, DimOf(graph.Index(1))});
  const SizedOp mixed({graph.Param(0, DType::kFloat32, {5, 4})}, {{20}, {1}});
  EXPECT_EQ(graph.Make({.op = Op::kReshape, .src = sized.src, .ints = sized.ints}),
            graph.Make({.op = Op::kReshape, .src = mixed.src, .ints = mixed.ints}));
  const Node* constant = graph.Index(5);
  const Node* made = graph.Make({.op = Op::kIota,
                                 .src = absl::MakeConstSpan({constant}),
                                 .ints = absl::MakeConstSpan({kSymbolic}),
                                 .dtype = DType::kInt32});
  EXPECT_TRUE(made->src.empty());
  EXPECT_EQ(made->ints[0], 5);
}

TEST_F(SizesTest, CopiesKeepSizesEqual) {
  // In the copy the variables come in another order.
  const Node* x = Input({Plus(graph, n, m)});
  Graph other;
  other.Cast(other.Variable("m", 0, 3, DType::kInt32), DType::kIndex);
  const Node* copy = CopyTo(other, {x})[0];
  const Dim a = DimOf(other.Cast(other.Variable("n", 1, 8, DType::kInt32), DType::kIndex));
  const Dim b = DimOf(other.Cast(other.Variable("m", 0, 3, DType::kInt32), DType::kIndex));
  EXPECT_EQ(copy->dim(0), Plus(other, a, b));
}

TEST_F(SizesTest, ArithmeticStaysInRange) {
  EXPECT_TRUE(DimArithmetic(graph, Op::kMul, large, large).ok());
  EXPECT_FALSE(DimArithmetic(graph, Op::kMul, Times(large, large), large).ok());
  EXPECT_FALSE(DimArithmetic(graph, Op::kMul, large, {int64_t{1} << 40}).ok());
  EXPECT_FALSE(DimArithmetic(graph, Op::kAdd, n, {int64_t{1} << 60}).ok());
  const Dim none = Variable("none", 0, 0);
  absl::StatusOr<Dim> grown = none;
  for (int i = 0; grown.ok() && i < 4; ++i) {
    grown = DimArithmetic(graph, Op::kMul, *grown, {int64_t{1} << 24});
  }
  EXPECT_FALSE(grown.ok()) << "coefficients count too";
}

TEST_F(SizesTest, EvaluateGivesTheNumber) {
  const auto value = [](const Node* variable) { return variable->text == "n" ? 5 : 2; };
  EXPECT_EQ(Evaluate(Plus(graph, Times(n, m), {3}).node, value), 13);
  EXPECT_EQ(Evaluate(Made(Op::kFloorDiv, n, m).node, value), 2);
  EXPECT_EQ(Evaluate(Made(Op::kMax, n, m).node, value), 5);
}

TEST_F(SizesTest, TextAndBack) {
  const SizedOp shrink({Input({{12}, n})}, {n, Plus(graph, n, m), {0}, n});
  const Node* y = graph.Make({.op = Op::kShrink, .src = shrink.src, .ints = shrink.ints});
  const SizedOp reshape({y}, {Times(n, m), {1}});
  const Node* z = graph.Make({.op = Op::kReshape, .src = reshape.src, .ints = reshape.ints});
  const std::string text = Print({z});
  Graph parsed;
  const auto roots = Parse(text, parsed);
  ASSERT_TRUE(roots.ok()) << roots.status() << "\n" << text;
  EXPECT_EQ(Print(*roots), text);
  EXPECT_EQ(ShapeText((*roots)[0]), "[n*m, 1]");
}

}  // namespace
}  // namespace tensord
