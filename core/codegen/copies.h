// Copies of what stands in unrolled and vector ranges.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/numeric/int128.h>
#include <absl/status/status.h>

#include <array>
#include <string_view>
#include <vector>

#include "core/codegen/loops.h"

namespace tensord {

// Which copy of the unrolled ranges is meant: 7 bits a range, 1 + its value. 0 means: not chosen;
// for a vector range that stands for all lanes.
class Copy {
 public:
  int64_t Get(int slot) const {
    return static_cast<int64_t>(absl::Uint128Low64(bits_[slot / 18] >> Shift(slot)) & 127) - 1;
  }
  Copy With(int slot, int64_t value) const {
    Copy result = *this;
    absl::uint128& bits = result.bits_[slot / 18];
    bits = (bits & ~(absl::uint128(127) << Shift(slot))) | absl::uint128(value + 1) << Shift(slot);
    return result;
  }
  // The same for these slots, not chosen for the others.
  Copy Only(absl::Span<const int> slots) const {
    Copy result;
    for (int slot : slots) result = result.With(slot, Get(slot));
    return result;
  }
  bool operator==(const Copy&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Copy& copy) {
    return H::combine(std::move(h), copy.bits_);
  }

 private:
  static int Shift(int slot) { return 7 * (slot % 18); }
  std::array<absl::uint128, 2> bits_ = {};
};

// The unrolled and vector ranges of a kernel, which it numbers: their slots.
class Copies {
 public:
  explicit Copies(const FreeRanges& free) : free_(free) {}

  // The errors of Linearize.
  absl::Status Number(const Node* sink, const absl::flat_hash_set<const Node*>& fold_ranges,
                      std::string_view kernel);

  int SlotOf(const Node* range) const { return slot_of_.at(range); }
  // The vector range that a node depends on, or null; and whether all of its lanes are meant.
  const Node* VectorRange(const Node* node) const;
  bool AllLanes(const Node* node, Copy copy) const;
  // The copy as far as the node depends on it.
  Copy For(const Node* node, Copy copy);
  std::vector<int> FreeSlots(const Node* node) const;

  template <typename Visit>
  void ForEach(const std::vector<int>& slots, Copy copy, const Visit& visit,
               size_t from = 0) const {
    if (from == slots.size()) {
      visit(copy);
      return;
    }
    for (int64_t value = 0; value < slots_[slots[from]]->range_size(); ++value) {
      ForEach(slots, copy.With(slots[from], value), visit, from + 1);
    }
  }

 private:
  const FreeRanges& free_;
  absl::flat_hash_map<const Node*, int> slot_of_;
  std::vector<const Node*> slots_;
  absl::flat_hash_set<const Node*> moves_vectors_;  // unrolled ranges in the index of vector loads
  absl::flat_hash_map<const Node*, std::vector<int>> slots_of_;  // by node: those it depends on
};

}  // namespace tensord
