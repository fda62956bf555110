// RuleSet: a table of rewrite rules, indexed by the op at the root of the left side.
//
//   static const RuleSet& rules = *new RuleSet{
//       // name          from                          to              when
//       {"add-zero",     m + 0,                        m},
//       {"nested-div",   FloorDiv(FloorDiv(m, c0), c1), FloorDiv(m, c0 * c1), BothPositive},
//   };
//
// Within an op the first row that matches wins. Commutative ops match in both orders. An integer on
// the right makes a constant of its neighbour's dtype, else the root's, in the root's shape; ops
// over constants fold. Immutable once built, so many threads may use one set.
#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"
#include "core/rewrite/pattern.h"

namespace tensord {

// What the letters of a left side stand for.
class Match {
 public:
  Match(Graph& graph, const Node* root) : graph_(graph), root_(root) {}

  Graph& graph() const { return graph_; }
  const Node* root() const { return root_; }
  const Node* operator[](Var letter) const { return bound_[letter.slot]; }
  // The value of a constant letter.
  Scalar Value(Var letter) const;
  int64_t Int(Var letter) const { return Value(letter).i; }

 private:
  friend class Matcher;
  Graph& graph_;
  const Node* root_;
  uint32_t is_bound_ = 0;
  std::array<const Node*, kMaxVars> bound_;
};

struct Rule {
  std::string_view name;
  Pattern from;
  Pattern to;
  bool (*when)(const Match&) = nullptr;
};

// How often each rule of a set was tried (past the early rejection) and how often it made a node.
struct RuleCounts {
  uint64_t attempts = 0;
  uint64_t hits = 0;
};

class RuleSet {
 public:
  RuleSet(std::initializer_list<Rule> rules);
  // The rows of these sets, one set after the other.
  RuleSet(std::initializer_list<const RuleSet*> sets);

  // What is wrong with a table: a name that occurs twice, a left side whose root isn't an op, a
  // right side with an unbound letter or an op that needs an attribute. The constructors check it.
  static absl::Status Check(const std::vector<Rule>& rules);

  struct Applied {
    const Node* node = nullptr;  // null: no rule applies
    int rule = -1;               // index in rules()
  };
  // The first rule that makes another node of `node`. `counts` may be null, else has one entry a
  // rule.
  Applied Apply(Graph& graph, const Node* node, std::vector<RuleCounts>* counts = nullptr) const;

  const std::vector<Rule>& rules() const { return rules_; }
  // The ops that some rule has at its root.
  OpSet root_ops() const { return root_ops_; }

 private:
  struct Row {
    int rule;
    OpSet needs;          // ops that must be among the sources
    bool needs_constant;  // one of kConstantOps must be
  };

  void Build();

  std::vector<Rule> rules_;
  std::array<std::vector<Row>, kNumOps> rows_;
  OpSet root_ops_;
};

}  // namespace tensord
