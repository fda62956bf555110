#include "core/rules/simplify.h"

#include "core/rules/rules.h"

namespace tensord {

const RuleSet& SimplifyRules() {
  // Constants first: they decide the most with the least.
  static const RuleSet& rules = *new RuleSet{&ConstantRules(), &MovementRules(), &FloatRules(),
                                             &IntRules(),      &LogicRules(),    &CastRules()};
  return rules;
}

absl::StatusOr<std::vector<const Node*>> Simplify(Graph& graph, absl::Span<const Node* const> roots,
                                                  const RewriteOptions& options) {
  return Rewrite(graph, roots, SimplifyRules(), options);
}

absl::StatusOr<std::vector<const Node*>> SimplifyForSchedule(Graph& graph,
                                                             absl::Span<const Node* const> roots,
                                                             bool fast_math,
                                                             const RewriteOptions& options) {
  static const RuleSet& strict = *new RuleSet{&LowerTensorRules(), &SimplifyRules()};
  static const RuleSet& fast = *new RuleSet{&strict, &FastMathRules()};
  return Rewrite(graph, roots, fast_math ? fast : strict, options);
}

}  // namespace tensord
