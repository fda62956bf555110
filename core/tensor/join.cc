#include "core/tensor/join.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// A vector without elements adds nothing to a cat, whatever the other shapes are.
bool IsNothing(const Expr& x) { return x.rank() == 1 && x.shape()[0] == 0; }

template <typename Function>
std::vector<Expr> Each(absl::Span<const Expr> operands, Function function) {
  std::vector<Expr> results;
  for (const Expr& x : operands) results.push_back(function(x));
  return results;
}

}  // namespace

Expr Cat(absl::Span<const Expr> operands, int64_t axis) {
  const Expr* first = &operands[0];
  for (const Expr& x : operands) {
    if (!x.ok()) return x;
    if (IsNothing(*first)) first = &x;
  }
  const std::optional<int64_t> at = ResolveAxis(axis, first->rank());
  if (!at) return AxisError("cat", *first, axis);
  DType dtype = operands[0].dtype();
  int64_t total = 0;
  for (const Expr& x : operands) {
    dtype = Promote(dtype, x.dtype());
    if (IsNothing(x)) continue;
    bool fits = x.rank() == first->rank();
    for (int64_t i = 0; fits && i < x.rank(); ++i) {
      fits = i == *at || x.shape()[i] == first->shape()[i];
    }
    if (!fits) {
      return Fail(x, "cat: {} and {} differ in more than axis {}", ShapeText(first->shape()),
                  ShapeText(x.shape()), axis);
    }
    const absl::StatusOr<int64_t> sum = SizePlus(total, x.shape()[*at]);
    if (!sum.ok()) return Expr(&x.graph(), sum.status());
    total = *sum;
  }
  // Each piece padded to the whole length, and the index chooses. The sum of the pieces would be
  // shorter, but loses the sign of zero.
  std::optional<Expr> result;
  int64_t end = total;
  for (auto x = operands.rbegin(); x != operands.rend(); ++x) {
    if (IsNothing(*x) || x->shape()[*at] == 0) continue;
    const absl::StatusOr<int64_t> begin = SizeMinus(end, x->shape()[*at]);
    const absl::StatusOr<int64_t> after = SizeMinus(total, end);
    if (!begin.ok() || !after.ok()) return Expr(&x->graph(), (begin.ok() ? after : begin).status());
    std::vector<PadAmount> amounts(first->rank());
    amounts[*at] = {*begin, *after};
    const Expr piece = Pad(Cast(*x, dtype), amounts);
    if (!piece.ok()) return piece;
    if (result) {
      const Expr index = IndexAlong(piece, *at);
      const Expr mine =
          Varies(end) ? Lt(index, SizeValue(x->graph(), end, DType::kInt32)) : Lt(index, end);
      result = Where(mine, piece, *result);
    } else {
      result = piece;
    }
    end = *begin;
  }
  return result ? *result : Cast(*first, dtype);
}

Expr Stack(absl::Span<const Expr> operands, int64_t axis) {
  std::vector<Expr> apart;
  for (const Expr& x : operands) {
    if (x.ok() && operands[0].ok() && x.shape() != operands[0].shape()) {
      return Fail(x, "stack: shapes {} and {} differ", ShapeText(operands[0].shape()),
                  ShapeText(x.shape()));
    }
    apart.push_back(Unsqueeze(x, axis));
  }
  return Cat(apart, axis);
}

Expr HStack(absl::Span<const Expr> operands) {
  const std::vector<Expr> grown = Each(operands, AtLeast1d);
  if (!grown[0].ok()) return grown[0];
  return Cat(grown, grown[0].rank() == 1 ? 0 : 1);
}

Expr VStack(absl::Span<const Expr> operands) { return Cat(Each(operands, AtLeast2d), 0); }
Expr DStack(absl::Span<const Expr> operands) { return Cat(Each(operands, AtLeast3d), 2); }

Expr ColumnStack(absl::Span<const Expr> operands) {
  return HStack(Each(operands, [](const Expr& x) {
    return x.ok() && x.rank() < 2 ? Reshape(x, {-1, 1}) : x;
  }));
}

absl::StatusOr<std::vector<Expr>> Split(const Expr& x, absl::Span<const int64_t> sizes,
                                        int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("split", x, axis).status();
  if (auto error = NeedsNumber("split", x, *at)) return error->status();
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != x.shape()[*at]) {
    return InvalidArgument("split: sizes {} do not add up to axis {} of shape {}", ShapeText(sizes),
                           axis, ShapeText(x.shape()));
  }
  std::vector<Expr> pieces;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    pieces.push_back(Shrink(x, *at, begin, begin + size));
    TD_RETURN_IF_ERROR(pieces.back().status());
    begin += size;
  }
  return pieces;
}

