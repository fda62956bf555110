// Sorting along an axis, and what follows from it. Sorting is stable: of equal elements the first
// stays first. NaN counts as larger than every number: it comes last, or first in descending order.
// Work is n log(n)^2 and runs in parallel. Indices are int32.
//
//   Sorted top = TopK(scores, 5, -1);   // top.values, top.indices
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "core/tensor/expr.h"
#include "core/tensor/number.h"
#include "core/tensor/reduce.h"

namespace tensord {

struct Sorted {
  Expr values, indices;
};

Sorted Sort(const Expr& x, int64_t axis = -1, bool descending = false);
Expr ArgSort(const Expr& x, int64_t axis = -1, bool descending = false);
// The k largest (smallest) in order.
Sorted TopK(const Expr& x, int64_t k, int64_t axis = -1, bool largest = true);
// The k-th smallest, counted from 1.
Sorted KthValue(const Expr& x, int64_t k, int64_t axis = -1, Keep keep = kDropDims);
// The lower one of two in the middle; NaN if there is one. NanMedian leaves NaN out.
Sorted Median(const Expr& x, int64_t axis, Keep keep = kDropDims);
Sorted NanMedian(const Expr& x, int64_t axis, Keep keep = kDropDims);
// The largest (smallest) and the first place of it; NaN counts as either. Only this element has a
// derivative, where Max and Min share it among equal ones.
Sorted MaxAt(const Expr& x, int64_t axis, Keep keep = kDropDims);
Sorted MinAt(const Expr& x, int64_t axis, Keep keep = kDropDims);
// The most frequent value, the smallest of several; the index is that of its last occurrence.
Sorted Mode(const Expr& x, int64_t axis = -1, Keep keep = kDropDims);

enum class Interpolation { kLinear, kLower, kHigher, kNearest, kMidpoint };
std::optional<Interpolation> InterpolationOf(std::string_view name);
// Of floats. q in [0, 1] has no axis, or one, which comes first in the result. NaN if there is one;
// NanQuantile leaves NaN out.
Expr Quantile(const Expr& x, const Expr& q, int64_t axis, Keep keep = kDropDims,
              Interpolation interpolation = Interpolation::kLinear);
Expr NanQuantile(const Expr& x, const Expr& q, int64_t axis, Keep keep = kDropDims,
                 Interpolation interpolation = Interpolation::kLinear);

// Where `values` [.., m] would stand in `sorted` [.., n] (or one row [n] for all): how many
// elements are less, with `right` how many are not greater. int32.
Expr SearchSorted(const Expr& sorted, const Expr& values, bool right = false);
// Whether each element of x occurs in `elements`.
Expr IsIn(const Expr& x, const Expr& elements);

// int32 classes by weights [.., classes], given uniform numbers in [0, 1): [.., count] of them with
// replacement, else one per weight, and each class is drawn once at most.
Expr Multinomial(const Expr& weights, const Expr& uniform, int64_t count, bool replacement);

}  // namespace tensord
