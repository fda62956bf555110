// Random index expressions over a few small ranges and a variable, with their values at every point
// by the way they were built: for tests of the normal form and of what is proven about indices.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace tensord {

class IndexSpace {
 public:
  // One value for each point of the ranges' product.
  using Values = std::vector<int64_t>;

  struct Expression {
    const Node* node;
    Values values;  // by definition, from the way it was built
    std::string text;
  };

  IndexSpace(Graph& graph, std::mt19937& random);

  Expression Random(int depth);
  Expression Leaf();
  Expression Constant(int64_t value);
  Expression Combine(Op op, const Expression& a, const Expression& b);

  // The values of the node that Graph made, and with them those of all below it.
  const Values& Evaluate(const Node* root);
  // "" if the node has the values of the expression, and it and all below it values that their
  // intervals hold; else what is wrong with the smallest expression made so far that is.
  std::string Problem(const Expression& root);

  size_t points() const { return points_; }

 private:
  size_t Below(size_t n) { return random_() % n; }
  std::string ProblemOf(const Expression& expression);
  void AddLeaf(const Node* node, int64_t low, int64_t size, std::string name, size_t& points);

  Graph& graph_;
  std::mt19937& random_;
  size_t points_ = 0;
  std::vector<Expression> leaves_;
  std::vector<Expression> made_;  // by Combine, smaller ones first
  absl::flat_hash_map<const Node*, Values> values_;
};

}  // namespace tensord
