#include "core/tensor/scatter.h"

#include <limits>
#include <utility>

#include "core/ir/eval.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/pad.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"

namespace tensord {
namespace {

Expr FullOf(const Expr& like, Shape shape, Number value, DType dtype) {
  return Full(like.graph(), shape, value, dtype);
}

// Sums and products of narrow floats in float32, and whatever combines the narrowest.
Expr ScatterWide(ScatterKind kind, const Expr& x, const Expr& index, const Expr& values,
                 int64_t axis) {
  if (!x.ok()) return x;
  const bool rounds = kind == ScatterKind::kAdd || kind == ScatterKind::kMul;
  const bool widens =
      (rounds && IsFloat(x.dtype())) || (kind != ScatterKind::kSet && IsFloat8(x.dtype()));
  const DType wide = widens ? ComputeDType(x.dtype()) : x.dtype();
  return Cast(Scatter(kind, Cast(x, wide), index, Cast(values, wide), axis), x.dtype());
}

std::optional<Expr> CheckIndex(std::string_view name, const Expr& x, const Expr& index) {
  if (!x.ok()) return x;
  if (!index.ok()) return index;
  if (!IsInt(index.dtype())) {
    return Fail(x, "{}: the index is {}, it must hold integers", name, Name(index.dtype()));
  }
  return std::nullopt;
}

std::optional<Expr> CheckDTypes(std::string_view name, const Expr& x, const Expr& values) {
  if (!values.ok()) return values;
  if (values.dtype() == x.dtype()) return std::nullopt;
  return Fail(x, "{}: {} is written into {}; cast one of them first", name, Name(values.dtype()),
              Name(x.dtype()));
}

// Updates along one axis, made to fit the primitive.
struct Updates {
  Expr x, index, values;
  int64_t axis;
};

absl::StatusOr<Updates> Along(std::string_view name, const Expr& x, int64_t axis, const Expr& index,
                              const Expr& src) {
  const auto fail = [](const Expr& error) { return error.status(); };
  if (auto error = CheckIndex(name, x, index)) return fail(*error);
  if (auto error = CheckDTypes(name, x, src)) return fail(*error);
  if (IsNumberAlong(x, axis)) {
    const auto row = [](const Expr& e) { return e.rank() == 0 ? Reshape(e, {1}) : e; };
    return Along(name, Reshape(x, {1}), 0, row(index), row(src));
  }
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return fail(AxisError(name, x, axis));
  bool fits = index.rank() == x.rank() && src.rank() == x.rank();
  for (int64_t i = 0; fits && i < x.rank(); ++i) {
    fits = index.shape()[i] <= src.shape()[i] && (i == *at || index.shape()[i] <= x.shape()[i]);
  }
  if (!fits) {
    return InvalidArgument(
        "{}: index {} must have the rank of x {} and of src {}, and be no larger on any axis but "
        "{} of x",
        name, ShapeText(index.shape()), ShapeText(x.shape()), ShapeText(src.shape()), *at);
  }
  Updates updates{x, index, src, *at};
  std::vector<PadAmount> amounts(static_cast<size_t>(x.rank()));
  bool pads = false;
  for (int64_t i = 0; i < x.rank(); ++i) {
    updates.values = Shrink(updates.values, i, 0, index.shape()[i]);
    if (i == *at || index.shape()[i] == x.shape()[i]) continue;
    amounts[i].after = x.shape()[i] - index.shape()[i];
    pads = true;
  }
  if (pads) {  // with updates that are left out
    if (IsUnsigned(index.dtype())) updates.index = Cast(index, DType::kInt64);
    updates.index = Pad(updates.index, amounts, -1);
    updates.values = Pad(updates.values, amounts, 0);
  }
  return updates;
}

// The index [k] of slices along an axis of x, as the primitive wants it.
absl::StatusOr<Updates> Slices(std::string_view name, const Expr& x, int64_t axis,
                               const Expr& index, const Expr& source) {
  if (auto error = CheckIndex(name, x, index)) return error->status();
  if (auto error = CheckDTypes(name, x, source)) return error->status();
  if (IsNumberAlong(x, axis) && source.rank() == 0) {
    return Slices(name, Reshape(x, {1}), 0, index, Reshape(source, {1}));
  }
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError(name, x, axis).status();
  const int64_t count = NumElements(index.shape());
  Dims wanted(x.shape().begin(), x.shape().end());
  wanted[*at] = count;
  if (index.rank() > 1 || source.shape() != Shape(wanted)) {
    return InvalidArgument("{}: source {} at index {} along axis {} of {}: the source must be {}",
                           name, ShapeText(source.shape()), ShapeText(index.shape()), *at,
                           ShapeText(x.shape()), ShapeText(wanted));
  }
  Dims dims(static_cast<size_t>(x.rank()), 1);
  dims[*at] = count;
  return Updates{x, Reshape(index, dims), source, *at};
}

Expr Error(const Expr& x, const absl::Status& status) { return Expr(&x.graph(), status); }

Expr Reduced(const Updates& u, ReduceMode mode, bool include_self) {
  const DType dtype = u.x.dtype();
  const Shape all = u.values.shape();
  const Expr written = Scatter(ScatterKind::kSet, FullOf(u.x, u.x.shape(), false, DType::kBool),
                               u.index, FullOf(u.x, all, true, DType::kBool), u.axis);
  const auto from = [&](ReduceKind kind) {
    if (include_self) return u.x;
    const Scalar identity = ReduceIdentity(kind, dtype);
    const Number start = IsFloat(dtype) ? Number(identity.f) : Number(identity.i);
    return Where(written, FullOf(u.x, u.x.shape(), start, dtype), u.x);
  };
  switch (mode) {
    case ReduceMode::kSum:
      return ScatterWide(ScatterKind::kAdd, from(ReduceKind::kAdd), u.index, u.values, u.axis);
    case ReduceMode::kProd:
      return ScatterWide(ScatterKind::kMul, from(ReduceKind::kMul), u.index, u.values, u.axis);
    case ReduceMode::kMax:
      return ScatterWide(ScatterKind::kMax, from(ReduceKind::kMax), u.index, u.values, u.axis);
    case ReduceMode::kMin:
      return ScatterWide(ScatterKind::kMin, from(ReduceKind::kMin), u.index, u.values, u.axis);
    case ReduceMode::kMean:
      break;
  }
  const DType wide = IsFloat(dtype) ? ComputeDType(dtype) : dtype;
  const Expr sum = Scatter(ScatterKind::kAdd, Cast(from(ReduceKind::kAdd), wide), u.index,
                           Cast(u.values, wide), u.axis);
  const Expr one = FullOf(u.x, u.x.shape(), 1, DType::kInt32);
  const Expr self = include_self ? one : Where(written, 0, one);
  const Expr count =
      Scatter(ScatterKind::kAdd, self, u.index, FullOf(u.x, all, 1, DType::kInt32), u.axis);
  if (IsFloat(dtype)) return Cast(sum / Cast(count, wide), dtype);
  return Cast(FloorDivide(sum, Cast(count, wide)), dtype);
}

}  // namespace

Expr Scatter(ScatterKind kind, const Expr& x, const Expr& index, const Expr& values, int64_t axis) {
  return Apply(Op::kScatter, {x, index, values}, {static_cast<int64_t>(kind), axis});
}

Expr ReadScattered(const Expr& x, const Expr& index, Shape values, int64_t axis) {
  if (!x.ok()) return x;
  if (!index.ok()) return index;
  const int64_t rank = static_cast<int64_t>(values.size());
  const int64_t rest = x.rank() - axis - 1, size = x.shape()[axis];
  const int64_t outer = NumElements(x.shape().first(axis));
  const int64_t row = NumElements(x.shape().last(rest));
  const DType dtype = PositionDType(NumElements(x.shape()), index.dtype());
  // A number along the first or the last axes of the values.
  const auto count = [&](int64_t n, int64_t first, int64_t last) {
    Dims dims(values.begin(), values.end());
    for (int64_t i = 0; i < rank; ++i) {
      if (i < first || i >= last) dims[i] = 1;
    }
    return Reshape(Arange(x.graph(), 0, n, 1, dtype), dims);
  };
  const Expr raw = Cast(index, dtype);
  Expr position = raw;
  if (outer > 1) position = position + count(outer, 0, axis) * size;
  const bool by_row = NumElements(index.shape().last(rest)) == 1;
  if (!by_row) position = position * row + count(row, rank - rest, rank);
  position = Where(LogicalAnd(Ge(raw, 0), Lt(raw, size)), position, -1);
  if (!by_row) {
    const Expr flat = Reshape(x, {NumElements(x.shape())});
    return Apply(Op::kGather, {flat, BroadcastTo(position, values)});
  }
  Dims rows = {outer * size};
  rows.insert(rows.end(), values.end() - rest, values.end());
  const Expr lead = Reshape(position, position.shape().first(rank - rest));
  return Apply(Op::kGather, {Reshape(x, rows), BroadcastTo(lead, values.first(rank - rest))});
}

Expr ScatterAlong(const Expr& x, int64_t axis, const Expr& index, const Expr& src,
                  ScatterKind kind) {
  const absl::StatusOr<Updates> u = Along("scatter", x, axis, index, src);
  if (!u.ok()) return Error(x, u.status());
  return Reshape(ScatterWide(kind, u->x, u->index, u->values, u->axis), x.shape());
}

std::optional<ReduceMode> ReduceModeOf(std::string_view name) {
  constexpr std::pair<std::string_view, ReduceMode> kModes[] = {{"sum", ReduceMode::kSum},
                                                                {"prod", ReduceMode::kProd},
                                                                {"mean", ReduceMode::kMean},
                                                                {"amax", ReduceMode::kMax},
                                                                {"amin", ReduceMode::kMin}};
  for (const auto& [known, mode] : kModes) {
    if (name == known) return mode;
  }
  return std::nullopt;
}

Expr ScatterReduce(const Expr& x, int64_t axis, const Expr& index, const Expr& src, ReduceMode mode,
                   bool include_self) {
  const absl::StatusOr<Updates> u = Along("scatter_reduce", x, axis, index, src);
  if (!u.ok()) return Error(x, u.status());
  return Reshape(Reduced(*u, mode, include_self), x.shape());
}

Expr IndexAdd(const Expr& x, int64_t axis, const Expr& index, const Expr& source, Number alpha) {
  const absl::StatusOr<Updates> u = Slices("index_add", x, axis, index, source);
  if (!u.ok()) return Error(x, u.status());
  const bool scales = alpha.AsDouble() != 1;
  const Expr values = scales ? Cast(u->values * alpha, x.dtype()) : u->values;
  return Reshape(ScatterWide(ScatterKind::kAdd, u->x, u->index, values, u->axis), x.shape());
}

Expr IndexCopy(const Expr& x, int64_t axis, const Expr& index, const Expr& source) {
  const absl::StatusOr<Updates> u = Slices("index_copy", x, axis, index, source);
  if (!u.ok()) return Error(x, u.status());
  return Reshape(Scatter(ScatterKind::kSet, u->x, u->index, u->values, u->axis), x.shape());
}

Expr IndexFill(const Expr& x, int64_t axis, const Expr& index, const Expr& value) {
  if (auto error = CheckIndex("index_fill", x, index)) return *error;
  if (!value.ok()) return value;
  if (IsNumberAlong(x, axis)) {
    return Reshape(IndexFill(Reshape(x, {1}), 0, index, value), {});
  }
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("index_fill", x, axis);
  if (value.rank() > 0) {
    return Fail(x, "index_fill: the value has shape {}, it must be one number",
                ShapeText(value.shape()));
  }
  Dims dims(x.shape().begin(), x.shape().end());
  dims[*at] = NumElements(index.shape());
  return IndexCopy(x, axis, index, BroadcastTo(Cast(value, x.dtype()), dims));
}

Expr IndexReduce(const Expr& x, int64_t axis, const Expr& index, const Expr& source,
                 ReduceMode mode, bool include_self) {
  const absl::StatusOr<Updates> u = Slices("index_reduce", x, axis, index, source);
  if (!u.ok()) return Error(x, u.status());
  return Reshape(Reduced(*u, mode, include_self), x.shape());
}

Expr ScatterAt(const Expr& x, absl::Span<const int64_t> axes, absl::Span<const Expr> indices,
               const Expr& values, ScatterKind kind) {
  if (!x.ok()) return x;
  if (auto error = CheckDTypes("index_put", x, values)) return *error;
  const Expr position = PositionAt(x, axes, indices);
  if (!position.ok()) return position;
  const Dims order = AxesFirst(x, axes);
  const int64_t picked = static_cast<int64_t>(axes.size());
  const Expr front = Permute(x, order);
  const Shape rest = front.ok() ? front.shape().subspan(picked) : Shape();
  Dims rows = {NumElements(front.shape().first(picked))}, where, all;
  rows.insert(rows.end(), rest.begin(), rest.end());
  where.assign(position.shape().begin(), position.shape().end());
  all = where;
  where.insert(where.end(), rest.size(), 1);
  all.insert(all.end(), rest.begin(), rest.end());
  const std::optional<Dims> common = BroadcastShapes(all, values.shape());
  if (!common || Shape(*common) != Shape(all)) {
    return Fail(x, "index_put: values {} do not broadcast to {}", ShapeText(values.shape()),
                ShapeText(all));
  }
  const Expr result = ScatterWide(kind, Reshape(front, rows), Reshape(position, where),
                                  BroadcastTo(values, all), 0);
  if (!result.ok()) return result;
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  return Permute(Reshape(result, front.shape()), back);
}

Expr Put(const Expr& x, const Expr& index, const Expr& source, bool accumulate) {
  if (auto error = CheckIndex("put", x, index)) return *error;
  if (!source.ok()) return source;
  if (NumElements(source.shape()) != NumElements(index.shape())) {
    return Fail(x, "put: index {} and source {} differ in size", ShapeText(index.shape()),
                ShapeText(source.shape()));
  }
  const int64_t count = NumElements(index.shape());
  const Expr flat = Reshape(x, {NumElements(x.shape())});
  const Expr at = Reshape(index, {count});
  const Expr put = ScatterAt(flat, {0}, {&at, 1}, Reshape(source, {count}),
                             accumulate ? ScatterKind::kAdd : ScatterKind::kSet);
  return Reshape(put, x.shape());
}

Expr MaskedScatter(const Expr& x, const Expr& mask, const Expr& source) {
  if (!x.ok()) return x;
  if (!mask.ok()) return mask;
  if (auto error = CheckDTypes("masked_scatter", x, source)) return *error;
  if (mask.dtype() != DType::kBool) {
    return Fail(x, "masked_scatter: the mask is {}, it must be bool", Name(mask.dtype()));
  }
  Expr values = x, holds = mask;
  if (auto error = UnifyShapes("masked_scatter", {&values, &holds})) return *error;
  const int64_t elements = NumElements(values.shape());
  const DType counter = PositionDType(elements, DType::kInt32);
  const Expr number = CumSum(Cast(Reshape(holds, {elements}), counter), 0) - 1;
  const Expr next = Apply(Op::kGather, {Reshape(source, {NumElements(source.shape())}), number});
  return Where(holds, Reshape(next, values.shape()), values);
}

Expr BinCount(const Expr& x, int64_t size, const std::optional<Expr>& weights) {
  if (auto error = CheckIndex("bincount", x, x)) return *error;
  if (size < 0) return Fail(x, "bincount: size {} is negative", size);
  if (weights && !weights->ok()) return *weights;
  if (weights && weights->shape() != x.shape()) {
    return Fail(x, "bincount: weights {} for {}", ShapeText(weights->shape()),
                ShapeText(x.shape()));
  }
  const int64_t count = NumElements(x.shape());
  const DType dtype = weights ? weights->dtype() : DType::kInt32;
  const Expr zeros = FullOf(x, {size}, 0, dtype);
  const Expr each = weights ? Reshape(*weights, {count}) : FullOf(x, {count}, 1, dtype);
  return ScatterWide(ScatterKind::kAdd, zeros, Reshape(x, {count}), each, 0);
}

Expr HistC(const Expr& x, int64_t bins, double low, double high) {
  if (!x.ok()) return x;
  if (!IsFloat(x.dtype())) return Fail(x, "histc: x is {}, it must be a float", Name(x.dtype()));
  if (bins < 1) return Fail(x, "histc: {} bins", bins);
  if (high < low) return Fail(x, "histc: max {} is less than min {}", high, low);
  const int64_t count = NumElements(x.shape());
  const Expr f = Reshape(Cast(x, ComputeDType(x.dtype())), {count});
  Expr from = Constant(x.graph(), low, f.dtype()), to = Constant(x.graph(), high, f.dtype());
  if (low == high && count > 0) {
    const Expr least = Min(f), most = Max(f), equal = Eq(least, most);
    from = Where(equal, least - 1, least);
    to = Where(equal, most + 1, most);
  }
  const Expr inside = LogicalAnd(Ge(f, from), Ge(to, f));
  const Expr part = Floor((f - from) / (to - from) * bins);
  const Expr bin = Where(inside, Cast(Minimum(part, bins - 1), DType::kInt32), -1);
  const Expr ones = FullOf(x, {count}, 1, f.dtype());
  return Cast(Scatter(ScatterKind::kAdd, FullOf(x, {bins}, 0, f.dtype()), bin, ones, 0), x.dtype());
}

Expr GatherGradient(const Expr& x, const Expr& index, const Expr& g) {
  Dims dims(index.shape().begin(), index.shape().end());
  dims.insert(dims.end(), x.rank() - 1, 1);
  return ScatterWide(ScatterKind::kAdd, FullLike(x, 0), Reshape(index, dims), g, 0);
}

Expr ScatterGradient(const std::array<Expr, 3>& operands, const Expr& y, const Expr& g, int i) {
  const auto& [x, index, values] = operands;
  const Shape shape = values.shape();
  const int64_t axis = y.node()->scatter_axis();
  const auto read = [&, &index = index](const Expr& from) {
    return ReadScattered(from, index, shape, axis);
  };
  switch (y.node()->scatter_kind()) {
    case ScatterKind::kAdd:
      return i == 0 ? g : read(g);
    case ScatterKind::kSet: {
      if (i == 0) return Scatter(ScatterKind::kSet, g, index, FullLike(values, 0), axis);
      // Of the updates of one place the last one counts.
      const int64_t rest = x.rank() - axis - 1, updates = values.rank() - rest - axis;
      Expr number = FullOf(x, shape, 0, DType::kInt32);
      for (int64_t a = axis; a < axis + updates; ++a) {
        number = number * shape[a] + IndexAlong(number, a);
      }
      const Expr last =
          Scatter(ScatterKind::kSet, FullOf(x, x.shape(), -1, DType::kInt32), index, number, axis);
      return Where(Eq(read(last), number), read(g), 0);
    }
    case ScatterKind::kMul: {
      if (i == 0) return g * Scatter(ScatterKind::kMul, FullLike(x, 1), index, values, axis);
      // By division, but for factors of 0: the product of the others, if there is no second 0.
      const auto is_zero = [](const Expr& e) { return Eq(e, 0); };
      const Expr factors = Where(is_zero(values), 1, values);
      const Expr zeros = Scatter(ScatterKind::kAdd, Cast(is_zero(x), DType::kInt32), index,
                                 Cast(is_zero(values), DType::kInt32), axis);
      const Expr others = Scatter(ScatterKind::kMul, Where(is_zero(x), 1, x), index, factors, axis);
      const Expr by_zero = read(Where(Eq(zeros, 1), others, 0));
      return read(g) * Where(is_zero(values), by_zero, read(y) / factors);
    }
    case ScatterKind::kMax:
    case ScatterKind::kMin: {
      // Ties share.
      const Expr mine = Eq(x, y), theirs = Eq(values, read(y));
      const Expr ties =
          Scatter(ScatterKind::kAdd, Cast(mine, g.dtype()), index, Cast(theirs, g.dtype()), axis);
      const Expr share = g / ties;
      return i == 0 ? Where(mine, share, 0) : Where(theirs, read(share), 0);
    }
  }
  return g;
}

}  // namespace tensord
