#include "core/tensor/batch.h"

#include <gtest/gtest.h>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/loop.h"
#include "core/tensor/movement.h"
#include "core/tensor/product.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/scatter.h"
#include "core/tensor/testing.h"
#include "core/tensor/windows.h"

namespace tensord {
namespace {

constexpr int64_t kExamples = 3;

// An argument: its rows are the examples, or all of it is the same for all.
struct Argument {
  HostTensor value;
  bool is_mapped = true;
};
struct Case {
  const char* name;
  std::vector<Argument> arguments;
  Function f;
};

HostTensor Floats(std::vector<int64_t> shape, uint64_t seed = 1) {
  return Noise(DType::kFloat64, std::move(shape), -2, 2, seed);
}
Argument Each(std::vector<int64_t> shape, uint64_t seed = 1) {
  shape.insert(shape.begin(), kExamples);
  return {Floats(std::move(shape), seed)};
}
Argument Same(std::vector<int64_t> shape, uint64_t seed = 2) {
  return {Floats(std::move(shape), seed), false};
}
Argument EachInt(std::vector<int64_t> shape, std::vector<double> values) {
  shape.insert(shape.begin(), kExamples);
  return {HostTensor::Of(DType::kInt8, std::move(shape), values)};
}
Argument SameInt(std::vector<int64_t> shape, std::vector<double> values) {
  return {HostTensor::Of(DType::kInt8, std::move(shape), values), false};
}

Expr Gather(const Expr& x, const Expr& index) { return Apply(Op::kGather, {x, index}); }

Expr Clipped(const Expr& x, const Expr& w) {
  return WithGradient(x * w, std::vector<Expr>{x, w}, [&](const Expr& g) {
    return std::vector<Expr>{Minimum(g * w, 1), Minimum(g * x, 0.5)};
  });
}

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{
      {"elementwise, both", {Each({2}), Each({2}, 3)}, [](auto x) { return x[0] * x[1] + 1; }},
      {"elementwise, one", {Each({2}), Same({2})}, [](auto x) { return Sub(x[1], x[0]); }},
      {"where", {Each({2}), Same({2})}, [](auto x) { return Where(Lt(x[0], 0), x[1], x[0]); }},
      {"numbers", {Each({})}, [](auto x) { return Exp(x[0]) * x[0]; }},
      {"no example", {Each({2}), Same({2})}, [](auto x) { return Sin(x[1]); }},
      {"cast", {Each({2})}, [](auto x) { return Cast(x[0], DType::kInt32); }},
      {"reshape", {Each({2, 3})}, [](auto x) { return Reshape(x[0], {3, 2}); }},
      {"expand", {Each({2, 1})}, [](auto x) { return BroadcastTo(x[0], {4, 2, 3}); }},
      {"permute", {Each({2, 3, 4})}, [](auto x) { return Permute(x[0], {2, 0, 1}); }},
      {"pad", {Each({2, 3})}, [](auto x) { return Apply(Op::kPad, {x[0]}, {{1, 0, 2, 3}}); }},
      {"shrink", {Each({4, 3})}, [](auto x) { return Shrink(x[0], 0, 1, 3); }},
      {"flip", {Each({2, 3})}, [](auto x) { return Flip(x[0], {1}); }},
      {"slide", {Each({7})}, [](auto x) { return Windows(x[0], 0, {.taps = 3, .stride = 2}); }},
      {"unslide",
       {Each({3, 3})},
       [](auto x) { return Sum(Unwindows(x[0], 0, {.taps = 3, .stride = 2}, 7), 1); }},
      {"sum", {Each({2, 3})}, [](auto x) { return Sum(x[0], 1); }},
      {"max of all", {Each({2, 3})}, [](auto x) { return Max(x[0]); }},
      {"prod", {Each({2, 3})}, [](auto x) { return Prod(x[0], 0, kKeepDims); }},
      {"scan", {Each({2, 3})}, [](auto x) { return CumSum(x[0], 1); }},
      {"matmul", {Each({2, 3}), Same({3, 4})}, [](auto x) { return MatMul(x[0], x[1]); }},
      {"rows by indices of examples",
       {Same({4, 2}), EachInt({3}, {0, 3, 1, 9, 2, -1, 1, 1, 0})},
       [](auto x) { return Gather(x[0], x[1]); }},
      {"rows of examples", {Each({4, 2}), SameInt({3}, {0, 3, 9})},
       [](auto x) { return Gather(x[0], x[1]); }},
      {"rows of examples by indices of examples",
       {Each({4, 2}), EachInt({3}, {0, 3, 1, 9, 2, -1, 1, 1, 4})},
       [](auto x) { return Gather(x[0], x[1]); }},
      {"one row of each", {Each({4, 2}), EachInt({}, {3, 0, 2})},
       [](auto x) { return Gather(x[0], x[1]); }},
      {"scatter into examples",
       {Each({4, 2}), SameInt({3}, {0, 3, 3}), Each({3, 2}, 5)},
       [](auto x) {
         return Apply(Op::kScatter, {x[0], BroadcastTo(Reshape(x[1], {3, 1}), {3, 2}), x[2]},
                      {{static_cast<int64_t>(ScatterKind::kAdd), 0}});
       }},
      {"scatter by indices of examples",
       {Same({4}), EachInt({3}, {0, 3, 3, 1, 1, 1, 2, 9, 0}), Same({3}, 5)},
       [](auto x) {
         return Apply(Op::kScatter, {x[0], x[1], x[2]},
                      {{static_cast<int64_t>(ScatterKind::kSet), 0}});
       }},
      {"a gradient", {Each({3}), Same({3})},
       [](auto x) { return tensord::Gradient(Sum(Sin(x[0] * x[1])), {{x[0]}})[0]; }},
      {"a gradient by what all share", {Each({3}), Same({3})},
       [](auto x) { return tensord::Gradient(Sum(Sin(x[0] * x[1])), {{x[1]}})[0]; }},
      {"a rule of one's own", {Each({3}), Same({3})},
       [](auto x) { return tensord::Gradient(Sum(Clipped(x[0], x[1])), {{x[0]}})[0]; }},
      {"a loop of examples", {Each({2}), Same({2})},
       [](auto x) {
         return ForLoop(3, {{x[0]}}, [&](const Expr& i, absl::Span<const Expr> states) {
           return std::vector<Expr>{states[0] * x[1] + Cast(i, DType::kFloat64)};
         })[0];
       }},
      {"a loop that begins alike", {Each({2}), Same({2})},
       [](auto x) {
         return ForLoop(3, {{x[1]}}, [&](const Expr&, absl::Span<const Expr> states) {
           return std::vector<Expr>{states[0] * x[0]};
         })[0];
       }},
      {"a loop with as many turns as the example says", {Each({})},
       [](auto x) {
         return WhileLoop(
             {{x[0]}}, [](absl::Span<const Expr> states) { return Lt(states[0], 5); },
             [](absl::Span<const Expr> states) { return std::vector<Expr>{states[0] + 1.5}; })[0];
       }},
      {"a gradient through a loop", {Each({2}), Same({2})},
       [](auto x) {
         const Expr y = ForLoop(3, {{x[0]}}, [&](const Expr&, absl::Span<const Expr> states) {
           return std::vector<Expr>{Sin(states[0]) * x[1]};
         })[0];
         return tensord::Gradient(Sum(y), {{x[0]}})[0];
       }},
  };
  return cases;
}

TEST(BatchTest, IsTheFunctionOfEachExample) {
  for (const Case& test : Cases()) {
    Bench bench;
    std::vector<Expr> whole, one;
    std::vector<std::pair<Expr, Expr>> examples;
    for (const Argument& argument : test.arguments) {
      whole.push_back(bench.Input(argument.value));
      one.push_back(whole.back());
      if (!argument.is_mapped) continue;
      one.back() = StandIn(Select(whole.back(), 0, 0));
      examples.emplace_back(one.back(), whole.back());
    }
    const Expr y = Batch({{test.f(one)}}, examples, kExamples)[0];
    std::vector<double> expected;
    for (int64_t i = 0; i < kExamples; ++i) {
      std::vector<Expr> rows;
      for (size_t k = 0; k < whole.size(); ++k) {
        rows.push_back(test.arguments[k].is_mapped ? Select(whole[k], 0, i) : whole[k]);
      }
      const std::vector<double> values = bench.Values(test.f(rows));
      expected.insert(expected.end(), values.begin(), values.end());
    }
    const HostTensor made = bench.Eval(y);
    ExpectNear(made.AsDoubles(), expected, 1e-12, test.name);
    ASSERT_FALSE(made.shape.empty()) << test.name;
    EXPECT_EQ(made.shape[0], kExamples) << test.name;
  }
}

TEST(BatchTest, GoesThroughARuleToWhatAllExamplesShare) {
  Bench bench;
  const Expr x = bench.Input(Floats({kExamples, 2})), w = bench.Input(Floats({2}, 4));
  const Expr one = StandIn(Select(x, 0, 0));
  const Expr all = Batch({{Clipped(one, w)}}, {{one, x}}, kExamples)[0];
  Expr expected = FullLike(w, 0);
  for (int64_t i = 0; i < kExamples; ++i) {
    expected = expected + tensord::Gradient(Sum(Clipped(Select(x, 0, i), w)), {{w}})[0];
  }
  ExpectNear(bench.Values(tensord::Gradient(Sum(all), {{w}})[0]), bench.Values(expected), 1e-12);
}

TEST(BatchTest, Nests) {
  Bench bench;
  const Expr x = bench.Input(Floats({kExamples, 2})), y = bench.Input(Floats({4, 2}, 4));
  const Expr a = StandIn(Select(x, 0, 0)), b = StandIn(Select(y, 0, 0));
  const Expr inner = Batch({{Sum(a * b)}}, {{b, y}}, 4)[0];
  const Expr outer = Batch({{inner}}, {{a, x}}, kExamples)[0];
  EXPECT_EQ(ShapeOf(outer), (std::vector<int64_t>{kExamples, 4}));
  ExpectNear(bench.Values(outer), bench.Values(MatMul(x, Transpose(y, 0, 1))), 1e-12);
}

TEST(BatchTest, SaysWhatDoesNotFit) {
  Bench bench;
  const Expr x = bench.Input(Floats({kExamples, 2}));
  const Expr one = StandIn(Select(x, 0, 0));
  EXPECT_NE(ErrorOf(Batch({{one}}, {{one, x}}, 5)[0]).find("5 examples of float64[2]"),
            std::string::npos);
}

}  // namespace
}  // namespace tensord
