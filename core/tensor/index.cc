#include "core/tensor/index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scatter.h"
#include "core/tensor/view.h"

namespace tensord {
namespace {

struct Picked {
  int64_t axis;
  Expr index;
};

// What is picked, as GatherAt and ScatterAt take it.
struct Places {
  explicit Places(const std::vector<Picked>& picked) {
    bool adjacent = true;
    for (const Picked& p : picked) {
      adjacent &= p.axis == picked[0].axis + static_cast<int64_t>(axes.size());
      axes.push_back(p.axis);
      indices.push_back(p.index);
    }
    before = adjacent ? picked[0].axis : 0;
  }
  // The number of axes that the indices have together, of what GatherAt makes of x.
  int64_t Count(const Expr& x, const Expr& read) const {
    return read.rank() - (x.rank() - static_cast<int64_t>(axes.size()));
  }

  Dims axes;
  std::vector<Expr> indices;
  int64_t before;  // how many axes of the result come before those of the indices
};

// Replaces axes by what index tensors pick from them.
Expr Pick(const Expr& x, const std::vector<Picked>& picked) {
  const Places places(picked);
  const Expr read = GatherAt(x, places.axes, places.indices);
  if (!read.ok() || places.before == 0) return read;
  // The axes of the indices from the front to where the first picked axis was.
  const int64_t count = places.Count(x, read);
  Dims back;
  for (int64_t i = 0; i < places.before; ++i) back.push_back(count + i);
  for (int64_t i = 0; i < count; ++i) back.push_back(i);
  for (int64_t i = count + places.before; i < read.rank(); ++i) back.push_back(i);
  return Permute(read, back);
}

// The inverse of Pick: of several values for one place the last stays.
Expr Put(const Expr& x, const std::vector<Picked>& picked, const Expr& value) {
  const Places places(picked);
  const Expr read = Pick(x, picked);
  if (!read.ok()) return read;
  const int64_t count = places.Count(x, read);
  Dims order;
  for (int64_t i = 0; i < count; ++i) order.push_back(places.before + i);
  for (int64_t i = 0; i < read.rank(); ++i) {
    if (i < places.before || i >= places.before + count) order.push_back(i);
  }
  const Expr wide = Permute(BroadcastTo(value, read.shape()), order);
  return ScatterAt(x, places.axes, places.indices, wide, ScatterKind::kSet);
}

// Tensors among indices, at the axes of what all other items read.
struct Parts {
  Expr basic;
  std::vector<Picked> picked;
  std::vector<Picked> numbers;  // tensors without axes; their axes come last
};

absl::StatusOr<Parts> TakeApart(const Expr& x, absl::Span<const IndexItem> items) {
  TD_RETURN_IF_ERROR(x.status());
  int64_t used = 0, ellipses = 0;
  for (const IndexItem& item : items) {
    if (std::holds_alternative<Ellipsis>(item)) {
      ++ellipses;
    } else if (!std::holds_alternative<NewAxis>(item)) {
      ++used;
    }
  }
  if (ellipses > 1) return FailIndex(x, "index: more than one ellipsis").status();
  if (used > x.rank()) {
    return FailIndex(x, "index: {} indices for shape {}", used, ShapeText(x.shape())).status();
  }
  Parts parts = {.basic = x, .picked = {}, .numbers = {}};
  Expr& basic = parts.basic;
  int64_t axis = 0;
  Dims picked_shape;
  for (const IndexItem& item : items) {
    if (const int64_t* i = std::get_if<int64_t>(&item)) {
      basic = Select(basic, axis, *i);
    } else if (const Slice* slice = std::get_if<Slice>(&item)) {
      basic = SliceAxis(basic, axis++, *slice);
    } else if (std::holds_alternative<NewAxis>(item)) {
      basic = Unsqueeze(basic, axis++);
    } else if (std::holds_alternative<Ellipsis>(item)) {
      axis += x.rank() - used;
    } else {
      const Expr& index = std::get<Expr>(item);
      TD_RETURN_IF_ERROR(index.status());
      if (!IsInt(index.dtype())) {
        return FailIndex(
                   x, "index: a tensor of {} as an index; it must hold integers{}",
                   Name(index.dtype()),
                   index.dtype() == DType::kBool ? "; use where or masked_fill for masks" : "")
            .status();
      }
      if (index.rank() == 0) {
        parts.numbers.push_back({axis, index});
        basic = MoveAxis(basic, axis, -1);
        continue;
      }
      const std::optional<Dims> common = BroadcastShapes(picked_shape, index.shape());
      if (!common) {
        return FailIndex(x, "index: the shapes {} and {} of index tensors do not broadcast",
                         ShapeText(picked_shape), ShapeText(index.shape()))
            .status();
      }
      picked_shape = *common;
      parts.picked.push_back({axis++, index});
    }
    TD_RETURN_IF_ERROR(basic.status());
  }
  const int64_t count = static_cast<int64_t>(parts.numbers.size());
  for (int64_t i = 0; i < count; ++i) parts.numbers[i].axis = basic.rank() - count + i;
  return parts;
}

}  // namespace

Expr Index(const Expr& x, absl::Span<const IndexItem> items) {
  if (!x.ok()) return x;
  const absl::StatusOr<Parts> parts = TakeApart(x, items);
  if (!parts.ok()) return Expr(&x.graph(), parts.status());
  Expr result = parts->basic;
  if (!parts->numbers.empty()) result = Pick(result, parts->numbers);
  return parts->picked.empty() ? result : Pick(result, parts->picked);
}

Expr SetIndex(const Expr& x, absl::Span<const IndexItem> items, const Expr& value) {
  if (!x.ok()) return x;
  if (!value.ok()) return value;
  const absl::StatusOr<Parts> parts = TakeApart(x, items);
  if (!parts.ok()) return Expr(&x.graph(), parts.status());
  const Expr& basic = parts->basic;
  Expr given = Cast(value, x.dtype());
  // As in NumPy, axes of size 1 in front of the value do not count.
  while (given.rank() > 0 && given.shape()[0] == 1) given = Squeeze(given, 0);
  Expr changed = given;
  if (parts->numbers.empty()) {
    changed = parts->picked.empty() ? BroadcastTo(given, basic.shape())
                                    : Put(basic, parts->picked, given);
  } else {
    // What the numbers choose, changed and put back where they say.
    const Expr chosen = Pick(basic, parts->numbers);
    const Expr inner = parts->picked.empty() ? BroadcastTo(given, chosen.shape())
                                             : Put(chosen, parts->picked, given);
    if (!inner.ok()) return inner;
    const std::vector<Picked>& numbers = parts->numbers;
    Expr here = Full(x.graph(), {}, true, DType::kBool);
    Expr spread = inner;
    for (const Picked& number : numbers) {
      const int64_t size = basic.shape()[number.axis];
      const DType dtype = PositionDType(size, number.index.dtype());
      const Expr raw = Cast(number.index, dtype);
      here = LogicalAnd(
          here, Eq(IndexAlong(basic, number.axis, dtype), Where(Lt(raw, 0), raw + size, raw)));
      spread = Unsqueeze(spread, -1);
    }
    changed = Where(here, BroadcastTo(spread, basic.shape()), basic);
  }
  return WriteView("index", x, basic, changed);
}

Expr WriteView(std::string_view name, const Expr& x, const Expr& view, const Expr& value) {
  for (const Expr* e : {&x, &view, &value}) {
    if (!e->ok()) return *e;
  }
  if (value.shape() != view.shape()) {
    return Fail(x, "{}: the value is {}, its place {}", name, ShapeText(value.shape()),
                ShapeText(view.shape()));
  }
  const std::optional<ViewPath> path = ViewPath::Between(x.node(), view.node());
  if (!path) return Fail(x, "{}: elements of the place are not each one of the tensor's", name);
  return path->Write(x, Cast(value, x.dtype()));
}

Expr Embedding(const Expr& table, const Expr& index) {
  if (!table.ok()) return table;
  if (!index.ok()) return index;
  if (table.rank() == 0) return Fail(table, "embedding: the table has no axes");
  if (!IsInt(index.dtype())) {
    return Fail(table, "embedding: the index is {}, it must hold integers", Name(index.dtype()));
  }
  return Apply(Op::kGather, {table, index});
}

Expr GatherAlong(const Expr& x, int64_t axis, const Expr& index) {
  if (!x.ok()) return x;
  if (!index.ok()) return index;
  if (IsNumberAlong(x, axis) && index.rank() < 2) {
    const Expr row = Reshape(index, {NumElements(index.shape())});
    return Reshape(GatherAlong(Reshape(x, {1}), 0, row), index.shape());
  }
  if (IsInt(index.dtype()) && NumElements(index.shape()) == 0) {  // nothing, of whatever shape
    return Reshape(Shrink(Reshape(x, {-1}), 0, 0, 0), index.shape());
  }
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("gather", x, axis);
  bool fits = index.rank() == x.rank();
  for (int64_t i = 0; fits && i < x.rank(); ++i) {
    fits = i == *at || index.shape()[i] <= x.shape()[i];
  }
  if (!fits) {
    return Fail(x, "gather: index {} is larger than {} or has another rank",
                ShapeText(index.shape()), ShapeText(x.shape()));
  }
  if (!IsInt(index.dtype())) {
    return Fail(x, "gather: the index is {}, it must hold integers", Name(index.dtype()));
  }
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (auto error = NeedsNumber("gather", x, i)) return *error;
  }
  const int64_t elements = NumElements(x.shape());
  const DType dtype = PositionDType(elements, index.dtype());
  const Expr along = Cast(index, dtype);
  Expr position = FullLike(along, 0);
  int64_t stride = 1;
  for (int64_t i = x.rank() - 1; i >= 0; --i) {
    position = position + (i == *at ? along : IndexAlong(along, i, dtype)) * stride;
    stride *= x.shape()[i];
  }
  const Expr inside = LogicalAnd(Ge(along, 0), Lt(along, x.shape()[*at]));
  return Apply(Op::kGather, {Reshape(x, {elements}), Where(inside, position, -1)});
}

