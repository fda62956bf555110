// Structured loops, compiled and run on the CPU, compared with the reference evaluator.
#include "core/tensor/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "core/rules/spec.h"
#include "core/schedule/schedule.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "core/tensor/testing.h"
#include "tests/compiler/run_program.h"

namespace tensord {
namespace {

using States = absl::Span<const Expr>;

ProgramRunner& Runner() {
  static ProgramRunner& runner = *new ProgramRunner;
  return runner;
}

// The values of the outputs, after they agreed with the oracle's.
std::vector<std::vector<double>> Check(Bench& bench, const std::vector<Expr>& outputs,
                                       absl::Span<const int64_t> overwrites = {}) {
  for (const Expr& output : outputs) {
    EXPECT_TRUE(output.ok()) << output.status();
    if (!output.ok()) return {};
  }
  auto result = Runner().Run(outputs, bench.inputs(), overwrites);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  std::vector<std::vector<double>> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    SCOPED_TRACE(Print({outputs[i].node()}));
    EXPECT_EQ(result->outputs[i].shape, ShapeOf(outputs[i]));
    values.push_back(result->outputs[i].AsDoubles());
    ExpectNear(values.back(), bench.Values(outputs[i]), 1e-5, "output " + std::to_string(i));
  }
  return values;
}

using Rows = std::vector<std::vector<double>>;

TEST(Loop, RunsWhileItsConditionHolds) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {2}, {{1, 3}});
  const auto states = WhileLoop(
      {x}, [](States s) { return Lt(Max(s[0]), 100); },
      [](States s) { return std::vector<Expr>{s[0] * 2}; });
  EXPECT_EQ(Check(bench, states), (Rows{{64, 192}}));
}

TEST(Loop, EndsAfterAsManyIterationsAsItMayTake) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {1}, {1.0});
  for (const int64_t most : {0, 1, 5}) {
    const auto states = WhileLoop(
        {x}, [](States s) { return Lt(Sum(s[0]), 1e9); },
        [](States s) { return std::vector<Expr>{s[0] * 2}; }, most);
    EXPECT_EQ(Check(bench, states), (Rows{{static_cast<double>(1 << most)}}));
  }
}

TEST(Loop, CountsForTheBody) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {3}, {{1, 10, 100}});
  for (const int64_t count : {0, 1, 4}) {
    const auto states = ForLoop(count, {x}, [&](const Expr& i, States s) {
      return std::vector<Expr>{s[0] + x * Cast(i, DType::kFloat32)};
    });
    const double sum = 1.0 + static_cast<double>(count * (count - 1)) / 2;
    EXPECT_EQ(Check(bench, states), (Rows{{sum, 10 * sum, 100 * sum}}));
  }
}

// All states change at once, whatever the order in which they are stored.
TEST(Loop, ChangesItsStatesTogether) {
  Bench bench;
  const Expr a = bench.Input(DType::kInt64, {1}, {0.0});
  const Expr b = bench.Input(DType::kInt64, {1}, {1.0});
  const auto fibonacci = ForLoop(50, {a, b}, [](const Expr&, States s) {
    return std::vector<Expr>{s[1], s[0] + s[1]};
  });
  EXPECT_EQ(Check(bench, fibonacci), (Rows{{12586269025}, {20365011074}}));
  const auto rotated = ForLoop(2, {a, b, a + 7}, [](const Expr&, States s) {
    return std::vector<Expr>{s[1], s[2], s[0]};
  });
  EXPECT_EQ(Check(bench, rotated), (Rows{{7}, {0}, {1}}));
}

TEST(Loop, TakesStatesThatStandStillAndEqualOnes) {
  Bench bench;
  const Expr x = bench.Counting({4});
  const auto states = ForLoop(3, {x, x, x * 2}, [](const Expr&, States s) {
    return std::vector<Expr>{s[0] + s[1], s[1], s[2] * 3};
  });
  Check(bench, states);
  Check(bench, {states[2]});
  Check(bench, {states[0] + states[1], states[0]});
}

TEST(Loop, MultipliesMatrices) {
  Bench bench;
  const Expr w = bench.Input(Noise(DType::kFloat32, {8, 8}, -0.5, 0.5));
  const Expr x = bench.Input(Noise(DType::kFloat32, {3, 8}, -1, 1, 2));
  const Expr scaled = Softmax(w, -1);
  const auto states = ForLoop(5, {x}, [&](const Expr&, States s) {
    return std::vector<Expr>{MatMul(s[0], scaled) + Transpose(Transpose(x, 0, 1), 0, 1)};
  });
  Check(bench, {states[0], Sum(states[0])});
}

TEST(Loop, ReadsTheRowOfItsNumber) {
  Bench bench;
  const Expr x = bench.Input(Noise(DType::kFloat32, {6, 3}));
  const auto states = ForLoop(
      6, {Zeros(bench.graph(), {3}, DType::kFloat32)},
      [&](const Expr& i, States s) { return std::vector<Expr>{s[0] * 0.5 + Embedding(x, i)}; });
  Check(bench, states);
}

