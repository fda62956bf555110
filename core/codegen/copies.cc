#include "core/codegen/copies.h"

#include <algorithm>

#include "core/base/status.h"

namespace tensord {
namespace {

// Unrolled and vector ranges that one kernel may have, and the size of one.
constexpr int kMaxUnrolled = 36;
constexpr int64_t kMaxUnroll = 126, kMaxLanes = 64;

}  // namespace

absl::Status Copies::Number(const Node* sink, const absl::flat_hash_set<const Node*>& fold_ranges,
                            std::string_view kernel) {
  for (const Node* node : TopologicalOrder({sink})) {
    if (node->op != Op::kRange) continue;
    const RangeKind kind = node->range_kind();
    if (kind != RangeKind::kUnroll && kind != RangeKind::kVector) continue;
    slot_of_[node] = static_cast<int>(slots_.size());
    slots_.push_back(node);
    if (static_cast<int>(slots_.size()) > kMaxUnrolled) {
      return ResourceExhausted("kernel {}: more than {} unrolled and vector ranges", kernel,
                               kMaxUnrolled);
    }
    const int64_t limit = kind == RangeKind::kVector ? kMaxLanes : kMaxUnroll;
    if (node->range_size() > limit) {
      return InvalidArgument("kernel {}: {} copies of an unrolled or vector range, at most {}",
                             kernel, node->range_size(), limit);
    }
  }
  for (const auto& [node, free] : free_.all()) {
    const auto& ranges = free;  // a lambda can't have what is bound
    const auto in_fold = [&] {
      return std::any_of(ranges.begin(), ranges.end(),
                         [&](const Node* range) { return fold_ranges.contains(range); });
    };
    if (node->op == Op::kLoad && VectorRange(node) != nullptr && in_fold()) {
      for (const Node* range : ranges) {
        if (range->range_kind() == RangeKind::kUnroll) moves_vectors_.insert(range);
      }
    }
    if (node->op == Op::kSink) continue;
    const auto vectors = std::count_if(ranges.begin(), ranges.end(), [](const Node* range) {
      return range->range_kind() == RangeKind::kVector;
    });
    if (vectors > 1) {
      return InvalidArgument("kernel {}: a value has lanes along two loops", kernel);
    }
  }
  return absl::OkStatus();
}

// The unrolled ranges that a node depends on. Those that a reduction's vector loads move with come
// last, so that copies that share a scalar, which takes a register in all lanes, follow each other:
// a register tile of rows * vectors then has one row's scalar alive at a time.
std::vector<int> Copies::FreeSlots(const Node* node) const {
  std::vector<int> slots, of_vectors;
  for (const Node* range : free_.Of(node)) {
    if (range->range_kind() != RangeKind::kUnroll) continue;
    (moves_vectors_.contains(range) ? of_vectors : slots).push_back(slot_of_.at(range));
  }
  slots.insert(slots.end(), of_vectors.begin(), of_vectors.end());
  return slots;
}

const Node* Copies::VectorRange(const Node* node) const {
  const Node* vector = nullptr;
  for (const Node* range : free_.Of(node)) {
    if (range->range_kind() == RangeKind::kVector) vector = range;
  }
  return vector;
}

bool Copies::AllLanes(const Node* node, Copy copy) const {
  const Node* vector = VectorRange(node);
  return vector != nullptr && copy.Get(slot_of_.at(vector)) < 0;
}

Copy Copies::For(const Node* node, Copy copy) {
  auto [place, is_new] = slots_of_.try_emplace(node);
  if (is_new) {
    for (const Node* range : free_.Of(node)) {
      if (auto slot = slot_of_.find(range); slot != slot_of_.end()) {
        place->second.push_back(slot->second);
      }
    }
  }
  return copy.Only(place->second);
}

}  // namespace tensord
