// Elements of any dtype as integers of the same order. Internal to core/tensor.
#pragma once

#include <optional>

#include "core/tensor/expr.h"

namespace tensord {

// int64, what counts in the upper 32 bits and zeros below. Equal numbers (0 and -0 too) have equal
// keys, NaN the largest. `low` is there for dtypes of 64 bits: what decides between equal `high`.
struct SortKey {
  Expr high;
  std::optional<Expr> low;
};
SortKey SortKeyOf(const Expr& x, bool descending);

// int32 of the same order, for dtypes of up to 32 bits; `nan` is the key of NaN.
Expr NarrowSortKey(const Expr& x, int64_t nan);

}  // namespace tensord