TEST(Loop, NestsInLoops) {
  Bench bench;
  const Expr x = bench.Input(Noise(DType::kFloat32, {4}));
  const auto states = ForLoop(3, {x}, [&](const Expr& i, States outer) {
    const Expr factor = Exp(outer[0] * 0.1);  // of the outer loop's body
    const auto inner = ForLoop(4, {outer[0] * 0.5}, [&](const Expr& j, States s) {
      return std::vector<Expr>{s[0] * 0.5 + factor * Cast(i + j, DType::kFloat32) + Sum(x)};
    });
    return std::vector<Expr>{inner[0] + outer[0] * 0.1};
  });
  Check(bench, states);
}

TEST(Loop, MayHoldOneThatDoesNotDependOnIt) {
  Bench bench;
  const Expr x = bench.Input(Noise(DType::kFloat32, {4}));
  const auto fixed =
      ForLoop(3, {x}, [](const Expr&, States s) { return std::vector<Expr>{s[0] * 0.5 + 1}; });
  const auto states = ForLoop(
      5, {x}, [&](const Expr&, States s) { return std::vector<Expr>{s[0] * 0.5 + fixed[0]}; });
  Check(bench, {states[0], fixed[0]});
}

// Loops of one level may share their first values and parts of their bodies.
TEST(Loop, FollowsAndStandsBesideOthers) {
  Bench bench;
  const Expr x = bench.Input(Noise(DType::kFloat32, {4}));
  const auto half = [](const Expr&, States s) { return std::vector<Expr>{s[0] * 0.5}; };
  const auto half_and_one = [](const Expr&, States s) { return std::vector<Expr>{s[0] * 0.5 + 1}; };
  const auto a = ForLoop(3, {x}, half);
  const auto b = ForLoop(3, {x}, half_and_one);
  const auto c = ForLoop(2, {a[0] * b[0]}, half_and_one);
  Check(bench, {c[0], a[0] - b[0]});
}

TEST(Loop, ResultsOverwriteInputs) {
  Bench bench;
  const Expr x = bench.Input(Noise(DType::kFloat32, {4}));
  const Expr y = bench.Input(Noise(DType::kFloat32, {4}, -1, 1, 2));
  const auto states = ForLoop(3, {x, y}, [&](const Expr&, States s) {
    return std::vector<Expr>{s[1] + x, s[0] * y};
  });
  Check(bench, {states[1], states[0], x + y}, {0, 1, Program::kFresh});
}

TEST(Loop, EqualLoopsAreOne) {
  Bench bench;
  const Expr x = bench.Counting({4});
  const auto body = [](const Expr& i, States s) {
    return std::vector<Expr>{s[0] + Cast(i, DType::kFloat32)};
  };
  EXPECT_EQ(ForLoop(3, {x}, body)[0].node(), ForLoop(3, {x}, body)[0].node());
  EXPECT_NE(ForLoop(3, {x}, body)[0].node(), ForLoop(4, {x}, body)[0].node());
}

// What no state has a part in is computed before the loop, and a state is changed in place.
TEST(Loop, HasOneKernelInItsBody) {
  Bench bench;
  const Expr x = bench.Input(Noise(DType::kFloat32, {4, 4}));
  const auto states = ForLoop(100, {x}, [&](const Expr&, States s) {
    return std::vector<Expr>{s[0] * Softmax(MatMul(x, x), -1)};
  });
  const Program program = MakeProgram(states, bench.inputs());
  const auto schedule = MakeSchedule(program);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::vector<int> kinds;
  for (const Schedule::Step& step : schedule->steps) kinds.push_back(step.kernel);
  const auto loop = std::find(kinds.begin(), kinds.end(), Schedule::Step::kLoop);
  ASSERT_NE(loop, kinds.end());
  const int body = schedule->steps[loop - kinds.begin()].body;
  for (int i = 1; i <= body; ++i) EXPECT_GE(*(loop + i), 0) << "a copy in the body";
  EXPECT_LE(body, 2);
}

TEST(Loop, ErrorsSayWhatAStateMustKeep) {
  Bench bench;
  const Expr x = bench.Counting({4});
  const auto with = [&](Expr next, Expr condition) {
    const auto stand_ins = BeginLoop({x});
    return ErrorOf(EndLoop(stand_ins, condition, {next}, 3)[0]);
  };
  const Expr yes = Constant(bench.graph(), true, DType::kBool);
  EXPECT_THAT(with(Sum(x), yes), testing::HasSubstr("state 0 is float32[4] and the body makes it"));
  EXPECT_THAT(with(Cast(x, DType::kInt32), yes), testing::HasSubstr("makes it int32[4]"));
  EXPECT_THAT(with(x, x), testing::HasSubstr("the condition is float32[4]"));
}

TEST(Loop, AStandInOutsideOfItsLoopIsNoProgram) {
  Bench bench;
  const Expr x = bench.Counting({4});
  const auto stand_ins = BeginLoop({x});
  EndLoop(stand_ins, Constant(bench.graph(), false, DType::kBool), {stand_ins[0] + 1}, 3);
  const auto result = Runner().Run({stand_ins[0] + 1}, bench.inputs());
  EXPECT_THAT(result.status().message(), testing::HasSubstr("loops-close"));
}

}  // namespace
}  // namespace tensord
