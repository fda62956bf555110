#include "core/tensor/arrange.h"

#include <algorithm>
#include <optional>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// Where `keep(row - column)` for the last two axes.
Expr Triangle(std::string_view name, const Expr& x, int64_t diagonal, bool lower) {
  if (!x.ok()) return x;
  if (x.rank() < 2) {
    return Fail(x, "{}: shape {} has no rows and columns", name, ShapeText(x.shape()));
  }
  const Expr row = IndexAlong(x, -2);
  const Expr column = IndexAlong(x, -1);
  // Far diagonals mean everything or nothing; int32 need not hold them.
  const int64_t reach = SizeHigh(x.shape()[x.rank() - 2]) + SizeHigh(x.shape()[x.rank() - 1]);
  const Expr edge = Add(row, std::clamp(diagonal, -reach, reach));
  const Expr keep = lower ? LogicalNot(Lt(edge, column)) : LogicalNot(Lt(column, edge));
  return Where(keep, x, FullLike(x, 0));
}

}  // namespace

Expr Repeat(const Expr& x, absl::Span<const int64_t> times) {
  if (!x.ok()) return x;
  const int64_t extra = static_cast<int64_t>(times.size()) - x.rank();
  if (extra < 0) {
    return Fail(x, "repeat: {} numbers for shape {}; give one per axis", times.size(),
                ShapeText(x.shape()));
  }
  Dims apart, wide, result;
  for (size_t i = 0; i < times.size(); ++i) {
    const int64_t dim = static_cast<int64_t>(i) < extra ? 1 : x.shape()[i - extra];
    if (times[i] < 0 || times[i] > kMaxElements / std::max<int64_t>(dim, 1)) {
      return Fail(x, "repeat: {} times {} is out of range", ShapeText(times), ShapeText(x.shape()));
    }
    apart.insert(apart.end(), {1, dim});
    wide.insert(wide.end(), {times[i], dim});
    result.push_back(times[i] * dim);
  }
  return Reshape(BroadcastTo(Reshape(x, apart), wide), result);
}

Expr RepeatInterleave(const Expr& x, int64_t times, int64_t axis) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("repeat_interleave", x, axis);
  if (times < 0) return Fail(x, "repeat_interleave: {} times", times);
  const Expr apart = Reshape(x, WithInserted(x.shape(), *at + 1, 1));
  const Expr wide = BroadcastTo(apart, WithInserted(x.shape(), *at + 1, times));
  return Reshape(wide, WithAxis(x.shape(), *at, x.shape()[*at] * times));
}

Expr Roll(const Expr& x, int64_t shift, int64_t axis) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("roll", x, axis);
  const int64_t size = x.shape()[*at];
  if (size == 0 || shift % size == 0) return x;
  const int64_t cut = size - (shift % size + size) % size;
  return Cat({Shrink(x, *at, cut, size), Shrink(x, *at, 0, cut)}, *at);
}

Expr Roll(const Expr& x, absl::Span<const int64_t> shifts, absl::Span<const int64_t> axes) {
  if (!x.ok()) return x;
  if (axes.empty() && shifts.size() == 1) {
    return Reshape(Roll(Reshape(x, {-1}), shifts[0], 0), x.shape());
  }
  if (shifts.size() != axes.size()) {
    return Fail(x, "roll: {} shifts for {} axes", shifts.size(), axes.size());
  }
  Expr result = x;
  for (size_t i = 0; i < axes.size(); ++i) result = Roll(result, shifts[i], axes[i]);
  return result;
}

Expr Tile(const Expr& x, absl::Span<const int64_t> times) {
  if (!x.ok()) return x;
  Dims all(times.begin(), times.end());
  while (static_cast<int64_t>(all.size()) < x.rank()) all.insert(all.begin(), 1);
  return Repeat(x, all);
}

