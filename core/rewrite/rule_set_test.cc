#include "core/rewrite/rule_set.h"

#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "core/rewrite/constant.h"
#include "core/rewrite/letters.h"

namespace tensord {
namespace {

using namespace letters;

std::string_view Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

TEST(RuleSetTest, ChecksTables) {
  const struct {
    std::vector<Rule> rules;
    std::string_view expected;
  } kCases[] = {
      {{{"a", m + 0, m}, {"a", m * 1, m}}, "rule 'a': the name occurs twice"},
      {{{"a", m, m}}, "root of the left side is not an op"},
      {{{"a", 0, 1}}, "root of the left side is not an op"},
      {{{"a", m + 0, n}}, "letter that the left side doesn't bind"},
      {{{"a", m + n, m * -x}}, "letter that the left side doesn't bind"},
      {{{"a", Exp(f), Reduce(f)}}, "Reduce on the right side needs"},
      {{{"a", Exp(f), OneOf(UnaryOps(), {f})}}, "has a set of ops"},
      {{{"a", Exp(f), f + Call([](const Match&) -> const Node* { return nullptr; })}},
       "Call must be the whole right side"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = RuleSet::Check(c.rules);
    ASSERT_FALSE(status.ok()) << c.expected;
    EXPECT_NE(Text(status).find(c.expected), std::string_view::npos) << status;
  }
}

class ApplyTest : public testing::Test {
 protected:
  // The node that the rules make of `node`, as text; "" if none does.
  std::string Apply(const RuleSet& rules, const Node* node) {
    const RuleSet::Applied applied = rules.Apply(graph_, node);
    return applied.node == nullptr ? "" : Print({applied.node});
  }
  std::string Text(const Node* node) { return Print({node}); }

  const Node* Make(Op op, std::initializer_list<const Node*> src) {
    return graph_.Intern({.op = op, .src = src});
  }
  const Node* Full(DType dtype, double value) {
    return MakeConstant(graph_, Scalar::Of(dtype, value), {2, 3});
  }

  Graph graph_;
  const Node* a_ = graph_.Param(0, DType::kInt32, {2, 3});
  const Node* b_ = graph_.Param(1, DType::kInt32, {2, 3});
  const Node* e_ = graph_.Param(2, DType::kFloat32, {2, 3});
  const Node* s_ = graph_.Param(3, DType::kInt32, {});
};

TEST_F(ApplyTest, LiteralsMatchScalarsAndConstantsWithAShape) {
  const RuleSet rules{{"add-zero", m + 0, m}};
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {a_, Full(DType::kInt32, 0)})), Text(a_));
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {Full(DType::kInt32, 0), a_})), Text(a_));
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {s_, graph_.Int(DType::kInt32, 0)})), Text(s_));
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {a_, Full(DType::kInt32, 1)})), "");
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {e_, Full(DType::kFloat32, 0)})), "") << "m is no float";
}

TEST_F(ApplyTest, FloatLiteralsTellZeroFromMinusZero) {
  const RuleSet rules{{"add-minus-zero", f + -0.0, f}, {"sub-zero", f - 0, f}};
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {e_, Full(DType::kFloat32, -0.0)})), Text(e_));
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {e_, Full(DType::kFloat32, 0.0)})), "");
  EXPECT_EQ(Apply(rules, Make(Op::kSub, {e_, Full(DType::kFloat32, 0.0)})), Text(e_));
  EXPECT_EQ(Apply(rules, Make(Op::kSub, {e_, Full(DType::kFloat32, -0.0)})), "");
}

TEST_F(ApplyTest, IntegerLiteralsWrap) {
  const RuleSet rules{{"and-ones", m & -1, m}};
  const Node* x8 = graph_.Param(4, DType::kUint8, {2, 3});
  EXPECT_EQ(Apply(rules, Make(Op::kAnd, {x8, Full(DType::kUint8, 255)})), Text(x8));
}

TEST_F(ApplyTest, ALetterMatchesOneNodeOnly) {
  const RuleSet rules{{"sub-self", m - m, 0}};
  EXPECT_EQ(Apply(rules, Make(Op::kSub, {a_, a_})), Text(Full(DType::kInt32, 0)));
  EXPECT_EQ(Apply(rules, Make(Op::kSub, {a_, b_})), "");
}