absl::StatusOr<std::vector<Expr>> SplitEvery(const Expr& x, int64_t size, int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("split", x, axis).status();
  if (auto error = NeedsNumber("split", x, *at)) return error->status();
  const int64_t length = x.shape()[*at];
  if (size < 0 || (size == 0 && length > 0)) {
    return InvalidArgument("split: pieces of {} elements", size);
  }
  Dims sizes;
  for (int64_t left = length; left > 0; left -= size) sizes.push_back(std::min(size, left));
  if (sizes.empty()) sizes.push_back(0);
  return Split(x, sizes, axis);
}

absl::StatusOr<std::vector<Expr>> Chunk(const Expr& x, int64_t count, int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("chunk", x, axis).status();
  if (auto error = NeedsNumber("chunk", x, *at)) return error->status();
  if (count < 1) return InvalidArgument("chunk: {} pieces", count);
  const int64_t size = x.shape()[*at];
  return SplitEvery(x, std::max<int64_t>((size + count - 1) / count, 1), axis);
}

absl::StatusOr<std::vector<Expr>> TensorSplit(const Expr& x, int64_t count, int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("tensor_split", x, axis).status();
  if (auto error = NeedsNumber("tensor_split", x, *at)) return error->status();
  if (count < 1) return InvalidArgument("tensor_split: {} pieces", count);
  const int64_t size = x.shape()[*at];
  Dims sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(size / count + (i < size % count ? 1 : 0));
  return Split(x, sizes, *at);
}

absl::StatusOr<std::vector<Expr>> TensorSplit(const Expr& x, absl::Span<const int64_t> indices,
                                              int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("tensor_split", x, axis).status();
  std::vector<Expr> pieces;
  std::optional<int64_t> begin = 0;
  for (size_t i = 0; i <= indices.size(); ++i) {
    const std::optional<int64_t> end =
        i < indices.size() ? std::optional(indices[i]) : std::nullopt;
    pieces.push_back(SliceAxis(x, *at, {.begin = begin, .end = end}));
    TD_RETURN_IF_ERROR(pieces.back().status());
    begin = end;
  }
  return pieces;
}

absl::StatusOr<std::vector<Expr>> Unbind(const Expr& x, int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("unbind", x, axis).status();
  if (auto error = NeedsNumber("unbind", x, *at)) return error->status();
  std::vector<Expr> slices;
  for (int64_t i = 0; i < x.shape()[*at]; ++i) {
    slices.push_back(Select(x, *at, i));
    TD_RETURN_IF_ERROR(slices.back().status());
  }
  return slices;
}

absl::StatusOr<std::vector<Expr>> BroadcastTensors(absl::Span<const Expr> operands) {
  Dims shape;
  for (const Expr& x : operands) {
    TD_RETURN_IF_ERROR(x.status());
    const std::optional<Dims> common = BroadcastShapes(shape, x.shape());
    if (!common) {
      return InvalidArgument("broadcast_tensors: {} does not broadcast with {}",
                             ShapeText(x.shape()), ShapeText(shape));
    }
    shape = *common;
  }
  return Each(operands, [&shape](const Expr& x) { return BroadcastTo(x, shape); });
}

absl::StatusOr<std::vector<Expr>> Meshgrid(absl::Span<const Expr> operands, bool xy) {
  Dims shape;
  for (const Expr& x : operands) {
    TD_RETURN_IF_ERROR(x.status());
    if (x.rank() > 1) {
      return InvalidArgument("meshgrid: operands are vectors or numbers, not {}",
                             ShapeText(x.shape()));
    }
    shape.push_back(NumElements(x.shape()));
  }
  std::vector<Expr> grids;
  for (size_t i = 0; i < operands.size(); ++i) {
    Dims along(shape.size(), 1);
    along[i] = shape[i];
    const Expr grid = BroadcastTo(Reshape(operands[i], along), shape);
    grids.push_back(xy && shape.size() > 1 ? Transpose(grid, 0, 1) : grid);
    TD_RETURN_IF_ERROR(grids.back().status());
  }
  return grids;
}

Expr AtLeast1d(const Expr& x) { return x.ok() && x.rank() == 0 ? Reshape(x, {1}) : x; }

Expr AtLeast2d(const Expr& x) {
  if (!x.ok() || x.rank() > 1) return x;
  return x.rank() == 0 ? Reshape(x, {1, 1}) : Unsqueeze(x, 0);
}

Expr AtLeast3d(const Expr& x) {
  if (!x.ok() || x.rank() > 2) return x;
  return Unsqueeze(AtLeast2d(x), 2);
}

}  // namespace tensord
