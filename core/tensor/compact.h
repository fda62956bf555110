// Picking elements by a condition, in order, in one pass. How many there are is data: the functions
// take the size of the result, drop what is beyond it and fill what is missing.
//
//   Expr count = Sum(mask);  // read back first
//   Expr picked = MaskedSelect(x, mask, size, 0);
#pragma once

#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

// Elements of x where the mask holds, both broadcast; [size], in the dtype of x.
Expr MaskedSelect(const Expr& x, const Expr& mask, int64_t size, Number fill = 0);
// The indices of the elements that are not 0: int32 [size, rank].
Expr NonZero(const Expr& x, int64_t size, Number fill = 0);

// What is unique: all elements, or slices of an axis as wholes, sorted (slices by their first
// elements, then the second, ..) unless only `consecutive` equals count as one.
struct UniqueOptions {
  bool consecutive = false;
  std::optional<int64_t> axis = std::nullopt;
};

// As far as it is known without the number of what is unique.
struct Distinct {
  Expr values;  // [n, m]: n slices, or elements with m = 1, sorted or as they were
  Expr order;   // [n] int32, where each was in x
  Expr group;   // [n] int32, the number of the distinct value
  Expr count;   // int32 without axes: of distinct values
};
Distinct FindDistinct(const Expr& x, const UniqueOptions& options = {});

// Given that number: the distinct values [count] or slices, which of them each element of x (each
// slice) is, and how often each occurs, int32.
struct UniqueResult {
  Expr values, inverse, counts;
};
UniqueResult Unique(const Expr& x, int64_t count, const UniqueOptions& options = {});

// How often each slice of an axis is repeated, [n], by `repeats` [n], or one number for all.
Expr RepeatsOfSlices(const Expr& x, const Expr& repeats, int64_t axis);
// Slice i so often in a row; `size` is what the repeats add up to.
Expr RepeatInterleave(const Expr& x, const Expr& repeats, int64_t axis, int64_t size);

}  // namespace tensord
