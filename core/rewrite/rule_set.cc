#include "core/rewrite/rule_set.h"

#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>

#include <bit>
#include <utility>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/rewrite/constant.h"

namespace tensord {
namespace {

bool InDomain(Domain domain, const Node* node) {
  switch (domain) {
    case Domain::kAny:
      return true;
    case Domain::kIndex:
      return node->dtype == DType::kIndex;
    case Domain::kInt:
      return IsInt(node->dtype);
    case Domain::kFloat:
      return IsFloat(node->dtype);
    case Domain::kBool:
      return node->dtype == DType::kBool;
    case Domain::kConstant:
      return ConstantOf(node).has_value();
  }
  return false;
}

uint32_t VarsOf(const Pattern& pattern) {
  uint32_t vars = pattern.kind == Pattern::Kind::kVar ? 1u << pattern.var.slot : 0;
  for (const Pattern& src : pattern.src) vars |= VarsOf(src);
  return vars;
}

Op OnlyOp(const Pattern& pattern) { return static_cast<Op>(pattern.ops.First()); }

absl::Status CheckRightSide(const Pattern& to) {
  if (to.kind == Pattern::Kind::kCall) return InvalidArgument("Call must be the whole right side");
  if (to.kind != Pattern::Kind::kOp) return absl::OkStatus();
  if (to.ops.size() != 1 || to.any_src) {
    return InvalidArgument("the right side has a set of ops, needs one");
  }
  const OpInfo& info = Info(OnlyOp(to));
  if (info.attr != AttrKind::kNone || info.num_src != static_cast<int>(to.src.size())) {
    return InvalidArgument("{} on the right side needs {} sources and no attribute; use Call",
                           info.name, info.num_src);
  }
  for (const Pattern& src : to.src) TD_RETURN_IF_ERROR(CheckRightSide(src));
  return absl::OkStatus();
}

absl::Status CheckRule(const Rule& rule) {
  if (rule.from.kind != Pattern::Kind::kOp || rule.from.ops == 0) {
    return InvalidArgument("the root of the left side is not an op");
  }
  if (rule.to.kind == Pattern::Kind::kCall) return absl::OkStatus();
  if ((VarsOf(rule.to) & ~VarsOf(rule.from)) != 0) {
    return InvalidArgument("the right side has a letter that the left side doesn't bind");
  }
  return CheckRightSide(rule.to);
}

// Builds a right side over the bound letters.
class Builder {
 public:
  explicit Builder(const Match& match) : match_(match), graph_(match.graph()) {}

  const Node* Build(const Pattern& to, DType literal_dtype) {
    if (to.kind == Pattern::Kind::kVar) return match_[to.var];
    if (to.IsLiteral()) return MakeConstantLike(graph_, to.ValueIn(literal_dtype), match_.root());
    return BuildOp(to);
  }

 private:
  const Node* BuildOp(const Pattern& to) {
    const Op op = OnlyOp(to);
    absl::InlinedVector<const Node*, 3> src(to.src.size(), nullptr);
    for (size_t s = 0; s < src.size(); ++s) {
      if (!to.src[s].IsLiteral()) src[s] = Build(to.src[s], match_.root()->dtype);
    }
    for (size_t s = 0; s < src.size(); ++s) {
      if (src[s] == nullptr) src[s] = Build(to.src[s], NeighbourDType(op, src, s));
    }
    const Node* made = graph_.Make({.op = op, .src = src, .dtype = match_.root()->dtype});
    return FoldConstants(made);
  }

  // The dtype of a literal among the sources of an op.
  DType NeighbourDType(Op op, absl::Span<const Node* const> src, size_t self) const {
    if (op == Op::kWhere && self == 0) return DType::kBool;
    for (size_t s = op == Op::kWhere ? 1 : 0; s < src.size(); ++s) {
      if (src[s] != nullptr) return src[s]->dtype;
    }
    return match_.root()->dtype;
  }

  // Graph folds scalars; these are the constants with a shape or lanes.
  const Node* FoldConstants(const Node* made) const {
    if (made->shape.empty() && made->lanes == 1) return made;
    absl::InlinedVector<Scalar, 3> values;
    for (const Node* src : made->src) {
      const std::optional<Scalar> value = ConstantOf(src);
      if (!value) return made;
      values.push_back(*value);
    }
    const std::optional<Scalar> result = EvalOp(made->op, made->dtype, values);
    return result ? MakeConstantLike(graph_, *result, made) : made;
  }

  const Match& match_;
  Graph& graph_;
};

}  // namespace

Scalar Match::Value(Var letter) const { return *ConstantOf(bound_[letter.slot]); }

// Finds bindings under which a rule's left side is the node, and for the first ones that `when`
// accepts makes the right side.
class Matcher {
 public:
  Matcher(const Rule& rule, Graph& graph, const Node* node) : rule_(rule), match_(graph, node) {}

  const Node* Run() {
    const Goal root{&rule_.from, match_.root(), nullptr};
    return Solve(&root);
  }

 private:
  // What is still to be matched, as a list on the call stack; commutative ops branch on it.
  struct Goal {
    const Pattern* pattern;
    const Node* node;
    const Goal* next;
  };