Expr TakeAlong(const Expr& x, int64_t axis, const Expr& index) {
  if (!x.ok()) return x;
  if (!index.ok()) return index;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("take_along_dim", x, axis);
  if (index.rank() != x.rank()) {
    return Fail(x, "take_along_dim: index {} and {} differ in rank", ShapeText(index.shape()),
                ShapeText(x.shape()));
  }
  Dims from(x.shape().begin(), x.shape().end());
  Dims to(index.shape().begin(), index.shape().end());
  from[*at] = to[*at] = 1;
  const std::optional<Dims> common = BroadcastShapes(from, to);
  if (!common) {
    return Fail(x, "take_along_dim: index {} and {} do not broadcast besides axis {}",
                ShapeText(index.shape()), ShapeText(x.shape()), *at);
  }
  from = to = *common;
  from[*at] = x.shape()[*at];
  to[*at] = index.shape()[*at];
  if (!IsInt(index.dtype())) {
    return Fail(x, "take_along_dim: the index is {}, it must hold integers", Name(index.dtype()));
  }
  const Expr whole = BroadcastTo(Cast(index, PositionDType(from[*at], index.dtype())), to);
  const Expr wrapped = Where(Lt(whole, 0), whole + from[*at], whole);
  return GatherAlong(BroadcastTo(x, from), *at, wrapped);
}

