#include "core/tensor/compact.h"

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
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

Distinct FindDistinct(const Expr& x, bool consecutive) {
  if (!x.ok()) return {x, x, x, x};
  const int64_t elements = NumElements(x.shape());
  const Expr flat = Reshape(x, {elements});
  const Expr place = Arange(x.graph(), 0, elements, 1, DType::kInt32);
  Expr values = flat, order = place;
  if (!consecutive) {
    const Sorted sorted = Sort(flat, 0);
    values = sorted.values;
    order = sorted.indices;
  }
  values = Contiguous(values);
  order = Contiguous(order);
  const Expr before = Apply(Op::kGather, {values, place - 1});
  const Expr starts = LogicalOr(Eq(place, 0), Ne(values, before));
  const Expr group = CumSum(Cast(starts, DType::kInt32), 0) - 1;
  const Expr count = Sum(Cast(starts, DType::kInt32));
  return {values, order, group, count};
}

UniqueResult Unique(const Expr& x, int64_t count, bool consecutive) {
  if (auto error = CheckSize("unique", x, count)) return {*error, *error, *error};
  const Distinct found = FindDistinct(x, consecutive);
  const int64_t elements = NumElements(x.shape());
  const auto zeros = [&](int64_t size, DType dtype) { return Zeros(x.graph(), {size}, dtype); };
  const Expr group = Contiguous(found.group);
  const Expr values = Scatter(ScatterKind::kSet, zeros(count, x.dtype()), group, found.values, 0);
  const Expr inverse =
      Scatter(ScatterKind::kSet, zeros(elements, DType::kInt32), found.order, group, 0);
  const Expr counts = BinCount(group, count);
  return {values, Reshape(inverse, x.shape()), counts};
}

}  // namespace tensord
