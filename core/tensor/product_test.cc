#include "core/tensor/product.h"

#include <limits>

#include "core/tensor/attention.h"
#include "core/tensor/conv.h"
#include "core/tensor/pool.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;
using X = absl::Span<const Expr>;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Einsum, MeansWhatItSays) {
  Bench bench;
  const Expr a = bench.Counting({2, 3}), b = bench.Counting({3, 2}), s = bench.Counting({3, 3});
  const struct {
    const char* formula;
    std::vector<Expr> operands;
    Sizes shape;
    Values values;
  } cases[] = {
      {"ij,jk->ik", {a, b}, {2, 2}, {10, 13, 28, 40}},
      {"ii", {s}, {}, {12}},
      {"ii -> i", {s}, {3}, {0, 4, 8}},
      {"ij->", {a}, {}, {15}},
      {"ba", {a}, {3, 2}, {0, 3, 1, 4, 2, 5}},
      {"...i,...i", {a, a}, {2}, {5, 50}},
      {"ij,jk,ki->", {a, b, s}, {}, {-1}},
  };
  for (const auto& c : cases) {
    if (c.values == Values{-1}) {
      EXPECT_NE(ErrorOf(Einsum(c.formula, c.operands)), "") << c.formula;  // k is 2 and 3
      continue;
    }
    const Expr y = Einsum(c.formula, c.operands);
    EXPECT_EQ(ShapeOf(y), c.shape) << c.formula;
    ExpectNear(bench.Values(y), c.values, 0, c.formula);
  }
}

TEST(Einsum, OfTwoOperandsIsOneSumOverOneProductOfViews) {
  Bench bench;
  const Expr y = Einsum("bij,bkj->bki", {bench.Counting({2, 3, 4}), bench.Counting({2, 5, 4})});
  const Node* node = y.node();
  while (node->op == Op::kReshape || node->op == Op::kPermute) node = node->src[0];
  ASSERT_EQ(node->op, Op::kReduce);
  ASSERT_EQ(node->src[0]->op, Op::kMul);
  for (const Node* side : node->src[0]->src) EXPECT_EQ(side->op, Op::kExpand);
}

TEST(MultiDot, TakesTheOrderOfLeastWork) {
  Bench bench;
  const Expr tall = bench.Counting({50, 1}), wide = bench.Counting({1, 50});
  // (wide tall) first: 50 products and not 2500.
  const Expr y = MultiDot({tall, wide, tall});
  EXPECT_EQ(ShapeOf(y), (Sizes{50, 1}));
  const Node* const roots[] = {y.node()};
  for (const Node* node : TopologicalOrder(roots)) EXPECT_LE(NumElements(node->shape), 50);
}

TEST(MatMul, MayAccumulateInAnotherDType) {
  Bench bench;
  const Expr a = bench.Input(DType::kInt8, {1, 2}, {100, 100});
  const Expr y = MatMul(a, bench.Input(DType::kInt8, {2, 1}, {100, 100}), DType::kInt32);
  EXPECT_EQ(y.dtype(), DType::kInt32);
  EXPECT_EQ(bench.Values(y), (Values{20000}));
}

