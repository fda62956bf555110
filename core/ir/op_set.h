// OpSet: a set of ops, as a mask.
#pragma once

#include <bit>
#include <cstdint>

namespace tensord {

// At most 128 ops. `set != 0` says that it is not empty.
class OpSet {
 public:
  constexpr OpSet() = default;
  static constexpr OpSet Of(int op) {
    return op < 64 ? OpSet(uint64_t{1} << op, 0) : OpSet(0, uint64_t{1} << (op - 64));
  }
  static constexpr OpSet All() { return ~OpSet(); }

  friend constexpr OpSet operator|(OpSet a, OpSet b) {
    return {a.low_ | b.low_, a.high_ | b.high_};
  }
  friend constexpr OpSet operator&(OpSet a, OpSet b) {
    return {a.low_ & b.low_, a.high_ & b.high_};
  }
  constexpr OpSet operator~() const { return {~low_, ~high_}; }
  constexpr OpSet& operator|=(OpSet other) { return *this = *this | other; }
  friend constexpr bool operator==(OpSet, OpSet) = default;
  friend constexpr bool operator==(OpSet set, int zero) {
    return (set.low_ | set.high_) == static_cast<uint64_t>(zero);
  }

  explicit constexpr operator bool() const { return *this != 0; }
  constexpr int size() const { return std::popcount(low_) + std::popcount(high_); }
  // Of a set that is not empty: its first op, and the set without it.
  constexpr int First() const {
    return low_ != 0 ? std::countr_zero(low_) : 64 + std::countr_zero(high_);
  }
  constexpr OpSet WithoutFirst() const { return *this & ~Of(First()); }

 private:
  constexpr OpSet(uint64_t low, uint64_t high) : low_(low), high_(high) {}

  uint64_t low_ = 0, high_ = 0;
};

}  // namespace tensord
