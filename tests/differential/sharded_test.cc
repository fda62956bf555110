// Programs over several devices give what they give on one.
#include "tests/differential/sharded.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "core/ir/program.h"
#include "core/schedule/schedule.h"
#include "core/tensor/activation.h"
#include "core/tensor/conv.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/loop.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/order.h"
#include "core/tensor/placement.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/scatter.h"
#include "tests/differential/generate.h"

namespace tensord {
namespace {

ProgramRunner& Runner(std::string_view devices = "cpu:4") {
  static auto& runners = *new std::map<std::string, std::unique_ptr<ProgramRunner>, std::less<>>;
  std::unique_ptr<ProgramRunner>& runner = runners[std::string(devices)];
  if (runner == nullptr) runner = std::make_unique<ProgramRunner>(devices);
  return *runner;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Sharded, RandomGraphsEqualThemselvesOnOneDevice) {
  const uint64_t from = FromEnvironment("SHARDED_SEED", 1);
  const uint64_t count = FromEnvironment("SHARDED_CASES", 60);
  for (uint64_t seed = from; seed < from + count; ++seed) {
    Case test = Generate(seed);
    const int64_t devices = 2 + static_cast<int64_t>(seed % 3);
    ASSERT_EQ(CheckSharded(test, Runner(), devices, seed), "") << "seed " << seed << "\n"
                                                               << PrintCase(test);
  }
}

// Operations over x [8, 12, 4], y [8, 12, 4] and i [8] of int32.
struct Operation {
  std::string_view name;
  std::vector<Expr> (*make)(const Expr& x, const Expr& y, const Expr& i);
};

const Operation kOperations[] = {
    {"elementwise",
     [](const Expr& x, const Expr& y, const Expr&) -> std::vector<Expr> {
       return {x + y, Where(Lt(x, y), x, y * 2), Exp(x) * Transpose(y, 0, 1).node()->shape[0]};
     }},
    {"reductions",
     [](const Expr& x, const Expr& y, const Expr& i) -> std::vector<Expr> {
       return {Sum(x),
               Sum(x, 0),
               Max(x, 1),
               Min(x * y, {0, 2}),
               Prod(x, 2),
               Mean(y, Axes({0, 1})),
               ArgMax(x, 0),
               Sum(i),
               VarMean(x, Axes({0}), 1).var,
               LogSumExp(x, 0)};
     }},
    {"movement",
     [](const Expr& x, const Expr& y, const Expr&) -> std::vector<Expr> {
       const int64_t axes[] = {0, 2};
       return {Permute(x, {2, 0, 1}),
               Reshape(x, {96, 4}),
               Reshape(x, {8, 48}),
               Reshape(x, {2, 4, 12, 4}),
               Reshape(x, {32, 12}),
               Flip(x, axes),
               SliceAxis(x, 0, {.begin = 1, .end = 5}),
               SliceAxis(x, 1, {.step = 2}),
               Cat({x, y}, 0),
               Cat({x, y}, 1),
               Stack({x, y}, 0),
               Expand(Unsqueeze(x, 0), {3, -1, -1, -1}),
               Pad(x, std::vector<PadAmount>{{1, 2}, {0, 0}, {0, 0}}, 0)};
     }},
    {"products",
     [](const Expr& x, const Expr& y, const Expr&) -> std::vector<Expr> {
       const Expr a = Reshape(x, {8, 48}), b = Reshape(y, {8, 48});
       return {MatMul(a, Transpose(b, 0, 1)), MatMul(Transpose(a, 0, 1), b),
               MatMul(x, Transpose(y, 1, 2)), Softmax(MatMul(a, Transpose(b, 0, 1)), -1)};
     }},
    {"gather and scatter",
     [](const Expr& x, const Expr& y, const Expr& i) -> std::vector<Expr> {
       return {Embedding(x, i), Embedding(Transpose(x, 0, 1), i),
               ScatterAt(x, {0}, {i}, y, ScatterKind::kAdd),
               ScatterAt(x, {0}, {i}, y, ScatterKind::kSet),
               ScatterAt(Transpose(x, 0, 1), {0}, {i}, Transpose(SliceAxis(y, 1, {.end = 8}), 0, 1),
                         ScatterKind::kAdd)};
     }},
    {"scans and sorting",
     [](const Expr& x, const Expr& y, const Expr&) -> std::vector<Expr> {
       return {CumSum(x, 0), CumSum(y, 1), CumProd(x, 2), Sort(x, 0, false).values,
               Sort(y, 1, true).values};
     }},
    {"gradients of a network",
     [](const Expr& x, const Expr& y, const Expr& i) -> std::vector<Expr> {
       const Expr w = Reshape(SliceAxis(y, 0, {.end = 4}), {48, 4});
       const Expr h =
           Relu(LayerNorm(MatMul(Reshape(x, {8, 48}), w), 1, std::nullopt, std::nullopt, 1e-5));
       const Expr table = Reshape(y, {96, 4});
       const Expr loss = Sum(h * h) + Mean(Exp(Embedding(table, i) * h));
       return Gradient(loss, {x, y});
     }},
    {"a loop",
     [](const Expr& x, const Expr& y, const Expr&) -> std::vector<Expr> {
       return ForLoop(5, {x, Sum(y, 0)}, [&](const Expr&, absl::Span<const Expr> s) {
         return std::vector<Expr>{s[0] * 0.5 + y, s[1] + Sum(s[0] * x, 0)};
       });
     }},
    {"gradients of a loop",
     [](const Expr& x, const Expr& y, const Expr&) -> std::vector<Expr> {
       const std::vector<Expr> states =
           ForLoop(3, {x}, [&](const Expr& i, absl::Span<const Expr> s) {
             return std::vector<Expr>{s[0] * y * 0.5 + Row(x, i)};
           });
       return Gradient(Sum(states[0]), {x, y});
     }},
    {"convolution",
     [](const Expr& x, const Expr& y, const Expr&) -> std::vector<Expr> {
       const Expr image = Reshape(x, {8, 2, 6, 4});
       const Expr kernel = Reshape(SliceAxis(y, 0, {.end = 4}), {4, 2, 6, 4});
       const Expr out = Conv(image, SliceAxis(SliceAxis(kernel, 2, {.end = 3}), 3, {.end = 3}),
                             std::nullopt, ConvOptions{});
       std::vector<Expr> all = Gradient(Sum(out * out), {x, y});
       all.push_back(out);
       return all;
     }},
};

TEST(Sharded, OperationsEqualThemselvesOnOneDevice) {
  constexpr AllReduceKind kKinds[] = {AllReduceKind::kGather, AllReduceKind::kSwap,
                                      AllReduceKind::kRing};
  for (const Operation& operation : kOperations) {
    for (uint64_t choice = 0; choice < 6; ++choice) {
      Case test;
      test.seed = 5;
      Graph& graph = test.graph;
      const Expr x(&graph, graph.Param(0, DType::kFloat32, {8, 12, 4}));
      const Expr y(&graph, graph.Param(1, DType::kFloat32, {8, 12, 4}));
      const Expr i(&graph, graph.Param(2, DType::kInt32, {8}));
      for (const Expr& z : operation.make(x, y, i)) {
        ASSERT_TRUE(z.ok()) << operation.name << ": " << z.status();
        test.outputs.push_back(z.node());
        test.overwrites.push_back(Program::kFresh);
      }
      for (const Expr& read : {x, y, i}) {  // that all are inputs
        test.outputs.push_back(read.node());
        test.overwrites.push_back(Program::kFresh);
      }
      const int64_t devices = choice % 3 == 0 ? 2 : 4;
      EXPECT_EQ(CheckSharded(test, Runner(), devices, choice, kKinds[choice % 3]), "")
          << operation.name << ", choice " << choice;
    }
  }
}

TEST(Sharded, EveryAccessIsChecked) {
  for (uint64_t seed = 500; seed < 510; ++seed) {
    Case test = Generate(seed);
    ASSERT_EQ(CheckSharded(test, Runner("interp:3"), 3, seed), "") << PrintCase(test);
  }
}

int Sums(const Schedule& schedule) {
  int sums = 0;
  for (const Schedule::Step& step : schedule.steps) {
    sums += step.kernel >= 0 && schedule.kernels[step.kernel]->name.starts_with("fold");
  }
  return sums;
}

// Exchanges of which one needs the other, with nothing between them that is computed.
TEST(Sharded, DivisionsInARow) {
  for (const int64_t devices : {2, 4}) {
    Program whole;
    Graph& graph = whole.graph;
    whole.inputs.push_back(graph.Param(0, DType::kFloat32, {8, 4, 8}));
    Expr x(&graph, whole.inputs[0]);
    for (int64_t axis : std::vector<int64_t>{0, 2, kWhole, 1, 0, 2})
      x = Place(x, {}, {.devices = {0, 1}, .axis = axis});
    whole.outputs.push_back({x.node()});
    const auto parts = Partition(whole, devices, {1});
    ASSERT_TRUE(parts.ok()) << parts.status();
    const auto schedule = MakeSchedule(parts->program);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    int meetings = 0, exchanges = 0;
    for (const Schedule::Step& step : schedule->steps) {
      exchanges += step.kernel == Schedule::Step::kExchange;
      meetings += step.meets;
    }
    EXPECT_EQ(meetings, exchanges);  // each reads what the one before has brought

    Runtime& runtime = Runner().runtime();
    const auto on = runtime.devices().first(static_cast<size_t>(devices));
    const auto executable = runtime.Prepare(parts->program, on, nullptr);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const int64_t width = 8 / devices, block = 32 / devices, each = 256 / devices;
    for (int round = 0; round < 5; ++round) {
      std::vector<BufferRef> inputs;
      for (int64_t d = 0; d < devices; ++d) {
        HostTensor part{DType::kFloat32, {8, 4 / devices, 8}, {}};
        for (int64_t e = 0; e < each; ++e) {
          const int64_t number = e / block * 32 + d * block + e % block;
          part.values.push_back(Scalar::Of(DType::kFloat32, static_cast<double>(number)));
        }
        inputs.push_back(Upload(*on[static_cast<size_t>(d)], part));
      }
      const auto run = runtime.Submit(*executable, inputs, {});
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_TRUE(on[0]->timeline().Wait(run->done, absl::InfiniteFuture()).ok());
      for (const auto& [device, done] : run->done_on_others) {
        ASSERT_TRUE(device->timeline().Wait(done, absl::InfiniteFuture()).ok());
      }
      for (int64_t d = 0; d < devices; ++d) {
        const HostTensor found = Download(*run->outputs[static_cast<size_t>(d)]);
        for (int64_t e = 0; e < each; ++e) {
          const int64_t number = e / width * 8 + d * width + e % width;
          ASSERT_EQ(found.values[static_cast<size_t>(e)].f, static_cast<double>(number));
        }
      }
    }
  }
}

// How devices meet in a training step: once for all gradients, and not once for each.
TEST(Sharded, GradientsMeetOnce) {
  Program whole;
  Graph& graph = whole.graph;
  const auto input = [&](std::vector<int64_t> shape) {
    whole.inputs.push_back(
        graph.Param(static_cast<int64_t>(whole.inputs.size()), DType::kFloat32, shape));
    return Expr(&graph, whole.inputs.back());
  };
  const Expr x = input({64, 16});
  std::vector<Expr> weights;
  Expr h = x;
  for (int layer = 0; layer < 4; ++layer) {
    weights.push_back(input({16, 16}));
    h = Relu(MatMul(h, weights.back()));
  }
  const std::vector<Expr> gradients = Gradient(Mean(h * h), weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    whole.outputs.push_back(
        {(weights[i] - gradients[i] * 0.1).node(), static_cast<int64_t>(i) + 1});
  }
  const auto parts = Partition(whole, 2, {0, kWhole, kWhole, kWhole, kWhole});
  ASSERT_TRUE(parts.ok()) << parts.status();
  const auto schedule = MakeSchedule(parts->program);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  int meetings = 0, exchanges = 0;
  for (const Schedule::Step& step : schedule->steps) {
    meetings += step.meets;
    exchanges += step.kernel == Schedule::Step::kExchange;
  }
  EXPECT_EQ(meetings, 1);
  EXPECT_EQ(exchanges, 4);
  // Nothing is computed twice: there are the sums of the whole program, and those over devices.
  const auto alone = MakeSchedule(whole);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(Sums(*schedule), Sums(*alone) + exchanges);
}

}  // namespace
}  // namespace tensord