TEST(Product, GradientsAgreeWithDifferences) {
  using enum DType;
  const auto noise = [](Sizes shape, uint64_t seed) {
    return Noise(kFloat64, std::move(shape), -2, 2, seed);
  };
  const HostTensor a = noise({2, 3}, 1), b = noise({3, 2}, 2), v = noise({3}, 3),
                   s = noise({3, 3}, 4), c = noise({2, 2, 3}, 5), image = noise({1, 2, 5, 4}, 6);
  const struct {
    const char* name;
    Function f;
    std::vector<HostTensor> inputs;
  } cases[] = {
      {"einsum", [](X x) { return Einsum("ij,jk,j->ki", x); }, {a, b, v}},
      {"diagonal", [](X x) { return Einsum("ii,i->i", x); }, {s, v}},
      {"trace", [](X x) { return Einsum("ii->", x); }, {s}},
      {"ellipsis", [](X x) { return Einsum("...i,ji->j...", x); }, {c, a}},
      {"tensordot",
       [](X x) {
         return TensorDot(x[0], x[1], {2, 0}, {0, 1});
       },
       {c, b}},
      {"kron", [](X x) { return Kron(x[0], x[1]); }, {a, b}},
      {"cross", [](X x) { return Cross(x[0], x[1], 1); }, {a, noise({1, 3}, 7)}},
      {"addmm",
       [](X x) { return AddMm(x[0], x[1], x[2], {.beta = 2, .alpha = 0.5}); },
       {noise({2}, 8), a, b}},
      {"cdist", [](X x) { return CDist(x[0], x[1]); }, {a, noise({4, 3}, 9)}},
      {"cdist 3", [](X x) { return CDist(x[0], x[1], 3); }, {a, noise({4, 3}, 9)}},
      {"cdist inf", [](X x) { return CDist(x[0], x[1], kInf); }, {a, noise({4, 3}, 9)}},
      {"bilinear",
       [](X x) { return Bilinear(x[0], x[1], x[2]); },
       {a, noise({2, 4}, 10), noise({2, 3, 4}, 11)}},
      {"max_pool",
       [](X x) {
         return MaxPoolWithIndices(x[0], {.kernel = {2, 2}, .stride = {1}}).values;
       },
       {image}},
      {"avg_pool",
       [](X x) {
         return AvgPool(x[0], {.kernel = {2, 3},
                               .padding = {{1, 1}},
                               .ceil_mode = true,
                               .count_include_pad = false});
       },
       {image}},
      {"lp_pool",
       [](X x) {
         return LpPool(x[0], 2, {.kernel = {2, 2}});
       },
       {image}},
      {"adaptive avg",
       [](X x) {
         return AdaptiveAvgPool(x[0], {3, 2});
       },
       {image}},
      {"adaptive max",
       [](X x) {
         return AdaptiveMaxPool(x[0], {3, 3}).values;
       },
       {image}},
      {"conv_transpose",
       [](X x) {
         return ConvTranspose(x[0], x[1], std::nullopt, {.stride = {2}, .padding = {{1, 1}}}, {1});
       },
       {image, noise({2, 3, 3, 2}, 12)}},
      {"attention",
       [](X x) {
         return ScaledDotProductAttention(x[0], x[1], x[2],
                                          {.is_causal = true, .grouped_heads = true});
       },
       {noise({4, 3, 2}, 13), noise({2, 3, 2}, 14), noise({2, 3, 4}, 15)}},
  };
  for (const auto& c : cases) ExpectGradient(c.name, c.f, c.inputs);
}

TEST(Product, ErrorsNameTheRule) {
  Bench bench;
  const Expr m = bench.Counting({2, 3}), v = bench.Counting({4});
  const std::pair<Expr, const char*> cases[] = {
      {Mm(m, v), "mm: [2, 3] and [4]: it needs 2 and 2 axes; matmul takes others"},
      {Outer(m, v), "outer: [2, 3] and [4]: it needs two vectors"},
      {AddMm(v, m, bench.Counting({3, 2})),
       "addmm: the input [4] does not broadcast to the product [2, 2]"},
      {Cross(v, v), "cross: axis -1 of [4] has 4 elements, it needs 3"},
      {TensorDot(m, m, {0}, {1}),
       "tensordot: axis 0 of [2, 3] and axis 1 of [2, 3] differ in size"},
      {MultiDot({m, m}), "multi_dot: operands 0 and 1 do not fit: [2, 3] and [2, 3]"},
      {CDist(m, v), "cdist: [2, 3] and [4]: it needs [.., points, size] and [.., points, size]"},
      {AdaptiveAvgPool(m, {0}),
       "adaptive_avg_pool: axes 1 of [2, 3] become [0]; sizes must be at least 1"},
      {MaxUnpool(m, m, {4}),
       "max_unpool: input [2, 3] and indices float32 [2, 3]; it needs integers of one shape, and 1 "
       "axes to pool"},
  };
  for (const auto& [expr, message] : cases) EXPECT_EQ(ErrorOf(expr), message);
}

}  // namespace
}  // namespace tensord
