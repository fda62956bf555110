// Every row of every table, filled in at random: both sides have the same values, every row fires
// in its own set and in the composed ones, and graphs of many ops come to a fixed point.
#include "core/rules/rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

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
TEST(RulesTest, NoRuleIsShadowedInTheComposedSet) { ExpectSoundAndReachable(SimplifyRules()); }

TEST(RulesTest, RandomGraphsKeepTheirValuesAndReachAFixedPoint) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Graph graph;
    RandomGraph random(graph, seed);
    const Node* node = random.Any(25);
    const auto simple = SimplifyForSchedule(graph, {node});
    ASSERT_TRUE(simple.ok()) << simple.status() << "\nseed " << seed << "\n" << Print({node});
    ExpectEqualValues(node, (*simple)[0], random, fmt::format("seed {}", seed));
    if (testing::Test::HasFatalFailure()) return;
    const auto again = SimplifyForSchedule(graph, *simple);
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(*again, *simple) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tensord
