#include "core/rewrite/rewrite.h"

#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "core/rewrite/letters.h"

namespace tensord {
namespace {

using namespace letters;

const RuleSet& Cancel() {
  static const RuleSet& rules = *new RuleSet{{"neg-neg", -(-m), m}, {"add-zero", m + 0, m}};
  return rules;
}

const Node* Neg(Graph& graph, const Node* node) {
  return graph.Intern({.op = Op::kNeg, .src = {node}});
}

TEST(RewriteTest, ReachesAFixedPoint) {
  Graph graph;
  const auto roots = Parse(R"(
      %0 = Param int32 slot=0
      %1 = Const int32 0
      %2 = Neg int32 %0
      %3 = Add int32 %2 %1
      %4 = Neg int32 %3
      %5 = Sub int32 %4 %2
      return %5 %4 %5
  )",
                           graph);
  ASSERT_TRUE(roots.ok()) << roots.status();
  const auto result = Rewrite(graph, *roots, Cancel());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Print(*result),
            "%0 = Param int32 slot=0\n"
            "%1 = Neg int32 %0\n"
            "%2 = Sub int32 %0 %1\n"
            "return %2 %0 %2\n");
}

TEST(RewriteTest, DeepGraphsDoNotOverflowTheStack) {
  Graph graph;
  const Node* param = graph.Param(0, DType::kInt32, {});
  const Node* node = param;
  for (int depth = 0; depth < 100000; ++depth) node = Neg(graph, node);
  const auto result = Rewrite(graph, {node}, Cancel());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0], param);
}

TEST(RewriteTest, VisitsSharedNodesOnce) {
  Graph graph;
  const Node* node = Neg(graph, Neg(graph, graph.Param(0, DType::kInt32, {})));
  for (int level = 0; level < 60; ++level) {
    node = graph.Intern({.op = Op::kMul, .src = {node, node}});  // 2^60 paths
  }
  std::vector<RuleCounts> counts;
  const auto result = Rewrite(graph, {node, node}, Cancel(), {.counts = &counts});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(counts[0].hits, 1u);
  EXPECT_LT(CountsReport(Cancel(), counts).find("neg-neg"),
            CountsReport(Cancel(), counts).find("add-zero"));
}

TEST(RewriteTest, LeavesGraphsWithoutRootOpsAlone) {
  Graph graph;
  const Node* x = graph.Param(0, DType::kFloat32, {4});
  const Node* y = graph.Make(Op::kExp, {x});
  const size_t before = graph.size();
  const auto result = Rewrite(graph, {y}, Cancel());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)[0], y);
  EXPECT_EQ(graph.size(), before);
}

TEST(RewriteTest, RulesInACircleAreStoppedByName) {
  const RuleSet circle{{"to-sub", m + n, m - n}, {"to-add", m - n, m + n}};
  const RuleSet growth{{"grow", m * n, -(m * n)}};
  for (const RuleSet* rules : {&circle, &growth}) {
    Graph graph;
    const Node* a = graph.Param(0, DType::kInt32, {});
    const Node* b = graph.Param(1, DType::kInt32, {});
    const Node* root = graph.Make(Op::kAdd, {graph.Make(Op::kMul, {a, b}), b});
    const auto result = Rewrite(graph, {root}, *rules);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
    EXPECT_NE(result.status().message().find("does not end"), absl::string_view::npos);
    EXPECT_NE(result.status().message().find(rules == &circle ? "to-sub, to-add" : "grow, grow"),
              absl::string_view::npos)
        << result.status();
  }
}

TEST(RewriteTest, ARuleMayNotChangeTheType) {
  const RuleSet rules{{"drop-compare", CmpLt(x, y), x}};
  Graph graph;
  const Node* a = graph.Param(0, DType::kInt32, {3});
  const auto result = Rewrite(graph, {graph.Make(Op::kCmpLt, {a, a})}, rules);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("rule 'drop-compare' changes the type of CmpLt"),
            absl::string_view::npos)
      << result.status();
}

TEST(RewriteTest, TracesWhichRulesMadeANode) {
  Graph graph;
  const Node* a = graph.Param(0, DType::kInt32, {});
  const Node* b = graph.Param(1, DType::kInt32, {});
  const Node* zero = graph.Int(DType::kInt32, 0);
  const Node* inner = graph.Intern({.op = Op::kAdd, .src = {a, zero}});
  const Node* product = graph.Intern({.op = Op::kMul, .src = {inner, b}});
  const Node* root = graph.Intern({.op = Op::kAdd, .src = {product, zero}});
  RewriteTrace trace;
  const auto result = Rewrite(graph, {root}, Cancel(), {.trace = &trace});
  ASSERT_TRUE(result.ok()) << result.status();
  const auto history = trace.HistoryOf((*result)[0]);
  ASSERT_FALSE(history.empty());
  EXPECT_EQ(history.back().rule, "add-zero");
  EXPECT_EQ(history.front().from, root);
}

}  // namespace
}  // namespace tensord
