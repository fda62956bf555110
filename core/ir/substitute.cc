#include "core/ir/substitute.h"

#include <absl/container/inlined_vector.h>

namespace tensord {

std::vector<const Node*> Substitute(Graph& graph, absl::Span<const Node* const> roots,
                                    const ReplacementMap& map) {
  absl::flat_hash_map<const Node*, const Node*> done;
  for (const Node* node : TopologicalOrder(roots)) {
    const Node*& result = done[node];
    if (auto found = map.find(node); found != map.end()) {
      result = found->second.value;
      continue;
    }
    absl::InlinedVector<const Node*, 4> src;
    bool changed = false;
    for (size_t i = 0; i < node->src.size(); ++i) {
      const Node* old = node->src[i];
      if (node->op == Op::kFold && i > 0) {
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
