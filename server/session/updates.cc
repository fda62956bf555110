#include "server/session/updates.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "core/ir/substitute.h"

namespace tensord {

bool HasUpdatesApart(const Program& program) {
  const auto overwrites = [](const Program::Output& output) {
    return output.overwrites != Program::kFresh;
  };
  return std::ranges::any_of(program.outputs, overwrites) &&
         !std::ranges::all_of(program.outputs, overwrites);
}

Updates UpdatesOf(const Program& program) {
  Updates updates;
  std::vector<const Node*> roots;
  absl::flat_hash_set<size_t> used;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Program::Output& output = program.outputs[i];
    if (output.overwrites == Program::kFresh) continue;
    updates.outputs.push_back(i);
    roots.push_back(output.value);
    used.insert(static_cast<size_t>(output.overwrites));
  }
  for (const Node* node : TopologicalOrder(roots)) {
    if (node->op == Op::kParam) used.insert(static_cast<size_t>(node->slot()));
  }
  updates.inputs.assign(used.begin(), used.end());
  std::ranges::sort(updates.inputs);

  for (size_t slot : updates.inputs) roots.push_back(program.inputs[slot]);
  roots.insert(roots.end(), program.variables.begin(), program.variables.end());
  Program& made = updates.program;
  made.name = program.name;
  made.devices = program.devices;
  made.fast_math = program.fast_math;
  std::vector<const Node*> copies = CopyTo(made.graph, roots);
  // Inputs are numbered without gaps.
  ReplacementMap renumbered;
  for (size_t slot = 0; slot < updates.inputs.size(); ++slot) {
    const Node* old = copies[updates.outputs.size() + slot];
    std::vector<int64_t> ints(old->ints.begin(), old->ints.end());
    ints[0] = static_cast<int64_t>(slot);
    const Node* input =
        made.graph.Make({.op = Op::kParam, .src = old->src, .ints = ints, .dtype = old->dtype});
    renumbered[old] = {input};
    made.inputs.push_back(input);
  }
  copies = Substitute(made.graph, copies, renumbered);
  for (size_t i = 0; i < updates.outputs.size(); ++i) {
    const auto slot = static_cast<size_t>(program.outputs[updates.outputs[i]].overwrites);
    const auto at = std::ranges::lower_bound(updates.inputs, slot) - updates.inputs.begin();
    made.outputs.push_back({.value = copies[i], .overwrites = at});
  }
  const size_t before = updates.outputs.size() + updates.inputs.size();
  made.variables.assign(copies.begin() + static_cast<int64_t>(before), copies.end());
  return updates;
}

}  // namespace tensord