Expr Rot90(const Expr& x, int64_t turns, int64_t first, int64_t second) {
  if (!x.ok()) return x;
  const std::optional<int64_t> a = ResolveAxis(first, x.rank()), b = ResolveAxis(second, x.rank());
  if (!a || !b) return AxisError("rot90", x, a ? second : first);
  if (*a == *b) return Fail(x, "rot90: the axes {} and {} are the same", first, second);
  switch ((turns % 4 + 4) % 4) {
    case 1:
      return Transpose(Flip(x, {*b}), *a, *b);
    case 2:
      return Flip(x, {*a, *b});
    case 3:
      return Flip(Transpose(x, *a, *b), {*b});
    default:
      return x;
  }
}

Expr Tril(const Expr& x, int64_t diagonal) { return Triangle("tril", x, diagonal, true); }
Expr Triu(const Expr& x, int64_t diagonal) { return Triangle("triu", x, diagonal, false); }

Expr Diagonal(const Expr& x, int64_t offset) {
  if (!x.ok()) return x;
  if (x.rank() < 2) {
    return Fail(x, "diagonal: shape {} has no rows and columns", ShapeText(x.shape()));
  }
  const int64_t row_axis = x.rank() - 2, column_axis = x.rank() - 1;
  const int64_t rows = x.shape()[row_axis], columns = x.shape()[column_axis];
  const int64_t row = std::min(std::max<int64_t>(-offset, 0), rows);
  const int64_t column = std::min(std::max<int64_t>(offset, 0), columns);
  const int64_t n = std::min(rows - row, columns - column);
  const Expr square = Shrink(Shrink(x, row_axis, row, row + n), column_axis, column, column + n);
  Dims dims(x.shape().begin(), x.shape().end() - 2);
  dims.push_back(n * n);
  // Row by row, the diagonal is every (n+1)-th element.
  return SliceAxis(Reshape(square, dims), -1, {.step = n + 1});
}

Expr Diagonal(const Expr& x, int64_t offset, int64_t axis0, int64_t axis1) {
  if (!x.ok()) return x;
  const std::optional<int64_t> a = ResolveAxis(axis0, x.rank()), b = ResolveAxis(axis1, x.rank());
  if (!a || !b) return AxisError("diagonal", x, a ? axis1 : axis0);
  if (*a == *b) return Fail(x, "diagonal: the axes {} and {} are the same", axis0, axis1);
  return Diagonal(MoveAxes(x, {*a, *b}, {-2, -1}), offset);
}

Expr DiagEmbed(const Expr& x, int64_t offset, int64_t axis0, int64_t axis1) {
  if (!x.ok()) return x;
  if (x.rank() == 0) return Fail(x, "diag_embed: a tensor without axes");
  const int64_t rank = x.rank() + 1;
  const std::optional<int64_t> a = ResolveAxis(axis0, rank), b = ResolveAxis(axis1, rank);
  if (!a || !b) {
    return FailIndex(x, "diag_embed: axis {} of a result of {} axes", a ? axis1 : axis0, rank);
  }
  if (*a == *b) return Fail(x, "diag_embed: the axes {} and {} are the same", axis0, axis1);
  if (offset > kMaxElements || offset < -kMaxElements) {
    return Fail(x, "diag_embed: offset {} is out of range", offset);
  }
  // Element i stands in row i, or below it.
  std::vector<PadAmount> amounts(x.rank());
  amounts.back() = {std::max<int64_t>(-offset, 0), std::max<int64_t>(offset, 0)};
  const Expr rows = Pad(x, amounts);
  if (!rows.ok()) return rows;
  const int64_t n = rows.shape().back();
  Dims dims(rows.shape().begin(), rows.shape().end());
  dims.push_back(n);
  const Expr wide = BroadcastTo(Unsqueeze(rows, -1), dims);
  if (!wide.ok()) return wide;
  const DType index = DType::kInt64;
  const Expr here = Eq(IndexAlong(wide, -2, index) + offset, IndexAlong(wide, -1, index));
  return MoveAxes(Where(here, wide, FullLike(wide, 0)), {-2, -1}, {*a, *b});
}

Expr Diag(const Expr& x, int64_t offset) {
  if (!x.ok()) return x;
  if (x.rank() == 1) return DiagEmbed(x, offset);
  if (x.rank() == 2) return Diagonal(x, offset);
  return Fail(x, "diag: shape {} is neither a vector nor a matrix; use diagonal or diag_embed",
              ShapeText(x.shape()));
}

