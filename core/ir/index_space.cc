#include "core/ir/index_space.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "core/ir/eval.h"

namespace tensord {

IndexSpace::IndexSpace(Graph& graph, std::mt19937& random) : graph_(graph), random_(random) {
  size_t points = 1;
  for (int64_t id = 0; id < 3; ++id) {
    const int64_t size = 1 + static_cast<int64_t>(Below(6));
    AddLeaf(graph.Range(id, size, RangeKind::kLoop), 0, size, "r" + std::to_string(id), points);
  }
  const int64_t low = static_cast<int64_t>(Below(7)) - 3;
  const int64_t size = 1 + static_cast<int64_t>(Below(4));
  AddLeaf(graph.Variable("v", low, low + size - 1, DType::kIndex), low, size, "v", points);
  for (Expression& leaf : leaves_) {
    const Values pattern = leaf.values;  // of one period; repeat to all points
    leaf.values.resize(points);
    for (size_t p = 0; p < points; ++p) leaf.values[p] = pattern[p % pattern.size()];
    values_[leaf.node] = leaf.values;
  }
  points_ = points;
}

IndexSpace::Expression IndexSpace::Leaf() {
  if (Below(4) == 0) return Constant(static_cast<int64_t>(Below(41)) - 20);
  return leaves_[Below(leaves_.size())];
}

IndexSpace::Expression IndexSpace::Constant(int64_t value) {
  return {graph_.Index(value), Values(points_, value), std::to_string(value)};
}

IndexSpace::Expression IndexSpace::Random(int depth) {
  if (depth == 0 || Below(8) == 0) return Leaf();
  constexpr int64_t kDivisors[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24};
  constexpr int64_t kFactors[] = {-12, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 20};
  const auto constant_of = [&](const auto& list) { return Constant(list[Below(std::size(list))]); };
  switch (Below(12)) {
    case 10:
    case 11: {
      // What flattened and tiled indices look like.
      Expression sum = constant_of(kFactors);
      for (size_t terms = 1 + Below(4); terms > 0; --terms) {
        const Expression term = Combine(Op::kMul, Random(depth / 3), constant_of(kFactors));
        sum = Combine(Op::kAdd, sum, term);
      }
      return Combine(Below(2) == 0 ? Op::kFloorDiv : Op::kFloorMod, sum, constant_of(kDivisors));
    }
    case 0:
    case 1:
    case 2:
      return Combine(Op::kAdd, Random(depth - 1), Random(depth - 1));
    case 3:
      return Combine(Op::kSub, Random(depth - 1), Random(depth - 1));
    case 4:
    case 5:
      return Combine(Op::kMul, Random(depth - 1), constant_of(kFactors));
    case 6:
    case 7:
      return Combine(Op::kFloorDiv, Random(depth - 1), constant_of(kDivisors));
    case 8:
      return Combine(Op::kFloorMod, Random(depth - 1), constant_of(kDivisors));
    default:
      return Combine(Below(2) == 0 ? Op::kMax : Op::kMin, Random(depth - 1), Random(depth - 1));
  }
}

IndexSpace::Expression IndexSpace::Combine(Op op, const Expression& a, const Expression& b) {
  Expression result{graph_.Make(op, {a.node, b.node}), {}, ""};
  result.text = std::string(Name(op)) + "(" + a.text + ", " + b.text + ")";
  for (size_t p = 0; p < points_; ++p) {
    const Scalar src[] = {Scalar::Int(a.node->dtype, a.values[p]),
                          Scalar::Int(b.node->dtype, b.values[p])};
    result.values.push_back(EvalOp(op, result.node->dtype, src)->i);
  }
  made_.push_back(result);
  return result;
}

const IndexSpace::Values& IndexSpace::Evaluate(const Node* root) {
  for (const Node* node : TopologicalOrder({root})) {
    if (values_.contains(node)) continue;
    Values values(points_);
    for (size_t p = 0; p < points_; ++p) {
      std::array<Scalar, 3> src;
      for (size_t s = 0; s < node->src.size(); ++s) {
        src[s] = Scalar::Int(node->src[s]->dtype, values_.at(node->src[s])[p]);
      }
      values[p] = node->IsConst()
                      ? node->Int()
                      : EvalOp(node->op, node->dtype, {src.data(), node->src.size()})->i;
    }
    values_[node] = std::move(values);
  }
  return values_.at(root);
}

std::string IndexSpace::Problem(const Expression& root) {
  const std::string problem = ProblemOf(root);
  if (problem.empty()) return "";
  for (const Expression& expression : made_) {
    if (std::string smaller = ProblemOf(expression); !smaller.empty()) return smaller;
  }
  return problem;
}

std::string IndexSpace::ProblemOf(const Expression& expression) {
  if (Evaluate(expression.node) != expression.values) return "other values: " + expression.text;
  for (const Node* node : TopologicalOrder({expression.node})) {
    for (const int64_t value : Evaluate(node)) {
      if (value >= node->lo && value <= node->hi) continue;
      return fmt::format("{} is {}, outside of [{}, {}] in {}", Name(node->op), value, node->lo,
                         node->hi, expression.text);
    }
  }
  return "";
}

// A leaf that counts `size` values up from `low`, each for all points of the
// leaves before it.
void IndexSpace::AddLeaf(const Node* node, int64_t low, int64_t size, std::string name,
                         size_t& points) {
  Values values;
  for (int64_t value = low; value < low + size; ++value) values.insert(values.end(), points, value);
  leaves_.push_back({node, std::move(values), std::move(name)});
  points *= static_cast<size_t>(size);
}

}  // namespace tensord
