#include "core/tensor/custom_gradient.h"

#include "core/ir/substitute.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/reduce.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;

// The evaluator knows no custom gradients: values take their places, as in a session.
Values Evaluate(Bench& bench, const Expr& x) {
  EXPECT_EQ(ErrorOf(x), "");
  std::vector<const Node*> root = {x.node()};
  for (bool found = true; found;) {
    found = false;
    ReplacementMap values;
    for (const Node* node : TopologicalOrder(root)) {
      if (const auto custom = CustomGradient::Of(node); custom && !found) {
        values[node] = {custom->value};
        found = true;
      }
    }
    root = Substitute(bench.graph(), root, values);
  }
  return bench.Values(Expr(&bench.graph(), root[0]));
}

TEST(CustomGradient, IsWhatTheRuleSays) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {3}, {0.5, -1, 2});
  const Expr y = WithGradient(Floor(x), {x}, [&](const Expr& g) { return std::vector{g * x * 3}; });
  const Expr first = Gradient(Sum(y * y), {x})[0];
  EXPECT_EQ(Evaluate(bench, y), (Values{0, -1, 2}));
  EXPECT_EQ(Evaluate(bench, first), (Values{0, 2 * -1 * -1 * 3, 2 * 2 * 2 * 3}));
  // d/dx of 2 * floor(x) * 3x, where floor has the derivative 3x: 18 x * x + 6 * floor(x).
  EXPECT_EQ(Evaluate(bench, Gradient(Sum(first), {x})[0]),
            (Values{18 * 0.25, 18 - 6, 18 * 4 + 12}));
}

TEST(CustomGradient, ReplacesWhatIsBelow) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {2}, {1, 2});
  const Expr w = bench.Input(DType::kFloat64, {2}, {3, 4});
  const Expr y = WithGradient(x * w, {x}, [](const Expr& g) { return std::vector{g}; });
  const std::vector<Expr> gradients = Gradient(Sum(y + x), {x, w});
  EXPECT_EQ(Evaluate(bench, gradients[0]), (Values{2, 2}));
  EXPECT_EQ(Evaluate(bench, gradients[1]), (Values{0, 0}));  // no input of the rule
}

TEST(CustomGradient, OfSeveralValuesAtOnce) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {2}, {1, 2});
  const std::vector<Expr> y = WithGradients(
      {Sum(x), x * 2}, {x}, [](absl::Span<const Expr> g) { return std::vector{g[1] * 5 + g[0]}; });
  EXPECT_EQ(Evaluate(bench, Gradient(y[0] * 7 + Sum(y[1]), {x})[0]), (Values{12, 12}));
}

TEST(CustomGradient, SaysWhatDoesNotFit) {
  Bench bench;
  const Expr x = bench.Counting({2}), n = bench.Counting({2}, DType::kInt32);
  const auto same = [](const Expr& g) { return std::vector{g}; };
  EXPECT_EQ(ErrorOf(WithGradient(n, {x}, same)),
            "custom gradient: the value is int32, only floats have gradients");
  EXPECT_EQ(ErrorOf(WithGradient(x, {n}, same)),
            "custom gradient: input 0 is int32, only floats have gradients");
  EXPECT_EQ(ErrorOf(WithGradient(x, {x, x}, same)), "custom gradient: 1 gradients for 2 inputs");
  EXPECT_EQ(ErrorOf(WithGradient(Sum(x), {x}, same)),
            "custom gradient: input 0 is [2], its gradient []");
  EXPECT_EQ(ErrorOf(WithGradient(x, {x}, x, {x})),
            "custom gradient: the stand-in was not made for this value");
}

TEST(Checkpoint, HasTheGradientsOfWhatItKeepsNot) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {2}, {0.5, -2});
  const Expr w = bench.Input(DType::kFloat64, {2}, {3, 0.25});
  const Expr y = Exp(Sin(x * w) * w);
  const std::vector<Expr> plain = Gradient(Sum(y * x), {x, w});
  const std::vector<Expr> again = Gradient(Sum(Checkpoint({y}, {x})[0] * x), {x, w});
  for (int i = 0; i < 2; ++i) {
    ExpectNear(Evaluate(bench, again[i]), Evaluate(bench, plain[i]), 1e-12);
  }
}

}  // namespace
}  // namespace tensord
