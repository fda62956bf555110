#include "core/codegen/turn_guards.h"

#include <algorithm>

namespace tensord {
namespace {

// Numbers that are positive where the loop has turns, and might not be: its end, and for the blocks
// of a loop and their rest the end of the whole.
std::vector<const Node*> TurnsOf(const Node* range) {
  std::vector<const Node*> ends;
  if (!range->is_bounded()) return ends;
  const Node* end = range->src[0];
  ends.push_back(end);
  if (end->op == Op::kFloorDiv || end->op == Op::kFloorMod) ends.push_back(end->src[0]);
  std::erase_if(ends, [](const Node* number) { return number->lo > 0; });
  return ends;
}

}  // namespace

TurnGuards::TurnGuards(const Node* sink, const FreeRanges& free) : free_(free) {
  const std::vector<const Node*> order = TopologicalOrder({sink});
  if (std::all_of(order.begin(), order.end(),
                  [](const Node* node) { return TurnsOf(node).empty(); })) {
    return;
  }
  for (auto place = order.rbegin(); place != order.rend(); ++place) {
    const Node* user = *place;
    if (user->op == Op::kSink || user->op == Op::kRange) continue;
    std::vector<const Node*> around = guards_[user];
    const auto add = [&](const Node* range) {
      for (const Node* number : TurnsOf(range)) {
        if (std::find(around.begin(), around.end(), number) == around.end()) {
          around.push_back(number);
        }
      }
    };
    for (const Node* range : free_.Of(user)) add(range);
    if (user->op == Op::kFold) {
      for (const Node* range : user->src.subspan(1)) add(range);
    }
    for (const Node* src : user->src) {
      auto [own, is_first] = guards_.emplace(src, around);
      if (is_first) continue;
      std::erase_if(own->second, [&](const Node* number) {
        return std::find(around.begin(), around.end(), number) == around.end();
      });
    }
  }
}

std::vector<const Node*> TurnGuards::Of(const Node* load) const {
  const auto found = guards_.find(load);
  if (found == guards_.end()) return {};
  std::vector<const Node*> inside;  // what the loops around the load say already
  for (const Node* range : free_.Of(load)) {
    const std::vector<const Node*> turns = TurnsOf(range);
    inside.insert(inside.end(), turns.begin(), turns.end());
  }
  std::vector<const Node*> numbers = found->second;
  std::erase_if(numbers, [&](const Node* number) {
    return std::find(inside.begin(), inside.end(), number) != inside.end();
  });
  return numbers;
}

}  // namespace tensord