Expr IndexSelect(const Expr& x, int64_t axis, const Expr& index) {
  if (!x.ok()) return x;
  if (!index.ok()) return index;
  if (IsNumberAlong(x, axis)) {
    if (NumElements(index.shape()) != 1) {
      return Fail(x, "index_select: index {} of a tensor without axes, it must be one number",
                  ShapeText(index.shape()));
    }
    return Reshape(IndexSelect(Reshape(x, {1}), 0, index), {});
  }
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("index_select", x, axis);
  if (index.rank() > 1 || !IsInt(index.dtype())) {
    return Fail(x, "index_select: index {} {}, it must be one row of integers", Name(index.dtype()),
                ShapeText(index.shape()));
  }
  const int64_t count = NumElements(index.shape());
  return MoveAxis(Apply(Op::kGather, {MoveAxis(x, *at, 0), Reshape(index, {count})}), 0, *at);
}

Expr Take(const Expr& x, const Expr& index) {
  if (!x.ok()) return x;
  const Expr flat = Reshape(x, {NumElements(x.shape())});
  return GatherAt(flat, {0}, {&index, 1});
}

DType PositionDType(int64_t elements, DType index) {
  const bool wide =
      elements > std::numeric_limits<int32_t>::max() || !IsLosslessCast(index, DType::kInt32);
  return wide ? DType::kInt64 : DType::kInt32;
}

