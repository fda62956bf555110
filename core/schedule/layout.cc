#include "core/schedule/layout.h"

#include <algorithm>
#include <functional>

#include "core/ir/affine.h"
#include "core/ir/substitute.h"

namespace tensord {
namespace {

// Lanes that a vector axis should fill; wider vectors are several of these.
constexpr int64_t kLanes = 16;

void Visit(const Node* root, absl::flat_hash_set<const Node*>& seen,
           const std::function<void(const Node*)>& visit) {
  if (!seen.insert(root).second) return;
  visit(root);
  for (const Node* src : root->src) Visit(src, seen, visit);
}

const Node* FindProduct(const LoweredUnit& unit) {
  const Node* found = nullptr;
  absl::flat_hash_set<const Node*> seen;
  for (const LoweredUnit::Output& output : unit.outputs) {
    Visit(output.value, seen, [&](const Node* node) {
      if (node->op != Op::kFold || node->reduce_kind() != ReduceKind::kAdd) return;
      const Node* body = node->src[0];
      if (body->op == Op::kWhere) body = body->src[1];
      if (body->op == Op::kMul && IsFloat(body->dtype)) found = body;
    });
  }
  return found;
}

struct Use {
  const Access* access;
  std::optional<int64_t> axis;  // that moves by one with the range; none if it is not that simple
};

// How the tensors under `factor` are read along `range`; empty if none depends on it.
std::vector<Use> UsesOf(const LoweredUnit& unit, const Node* factor, const Node* range) {
  absl::flat_hash_set<const Node*> below;
  Visit(factor, below, [](const Node*) {});
  std::vector<Use> uses;
  for (const Access& access : unit.accesses) {
    if (!below.contains(access.load)) continue;
    Use use{&access, std::nullopt};
    int axes = 0;
    bool simple = true;
    for (size_t axis = 0; axis < access.index.size(); ++axis) {
      absl::flat_hash_set<const Node*> parts;
      Visit(access.index[axis], parts, [](const Node*) {});
      if (!parts.contains(range)) continue;
      ++axes;
      const Affine affine = ToAffine(access.index[axis]);
      simple &= affine.CoefficientOf(range) == 1;
      use.axis = static_cast<int64_t>(axis);
    }
    if (axes == 0) continue;
    if (axes != 1 || !simple) use.axis = std::nullopt;
    uses.push_back(use);
  }
  return uses;
}

// How much of a vector an axis of this size fills.
double Fill(int64_t size) {
  if (size >= kLanes) return static_cast<double>(size / kLanes * kLanes) / size;
  return static_cast<double>(size) / (2 * kLanes);
}

}  // namespace

std::vector<LayoutVote> VotesOf(const LoweredUnit& unit) {
  const Node* product = FindProduct(unit);
  if (product == nullptr) return {};
  double work = 1;
  absl::flat_hash_set<const Node*> below;
  Visit(product, below, [&](const Node* node) {
    if (node->op == Op::kRange) work *= static_cast<double>(node->range_size());
  });

  double best_score = 0;
  const Node* best_range = nullptr;
  std::vector<LayoutVote> votes;
  for (const Node* range : unit.loops) {
    const std::vector<Use> uses[2] = {UsesOf(unit, product->src[0], range),
                                      UsesOf(unit, product->src[1], range)};
    if (uses[0].empty() == uses[1].empty()) continue;
    const std::vector<Use>& own = uses[0].empty() ? uses[1] : uses[0];
    if (!std::all_of(own.begin(), own.end(), [](const Use& use) { return use.axis.has_value(); })) {
      continue;
    }
    double score = Fill(range->range_size());
    bool contiguous = true;
    double elements = 0;
    for (const Use& use : own) {
      contiguous &= *use.axis == use.access->tensor->rank() - 1;
      elements += static_cast<double>(NumElements(use.access->tensor->shape));
    }
    if (contiguous) score += 0.2;
    // Smaller factors are cheaper to bring into order.
    score -= 0.1 * std::min(1.0, elements * 64 / work);
    if (score <= best_score) continue;
    best_score = score;
    best_range = range;
    votes.clear();
    for (const Use& use : own) votes.push_back({use.access->tensor, *use.axis, work});
  }
  if (best_range == nullptr) return {};
  for (const LoweredUnit::Output& output : unit.outputs) {
    for (size_t axis = 0; axis < output.index.size(); ++axis) {
      if (output.index[axis] == best_range) {
        votes.push_back({output.tensor, static_cast<int64_t>(axis), work / 4});
      }
    }
  }
  return votes;
}

// The conditions for an access to be inside of its tensor.
static absl::flat_hash_set<const Node*> InsideConditions(Graph& graph, const Access& access) {
  absl::flat_hash_set<const Node*> inside;
  for (size_t axis = 0; axis < access.index.size(); ++axis) {
    const Node* index = access.index[axis];
    const Node* size = graph.Index(access.tensor->shape[axis]);
    for (const Node* bound : {graph.Make(Op::kCmpLt, {index, size}),
                              graph.Make(Op::kCmpLt, {graph.Index(-1), index})}) {
      for (const Node* condition : Conjuncts(bound)) inside.insert(condition);
    }
  }
  return inside;
}

std::optional<GuardedProduct> FindGuardedProduct(LoweredUnit& unit) {
  const Node* product = FindProduct(unit);
  if (product == nullptr) return std::nullopt;
  const Node* guarded = nullptr;
  absl::flat_hash_set<const Node*> seen;
  for (const LoweredUnit::Output& output : unit.outputs) {
    Visit(output.value, seen, [&](const Node* node) {
      if (node->op == Op::kWhere && node->src[1] == product) guarded = node;
    });
  }
  absl::flat_hash_set<const Node*> around;
  if (guarded != nullptr) {
    for (const Node* condition : Conjuncts(guarded->src[0])) around.insert(condition);
  }
  for (const Access& access : unit.accesses) {
    const Node* load = access.load;
    if (load != product->src[0] && load != product->src[1]) continue;
    absl::flat_hash_set<const Node*> guard = around;
    if (load->src.size() == 3) {
      for (const Node* condition : Conjuncts(load->src[2])) guard.insert(condition);
    }
    if (guard.empty() || guard != InsideConditions(unit.graph, access)) continue;
    const auto reads =
        std::count_if(unit.accesses.begin(), unit.accesses.end(),
                      [&](const Access& other) { return other.tensor == access.tensor; });
    if (reads != 1) continue;  // another read may go further outside
    GuardedProduct found{access.tensor, {}};
    bool small = true;
    for (size_t axis = 0; axis < access.index.size(); ++axis) {
      const Node* index = access.index[axis];
      const int64_t size = access.tensor->shape[axis];
      const bool is_data = (index->below_ops & OpBit(Op::kLoad)) != 0;
      small &= !is_data && index->lo >= -size && index->hi < 2 * size;
      if (small) found.margin.push_back(std::max<int64_t>({-index->lo, index->hi - size + 1, 0}));
    }
    if (small) return found;
  }
  return std::nullopt;
}

void DropGuards(LoweredUnit& unit,
                const absl::flat_hash_map<const Node*, std::vector<int64_t>>& margins) {
  absl::flat_hash_map<const Node*, absl::flat_hash_set<const Node*>> inside;  // by load
  for (const Access& access : unit.accesses) {
    if (margins.contains(access.tensor)) {
      inside[access.load] = InsideConditions(unit.graph, access);
    }
  }
  std::vector<const Node*> values;
  for (const LoweredUnit::Output& output : unit.outputs) values.push_back(output.value);
  // The innermost guards first: one goes around another, and around the product.
  for (bool changed = true; changed;) {
    ReplacementMap unguarded;
    for (const Node* node : TopologicalOrder(values)) {
      if (node->op != Op::kWhere || !node->src[2]->IsConst() || node->src[2]->ints[0] != 0)
        continue;
      const Node* value = node->src[1];
      const bool is_product = value->op == Op::kMul;
      for (const Node* load : is_product ? value->src : absl::MakeConstSpan(&value, 1)) {
        auto found = inside.find(load);
        if (found == inside.end()) continue;
        const std::vector<const Node*> guard = Conjuncts(node->src[0]);
        if (std::all_of(guard.begin(), guard.end(),
                        [&](const Node* condition) { return found->second.contains(condition); })) {
          unguarded[node] = {value};
        }
      }
    }
    changed = !unguarded.empty();
    if (changed) values = Substitute(unit.graph, values, unguarded);
  }
  for (size_t i = 0; i < values.size(); ++i) unit.outputs[i].value = values[i];
}

Layout WithInnermost(Shape shape, int64_t axis) {
  Layout layout{std::vector<int64_t>(shape.size())};
  int64_t stride = 1;
  if (!shape.empty()) {
    layout.strides[axis] = 1;
    stride = shape[axis];
  }
  for (size_t i = shape.size(); i-- > 0;) {
    if (static_cast<int64_t>(i) == axis) continue;
    layout.strides[i] = stride;
    stride *= shape[i];
  }
  return layout;
}

Layout Blocked(Shape shape, int64_t axis, int64_t block) {
  Layout layout{std::vector<int64_t>(shape.size()), axis, block};
  layout.strides[axis] = 1;
  int64_t stride = block;
  for (size_t i = shape.size(); i-- > 0;) {
    if (static_cast<int64_t>(i) == axis) continue;
    layout.strides[i] = stride;
    stride *= shape[i];
  }
  layout.block_stride = stride;
  return layout;
}

}  // namespace tensord
