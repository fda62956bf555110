// Sizes that vary: one plan and one set of kernels for every value.
#include "tests/differential/symbolic.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/loop.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "core/tensor/size.h"

namespace tensord {
namespace {

ProgramRunner& Runner() {
  static ProgramRunner& runner = *new ProgramRunner;
  return runner;
}

TEST(Symbolic, RandomGraphsEqualThemselvesAtFixedSizes) {
  const char* first = std::getenv("SYMBOLIC_SEED");
  const uint64_t from = first == nullptr ? 1 : std::strtoull(first, nullptr, 10);
  const char* many = std::getenv("SYMBOLIC_CASES");
  const uint64_t count = many == nullptr ? 24 : std::strtoull(many, nullptr, 10);
  for (uint64_t seed = from; seed < from + count; ++seed) {
    Case test = GenerateSymbolic(seed);
    ASSERT_EQ(CheckSymbolic(test, Runner(), 4), "") << "seed " << seed << "\n" << PrintCase(test);
  }
}

// Operations of the tensor language over sizes that vary.
struct Operation {
  std::string_view name;
  std::vector<Expr> (*make)(const Expr& x, int64_t n, int64_t m);  // x is [12, 10, 6]
};

std::vector<Expr> GradientsOf(const Expr& y, const std::vector<Expr>& targets) {
  return Gradient(Sum(y * y), targets);
}

int64_t At(absl::StatusOr<int64_t> size) { return size.ok() ? *size : -1; }

const Operation kOperations[] = {
    {"slices",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr part = SliceAxis(x, 0, {.end = n});
       return {part, SliceAxis(x, 1, {.begin = m}), Select(x, 0, m), Select(part, 0, -1),
               SliceAxis(x, 0, {.begin = m, .end = At(SizePlus(m, n))})};
     }},
    {"shapes",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr part = SliceAxis(SliceAxis(x, 0, {.end = n}), 1, {.end = m});
       return {Reshape(part, {-1}),
               Flatten(part, 0, 1),
               Unflatten(Flatten(part, 0, 1), 0, {m, -1}),
               Reshape(Permute(part, {2, 0, 1}), {3, -1, n}),
               Flip(part, {0, 1}),
               Expand(Select(x, 0, 0), {n, -1, -1}),
               Squeeze(Unsqueeze(part, 1))};
     }},
    {"reductions",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr part = SliceAxis(x, 0, {.end = n});
       const Moments moments = VarMean(part, Axes({0, 1}), 0);
       return {Sum(part, 0),      Mean(part),  Max(SliceAxis(x, 1, {.end = m}), 1),
               moments.mean,      moments.var, ArgMax(part, 0),
               LogSumExp(part, 0)};
     }},
    {"softmax",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       return {Softmax(SliceAxis(x, 0, {.end = n}), 0), LogSoftmax(SliceAxis(x, 1, {.end = m}), 1),
               Softmax(SliceAxis(x, 0, {.end = n}), 2)};
     }},
    {"norms",
     [](const Expr& x, int64_t n, int64_t) -> std::vector<Expr> {
       const Expr part = SliceAxis(x, 0, {.end = n});
       return {LayerNorm(part, 1, std::nullopt, std::nullopt, 1e-5),
               RmsNorm(Transpose(part, 0, 2), std::nullopt, 1e-5)};
     }},
    {"products",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr a = SliceAxis(Select(x, 0, 0), 0, {.end = m}), b = SliceAxis(x, 0, {.end = n});
       return {MatMul(a, Transpose(a, 0, 1)), MatMul(Transpose(a, 0, 1), a),
               MatMul(b, Transpose(a, 0, 1)),
               MatMul(Reshape(b, {-1, 6}), Transpose(Select(x, 0, 1), 0, 1))};
     }},
    {"created",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       return {ArangeOfSize(x.graph(), n, DType::kInt32),
               Full(x.graph(), {m, n}, 2.5, DType::kFloat32),
               SizeValue(x.graph(), At(SizeProduct({n, m})), DType::kFloat32),
               Tril(Full(x.graph(), {n, n}, 1, DType::kFloat32), 1)};
     }},
    {"joined",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr a = SliceAxis(x, 0, {.end = n}), b = SliceAxis(x, 0, {.begin = m});
       std::vector<PadAmount> amounts(3);
       amounts[0] = {m, 1};
       return {Cat({a, x, b}, 0), Pad(a, amounts, 3)};
     }},
    {"rows by index",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr rows = ArangeOfSize(x.graph(), m, DType::kInt32) * 2;
       return {Embedding(SliceAxis(x, 0, {.end = n}), rows), Embedding(x, rows)};
     }},
    {"attention",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr heads = SliceAxis(x, 0, {.end = 4});
       const Expr keys = SliceAxis(heads, 1, {.end = m});
       const Expr query = SliceAxis(heads, 1, {.end = 1});
       return {ScaledDotProductAttention(query, keys, keys, {}),
               ScaledDotProductAttention(keys, keys, keys, {.is_causal = true}),
               Mean(SliceAxis(x, 0, {.end = n}), 0)};
     }},
    {"loops",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr part = SliceAxis(SliceAxis(x, 0, {.end = n}), 1, {.begin = m});
       std::vector<Expr> all =
           ForLoop(4, {part, Sum(part, 0)}, [&](const Expr& i, absl::Span<const Expr> s) {
             return std::vector<Expr>{s[0] * 0.5 + Flip(part, {0}), s[1] + Sum(s[0], 0) * i};
           });
       // As often as a size says.
       const Expr count = SizeValue(x.graph(), n, DType::kInt32);
       const std::vector<Expr> counted = WhileLoop(
           {count, Select(x, 0, 0)}, [](absl::Span<const Expr> s) { return Lt(Number(0), s[0]); },
           [&](absl::Span<const Expr> s) {
             return std::vector<Expr>{s[0] - Number(1), s[1] * 0.5 + Row(x, s[0] - Number(1))};
           });
       all.insert(all.end(), counted.begin(), counted.end());
       return all;
     }},
    {"gradient of a layer",
     [](const Expr& x, int64_t n, int64_t) -> std::vector<Expr> {
       const Expr rows = Reshape(SliceAxis(x, 0, {.end = n}), {-1, 6});
       const Expr weight = Select(x, 0, 11);
       return GradientsOf(Softmax(MatMul(rows, Transpose(weight, 0, 1)), -1), {weight, rows, x});
     }},
    {"gradients of movement",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr a = SliceAxis(x, 0, {.begin = m, .end = At(SizePlus(m, n))});
       const Expr b = Flip(Cat({a, SliceAxis(x, 0, {.end = m})}, 0), {0});
       return GradientsOf(Reshape(b, {-1, 3}) * Unsqueeze(Mean(Reshape(b, {-1, 3}), 1), 1), {x, a});
     }},
    {"gradient of rows by index",
     [](const Expr& x, int64_t n, int64_t m) -> std::vector<Expr> {
       const Expr table = SliceAxis(x, 0, {.end = n});
       return GradientsOf(Embedding(table, ArangeOfSize(x.graph(), m, DType::kInt32)), {x, table});
     }},
};

