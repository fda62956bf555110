// Writing by index. What stands at an index outside of the axis, negative ones included, is left
// out unless something else is said. Updates of one place happen in the order of the updates, so
// that results are the same on every run; work is in proportion to the updates.
//
//   ScatterAlong(x, 1, index, src, ScatterKind::kAdd);   // x[i][index[i][j]] += src[i][j]
//   ScatterAt(x, {0, 2}, {rows, columns}, values, ScatterKind::kSet);  // x[rows, :, columns] = ..
#pragma once

#include <array>
#include <optional>

#include "core/ir/op.h"
#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

// The primitive: x[a.., n, r..] with `values` [a.., d.., r..] taken in at `index`
// [a.. or 1, d.., r.. or 1], `axis` being the number of axes a. Dtypes as they are: sums of narrow
// floats round at each step.
Expr Scatter(ScatterKind kind, const Expr& x, const Expr& index, const Expr& values, int64_t axis);
// What the primitive would meet: the elements of x at `index`, in the shape of its values; 0 where
// the index is outside.
Expr ReadScattered(const Expr& x, const Expr& index, Shape values, int64_t axis);

// The functions below keep sums, products and means of floats below float32 in float32 till the
// end.

// At index[i][j].. along the axis, for each element of `src`, or of its first part if it is larger
// than `index`. `index` may be smaller than x on the other axes. Dtypes of x and src are equal.
Expr ScatterAlong(const Expr& x, int64_t axis, const Expr& index, const Expr& src,
                  ScatterKind kind);

enum class ReduceMode { kSum, kProd, kMean, kMax, kMin };
std::optional<ReduceMode> ReduceModeOf(std::string_view name);  // sum prod mean amax amin
// As ScatterAlong. Without `include_self`, x counts only where nothing is written. Means of
// integers are rounded down.
Expr ScatterReduce(const Expr& x, int64_t axis, const Expr& index, const Expr& src, ReduceMode mode,
                   bool include_self = true);

// Whole slices x[.., index[k], ..] with source[.., k, ..]; `index` has one axis, or none.
Expr IndexAdd(const Expr& x, int64_t axis, const Expr& index, const Expr& source, Number alpha = 1);
Expr IndexCopy(const Expr& x, int64_t axis, const Expr& index, const Expr& source);
Expr IndexFill(const Expr& x, int64_t axis, const Expr& index, const Expr& value);
Expr IndexReduce(const Expr& x, int64_t axis, const Expr& index, const Expr& source,
                 ReduceMode mode, bool include_self = true);

// At positions along several axes: `indices` broadcast together to I, `values` broadcast to
// I and then the other axes of x in their order. Negative entries count from the end once. The
// axes are distinct and count from the start.
Expr ScatterAt(const Expr& x, absl::Span<const int64_t> axes, absl::Span<const Expr> indices,
               const Expr& values, ScatterKind kind);
// x as one row of elements; `source` has the shape of `index`, whose negative entries count from
// the end once.
Expr Put(const Expr& x, const Expr& index, const Expr& source, bool accumulate);
// Where `mask` (broadcast to x) holds, the next element of `source`; 0 when there is none left.
Expr MaskedScatter(const Expr& x, const Expr& mask, const Expr& source);

// How often each integer below `size` occurs in x, int32; or the sum of its weights.
Expr BinCount(const Expr& x, int64_t size, const std::optional<Expr>& weights = std::nullopt);
// How many elements of x lie in each of `bins` equal parts of [low, high], in the dtype of x;
// elements outside, NaN included, are left out. With low == high, between the extremes of x.
Expr HistC(const Expr& x, int64_t bins, double low, double high);

// ---- for files that make functions of these

// The derivatives by the operands, given that by the result.
Expr GatherGradient(const Expr& x, const Expr& index, const Expr& g);
Expr ScatterGradient(const std::array<Expr, 3>& operands, const Expr& y, const Expr& g, int i);

}  // namespace tensord
