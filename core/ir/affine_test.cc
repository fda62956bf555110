// Index arithmetic against brute force: random expressions over ranges are built through
// Graph::Make, which brings them into normal form, and compared with plain evaluation at every
// point.
#include "core/ir/affine.h"

#include <gtest/gtest.h>

#include <random>

#include "core/ir/index_space.h"

namespace tensord {
namespace {

TEST(AffineTest, NormalFormKeepsValuesAndBounds) {
  std::mt19937 random(7);
  for (int round = 0; round < 4000; ++round) {
    Graph graph;
    IndexSpace space(graph, random);
    ASSERT_EQ(space.Problem(space.Random(2 + round % 5)), "");
  }
}

TEST(AffineTest, ComparisonsKeepTheirValues) {
  std::mt19937 random(11);
  constexpr Op kOps[] = {Op::kCmpLt, Op::kCmpEq, Op::kCmpNe};
  for (int round = 0; round < 4000; ++round) {
    Graph graph;
    IndexSpace space(graph, random);
    const IndexSpace::Expression a = space.Random(3),
                                 b = round % 2 == 0 ? space.Random(3) : space.Leaf();
    ASSERT_EQ(space.Problem(space.Combine(kOps[round % 3], a, b)), "");
  }
}

TEST(AffineTest, DivisionIsQuotientTimesDivisorPlusRemainder) {
  std::mt19937 random(13);
  for (int round = 0; round < 1000; ++round) {
    Graph graph;
    IndexSpace space(graph, random);
    const IndexSpace::Expression x = space.Random(4), c = space.Constant(1 + round % 13);
    const IndexSpace::Expression q = space.Combine(Op::kFloorDiv, x, c),
                                 r = space.Combine(Op::kFloorMod, x, c);
    const auto sum = space.Combine(Op::kAdd, space.Combine(Op::kMul, q, c), r);
    ASSERT_EQ(space.Problem(sum), "");
    ASSERT_EQ(sum.values, x.values);
  }
}

TEST(AffineTest, EqualSumsAreOneNode) {
  std::mt19937 random(17);
  for (int round = 0; round < 1000; ++round) {
    Graph graph;
    IndexSpace space(graph, random);
    const Node *a = space.Random(3).node, *b = space.Random(3).node, *c = space.Random(3).node;
    const auto add = [&](const Node* x, const Node* y) { return graph.Make(Op::kAdd, {x, y}); };
    ASSERT_EQ(add(add(a, b), c), add(c, add(b, a)));
    ASSERT_EQ(graph.Make(Op::kSub, {add(a, b), b}), add(a, graph.Index(0)));
    ASSERT_EQ(FromAffine(graph, ToAffine(a)), a);
  }
}

}  // namespace
}  // namespace tensord
