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

// What of x is unique, as far as it is known without its number. Flat: elements that differ from
// the one before, x being sorted unless only `consecutive` equals count as one.
struct Distinct {
  Expr values;  // [n], sorted or as they were
  Expr order;   // [n] int32, where each was in x
  Expr group;   // [n] int32, the number of the distinct value
  Expr count;   // int32 without axes: of distinct values
};
Distinct FindDistinct(const Expr& x, bool consecutive);

// Given that number: the distinct values [count], which of them each element of x is, and how often
// each occurs, int32.
struct UniqueResult {
  Expr values, inverse, counts;
};
UniqueResult Unique(const Expr& x, int64_t count, bool consecutive);

}  // namespace tensord
