// Plans with many temporaries, and programs with variables.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/schedule/schedule.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "tests/differential/check.h"

namespace tensord {
namespace {

ProgramRunner& Runner() {
  static ProgramRunner& runner = *new ProgramRunner("cpu,interp");
  return runner;
}

Expr Input(Case& test, DType dtype, std::vector<int64_t> shape) {
  int64_t slot = 0;
  for (uint32_t id = 0; id < test.graph.size(); ++id) {
    slot += test.graph.node(id)->op == Op::kParam;
  }
  return Expr(&test.graph, test.graph.Param(slot, dtype, shape));
}

void Return(Case& test, const std::vector<Expr>& outputs) {
  for (const Expr& output : outputs) {
    ASSERT_TRUE(output.ok()) << output.status();
    test.outputs.push_back(output.node());
  }
  test.overwrites.assign(test.outputs.size(), Program::kFresh);
  EXPECT_EQ(Check(test, Runner()), "") << PrintCase(test);
}

uint64_t ScratchBytes(Case& test) {
  absl::StatusOr<Program> program = ProgramOf(test);
  if (!program.ok()) return ~uint64_t{0};
  absl::StatusOr<Schedule> schedule = MakeSchedule(*program);
  return schedule.ok() ? schedule->scratch_bytes : ~uint64_t{0};
}

TEST(Plan, TemporariesOfAChainShareMemory) {
  constexpr int64_t kSide = 24;
  const uint64_t one = kSide * kSide * sizeof(float);
  for (const int steps : {3, 20}) {
    Case test;
    Expr x = Input(test, DType::kFloat32, {kSide, kSide});
    for (int i = 0; i < steps; ++i) x = MatMul(x, Transpose(x, 0, 1)) * 0.01;
    Return(test, {x});
    EXPECT_LE(ScratchBytes(test), 4 * one) << steps << " steps";
  }
}

TEST(Plan, ManyTemporariesLiveTogether) {
  Case test;
  Expr x = Input(test, DType::kFloat32, {9, 17});
  std::vector<Expr> made;
  for (int i = 1; i <= 24; ++i) made.push_back(Contiguous(Exp(Contiguous(x * (0.05 * i)))));
  // Used in the reverse order, so that the lifetimes nest.
  Expr sum = made.back();
  for (size_t i = made.size() - 1; i-- > 0;) sum = Contiguous(sum + Flip(made[i], {0, 1}));
  Return(test, {sum, Sum(made[3]), made[7]});
}

TEST(Plan, TemporariesOfAllSizes) {
  Case test;
  Expr x = Input(test, DType::kFloat64, {1});
  std::vector<Expr> outputs;
  for (int64_t n = 1; n < 40; n += 3) {
    const Expr wide = Contiguous(BroadcastTo(x, {n}) +
                                 Cast(Arange(test.graph, 0, n, 1, DType::kInt32), DType::kFloat64));
    x = Contiguous(Sum(wide, {0}, kKeepDims) * 0.01);
    outputs.push_back(wide);
  }
  outputs.push_back(x);
  Return(test, outputs);
}

TEST(Plan, SameKernelOnManyBuffers) {
  Case test;
  std::vector<Expr> outputs;
  for (int i = 0; i < 12; ++i) {
    outputs.push_back(Softmax(Input(test, DType::kFloat32, {3, 11}), -1));
  }
  Return(test, outputs);
}

TEST(Plan, NoOutputsAndNoElements) {
  Case none;
  Return(none, {});
  Case empty;
  const Expr x = Input(empty, DType::kFloat32, {0, 3});
  Return(empty, {Exp(x), Sum(x, {0}), x, Permute(x, {1, 0})});
}

// Recursion in the compiler must not be as deep as a client's graph.
TEST(Plan, LongChainOfElementwiseOps) {
  Case sums;
  Expr x = Input(sums, DType::kFloat32, {3});
  const Expr step = Input(sums, DType::kFloat32, {3});
  for (int i = 0; i < 5000; ++i) x = i % 50 != 0 ? x * 0.5 + step : Sin(x);
  Return(sums, {x});
}

TEST(Plan, LongChainOfViews) {
  Case views;
  Expr y = Input(views, DType::kInt32, {3, 4});
  for (int i = 0; i < 140; ++i) y = Flip(Permute(Reshape(y, {6, 2}), {1, 0}), {0});
  Return(views, {y});
}

TEST(Plan, LongChainOfKernels) {
  Case kernels;
  Expr z = Input(kernels, DType::kFloat32, {4, 4});
  for (int i = 0; i < 100; ++i) z = MatMul(z, z) * 0.1;
  Return(kernels, {z});
}

TEST(Plan, ManyInputsAndOutputs) {
  Case test;
  std::vector<Expr> inputs, outputs;
  for (int i = 0; i < 150; ++i) inputs.push_back(Input(test, DType::kFloat32, {5}));
  outputs.push_back(Cat(inputs, 0));
  Expr sum = inputs[0];
  for (const Expr& input : inputs) {
    sum = sum + input;
    outputs.push_back(Neg(input));
  }
  outputs.push_back(sum);
  Return(test, outputs);
}

TEST(Plan, ManyAxes) {
  Case test;
  const Expr x = Input(test, DType::kFloat32, {6});
  std::vector<int64_t> dims(32, 1);
  dims[3] = 2;
  dims[29] = 3;
  const Expr y = Reshape(x, dims);
  std::vector<int64_t> twos(12, 2);
  const Expr z = Input(test, DType::kFloat32, twos);
  Return(test, {y, Sum(y, {29}), Flip(z, {1, 5, 11}), Sum(z, {0, 2, 4, 6, 8, 10}),
                Permute(z, {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0})});
}

TEST(Variables, OfEveryIntegerType) {
  using enum DType;
  for (const DType dtype : {kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kInt64, kUint64}) {
    Case test;
    const Node* low = test.graph.Variable("low", IntMin(dtype), IntMin(dtype) + 3, dtype);
    const Node* high = test.graph.Variable("high", 5, 100, dtype);
    const Expr a(&test.graph, low), b(&test.graph, high);
    const Expr x = Input(test, dtype, {19});
    Return(test, {Add(x, a), Mul(x, b), Apply(Op::kFloorMod, {x, BroadcastTo(b, {19})}),
                  Cast(a, kFloat32), Cast(Maximum(a, b), kInt64), a});
  }
}

TEST(Variables, OnePlanServesAllValues) {
  Case test;
  const Node* variable = test.graph.Variable("n", -3, 40, DType::kInt32);
  const Expr n(&test.graph, variable);
  const Expr x = Input(test, DType::kFloat32, {33});
  // Elements below n, summed; and the row that n names.
  const Expr mask = Lt(Arange(test.graph, 0, 33, 1, DType::kInt32), n);
  test.outputs = {Sum(Where(mask, x, 0)).node(),
                  test.graph.Make(Op::kGather, {x.node(), variable})};
  test.overwrites = {Program::kFresh, Program::kFresh};
  absl::StatusOr<Program> program = ProgramOf(test);
  ASSERT_TRUE(program.ok());
  auto executable = Runner().runtime().Prepare(*program, Runner().device(), nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  HostTensor ones{DType::kFloat32, {33}, std::vector<Scalar>(33, Scalar::Of(DType::kFloat32, 1))};
  for (const int64_t value : {-3, 0, 1, 8, 17, 32, 33, 40}) {
    const BufferRef input = Upload(Runner().device(), ones);
    auto run = Runner().runtime().Submit(*executable, {input}, {{"n", value}});
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(Runner().device().timeline().Wait(run->done, absl::InfiniteFuture()).ok());
    EXPECT_EQ(Download(*run->outputs[0]).values[0].f, std::clamp<double>(value, 0, 33));
    EXPECT_EQ(Download(*run->outputs[1]).values[0].f, value >= 0 && value < 33 ? 1 : 0);
  }
  for (const int64_t outside : {-4, 41}) {
    const BufferRef input = Upload(Runner().device(), ones);
    EXPECT_FALSE(Runner().runtime().Submit(*executable, {input}, {{"n", outside}}).ok());
  }
}

}  // namespace
}  // namespace tensord
