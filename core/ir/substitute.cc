#include "core/ir/substitute.h"

#include <absl/container/inlined_vector.h>

namespace tensord {
namespace {

// What `roots` reach without going on below mapped nodes, sources before users.
std::vector<const Node*> OrderAbove(absl::Span<const Node* const> roots,
                                    const ReplacementMap& map) {
  std::vector<const Node*> order;
  absl::flat_hash_map<const Node*, bool> finished;
  std::vector<const Node*> stack(roots.rbegin(), roots.rend());
  while (!stack.empty()) {
    const Node* node = stack.back();
    const auto [state, is_new] = finished.try_emplace(node, false);
    if (is_new && !map.contains(node)) {
      for (size_t i = node->src.size(); i-- > 0;) {
        if (!finished.contains(node->src[i])) stack.push_back(node->src[i]);
      }
      continue;
    }
    stack.pop_back();
    if (state->second) continue;
    state->second = true;
    order.push_back(node);
  }
  return order;
}

}  // namespace

// Ops that name Ranges beside their operands.
static constexpr auto kHoldRanges = OpBit(Op::kFold) | OpBit(Op::kRunning) | OpBit(Op::kModify);

std::vector<const Node*> Substitute(Graph& graph, absl::Span<const Node* const> roots,
                                    const ReplacementMap& map) {
  absl::flat_hash_map<const Node*, const Node*> done;
  for (const Node* node : OrderAbove(roots, map)) {
    const Node*& result = done[node];
    if (auto found = map.find(node); found != map.end()) {
      result = found->second.value;
      continue;
    }
    absl::InlinedVector<const Node*, 4> src;
    bool changed = false;
    for (size_t i = 0; i < node->src.size(); ++i) {
      const Node* old = node->src[i];
      const size_t operands = node->op == Op::kModify ? 4 : 1;
      if (In(node->op, kHoldRanges) && i >= operands) {
        auto found = map.find(old);
        if (found == map.end()) {
          src.push_back(old);
        } else {
          src.insert(src.end(), found->second.ranges.begin(), found->second.ranges.end());
          changed = true;
        }
        continue;
      }
      src.push_back(done.at(old));
      changed |= src.back() != old;
    }
    if (!changed) {
      result = node;
    } else if (node->op == Op::kFold && src.size() == 1) {
      result = src[0];
    } else {
      result = graph.WithSources(node, src);
    }
  }
  std::vector<const Node*> results;
  for (const Node* root : roots) results.push_back(done.at(root));
  return results;
}

}  // namespace tensord
