#include "core/ir/loop.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>

namespace tensord::loop {
namespace {

// What makes an expression worth computing once: memory read, sums, random numbers (Xor).
constexpr OpSet kDear = OpBit(Op::kParam) | OpBit(Op::kCarry) | OpBit(Op::kLoop) |
                        OpBit(Op::kReduce) | OpBit(Op::kGather) | OpBit(Op::kXor) |
                        OpBit(Op::kUserKernel);

// Levels of the states that a node depends on from inside their loops, as bits. That of a loop which
// is still being made is negative: all of these share the last bit, which no finished one has.
using OpenLevels = absl::flat_hash_map<const Node*, uint64_t>;

uint64_t BitOf(int64_t level) { return uint64_t{1} << (level < 0 ? 63 : level); }

uint64_t LevelsOf(const Node* node, const OpenLevels& known) {
  if (node->op == Op::kCarry) return BitOf(node->ints[0]);
  if ((node->below_ops & OpBit(Op::kCarry)) == 0) return 0;
  uint64_t levels = 0;
  if (node->op != Op::kLoop) {
    for (const Node* src : node->src) levels |= known.at(src);
    return levels;
  }
  levels = known.at(Condition(node));
  for (size_t k = 0; k < NumStates(node); ++k) levels |= known.at(NextOf(node, k));
  levels &= ~BitOf(node->ints[0]);
  for (size_t k = 0; k < NumStates(node); ++k) levels |= known.at(InitOf(node, k));
  return levels;
}

}  // namespace

std::vector<const Node*> Captured(const Node* loop, const absl::flat_hash_set<const Node*>& whole) {
  std::vector<const Node*> roots = {Condition(loop)};
  for (size_t k = 0; k < NumStates(loop); ++k) roots.push_back(NextOf(loop, k));
  OpenLevels open;
  for (const Node* node : TopologicalOrder(roots)) open[node] = LevelsOf(node, open);
  // Loops in a loop have smaller levels, so these are the states that the body may have a part in.
  const int64_t level = loop->ints[0];
  const uint64_t body_levels = (uint64_t{2} << level) - 1;

  std::vector<const Node*> values;
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> stack(roots.rbegin(), roots.rend());
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    const bool in_body = (open.at(node) & body_levels) != 0;
    if (in_body && node->op == Op::kCarry && node->ints[0] == level) continue;
    const bool is_whole = whole.contains(node);
    if (!in_body && !is_whole && (node->below_ops & kDear) == 0) continue;
    if (!in_body && (is_whole || !In(node->op, MovementOps()))) {
      values.push_back(node);
      continue;
    }
    for (size_t i = node->src.size(); i-- > 0;) stack.push_back(node->src[i]);
  }
  return values;
}

absl::flat_hash_set<const Node*> Inside(absl::Span<const Node* const> order) {
  OpenLevels levels;
  absl::flat_hash_set<const Node*> inside;
  for (const Node* node : order) {
    if ((node->below_ops & OpBit(Op::kCarry)) == 0) {
      levels[node] = 0;
    } else if ((levels[node] = LevelsOf(node, levels)) != 0) {
      inside.insert(node);
    }
  }
  return inside;
}

std::vector<const Node*> EvaluationOrder(absl::Span<const Node* const> roots,
                                         absl::FunctionRef<bool(const Node*)> is_known) {
  std::vector<const Node*> order;
  absl::flat_hash_set<const Node*> seen;
  struct Frame {
    const Node* node;
    size_t next;
  };
  std::vector<Frame> stack;
  const auto visit = [&](const Node* node) {
    if (!is_known(node) && seen.insert(node).second) stack.push_back({node, 0});
  };
  for (const Node* root : roots) {
    visit(root);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const Node* node = frame.node;
      const bool is_loop = node->op == Op::kLoop;
      if (frame.next == (is_loop ? NumStates(node) : node->src.size())) {
        order.push_back(node);
        stack.pop_back();
      } else {
        const size_t next = frame.next++;
        visit(is_loop ? InitOf(node, next) : node->src[next]);
      }
    }
  }
  return order;
}

int64_t TripCount(const Node* loop) {
  const Node* condition = Condition(loop);
  const Node* counter = CarryOf(loop, 0);
  const Node* next = NextOf(loop, 0);
  const auto is = [](const Node* node, int64_t value) {
    return node->IsConst() && node->shape.empty() && node->Int() == value;
  };
  if (!IsInt(counter->dtype) || !counter->shape.empty() || !is(InitOf(loop, 0), 0)) return -1;
  if (next->op != Op::kAdd || !is(next->src[1], 1) || next->src[0] != counter) return -1;
  if (loop->ints[1] == 0) return 0;
  if (condition->op != Op::kCmpLt || condition->src[0] != counter) return -1;
  const Node* count = condition->src[1];
  if (!count->IsConst() || !count->shape.empty()) return -1;
  return std::min(std::max<int64_t>(count->Int(), 0), loop->ints[1]);
}

}  // namespace tensord::loop