TEST_F(ApplyTest, TriesBothOrdersAtEveryLevelUntilTheConditionHolds) {
  const RuleSet rules{{"cancel", (m + n) + -n, m}};
  const Node* minus_a = Make(Op::kNeg, {a_});
  const Node* sum = Make(Op::kAdd, {a_, b_});
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {minus_a, sum})), Text(b_));
  const RuleSet conditional{
      {"first-is-b", m + n, m, [](const Match& match) { return match[m]->slot() == 1; }}};
  EXPECT_EQ(Apply(conditional, sum), Text(b_));
}

TEST_F(ApplyTest, TheFirstRowThatMakesAnotherNodeWins) {
  const RuleSet rules{
      {"same", m - n, m - n},  // makes the node itself, which is no hit
      {"declines", m - n, Call([](const Match&) -> const Node* { return nullptr; })},
      {"left", m - n, m},
      {"right", m - n, n},
  };
  const RuleSet::Applied applied = rules.Apply(graph_, Make(Op::kSub, {a_, b_}));
  EXPECT_EQ(applied.rule, 2);
  EXPECT_EQ(applied.node, a_);
}

TEST_F(ApplyTest, LiteralsOnTheRightTakeTheNeighboursType) {
  const RuleSet rules{{"shift", CmpLt(m, n), CmpLt(m - n, 0)}};
  const Node* expected = Make(Op::kCmpLt, {Make(Op::kSub, {a_, b_}), Full(DType::kInt32, 0)});
  EXPECT_EQ(Apply(rules, Make(Op::kCmpLt, {a_, b_})), Text(expected));
}

TEST_F(ApplyTest, OpsOverConstantsOnTheRightFold) {
  const RuleSet rules{{"add-consts", (m + c0) + c1, m + (c0 + c1)}};
  const Node* inner = Make(Op::kAdd, {a_, Full(DType::kInt32, 2147483647)});
  const Node* expected = Make(Op::kAdd, {a_, Full(DType::kInt32, -2147483648.0)});
  EXPECT_EQ(Apply(rules, Make(Op::kAdd, {inner, Full(DType::kInt32, 1)})), Text(expected));
}

TEST_F(ApplyTest, SetsOfOpsMatchAnyOfThem) {
  const RuleSet rules{{"drop", OneOf(OpBit(Op::kExp) | OpBit(Op::kSin), {f}), f},
                      {"none", OneOf(OpBit(Op::kWhere)), 0}};
  EXPECT_EQ(rules.root_ops(), OpBit(Op::kExp) | OpBit(Op::kSin) | OpBit(Op::kWhere));
  EXPECT_EQ(Apply(rules, Make(Op::kSin, {e_})), Text(e_));
  EXPECT_EQ(Apply(rules, Make(Op::kLog, {e_})), "");
  const Node* condition = Make(Op::kCmpLt, {a_, b_});
  EXPECT_EQ(Apply(rules, Make(Op::kWhere, {condition, e_, e_})), Text(Full(DType::kFloat32, 0)));
}

TEST_F(ApplyTest, SetsComposeInOrder) {
  const RuleSet left{{"left", m * n, m}}, right{{"right", m * n, n}};
  const RuleSet both{&right, &left};
  EXPECT_EQ(both.Apply(graph_, Make(Op::kMul, {a_, b_})).node, b_);
  EXPECT_EQ(both.rules().size(), 2u);
}

TEST_F(ApplyTest, CountsAttemptsPastTheEarlyRejection) {
  const RuleSet rules{{"neg-neg", -(-m), m}};
  std::vector<RuleCounts> counts(1);
  rules.Apply(graph_, Make(Op::kNeg, {a_}), &counts);
  EXPECT_EQ(counts[0].attempts, 0u);
  rules.Apply(graph_, Make(Op::kNeg, {Make(Op::kNeg, {a_})}), &counts);
  EXPECT_EQ(counts[0].attempts, 1u);
  EXPECT_EQ(counts[0].hits, 1u);
}

TEST(ConstantTest, HasOneSpellingPerShape) {
  Graph graph;
  const Scalar two = Scalar::Float(DType::kFloat32, 2);
  EXPECT_EQ(MakeConstant(graph, two, {})->op, Op::kConst);
  EXPECT_EQ(MakeConstant(graph, two, {1, 1})->op, Op::kReshape);
  EXPECT_EQ(MakeConstant(graph, two, {2, 1})->op, Op::kExpand);
  EXPECT_EQ(ConstantOf(MakeConstant(graph, two, {2, 0})), two);
  EXPECT_EQ(ConstantOf(graph.Param(0, DType::kFloat32, {})), std::nullopt);
}

}  // namespace
}  // namespace tensord