  const Node* Solve(const Goal* goal) {
    if (goal == nullptr) return MakeRightSide();
    const Pattern& pattern = *goal->pattern;
    const Node* node = goal->node;
    switch (pattern.kind) {
      case Pattern::Kind::kVar:
        return SolveVar(pattern.var, node, goal->next);
      case Pattern::Kind::kInt:
      case Pattern::Kind::kFloat: {
        if (pattern.kind == Pattern::Kind::kFloat && !IsFloat(node->dtype)) return nullptr;
        const std::optional<Scalar> value = ConstantOf(node);
        if (!value || !(*value == pattern.ValueIn(value->dtype))) return nullptr;
        return Solve(goal->next);
      }
      case Pattern::Kind::kOp:
        return SolveOp(pattern, node, goal->next);
      case Pattern::Kind::kCall:
        return nullptr;
    }
    return nullptr;
  }

  const Node* SolveVar(Var var, const Node* node, const Goal* next) {
    const uint32_t bit = 1u << var.slot;
    if ((match_.is_bound_ & bit) != 0) {
      return match_.bound_[var.slot] == node ? Solve(next) : nullptr;
    }
    if (!InDomain(var.domain, node)) return nullptr;
    match_.is_bound_ |= bit;
    match_.bound_[var.slot] = node;
    const Node* result = Solve(next);
    if (result == nullptr) match_.is_bound_ &= ~bit;
    return result;
  }

  const Node* SolveOp(const Pattern& pattern, const Node* node, const Goal* next) {
    if (!In(node->op, pattern.ops)) return nullptr;
    if (pattern.any_src) return Solve(next);
    const size_t count = pattern.src.size();
    if (node->src.size() != count || count > 3) return nullptr;
    if (count == 0) return Solve(next);
    std::array<Goal, 3> goals;
    for (size_t s = 0; s < count; ++s) {
      goals[s] = {&pattern.src[s], node->src[s], s + 1 < count ? &goals[s + 1] : next};
    }
    const Node* result = Solve(&goals[0]);
    if (result != nullptr || !In(node->op, CommutativeOps()) || node->src[0] == node->src[1]) {
      return result;
    }
    std::swap(goals[0].node, goals[1].node);
    return Solve(&goals[0]);
  }

  // Null also if the right side is the node itself: then the next rule may have its try.
  const Node* MakeRightSide() {
    if (rule_.when != nullptr && !rule_.when(match_)) return nullptr;
    const Node* made = rule_.to.kind == Pattern::Kind::kCall
                           ? rule_.to.call(match_)
                           : Builder(match_).Build(rule_.to, match_.root()->dtype);
    return made == match_.root() ? nullptr : made;
  }

  const Rule& rule_;
  Match match_;
};

RuleSet::RuleSet(std::initializer_list<Rule> rules) : rules_(rules) { Build(); }

RuleSet::RuleSet(std::initializer_list<const RuleSet*> sets) {
  for (const RuleSet* set : sets) {
    rules_.insert(rules_.end(), set->rules_.begin(), set->rules_.end());
  }
  Build();
}

absl::Status RuleSet::Check(const std::vector<Rule>& rules) {
  absl::flat_hash_set<absl::string_view> names;
  for (const Rule& rule : rules) {
    if (!names.insert({rule.name.data(), rule.name.size()}).second) {
      return InvalidArgument("rule '{}': the name occurs twice", rule.name);
    }
    TD_RETURN_IF_ERROR(CheckRule(rule), "rule '{}'", rule.name);
  }
  return absl::OkStatus();
}

void RuleSet::Build() {
  const absl::Status status = Check(rules_);
  TD_CHECK(status.ok(), Message(status));
  for (int r = 0; r < static_cast<int>(rules_.size()); ++r) {
    const Pattern& from = rules_[r].from;
    Row row{.rule = r, .needs = {}, .needs_constant = false};
    for (const Pattern& src : from.src) {
      if (src.kind == Pattern::Kind::kOp && src.ops.size() == 1) row.needs |= src.ops;
      if (src.IsLiteral()) row.needs_constant = true;
      if (src.kind == Pattern::Kind::kVar && src.var.domain == Domain::kConstant) {
        row.needs_constant = true;
      }
    }
    root_ops_ |= from.ops;
    for (OpSet ops = from.ops; ops != 0; ops = ops.WithoutFirst()) {
      rows_[ops.First()].push_back(row);
    }
  }
}

RuleSet::Applied RuleSet::Apply(Graph& graph, const Node* node,
                                std::vector<RuleCounts>* counts) const {
  for (const Row& row : rows_[static_cast<int>(node->op)]) {
    if ((row.needs & ~node->src_ops) != 0) continue;
    if (row.needs_constant && (node->src_ops & kConstantOps) == 0) continue;
    const Node* made = Matcher(rules_[row.rule], graph, node).Run();
    if (counts != nullptr) {
      (*counts)[row.rule].attempts += 1;
      if (made != nullptr) (*counts)[row.rule].hits += 1;
    }
    if (made != nullptr) return {made, row.rule};
  }
  return {};
}

}  // namespace tensord
