// Expressions compiled and run on the CPU, compared with the reference evaluator, with the number
// of kernels that each becomes.
#include <gtest/gtest.h>

#include <cmath>

#include "core/ir/text.h"
#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/random.h"
#include "core/tensor/reduce.h"
#include "core/tensor/testing.h"
#include "tests/compiler/run_program.h"

namespace tensord {
namespace {

ProgramRunner& Runner() {
  static ProgramRunner& runner = *new ProgramRunner;
  return runner;
}

// Runs the outputs and compares each with the oracle; returns the number of kernels.
int Check(Bench& bench, std::vector<Expr> outputs, double tolerance = 1e-5) {
  for (const Expr& output : outputs) {
    EXPECT_TRUE(output.ok()) << output.status();
    if (!output.ok()) return -1;
  }
  auto result = Runner().Run(outputs, bench.inputs());
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return -1;
  for (size_t i = 0; i < outputs.size(); ++i) {
    SCOPED_TRACE(Print({outputs[i].node()}));  // to be fed to tools/inspect
    EXPECT_EQ(result->outputs[i].shape, ShapeOf(outputs[i]));
    ExpectNear(result->outputs[i].AsDoubles(), bench.Values(outputs[i]), tolerance,
               "output " + std::to_string(i));
  }
  return result->kernels;
}

Expr Random(Bench& bench, std::vector<int64_t> shape, uint64_t seed = 1) {
  return bench.Input(Noise(DType::kFloat32, std::move(shape), -2, 2, seed));
}

TEST(Compile, Elementwise) {
  for (int64_t n : {1, 2, 3, 7, 16, 17, 33, 100, 1000}) {
    Bench bench;
    Expr x = Random(bench, {n}), y = Random(bench, {n}, 2);
    EXPECT_EQ(Check(bench, {Add(Mul(x, y), Exp(x))}), 1) << n;
  }
}

// Deep expressions are cut into kernels, so that no pass runs out of stack.
TEST(Compile, LongChains) {
  Bench bench;
  Expr x = Random(bench, {17});
  Expr y = x;
  for (int i = 0; i < 5000; ++i) y = Sin(y) + x;
  EXPECT_GT(Check(bench, {y}, 1e-3), 1);
  Expr z = x;
  for (int i = 0; i < 20000; ++i) z = Reshape(Flip(z, {0}), {17});
  Check(bench, {z});
}

// What is read twice at a step is not computed twice at each: that would double with every step.
TEST(Compile, ChainsThatReadTheirSourceTwice) {
  Bench bench;
  Expr x = bench.Input(HostTensor::Of(DType::kFloat32, {4}, {3, 0, 2, 1}));
  Expr rows = x;
  for (int i = 0; i < 60; ++i) {
    Expr next = Embedding(rows, Cast(rows, DType::kInt32));
    rows = next;
  }
  Check(bench, {rows});
  Expr y = x;
  for (int i = 0; i < 60; ++i) {
    Expr moved = Reshape(y * 0.5, {2, 2});
    y = Reshape(moved + Flip(moved, {0}), {4});
  }
  Check(bench, {y});
}

TEST(Compile, Movement) {
  Bench bench;
  Expr x = Random(bench, {4, 6, 5});
  EXPECT_EQ(Check(bench, {Permute(x, {2, 0, 1})}), 1);
  EXPECT_EQ(Check(bench, {Reshape(Permute(x, {2, 0, 1}), {10, 12})}), 1);
  EXPECT_EQ(Check(bench, {Add(Flip(x, {1}), x)}), 1);
}

TEST(Compile, Reductions) {
  for (int64_t n : {1, 3, 16, 19, 70}) {
    Bench bench;
    Expr x = Random(bench, {5, n});
    EXPECT_EQ(Check(bench, {Sum(x, {1})}), 1) << n;
    EXPECT_EQ(Check(bench, {Sum(x, {0})}), 1) << n;
    EXPECT_EQ(Check(bench, {Sum(x)}), 1) << n;
    EXPECT_EQ(Check(bench, {Max(x, {1}), Sum(x, {1})}), 1) << n;
  }
}

TEST(Compile, SoftmaxAndNormsAreOneKernel) {
  for (int64_t n : {5, 16, 40}) {
    Bench bench;
    Expr x = Random(bench, {7, n});
    EXPECT_EQ(Check(bench, {Softmax(x, -1)}), 1) << n;
    EXPECT_EQ(Check(bench, {LogSoftmax(x, -1)}), 1) << n;
    EXPECT_EQ(Check(bench, {LayerNorm(x)}), 1) << n;
    EXPECT_EQ(Check(bench, {Mean(x, {1}), Var(x, {1})}), 1) << n;
  }
}

TEST(Compile, MatMul) {
  const struct {
    int64_t m, k, n;
  } cases[] = {{1, 1, 1},    {4, 4, 4},    {7, 5, 3},   {16, 16, 16},
               {33, 17, 20}, {64, 32, 48}, {5, 64, 100}};
  for (const auto& c : cases) {
    Bench bench;
    Expr a = Random(bench, {c.m, c.k}), b = Random(bench, {c.k, c.n}, 2);
    Check(bench, {MatMul(a, b)});
    Bench transposed;
    Expr d = Random(transposed, {c.m, c.k}), e = Random(transposed, {c.n, c.k}, 2);
    Check(transposed, {MatMul(d, Permute(e, {1, 0}))});
  }
}

TEST(Compile, Convolution) {
  Bench bench;
  Expr x = Random(bench, {2, 3, 10, 9}), w = Random(bench, {16, 3, 3, 3}, 2);
  Check(bench, {Conv(x, w)});
  const PadAmount pad[] = {{1, 1}};
  const int64_t stride[] = {2};
  Check(bench, {Conv(x, w, std::nullopt, {.padding = pad})});
  Check(bench, {Conv(x, w, std::nullopt, {.stride = stride, .padding = pad})});
  Check(bench, {Relu(Conv(x, w))});
}

TEST(Compile, ConvolutionGradients) {
  Bench bench;
  Expr x = Random(bench, {2, 4, 8, 8}), w = Random(bench, {16, 4, 3, 3}, 2);
  Expr loss = Sum(Square(Conv(x, w)));
  const Expr targets[] = {x, w};
  std::vector<Expr> gradients = Gradient(loss, targets);
  Check(bench, {gradients[0]}, 1e-4);
  Check(bench, {gradients[1]}, 1e-4);
  Check(bench, {loss, gradients[0], gradients[1]}, 1e-4);
}

TEST(Compile, Pooling) {
  Bench bench;
  Expr x = Random(bench, {2, 3, 8, 6});
  const int64_t two[] = {2, 2};
  Expr y = MaxPool(x, {.kernel = two});
  Check(bench, {y});
  const Expr targets[] = {x};
  Check(bench, {Gradient(Sum(Square(y)), targets)[0]}, 1e-4);
}

}  // namespace
}  // namespace tensord