Expr PixelShuffle(const Expr& x, int64_t factor) {
  if (!x.ok()) return x;
  const int64_t square = factor > 0 && factor < (1 << 20) ? factor * factor : 0;
  if (x.rank() < 3 || square == 0 || x.shape()[x.rank() - 3] % square != 0) {
    return Fail(x, "pixel_shuffle: {} is not [.., channels * {} * {}, height, width]",
                ShapeText(x.shape()), factor, factor);
  }
  const int64_t channels = x.shape()[x.rank() - 3] / square;
  const int64_t height = x.shape()[x.rank() - 2], width = x.shape()[x.rank() - 1];
  Dims lead(x.shape().begin(), x.shape().end() - 3);
  const int64_t batch = NumElements(lead);
  const Expr apart = Reshape(x, {batch, channels, factor, factor, height, width});
  lead.insert(lead.end(), {channels, height * factor, width * factor});
  return Reshape(Permute(apart, {0, 1, 4, 2, 5, 3}), lead);
}

Expr PixelUnshuffle(const Expr& x, int64_t factor) {
  if (!x.ok()) return x;
  if (x.rank() < 3 || factor < 1 || x.shape()[x.rank() - 2] % factor != 0 ||
      x.shape()[x.rank() - 1] % factor != 0) {
    return Fail(x, "pixel_unshuffle: {} is not [.., channels, height * {}, width * {}]",
                ShapeText(x.shape()), factor, factor);
  }
  const int64_t channels = x.shape()[x.rank() - 3];
  const int64_t height = x.shape()[x.rank() - 2] / factor, width = x.shape()[x.rank() - 1] / factor;
  Dims lead(x.shape().begin(), x.shape().end() - 3);
  const int64_t batch = NumElements(lead);
  const Expr apart = Reshape(x, {batch, channels, height, factor, width, factor});
  lead.insert(lead.end(), {channels * factor * factor, height, width});
  return Reshape(Permute(apart, {0, 1, 3, 5, 2, 4}), lead);
}

Expr ChannelShuffle(const Expr& x, int64_t groups) {
  if (!x.ok()) return x;
  if (x.rank() < 3 || groups < 1 || x.shape()[1] % groups != 0) {
    return Fail(x, "channel_shuffle: {} is not [n, {} * channels, ..]", ShapeText(x.shape()),
                groups);
  }
  Dims apart(x.shape().begin(), x.shape().end());
  apart[1] /= groups;
  apart.insert(apart.begin() + 1, groups);
  return Reshape(Transpose(Reshape(x, apart), 1, 2), x.shape());
}

Expr AsStrided(const Expr& x, absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
               int64_t offset) {
  if (!x.ok()) return x;
  if (dims.size() != strides.size()) {
    return Fail(x, "as_strided: {} sizes and {} strides", dims.size(), strides.size());
  }
  const int64_t count = NumElements(x.shape());
  int64_t last = offset;
  bool empty = false, valid = offset >= 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || strides[i] < 0 || strides[i] > kMaxElements || dims[i] > kMaxElements) {
      return Fail(x, "as_strided: sizes {} and strides {} must not be negative", ShapeText(dims),
                  ShapeText(strides));
    }
    empty |= dims[i] == 0;
    if (dims[i] > 1 && strides[i] > 0) {
      valid &= dims[i] - 1 <= kMaxElements / strides[i];
      if (valid) last += (dims[i] - 1) * strides[i];
    }
  }
  if (empty) return Reshape(Shrink(Reshape(x, {-1}), 0, 0, 0), dims);
  if (!valid || last >= count) {
    return Fail(x, "as_strided: sizes {}, strides {} and offset {} reach beyond the {} elements",
                ShapeText(dims), ShapeText(strides), offset, count);
  }
  const DType index = DType::kInt64;
  Expr position = Full(x.graph(), dims, offset, index);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] > 1) {
      position = position + IndexAlong(position, static_cast<int64_t>(i), index) * strides[i];
    }
  }
  return Apply(Op::kGather, {Reshape(x, {-1}), position});
}

}  // namespace tensord
