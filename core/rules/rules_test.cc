// Every row of every table, filled in at random: both sides have the same values, every row fires
// in its own set and in the composed ones, and graphs of many ops come to a fixed point.
#include "core/rules/rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/ir/text.h"
#include "core/rules/random_graph.h"
#include "core/rules/simplify.h"

namespace tensord {
namespace {

std::string Values(const std::vector<Scalar>& values) {
  std::string text;
  for (const Scalar& value : values) {
    text += IsFloat(value.dtype) ? fmt::format(" {}", value.f) : fmt::format(" {}", value.i);
  }
  return text;
}

void ExpectEqualValues(const Node* before, const Node* after, RandomGraph& random,
                       std::string_view what) {
  for (int round = 0; round < 4; ++round) {
    const ReferenceInputs inputs = random.Inputs();
    const auto values = ReferenceEval({before, after}, inputs);
    std::string leaves;
    for (const auto& [slot, elements] : inputs.params) {
      leaves += fmt::format("slot {}:{}\n", slot, Values(elements));
    }
    ASSERT_EQ(values[0], values[1])
        << what << " turned\n"
        << Print({before}) << "with values" << Values(values[0]) << "\ninto\n"
        << Print({after}) << "with values" << Values(values[1]) << "\nfor\n"
        << leaves;
  }
}

void ExpectSoundAndReachable(const RuleSet& rules) {
  constexpr int kWantedHits = 60, kTries = 6000;
  for (size_t r = 0; r < rules.rules().size(); ++r) {
    const Rule& rule = rules.rules()[r];
    int hits = 0, instances = 0;
    for (int seed = 0; seed < kTries && hits < kWantedHits; ++seed) {
      Graph graph;
      RandomGraph random(graph, static_cast<uint32_t>(r * kTries) + seed);
      const Node* node = random.Instance(rule.from);
      if (node == nullptr) continue;
      ++instances;
      const RuleSet::Applied applied = rules.Apply(graph, node);
      if (applied.rule != static_cast<int>(r)) continue;
      ++hits;
      ASSERT_EQ(applied.node->dtype, node->dtype) << rule.name;
      ASSERT_EQ(applied.node->shape, node->shape) << rule.name;
      ExpectEqualValues(node, applied.node, random, rule.name);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(hits, 0) << "rule '" << rule.name << "' never fires, or an earlier row always does; "
                       << instances << " instances were tried";
  }
}

TEST(RulesTest, FloatRules) { ExpectSoundAndReachable(FloatRules()); }
TEST(RulesTest, IntRules) { ExpectSoundAndReachable(IntRules()); }
TEST(RulesTest, LogicRules) { ExpectSoundAndReachable(LogicRules()); }
TEST(RulesTest, CastRules) { ExpectSoundAndReachable(CastRules()); }
TEST(RulesTest, ConstantRules) { ExpectSoundAndReachable(ConstantRules()); }
TEST(RulesTest, MovementRules) { ExpectSoundAndReachable(MovementRules()); }
TEST(RulesTest, LowerTensorRules) { ExpectSoundAndReachable(LowerTensorRules()); }

// A proof for the numbers of 8 bits: every row over elementwise ops, for every combination of
// values of its letters, though not for every constant. With two letters in one dtype; three have
// too many combinations, so of those a part that changes from row to row.
void ExpectTrueForAllNumbersOfEightBits(const RuleSet& rules) {
  constexpr int kTries = 200;
  constexpr size_t kInstances = 4;
  constexpr int64_t kMaxCombinations = 1 << 16;
  const std::vector<DType> dtypes = {DType::kBool,       DType::kInt8,
                                     DType::kUint8,      DType::kFloat8E4M3,
                                     DType::kFloat8E5M2, DType::kFloat8E5M2Fnuz};
  for (size_t r = 0; r < rules.rules().size(); ++r) {
    const Rule& rule = rules.rules()[r];
    std::vector<DType> done;  // one instance a dtype
    for (uint32_t seed = 0; seed < kTries && done.size() < kInstances; ++seed) {
      const auto try_on = [&](int64_t elements) -> int64_t {
        Graph graph;
        RandomGraph random(graph, static_cast<uint32_t>(r * kTries) + seed,
                           {.elements = elements, .shape = {elements}, .dtypes = dtypes});
        const Node* node = random.Instance(rule.from);
        if (node == nullptr) return 0;
        const RuleSet::Applied applied = rules.Apply(graph, node);
        if (applied.rule != static_cast<int>(r)) return 0;
        const int64_t count = random.NumCombinations();
        if (count > elements && elements < kMaxCombinations) return count;
        const int64_t first = count <= elements ? 0 : static_cast<int64_t>(r) * elements % count;
        const ReferenceInputs inputs = random.Combinations(first);
        const auto values = ReferenceEval({node, applied.node}, inputs);
        for (size_t e = 0; e < values[0].size(); ++e) {
          EXPECT_EQ(values[0][e], values[1][e])
              << rule.name << " turned\n"
              << Print({node}) << "into\n"
              << Print({applied.node}) << "for combination " << first + static_cast<int64_t>(e);
          if (testing::Test::HasFailure()) break;
        }
        const DType dtype = node->src.back()->dtype;
        if (std::find(done.begin(), done.end(), dtype) == done.end()) done.push_back(dtype);
        return 0;
      };
      const bool more = try_on(256) > 0;
      if (more) try_on(kMaxCombinations);
      if (testing::Test::HasFailure()) return;
      if (more) break;
    }
  }
}

TEST(RulesTest, FloatRulesHoldForEightBits) { ExpectTrueForAllNumbersOfEightBits(FloatRules()); }
TEST(RulesTest, IntRulesHoldForEightBits) { ExpectTrueForAllNumbersOfEightBits(IntRules()); }
TEST(RulesTest, LogicRulesHoldForEightBits) { ExpectTrueForAllNumbersOfEightBits(LogicRules()); }
TEST(RulesTest, CastRulesHoldForEightBits) { ExpectTrueForAllNumbersOfEightBits(CastRules()); }

TEST(RulesTest, NoRuleIsShadowedInTheComposedSet) { ExpectSoundAndReachable(SimplifyRules()); }

// Not to the bit: for numbers of moderate size, where nothing overflows or vanishes.
TEST(RulesTest, FastMathRulesHoldForRealNumbers) {
  const RuleSet& rules = FastMathRules();
  for (size_t r = 0; r < rules.rules().size(); ++r) {
    const Rule& rule = rules.rules()[r];
    int hits = 0;
    for (uint32_t seed = 0; seed < 4000 && hits < 20; ++seed) {
      Graph graph;
      RandomGraph random(graph, static_cast<uint32_t>(r * 4000) + seed);
      const Node* node = random.Instance(rule.from);
      if (node == nullptr || (node->dtype != DType::kFloat32 && node->dtype != DType::kFloat64)) {
        continue;
      }
      const RuleSet::Applied applied = rules.Apply(graph, node);
      if (applied.rule != static_cast<int>(r)) continue;
      ReferenceInputs inputs = random.Inputs();
      double scale = 1;
      for (auto& [slot, elements] : inputs.params) {
        for (size_t i = 0; i < elements.size(); ++i) {
          elements[i] = Scalar::Of(elements[i].dtype, 1 + static_cast<double>(i % 7) / 4);
        }
      }
      bool moderate = true;
      for (const Node* leaf : TopologicalOrder({node})) {
        if (!leaf->IsConst() || !IsFloat(leaf->dtype)) continue;
        const double size = std::abs(leaf->Float());
        moderate &= size == 0 || (size > 1e-3 && size < 1e3);
        scale = std::max(scale, size);
      }
      const auto values = ReferenceEval({node, applied.node}, inputs);
      for (size_t i = 0; i < values[0].size() && moderate; ++i) {
        if (!std::isfinite(values[0][i].f)) continue;
        ASSERT_NEAR(values[0][i].f, values[1][i].f, 1e-4 * scale * scale)
            << rule.name << "\n"
            << Print({node}) << Print({applied.node});
      }
      hits += moderate ? 1 : 0;
    }
    EXPECT_GT(hits, 0) << rule.name;
  }
}

TEST(RulesTest, FastMathIsAskedFor) {
  Graph graph;
  const Node* x = graph.Param(0, DType::kFloat32, {});
  const Node* zero = graph.Make(Op::kMul, {x, graph.Float(DType::kFloat32, 0)});
  EXPECT_EQ((*SimplifyForSchedule(graph, absl::MakeConstSpan({zero})))[0], zero);
  EXPECT_TRUE((*SimplifyForSchedule(graph, absl::MakeConstSpan({zero}), true))[0]->IsConst());
}

TEST(RulesTest, RandomGraphsKeepTheirValuesAndReachAFixedPoint) {
  OpSet seen;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Graph graph;
    RandomGraph random(graph, seed);
    const Node* node = random.Any(25);
    seen = seen | node->below_ops;
    const auto simple = SimplifyForSchedule(graph, {node});
    ASSERT_TRUE(simple.ok()) << simple.status() << "\nseed " << seed << "\n" << Print({node});
    ExpectEqualValues(node, (*simple)[0], random, fmt::format("seed {}", seed));
    if (testing::Test::HasFatalFailure()) return;
    const auto again = SimplifyForSchedule(graph, *simple);
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(*again, *simple) << "seed " << seed;
  }
  // Loops are more than one op, a UserKernel needs a body and an Exchange several devices.
  constexpr OpSet kOthers = OpBit(Op::kSink) | OpBit(Op::kCarry) | OpBit(Op::kLoop) |
                            OpBit(Op::kLoopResult) | OpBit(Op::kUserKernel) |
                            OpBit(Op::kUserKernelResult) | OpBit(Op::kExchange);
  for (int op = 0; op < static_cast<int>(kNumOps); ++op) {
    const OpInfo& info = Info(static_cast<Op>(op));
    if ((info.levels & kTensorLevel) == 0 || info.num_src == 0) continue;
    if (In(static_cast<Op>(op), kOthers)) continue;
    EXPECT_TRUE(In(static_cast<Op>(op), seen)) << info.name << " is in no random graph";
  }
}

}  // namespace
}  // namespace tensord
