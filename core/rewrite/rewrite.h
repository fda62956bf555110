// Rewrite: applies a rule set to everything that some roots reach, until nothing changes.
//
//   TD_ASSIGN_OR_RETURN(roots, Rewrite(graph, roots, AlgebraRules()));
//
// Sources come first, and a node that a rule made is visited like any other, so the result is a
// fixed point: no rule applies anywhere in it. Takes no stack in proportion to the graph's depth.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"
#include "core/rewrite/rule_set.h"

namespace tensord {

// Which rules made what, in the order of firing.
struct RewriteTrace {
  struct Step {
    std::string_view rule;  // empty: the node was rebuilt because its sources changed
    const Node* from;
    const Node* to;
  };
  std::vector<Step> steps;

  // The steps that led to `node`, the first one first.
  std::vector<Step> HistoryOf(const Node* node) const;
};

struct RewriteOptions {
  RewriteTrace* trace = nullptr;              // appended to
  std::vector<RuleCounts>* counts = nullptr;  // one entry a rule, added to; resized if needed
  // Rules that go in circles are stopped after so many firings for each node that was there first.
  int64_t firings_per_node = 64;
};

// The roots' new forms, in order. Internal: the rules don't come to an end or change a node's type,
// which is a fault of the rules; the message names them.
absl::StatusOr<std::vector<const Node*>> Rewrite(Graph& graph, absl::Span<const Node* const> roots,
                                                 const RuleSet& rules,
                                                 const RewriteOptions& options = {});

// A table of rules by hits: name, attempts, hits.
std::string CountsReport(const RuleSet& rules, const std::vector<RuleCounts>& counts);

}  // namespace tensord