Dims AxesFirst(const Expr& x, absl::Span<const int64_t> axes) {
  Dims order(axes.begin(), axes.end());
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  }
  return order;
}

Expr PositionAt(const Expr& x, absl::Span<const int64_t> axes, absl::Span<const Expr> indices) {
  if (!x.ok()) return x;
  if (axes.size() != indices.size() || axes.empty()) {
    return Fail(x, "index: {} axes and {} index tensors", axes.size(), indices.size());
  }
  Dims shape, seen;
  int64_t elements = 1;
  DType dtype = DType::kInt32;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Expr& index = indices[i];
    if (!index.ok()) return index;
    if (axes[i] < 0 || axes[i] >= x.rank()) return AxisError("index", x, axes[i]);
    if (std::find(seen.begin(), seen.end(), axes[i]) != seen.end()) {
      return Fail(x, "index: axis {} is indexed twice", axes[i]);
    }
    seen.push_back(axes[i]);
    if (auto error = NeedsNumber("index", x, axes[i])) return *error;
    if (!IsInt(index.dtype())) {
      return Fail(x, "index: a tensor of {} as an index; it must hold integers",
                  Name(index.dtype()));
    }
    const std::optional<Dims> common = BroadcastShapes(shape, index.shape());
    if (!common) return Fail(x, "index: the shapes of the index tensors do not broadcast");
    shape = *common;
    elements *= x.shape()[axes[i]];
    dtype = Promote(dtype, PositionDType(x.shape()[axes[i]], index.dtype()));
  }
  dtype = Promote(dtype, PositionDType(elements, DType::kInt32));
  std::optional<Expr> position, inside;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = x.shape()[axes[i]];
    const Expr raw = Cast(indices[i], dtype);
    const Expr index = Where(Lt(raw, 0), raw + size, raw);
    const Expr valid = LogicalAnd(Ge(index, 0), Lt(index, size));
    position = position ? *position * size + index : index;
    inside = inside ? LogicalAnd(*inside, valid) : valid;
  }
  // A single index outside is outside for Gather too; several might add up to a valid position.
  return axes.size() == 1 ? *position : Where(*inside, *position, -1);
}

Expr GatherAt(const Expr& x, absl::Span<const int64_t> axes, absl::Span<const Expr> indices) {
  const Expr position = PositionAt(x, axes, indices);
  if (!position.ok()) return position;
  const Expr front = Permute(x, AxesFirst(x, axes));
  const size_t picked = axes.size();
  Dims rows = {NumElements(front.shape().first(picked))};
  rows.insert(rows.end(), front.shape().begin() + picked, front.shape().end());
  return Apply(Op::kGather, {Reshape(front, rows), position});
}

Expr OneHot(const Expr& labels, int64_t classes) {
  if (!labels.ok()) return labels;
  if (classes < 0) return Fail(labels, "one_hot: {} classes", classes);
  if (!IsInt(labels.dtype())) {
    return Fail(labels, "one_hot: labels are {}, they must be integers", Name(labels.dtype()));
  }
  Expr apart = Unsqueeze(labels, -1);
  Expr counter = Arange(labels.graph(), 0, classes, 1, DType::kInt32);
  return Cast(Eq(apart, counter), DType::kInt32);
}

}  // namespace tensord
