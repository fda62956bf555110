#include "core/tensor/index.h"

#include <limits>
#include <numeric>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"

namespace tensord {
namespace {

// Wide enough to count `elements` and to hold every value of the index.
DType PositionDType(int64_t elements, DType index) {
  const bool wide =
      elements > std::numeric_limits<int32_t>::max() || !IsLosslessCast(index, DType::kInt32);
  return wide ? DType::kInt64 : DType::kInt32;
}

struct Picked {
  int64_t axis;
  Expr index;
};

// Replaces axes by what index tensors pick from them; `picked` is in the order of the axes.
Expr Pick(const Expr& x, std::vector<Picked> picked) {
  // Picked axes to the front, as one.
  Dims order, rest;
  std::vector<bool> taken(x.rank());
  int64_t elements = 1;
  DType dtype = DType::kInt32;
  bool adjacent = true;
  for (const Picked& p : picked) {
    adjacent &= p.axis == picked[0].axis + static_cast<int64_t>(order.size());
    taken[p.axis] = true;
    order.push_back(p.axis);
    elements *= x.shape()[p.axis];
    dtype = Promote(dtype, PositionDType(x.shape()[p.axis], p.index.dtype()));
  }
  dtype = Promote(dtype, PositionDType(elements, DType::kInt32));
  Dims flat = {elements};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (taken[i]) continue;
    order.push_back(i);
    flat.push_back(x.shape()[i]);
  }
  const Expr rows = Reshape(Permute(x, order), flat);

  std::optional<Expr> position, inside;
  for (const Picked& p : picked) {
    const int64_t size = x.shape()[p.axis];
    const Expr raw = Cast(p.index, dtype);
    const Expr i = Where(Lt(raw, 0), raw + size, raw);
    const Expr valid = LogicalAnd(Ge(i, 0), Lt(i, size));
    position = position ? *position * size + i : i;
    inside = inside ? LogicalAnd(*inside, valid) : valid;
  }
  // A single index outside is outside for Gather too; several might add up to a valid position.
  const Expr where = picked.size() == 1 ? *position : Where(*inside, *position, -1);
  const Expr result = Apply(Op::kGather, {rows, where});
  if (!result.ok() || !adjacent || picked[0].axis == 0) return result;

  // The axes of the index from the front to where the first picked axis was.
  const int64_t count = where.rank(), before = picked[0].axis;
  Dims back;
  for (int64_t i = 0; i < before; ++i) back.push_back(count + i);
  for (int64_t i = 0; i < count; ++i) back.push_back(i);
  for (int64_t i = count + before; i < result.rank(); ++i) back.push_back(i);
  return Permute(result, back);
}

}  // namespace

Expr Index(const Expr& x, absl::Span<const IndexItem> items) {
  if (!x.ok()) return x;
  int64_t used = 0, ellipses = 0;
  for (const IndexItem& item : items) {
    if (std::holds_alternative<Ellipsis>(item)) {
      ++ellipses;
    } else if (!std::holds_alternative<NewAxis>(item)) {
      ++used;
    }
  }
  if (ellipses > 1) return Fail(x, "index: more than one ellipsis");
  if (used > x.rank()) {
    return Fail(x, "index: {} indices for shape {}", used, ShapeText(x.shape()));
  }
  Expr result = x;
  int64_t axis = 0;
  std::vector<Picked> picked;
  std::optional<Dims> picked_shape = Dims{};
  for (const IndexItem& item : items) {
    if (const int64_t* i = std::get_if<int64_t>(&item)) {
      result = Select(result, axis, *i);
    } else if (const Slice* slice = std::get_if<Slice>(&item)) {
      result = SliceAxis(result, axis++, *slice);
    } else if (std::holds_alternative<NewAxis>(item)) {
      result = Unsqueeze(result, axis++);
    } else if (std::holds_alternative<Ellipsis>(item)) {
      axis += x.rank() - used;
    } else {
      const Expr& index = std::get<Expr>(item);
      if (!index.ok()) return index;
      if (!IsInt(index.dtype())) {
        return Fail(x, "index: a tensor of {} as an index; it must hold integers{}",
                    Name(index.dtype()),
                    index.dtype() == DType::kBool ? "; use where or masked_fill for masks" : "");
      }
      if (picked_shape) picked_shape = BroadcastShapes(*picked_shape, index.shape());
      if (!picked_shape) return Fail(x, "index: the shapes of the index tensors do not broadcast");
      picked.push_back({axis++, index});
    }
    if (!result.ok()) return result;
  }
  return picked.empty() ? result : Pick(result, picked);
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
