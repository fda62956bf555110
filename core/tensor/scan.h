// Running reductions along an axis: one pass over it, in order.
//
//   CumSum(x, 0);                                      // x[0], x[0] + x[1], ...
//   Scan(ScanKind::kMax, x, 1, {.reverse = true});   // the largest from here on
#pragma once

#include "core/ir/op.h"
#include "core/tensor/expr.h"

namespace tensord {

struct ScanOptions {
  bool reverse = false;    // from the last element to the first
  bool exclusive = false;  // without the element itself: the first is 0, 1 or the dtype's limit
};
// In the dtype of x, every step rounded. `axis` counts from the start. The primitive.
Expr Scan(ScanKind kind, const Expr& x, int64_t axis, const ScanOptions& options = {});

// With the dtypes of Sum and Prod: bool and narrow integers add up in int32 or uint32, floats below
// float32 are accumulated in float32 and come back.
Expr CumSum(const Expr& x, int64_t axis, const ScanOptions& options = {});
Expr CumProd(const Expr& x, int64_t axis, const ScanOptions& options = {});
// log(exp(x[0]) + ... + exp(x[i])), which neither overflows nor underflows; float32 of integers.
Expr LogCumSumExp(const Expr& x, int64_t axis, const ScanOptions& options = {});

// The extremes so far, and the int32 index of the first element that is as large. A NaN is the
// extreme from where it stands. The gradient goes to the element at the index.
struct CumExtreme {
  Expr values, indices;
};
CumExtreme CumMax(const Expr& x, int64_t axis);
CumExtreme CumMin(const Expr& x, int64_t axis);

// ---- for files that make functions of these

// The derivative by x of y, a Scan of x, given that by y.
Expr ScanGradient(const Expr& x, const Expr& y, const Expr& g);

}  // namespace tensord
