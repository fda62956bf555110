#include "core/tensor/compact.h"

#include <algorithm>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/iterate.h"
#include "core/tensor/join.h"
#include "core/tensor/movement.h"
#include "core/tensor/order.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/scatter.h"

namespace tensord {
namespace {

// The number of each element for which the flat mask holds, counted from 0; -1 for the others.
Expr Numbers(const Expr& mask) {
  const DType dtype = PositionDType(NumElements(mask.shape()), DType::kInt32);
  return Where(mask, CumSum(Cast(mask, dtype), 0) - 1, -1);
}

std::optional<Expr> CheckSize(std::string_view name, const Expr& x, int64_t size) {
  if (!x.ok()) return x;
  if (size < 0) return Fail(x, "{}: size {} is negative", name, size);
  return std::nullopt;
}

// What is to be unique as rows [n, m].
absl::StatusOr<Expr> UniqueRows(const Expr& x, const UniqueOptions& options) {
  if (!x.ok()) return x.status();
  if (!options.axis || IsNumberAlong(x, *options.axis)) {
    return Reshape(x, {NumElements(x.shape()), 1});
  }
  const std::optional<int64_t> at = ResolveAxis(*options.axis, x.rank());
  if (!at) return AxisError("unique", x, *options.axis).status();
  const int64_t n = x.shape()[*at], m = NumElements(WithoutAxis(x.shape(), *at));
  if (m == 0 && n > 0) {
    return InvalidArgument("unique: the slices of axis {} of {} have no elements", *options.axis,
                           ShapeText(x.shape()));
  }
  return Reshape(MoveAxis(x, *at, 0), {n, m});
}

// int32 [n]: the rows [n, m] in their order, the first element first.
Expr OrderOfRows(const Expr& rows) {
  if (rows.shape()[1] == 1) return ArgSort(Squeeze(rows, 1), 0);
  // Sorting is stable, so by the last column first and by the first one last.
  const int64_t n = rows.shape()[0], last = rows.shape()[1] - 1;
  const Expr columns = Contiguous(Transpose(rows, 0, 1));
  const Expr place = Arange(rows.graph(), 0, n, 1, DType::kInt32);
  return Steps(last + 1, {place}, [&](const Expr& i, absl::Span<const Expr> order) {
    const Expr column = Contiguous(Apply(Op::kGather, {Row(columns, last - i), order[0]}));
    return std::vector<Expr>{Apply(Op::kGather, {order[0], ArgSort(column, 0)})};
  })[0];
}

}  // namespace

Expr MaskedSelect(const Expr& x, const Expr& mask, int64_t size, Number fill) {
  if (auto error = CheckSize("masked_select", x, size)) return *error;
  if (!mask.ok()) return mask;
  if (mask.dtype() != DType::kBool) {
    return Fail(x, "masked_select: the mask is {}, it must be bool", Name(mask.dtype()));
  }
  Expr values = x, holds = mask;
  if (auto error = UnifyShapes("masked_select", {&values, &holds})) return *error;
  const int64_t elements = NumElements(values.shape());
  return Scatter(ScatterKind::kSet, Full(x.graph(), {size}, fill, x.dtype()),
                 Numbers(Reshape(holds, {elements})), Reshape(values, {elements}), 0);
}

Expr NonZero(const Expr& x, int64_t size, Number fill) {
  if (auto error = CheckSize("nonzero", x, size)) return *error;
  const int64_t elements = NumElements(x.shape()), rank = x.rank();
  if (rank == 0) return Full(x.graph(), {size, 0}, fill, DType::kInt32);
  std::vector<Expr> places;
  for (int64_t axis = 0; axis < rank; ++axis) places.push_back(IndexAlong(x, axis));
  const Expr rows = Reshape(Stack(places, -1), {elements, rank});
  const Expr number = Numbers(Reshape(AsBool(x), {elements}));
  return Scatter(ScatterKind::kSet, Full(x.graph(), {size, rank}, fill, DType::kInt32),
                 Reshape(number, {elements, 1}), rows, 0);
}

Distinct FindDistinct(const Expr& x, const UniqueOptions& options) {
  const auto failed = [](const Expr& error) { return Distinct{error, error, error, error}; };
  const absl::StatusOr<Expr> rows = UniqueRows(x, options);
  if (!rows.ok()) return failed(Expr(&x.graph(), rows.status()));
  const int64_t n = rows->shape()[0];
  const Expr place = Arange(x.graph(), 0, n, 1, DType::kInt32);
  const Expr order = Contiguous(options.consecutive || n == 0 ? place : OrderOfRows(*rows));
  const Expr values = Contiguous(Apply(Op::kGather, {*rows, order}));
  const Expr before = Apply(Op::kGather, {values, place - 1});
  const Expr differs = Any(Ne(values, before), 1);
  const Expr starts = Cast(LogicalOr(Eq(place, 0), differs), DType::kInt32);
  return {values, order, CumSum(starts, 0) - 1, Sum(starts)};
}

UniqueResult Unique(const Expr& x, int64_t count, const UniqueOptions& options) {
  if (auto error = CheckSize("unique", x, count)) return {*error, *error, *error};
  const Distinct found = FindDistinct(x, options);
  if (!found.values.ok()) return {found.values, found.values, found.values};
  const int64_t n = found.values.shape()[0], m = found.values.shape()[1];
  const Expr group = Contiguous(found.group);
  Expr values = Scatter(ScatterKind::kSet, Zeros(x.graph(), {count, m}, x.dtype()),
                        Reshape(group, {n, 1}), found.values, 0);
  Expr inverse =
      Scatter(ScatterKind::kSet, Zeros(x.graph(), {n}, DType::kInt32), found.order, group, 0);
  if (!options.axis) {
    values = Reshape(values, {count});
    inverse = Reshape(inverse, x.shape());
  } else if (x.rank() == 0) {
    values = Reshape(values, {count});
  } else {
    const int64_t axis = *ResolveAxis(*options.axis, x.rank());
    Dims dims = WithAxis(x.shape(), axis, count);
    std::rotate(dims.begin(), dims.begin() + axis, dims.begin() + axis + 1);
    values = MoveAxis(Reshape(values, dims), 0, axis);
  }
  return {values, inverse, BinCount(group, count)};
}

Expr RepeatsOfSlices(const Expr& x, const Expr& repeats, int64_t axis) {
  if (!x.ok()) return x;
  if (!repeats.ok()) return repeats;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("repeat_interleave", x, axis);
  const int64_t n = x.shape()[*at], given = NumElements(repeats.shape());
  if (!IsInt(repeats.dtype()) || repeats.rank() > 1 || (given != n && given != 1)) {
    return Fail(x, "repeat_interleave: repeats {} {} for {} slices; give as many integers, or one",
                Name(repeats.dtype()), ShapeText(repeats.shape()), n);
  }
  return BroadcastTo(Reshape(repeats, {given}), {n});
}

Expr RepeatInterleave(const Expr& x, const Expr& repeats, int64_t axis, int64_t size) {
  if (auto error = CheckSize("repeat_interleave", x, size)) return *error;
  const Expr each = RepeatsOfSlices(x, repeats, axis);
  if (!each.ok()) return each;
  // Element j of the result comes from the first slice whose copies end behind j.
  const Expr ends = CumSum(Cast(each, DType::kInt64), 0);
  const Expr from = SearchSorted(ends, Arange(x.graph(), 0, size, 1, DType::kInt64), true);
  return IndexSelect(x, axis, from);
}

}  // namespace tensord
