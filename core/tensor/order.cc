#include "core/tensor/order.h"

#include <algorithm>
#include <limits>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/scan.h"
#include "core/tensor/scatter.h"
#include "core/tensor/sort_key.h"

namespace tensord {
namespace {

// Positions are int32, and their sums while searching.
constexpr int64_t kMaxSorted = int64_t{1} << 30;

// Every function here works on rows [rows, n]: the axis last, the others as one.
struct Rows {
  Expr rows;
  int64_t axis;
  Dims moved;  // the shape with the axis last

  Expr Back(const Expr& result) const {
    if (!result.ok()) return result;
    Dims dims = moved;
    dims.back() = result.shape().back();
    return MoveAxis(Reshape(result, dims), -1, axis);
  }
};

absl::StatusOr<Rows> RowsOf(std::string_view name, const Expr& x, int64_t axis) {
  if (!x.ok()) return x.status();
  if (x.rank() == 0 && (axis == 0 || axis == -1)) return Rows{Reshape(x, {1, 1}), 0, {1}};
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError(name, x, axis).status();
  const int64_t size = x.shape()[*at];
  if (size > kMaxSorted) {
    return InvalidArgument("{}: axis {} of {} is longer than 2^30", name, axis,
                           ShapeText(x.shape()));
  }
  const Expr last = MoveAxis(x, *at, -1);
  const int64_t count = size == 0 ? 0 : NumElements(x.shape()) / size;
  return Rows{Reshape(last, {count, size}), *at, Dims(last.shape().begin(), last.shape().end())};
}

Sorted Error(const Expr& x, const absl::Status& status) {
  const Expr error(&x.graph(), status);
  return {error, error};
}

// A result [rows, 1] or [rows] per row, on the axis or without it.
Expr OnAxis(const Rows& rows, const Expr& x, const Expr& result, Keep keep) {
  if (x.rank() == 0) return Reshape(result, {});
  const Expr back = rows.Back(Reshape(result, {rows.rows.shape()[0], 1}));
  return keep == kKeepDims ? back : Squeeze(back, rows.axis);
}

// Elements of each row [rows, n] at `position` [rows, m] of it.
Expr TakeInRows(const Expr& rows, const Expr& position) {
  if (!rows.ok()) return rows;
  if (!position.ok()) return position;
  const int64_t size = rows.shape()[1], count = NumElements(rows.shape());
  const DType dtype = PositionDType(count, DType::kInt32);
  Expr place = Cast(position, dtype);
  if (rows.shape()[0] > 1) place = place + IndexAlong(place, 0, dtype) * size;
  return Apply(Op::kGather, {Reshape(rows, {count}), place});
}

// Merges neighbouring runs of `run` sorted numbers, all different, in each row. Each place of the
// result searches how many of the numbers before it come from the left run.
Expr Merge(const Expr& keys, int64_t run) {
  const int64_t size = keys.shape()[1];
  const Expr place = IndexAlong(Cast(keys, DType::kInt32), 1);
  const Expr first = BitwiseAnd(place, -2 * run), before = place - first;
  const Expr left = Minimum(size - first, run);
  const Expr right = Maximum(Minimum(size - run - first, run), 0);
  const Expr most = Minimum(before, left);
  Expr taken = Maximum(before - right, 0);
  for (int64_t step = run; step > 0; step /= 2) {
    const Expr more = taken + step;
    const Expr smaller =
        Lt(TakeInRows(keys, first + more - 1), TakeInRows(keys, first + run + before - more));
    taken = Where(LogicalAnd(Ge(most, more), smaller), more, taken);
  }
  const Expr rest = before - taken;
  const Expr a = TakeInRows(keys, first + taken), b = TakeInRows(keys, first + run + rest);
  const Expr from_left = LogicalAnd(Lt(taken, left), LogicalOr(Ge(rest, right), Lt(a, b)));
  return Contiguous(Where(from_left, a, b));
}

// `keys` int64 [rows, n] with 32 bits of key above 32 bits that tell the elements of a row apart:
// the low halves in the order of the keys.
Expr LowHalvesInOrder(const Expr& keys) {
  if (!keys.ok()) return keys;
  Expr sorted = Contiguous(keys);
  for (int64_t run = 1; run < keys.shape()[1]; run *= 2) sorted = Merge(sorted, run);
  return Cast(BitwiseAnd(sorted, 0xffffffff), DType::kInt32);
}

Expr WithPosition(const Expr& high_half) {
  return BitwiseOr(high_half, IndexAlong(high_half, 1, DType::kInt64));
}

Expr OrderOf(const Expr& given, bool descending) {
  if (!given.ok()) return given;
  const Expr rows = Cast(given, Strong(given.dtype()));  // a weak type has no bits to be sorted by
  if (rows.shape()[1] < 2) return Cast(FullLike(Cast(rows, DType::kInt32), 0), DType::kInt32);
  const SortKey key = SortKeyOf(rows, descending);
  if (key.low) {
    // Of 64 bits first the lower half counts, then, stably, the upper.
    const Expr order = LowHalvesInOrder(WithPosition(*key.low));
    const Expr by_high = LowHalvesInOrder(WithPosition(TakeInRows(Contiguous(key.high), order)));
    return TakeInRows(Contiguous(order), by_high);
  }
  return LowHalvesInOrder(WithPosition(key.high));
}

// How many elements of each row of `sorted` [rows, n] are less (not greater) than each of `values`.
Expr CountBelow(const Expr& sorted, const Expr& values, bool right) {
  if (!sorted.ok()) return sorted;
  if (!values.ok()) return values;
  const int64_t size = sorted.shape()[1];
  Expr count = FullLike(Cast(values, DType::kInt32), 0);
  if (size == 0) return count;
  int64_t step = 1;
  while (step <= size / 2) step *= 2;
  for (; step > 0; step /= 2) {
    const Expr more = count + step;
    const Expr element = TakeInRows(sorted, more - 1);
    Expr below = right ? Ge(values, element) : Lt(element, values);
    // NaN is larger than every number.
    if (IsFloat(sorted.dtype())) {
      below = LogicalOr(
          below, right ? IsNan(values) : LogicalAnd(IsNan(values), LogicalNot(IsNan(element))));
    }
    count = Where(LogicalAnd(Ge(size, more), below), more, count);
  }
  return count;
}

// The elements at one place of each sorted row, [rows, 1] int32, with their indices.
Sorted At(const Rows& rows, const Expr& x, const Expr& order, const Expr& place, Keep keep) {
  const Expr index = TakeInRows(order, place);
  return {OnAxis(rows, x, TakeInRows(rows.rows, index), keep), OnAxis(rows, x, index, keep)};
}

Sorted MiddleOf(std::string_view name, const Expr& x, int64_t axis, Keep keep, bool skips_nan) {
  const absl::StatusOr<Rows> rows = RowsOf(name, x, axis);
  if (!rows.ok()) return Error(x, rows.status());
  const int64_t size = rows->rows.shape()[1];
  if (size == 0) return Error(x, InvalidArgument("{}: axis {} has no elements", name, axis));
  const Expr order = Contiguous(OrderOf(rows->rows, false));
  Expr place = Full(x.graph(), {rows->rows.shape()[0], 1}, (size - 1) / 2, DType::kInt32);
  if (IsFloat(x.dtype())) {
    const Expr nans = Sum(Cast(IsNan(rows->rows), DType::kInt32), 1, kKeepDims);
    // NaN comes last; of a row of nothing else the first is taken.
    place = skips_nan ? TruncDivide(Maximum(size - nans - 1, 0), 2)
                      : Where(Lt(0, nans), size - nans, place);
  }
  return At(*rows, x, order, place, keep);
}

Expr QuantileOf(std::string_view name, const Expr& x, const Expr& q, int64_t axis, Keep keep,
                Interpolation interpolation, bool skips_nan) {
  if (!x.ok()) return x;
  if (!q.ok()) return q;
  if (!IsFloat(x.dtype())) return Fail(x, "{}: x is {}, it must be a float", name, Name(x.dtype()));
  if (q.rank() > 1) {
    return Fail(x, "{}: q has shape {}, it must be one number or one row", name,
                ShapeText(q.shape()));
  }
  const absl::StatusOr<Rows> rows = RowsOf(name, x, axis);
  if (!rows.ok()) return Expr(&x.graph(), rows.status());
  const int64_t size = rows->rows.shape()[1], wanted = NumElements(q.shape());
  if (size == 0) return Fail(x, "{}: axis {} has no elements", name, axis);
  const DType wide = ComputeDType(x.dtype());
  const Expr order = OrderOf(rows->rows, false);
  const Expr sorted = Contiguous(Cast(TakeInRows(rows->rows, order), wide));
  const Expr nans = Sum(Cast(IsNan(rows->rows), DType::kInt32), 1, kKeepDims);
  const Expr count = Cast(skips_nan ? Maximum(size - nans, 1) : FullLike(nans, size), wide);
  Expr place = Reshape(Cast(q, wide), {1, wanted}) * (count - 1);
  if (interpolation == Interpolation::kNearest) place = Round(place);
  const Expr below = Floor(place), above = Ceil(place);
  const Expr a = TakeInRows(sorted, Cast(below, DType::kInt32));
  const Expr b = TakeInRows(sorted, Cast(above, DType::kInt32));
  Expr value = a;
  if (interpolation == Interpolation::kHigher) value = b;
  if (interpolation == Interpolation::kMidpoint)
    value = Lerp(a, b, Where(Eq(below, above), 0.0, FullLike(a, 0.5)));
  if (interpolation == Interpolation::kLinear) value = a + (b - a) * (place - below);
  // Equal infinities have no difference.
  value = Where(Eq(a, b), a, value);
  if (!skips_nan) value = Where(Lt(0, nans), std::numeric_limits<double>::quiet_NaN(), value);
  const Expr result = Cast(value, x.dtype());  // [rows, wanted]
  Dims dims = {wanted};
  Dims rest = rows->moved;
  rest.pop_back();
  if (x.rank() > 0) dims.insert(dims.end(), rest.begin(), rest.end());
  Expr moved = Reshape(Transpose(result, 0, 1), dims);
  if (keep == kKeepDims && x.rank() > 0) moved = Unsqueeze(moved, 1 + rows->axis);
  return q.rank() == 0 ? Select(moved, 0, 0) : moved;
}

}  // namespace

Expr ArgSort(const Expr& x, int64_t axis, bool descending) {
  const absl::StatusOr<Rows> rows = RowsOf("argsort", x, axis);
  if (!rows.ok()) return Expr(&x.graph(), rows.status());
  const Expr order = OrderOf(rows->rows, descending);
  return x.rank() == 0 ? Reshape(order, {}) : rows->Back(order);
}

Sorted Sort(const Expr& x, int64_t axis, bool descending) {
  const absl::StatusOr<Rows> rows = RowsOf("sort", x, axis);
  if (!rows.ok()) return Error(x, rows.status());
  const Expr order = OrderOf(rows->rows, descending);
  const Expr values = TakeInRows(rows->rows, order);
  if (x.rank() == 0) return {Reshape(values, {}), Reshape(order, {})};
  return {rows->Back(values), rows->Back(order)};
}

Sorted TopK(const Expr& x, int64_t k, int64_t axis, bool largest) {
  const absl::StatusOr<Rows> rows = RowsOf("topk", x, axis);
  if (!rows.ok()) return Error(x, rows.status());
  const int64_t size = rows->rows.shape()[1];
  if (k < 0 || k > size) {
    return Error(x, InvalidArgument("topk: k is {}, axis {} of {} has {} elements", k, axis,
                                    ShapeText(x.shape()), size));
  }
  const Expr order = Shrink(OrderOf(rows->rows, largest), 1, 0, k);
  const Expr values = TakeInRows(rows->rows, order);
  if (x.rank() == 0 && k == 1) return {Reshape(values, {}), Reshape(order, {})};
  return {rows->Back(values), rows->Back(order)};
}

Sorted KthValue(const Expr& x, int64_t k, int64_t axis, Keep keep) {
  const absl::StatusOr<Rows> rows = RowsOf("kthvalue", x, axis);
  if (!rows.ok()) return Error(x, rows.status());
  const int64_t size = rows->rows.shape()[1];
  if (k < 1 || k > size) {
    return Error(x, InvalidArgument("kthvalue: k is {}, axis {} of {} has {} elements", k, axis,
                                    ShapeText(x.shape()), size));
  }
  const Expr place = Full(x.graph(), {rows->rows.shape()[0], 1}, k - 1, DType::kInt32);
  return At(*rows, x, Contiguous(OrderOf(rows->rows, false)), place, keep);
}

Sorted Median(const Expr& x, int64_t axis, Keep keep) {
  return MiddleOf("median", x, axis, keep, false);
}
Sorted NanMedian(const Expr& x, int64_t axis, Keep keep) {
  return MiddleOf("nanmedian", x, axis, keep, true);
}

namespace {

Sorted ExtremeAt(const Expr& x, int64_t axis, Keep keep,
                 Expr (*place)(const Expr&, int64_t, Keep)) {
  const Expr index = place(x, axis, kKeepDims);
  if (!index.ok()) return {index, index};
  if (x.rank() == 0) return {x, index};
  const Expr value = GatherAlong(x, axis, index);
  if (keep == kKeepDims) return {value, index};
  return {Squeeze(value, axis), Squeeze(index, axis)};
}

}  // namespace

Sorted MaxAt(const Expr& x, int64_t axis, Keep keep) { return ExtremeAt(x, axis, keep, &ArgMax); }
Sorted MinAt(const Expr& x, int64_t axis, Keep keep) { return ExtremeAt(x, axis, keep, &ArgMin); }

Sorted Mode(const Expr& x, int64_t axis, Keep keep) {
  const absl::StatusOr<Rows> rows = RowsOf("mode", x, axis);
  if (!rows.ok()) return Error(x, rows.status());
  const int64_t size = rows->rows.shape()[1];
  if (size == 0) return Error(x, InvalidArgument("mode: axis {} has no elements", axis));
  const Expr order = Contiguous(OrderOf(rows->rows, false));
  const Expr sorted = Contiguous(TakeInRows(rows->rows, order));
  // At each place of the sorted row how long the run of equals up to it is; the first of the
  // longest is the smallest value, and stands at its last occurrence.
  const Expr place = IndexAlong(order, 1);
  const Expr differs = LogicalOr(Eq(place, 0), Ne(sorted, TakeInRows(sorted, place - 1)));
  const Expr start = Scan(ScanKind::kMax, Where(differs, place, 0), 1);
  const Expr end = ArgMax(place - start, 1, kKeepDims);
  return At(*rows, x, order, end, keep);
}

std::optional<Interpolation> InterpolationOf(std::string_view name) {
  constexpr std::pair<std::string_view, Interpolation> kNames[] = {
      {"linear", Interpolation::kLinear},
      {"lower", Interpolation::kLower},
      {"higher", Interpolation::kHigher},
      {"nearest", Interpolation::kNearest},
      {"midpoint", Interpolation::kMidpoint}};
  for (const auto& [known, interpolation] : kNames) {
    if (name == known) return interpolation;
  }
  return std::nullopt;
}

Expr Quantile(const Expr& x, const Expr& q, int64_t axis, Keep keep, Interpolation interpolation) {
  return QuantileOf("quantile", x, q, axis, keep, interpolation, false);
}
Expr NanQuantile(const Expr& x, const Expr& q, int64_t axis, Keep keep,
                 Interpolation interpolation) {
  return QuantileOf("nanquantile", x, q, axis, keep, interpolation, true);
}

Expr SearchSorted(const Expr& sorted, const Expr& values, bool right) {
  if (!sorted.ok()) return sorted;
  if (!values.ok()) return values;
  if (sorted.rank() == 0) return Fail(sorted, "searchsorted: the sorted sequence has no axis");
  const int64_t size = sorted.shape().back();
  if (size > kMaxSorted) return Fail(sorted, "searchsorted: the sequence is longer than 2^30");
  const DType dtype = Promote(sorted.dtype(), values.dtype());
  const Expr from = Cast(sorted, dtype), wanted = Cast(values, dtype);
  if (sorted.rank() == 1) {
    const Expr row = Reshape(wanted, {1, NumElements(values.shape())});
    return Reshape(CountBelow(Contiguous(Reshape(from, {1, size})), row, right), values.shape());
  }
  const Shape lead = sorted.shape().first(sorted.rank() - 1);
  if (values.rank() != sorted.rank() || values.shape().first(values.rank() - 1) != lead) {
    return Fail(sorted, "searchsorted: values {} and sequences {} differ before the last axis",
                ShapeText(values.shape()), ShapeText(sorted.shape()));
  }
  const int64_t rows = NumElements(lead);
  const Expr found = CountBelow(Contiguous(Reshape(from, {rows, size})),
                                Reshape(wanted, {rows, values.shape().back()}), right);
  return Reshape(found, values.shape());
}

Expr IsIn(const Expr& x, const Expr& elements) {
  if (!x.ok()) return x;
  if (!elements.ok()) return elements;
  const DType dtype = Promote(x.dtype(), elements.dtype());
  const int64_t count = NumElements(elements.shape());
  if (count == 0) return Full(x.graph(), x.shape(), false, DType::kBool);
  const Expr sorted = Contiguous(Sort(Reshape(Cast(elements, dtype), {1, count})).values);
  const Expr wanted = Reshape(Cast(x, dtype), {1, NumElements(x.shape())});
  const Expr place = CountBelow(sorted, wanted, false);
  return Reshape(Eq(TakeInRows(sorted, Minimum(place, count - 1)), wanted), x.shape());
}

Expr Multinomial(const Expr& weights, const Expr& uniform, int64_t count, bool replacement) {
  if (!weights.ok()) return weights;
  if (!uniform.ok()) return uniform;
  if (!IsFloat(weights.dtype())) {
    return Fail(weights, "multinomial: weights are {}, they must be floats", Name(weights.dtype()));
  }
  const DType wide = ComputeDType(weights.dtype());
  const Expr w = Cast(weights, wide), u = Cast(uniform, wide);
  const int64_t last = weights.rank() - 1;
  if (replacement) {
    const Expr below = CumSum(w, last);
    const int64_t classes = w.shape()[last];
    const Expr total = Shrink(below, last, classes - 1, classes);
    return Minimum(SearchSorted(below, u * total, true), classes - 1);
  }
  // Of exponential waiting times with these rates the shortest are in the order of such draws.
  return TopK(-Log(1 - u) / w, count, last, false).indices;
}

}  // namespace tensord
