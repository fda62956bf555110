#include "core/rewrite/rewrite.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/status.h"

namespace tensord {
namespace {

// Small graphs may need more firings than their size says.
constexpr int64_t kFreeFirings = 1000;

class Driver {
 public:
  Driver(Graph& graph, const RuleSet& rules, const RewriteOptions& options)
      : graph_(graph), rules_(rules), options_(options), seen_(graph.size()) {}

  absl::StatusOr<const Node*> Run(const Node* root) {
    Push(root);
    while (!stack_.empty()) TD_RETURN_IF_ERROR(Step());
    return Final(root);
  }

 private:
  // A node whose form is being found: `current` is the last one, its sources are visited up to
  // `next`. Earlier forms wait in aliases_ from `first_alias` on.
  struct Frame {
    const Node* node;
    const Node* current;
    size_t next;
    size_t first_alias;
  };

  const Node* Final(const Node* node) const {
    return node->id < final_.size() ? final_[node->id] : nullptr;
  }

  void SetFinal(const Node* node, const Node* form) {
    if (node->id >= final_.size()) final_.resize(std::max<size_t>(graph_.size(), node->id + 1));
    final_[node->id] = form;
  }

  void Push(const Node* node) {
    if (Final(node) != nullptr) return;
    if ((node->below_ops & rules_.root_ops()) == 0) return SetFinal(node, node);
    if (node->id < seen_.size() && !seen_[node->id]) {
      seen_[node->id] = true;
      ++original_nodes_;
    }
    stack_.push_back({node, node, 0, aliases_.size()});
  }

  absl::Status Step() {
    Frame& frame = stack_.back();
    if (frame.next < frame.current->src.size()) {
      Push(frame.current->src[frame.next++]);  // may move the frame
      return absl::OkStatus();
    }
    absl::InlinedVector<const Node*, 4> src;
    bool changed = false;
    for (const Node* old : frame.current->src) {
      src.push_back(Final(old));
      changed |= src.back() != old;
    }
    if (changed) {
      const Node* rebuilt = graph_.WithSources(frame.current, src);
      Record({}, frame.current, rebuilt);
      Become(rebuilt);
      return absl::OkStatus();
    }
    const RuleSet::Applied applied = rules_.Apply(graph_, frame.current, options_.counts);
    if (applied.node == nullptr) {
      Finish(frame.current);
      return absl::OkStatus();
    }
    return Fire(applied);
  }

  absl::Status Fire(const RuleSet::Applied& applied) {
    const Node* old = stack_.back().current;
    const std::string_view rule = rules_.rules()[applied.rule].name;
    last_rules_[firings_ % last_rules_.size()] = rule;
    firings_ += 1;
    if (applied.node->dtype != old->dtype || !SameShape(applied.node, old) ||
        applied.node->lanes != old->lanes) {
      return Internal("rule '{}' changes the type of {}: {}x{} [{}] to {}x{} [{}]", rule,
                      Name(old->op), Name(old->dtype), old->lanes, fmt::join(old->shape, ","),
                      Name(applied.node->dtype), applied.node->lanes,
                      fmt::join(applied.node->shape, ","));
    }
    if (firings_ > kFreeFirings + options_.firings_per_node * original_nodes_) {
      return Internal(
          "rewriting does not end: {} firings on {} nodes; the last rules, latest last: {}",
          firings_, original_nodes_, LastRules());
    }
    Record(rule, old, applied.node);
    Become(applied.node);
    return absl::OkStatus();
  }

  void Become(const Node* form) {
    Frame& frame = stack_.back();
    aliases_.push_back(frame.current);
    if (const Node* known = Final(form); known != nullptr) return Finish(known);
    frame.current = form;
    frame.next = 0;
  }

  void Finish(const Node* form) {
    const Frame frame = stack_.back();
    stack_.pop_back();
    SetFinal(frame.node, form);
    SetFinal(form, form);
    for (size_t a = frame.first_alias; a < aliases_.size(); ++a) SetFinal(aliases_[a], form);
    aliases_.resize(frame.first_alias);
  }

  void Record(std::string_view rule, const Node* from, const Node* to) {
    if (options_.trace != nullptr) options_.trace->steps.push_back({rule, from, to});
  }

  std::string LastRules() const {
    std::string names;
    for (size_t i = 0; i < last_rules_.size(); ++i) {
      const std::string_view name = last_rules_[(firings_ + i) % last_rules_.size()];
      names += fmt::format("{}{}", i == 0 ? "" : ", ", name);
    }
    return names;
  }

  Graph& graph_;
  const RuleSet& rules_;
  const RewriteOptions& options_;
  std::vector<bool> seen_;  // by id, of the nodes that were there first
  int64_t original_nodes_ = 0;
  int64_t firings_ = 0;
  std::array<std::string_view, 8> last_rules_;
  std::vector<const Node*> final_;  // by node id
  std::vector<Frame> stack_;
  std::vector<const Node*> aliases_;
};

}  // namespace

std::vector<RewriteTrace::Step> RewriteTrace::HistoryOf(const Node* node) const {
  std::vector<Step> history;
  for (size_t i = steps.size(); i-- > 0;) {
    if (steps[i].to != node) continue;
    history.push_back(steps[i]);
    node = steps[i].from;
  }
  std::ranges::reverse(history);
  return history;
}

absl::StatusOr<std::vector<const Node*>> Rewrite(Graph& graph, absl::Span<const Node* const> roots,
                                                 const RuleSet& rules,
                                                 const RewriteOptions& options) {
  if (options.counts != nullptr && options.counts->size() < rules.rules().size()) {
    options.counts->resize(rules.rules().size());
  }
  Driver driver(graph, rules, options);
  std::vector<const Node*> result;
  result.reserve(roots.size());
  for (const Node* root : roots) {
    TD_ASSIGN_OR_RETURN(const Node* form, driver.Run(root));
    result.push_back(form);
  }
  return result;
}

std::string CountsReport(const RuleSet& rules, const std::vector<RuleCounts>& counts) {
  std::vector<size_t> order(std::min(rules.rules().size(), counts.size()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return counts[a].hits > counts[b].hits; });
  std::string report = fmt::format("{:<32} {:>10} {:>10}\n", "rule", "attempts", "hits");
  for (const size_t r : order) {
    report += fmt::format("{:<32} {:>10} {:>10}\n", rules.rules()[r].name, counts[r].attempts,
                          counts[r].hits);
  }
  return report;
}

}  // namespace tensord
