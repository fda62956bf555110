#include "server/session/updates.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "core/ir/substitute.h"

namespace tensord {

namespace {

// An output, and the inputs that it reads.
struct Update {
  size_t output;
  size_t overwrites;
  absl::flat_hash_set<size_t> reads;
};

Updates Apart(const Program& program, const std::vector<Update>& some) {
  Updates updates;
  std::vector<const Node*> roots;
  absl::flat_hash_set<size_t> used;
  for (const Update& update : some) {
    updates.outputs.push_back(update.output);
    roots.push_back(program.outputs[update.output].value);
    used.insert(update.overwrites);
    used.insert(update.reads.begin(), update.reads.end());
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
  for (size_t i = 0; i < some.size(); ++i) {
    const auto at = std::ranges::lower_bound(updates.inputs, some[i].overwrites);
    made.outputs.push_back({.value = copies[i], .overwrites = at - updates.inputs.begin()});
  }
  const size_t before = updates.outputs.size() + updates.inputs.size();
  made.variables.assign(copies.begin() + static_cast<int64_t>(before), copies.end());
  return updates;
}

}  // namespace

bool HasUpdatesApart(const Program& program) {
  return program.outputs.size() > 1 &&
         std::ranges::any_of(program.outputs, [](const Program::Output& output) {
           return output.overwrites != Program::kFresh;
         });
}

std::vector<Updates> UpdatesOf(const Program& program) {
  std::vector<Update> left;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Program::Output& output = program.outputs[i];
    if (output.overwrites == Program::kFresh) continue;
    Update& update = left.emplace_back(
        Update{.output = i, .overwrites = static_cast<size_t>(output.overwrites), .reads = {}});
    for (const Node* node : TopologicalOrder({&output.value, 1})) {
      if (node->op == Op::kParam) update.reads.insert(static_cast<size_t>(node->slot()));
    }
  }
  std::vector<Updates> all;
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, [&left](const Update& update) {
      return std::ranges::none_of(left, [&update](const Update& other) {
        return &other != &update && other.reads.contains(update.overwrites);
      });
    });
    if (next == left.end()) {  // they go round in a circle
      all.push_back(Apart(program, left));
      break;
    }
    all.push_back(Apart(program, {*next}));
    left.erase(next);
  }
  return all;
}

}  // namespace tensord