TEST(Symbolic, OperationsEqualThemselvesAtFixedSizes) {
  const int64_t n = At(VariableSize("n", 1, 7)), m = At(VariableSize("m", 1, 5));
  for (const Operation& operation : kOperations) {
    Case test;
    test.seed = 3;
    const Expr x(&test.graph, test.graph.Param(0, DType::kFloat32, {12, 10, 6}));
    for (const Expr& y : operation.make(x, n, m)) {
      ASSERT_TRUE(y.ok()) << operation.name << ": " << y.status();
      test.outputs.push_back(y.node());
      test.overwrites.push_back(Program::kFresh);
    }
    EXPECT_EQ(CheckSymbolic(test, Runner(), 4), "") << operation.name << "\n" << PrintCase(test);
  }
}

TEST(Symbolic, NothingIsCompiledForAnotherValue) {
  Case test;
  const Expr x(&test.graph, test.graph.Param(0, DType::kFloat32, {64, 8}));
  const Expr rows = SliceAxis(x, 0, {.end = At(VariableSize("n", 1, 64))});
  test.outputs = {Softmax(MatMul(rows, Transpose(rows, 0, 1)), -1).node(),
                  Sum(Exp(rows), 0).node()};
  test.overwrites = {Program::kFresh, Program::kFresh};
  EXPECT_EQ(CheckSymbolic(test, Runner(), 2), "") << PrintCase(test);
  const CacheStats before = Runner().runtime().cache_stats();
  EXPECT_EQ(CheckSymbolic(test, Runner(), 4), "");
  const CacheStats after = Runner().runtime().cache_stats();
  EXPECT_EQ(after.kernel_misses, before.kernel_misses);
  EXPECT_EQ(after.plan_misses, before.plan_misses);
}

}  // namespace
}  // namespace tensord
