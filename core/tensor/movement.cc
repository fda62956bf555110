#include "core/tensor/movement.h"

#include <algorithm>
#include <numeric>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"

namespace tensord {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 48;  // of a tensor, as the graph allows

Dims WithAxis(Shape shape, int64_t axis, int64_t size) {
  Dims dims(shape.begin(), shape.end());
  dims[axis] = size;
  return dims;
}

Dims WithInserted(Shape shape, int64_t axis, int64_t size) {
  Dims dims(shape.begin(), shape.end());
  dims.insert(dims.begin() + axis, size);
  return dims;
}

// Two numbers per axis that leave every axis but one as it is.
Dims WholeExcept(Shape shape, int64_t axis, int64_t begin, int64_t end) {
  Dims pairs;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool here = static_cast<int64_t>(i) == axis;
    pairs.push_back(here ? begin : 0);
    pairs.push_back(here ? end : shape[i]);
  }
  return pairs;
}

// Where `keep(row - column)` for the last two axes.
Expr Triangle(std::string_view name, const Expr& x, int64_t diagonal, bool lower) {
  if (!x.ok()) return x;
  if (x.rank() < 2) {
    return Fail(x, "{}: shape {} has no rows and columns", name, ShapeText(x.shape()));
  }
  const Expr row = IndexAlong(x, -2);
  const Expr column = IndexAlong(x, -1);
  // Far diagonals mean everything or nothing; int32 need not hold them.
  const int64_t reach = x.shape()[x.rank() - 2] + x.shape()[x.rank() - 1];
  const Expr edge = Add(row, std::clamp(diagonal, -reach, reach));
  const Expr keep = lower ? LogicalNot(Lt(edge, column)) : LogicalNot(Lt(column, edge));
  return Where(keep, x, FullLike(x, 0));
}

// Every `stride`-th element from the first.
Expr Stride(const Expr& x, int64_t axis, int64_t stride) {
  if (stride == 1) return x;
  const int64_t count = (x.shape()[axis] + stride - 1) / stride;
  const Expr apart = Reshape(x, WithInserted(x.shape(), axis + 1, 1));
  const Expr slid = Apply(Op::kSlide, {apart}, {axis, axis + 1, stride, 1, count});
  return Reshape(slid, WithAxis(x.shape(), axis, count));
}

}  // namespace

Expr Reshape(const Expr& x, absl::Span<const int64_t> dims) {
  if (!x.ok()) return x;
  Dims result(dims.begin(), dims.end());
  int64_t known = 1;
  int64_t* unknown = nullptr;
  for (int64_t& dim : result) {
    if (dim > kMaxElements / std::max<int64_t>(known, 1)) {
      return Fail(x, "reshape: {} is too large", ShapeText(dims));
    }
    if (dim >= 0) {
      known *= dim;
    } else if (dim == -1 && unknown == nullptr) {
      unknown = &dim;
    } else {
      return Fail(x, "reshape: {} may have one -1 and no other negative size", ShapeText(dims));
    }
  }
  const int64_t count = NumElements(x.shape());
  if (unknown != nullptr && known != 0 && count % known == 0) *unknown = count / known;
  if (NumElements(result) != count) {
    return Fail(x, "reshape: {} has {} elements and does not fit {}", ShapeText(x.shape()), count,
                ShapeText(dims));
  }
  if (Shape(result) == x.shape()) return x;
  return Apply(Op::kReshape, {x}, result);
}

Expr BroadcastTo(const Expr& x, Shape shape) {
  if (!x.ok() || x.shape() == shape) return x;
  const size_t rank = x.shape().size();
  for (int64_t dim : shape) {
    if (dim < 0) return Fail(x, "size {} in {} is negative", dim, ShapeText(shape));
  }
  bool fits = shape.size() >= rank;
  Dims aligned(fits ? shape.size() - rank : 0, 1);
  for (size_t i = 0; fits && i < rank; ++i) {
    const int64_t dim = x.shape()[i];
    fits = dim == 1 || dim == shape[aligned.size()];
    aligned.push_back(dim);
  }
  if (!fits) {
    return Fail(x,
                "expand: {} does not become {}: only axes of size 1 and new axes in front repeat",
                ShapeText(x.shape()), ShapeText(shape));
  }
  const Expr same_rank = Reshape(x, aligned);
  return Shape(aligned) == shape ? same_rank : Apply(Op::kExpand, {same_rank}, shape);
}

Expr Expand(const Expr& x, absl::Span<const int64_t> dims) {
  if (!x.ok()) return x;
  Dims result(dims.begin(), dims.end());
  const int64_t offset = static_cast<int64_t>(result.size()) - x.rank();
  for (int64_t i = std::max<int64_t>(offset, 0); i < static_cast<int64_t>(result.size()); ++i) {
    if (result[i] == -1) result[i] = x.shape()[i - offset];
  }
  return BroadcastTo(x, result);
}

Expr Permute(const Expr& x, absl::Span<const int64_t> order) {
  if (!x.ok()) return x;
  Dims axes;
  std::vector<bool> seen(x.rank());
  for (int64_t axis : order) {
    const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
    if (!at) return AxisError("permute", x, axis);
    if (seen[*at]) return Fail(x, "permute: axis {} occurs twice in {}", axis, ShapeText(order));
    seen[*at] = true;
    axes.push_back(*at);
  }
  if (static_cast<int64_t>(axes.size()) != x.rank()) {
    return Fail(x, "permute: {} names {} axes, shape {} has {}", ShapeText(order), order.size(),
                ShapeText(x.shape()), x.rank());
  }
  if (std::is_sorted(axes.begin(), axes.end())) return x;
  return Apply(Op::kPermute, {x}, axes);
}

Expr Transpose(const Expr& x, int64_t axis0, int64_t axis1) {
  if (!x.ok()) return x;
  const std::optional<int64_t> a = ResolveAxis(axis0, x.rank()), b = ResolveAxis(axis1, x.rank());
  if (!a || !b) return AxisError("transpose", x, a ? axis1 : axis0);
  Dims order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[*a], order[*b]);
  return Permute(x, order);
}

Expr MoveAxis(const Expr& x, int64_t from, int64_t to) {
  if (!x.ok()) return x;
  const std::optional<int64_t> a = ResolveAxis(from, x.rank()), b = ResolveAxis(to, x.rank());
  if (!a || !b) return AxisError("moveaxis", x, a ? to : from);
  Dims order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + *a);
  order.insert(order.begin() + *b, *a);
  return Permute(x, order);
}

Expr Flip(const Expr& x, absl::Span<const int64_t> axes) {
  if (!x.ok()) return x;
  Dims ascending;
  for (int64_t axis : axes) {
    const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
    if (!at) return AxisError("flip", x, axis);
    ascending.push_back(*at);
  }
  std::sort(ascending.begin(), ascending.end());
  if (std::adjacent_find(ascending.begin(), ascending.end()) != ascending.end()) {
    return Fail(x, "flip: an axis occurs twice in {}", ShapeText(axes));
  }
  return ascending.empty() ? x : Apply(Op::kFlip, {x}, ascending);
}

Expr Pad(const Expr& x, absl::Span<const PadAmount> amounts, Number value) {
  if (!x.ok()) return x;
  if (static_cast<int64_t>(amounts.size()) != x.rank()) {
    return Fail(x, "pad: {} pairs for shape {}; give one per axis", amounts.size(),
                ShapeText(x.shape()));
  }
  Dims crop, grow;
  bool crops = false, grows = false;
  for (size_t i = 0; i < amounts.size(); ++i) {
    const auto [before, after] = amounts[i];
    const int64_t dim = x.shape()[i];
    const int64_t begin = std::max<int64_t>(-before, 0);
    const int64_t end = dim - std::max<int64_t>(-after, 0);
    if (begin > end) {
      return Fail(x, "pad: ({}, {}) crops more than axis {} of {} has", before, after, i,
                  ShapeText(x.shape()));
    }
    crop.insert(crop.end(), {begin, end});
    grow.insert(grow.end(), {std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)});
    crops |= begin > 0 || end < dim;
    grows |= before > 0 || after > 0;
  }
  const Expr kept = crops ? Apply(Op::kShrink, {x}, crop) : x;
  if (!grows) return kept;
  const Expr padded = Apply(Op::kPad, {kept}, grow);
  if (value.AsDouble() == 0 || !padded.ok()) return padded;
  const Expr inside = Apply(Op::kPad, {Full(x.graph(), kept.shape(), true, DType::kBool)}, grow);
  const Expr filler = Constant(x.graph(), value, x.dtype());
  return Where(inside, padded, BroadcastTo(filler, padded.shape()));
}

Expr Shrink(const Expr& x, int64_t axis, int64_t begin, int64_t end) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("shrink", x, axis);
  if (begin < 0 || end < begin || end > x.shape()[*at]) {
    return Fail(x, "shrink: [{}, {}) is outside of axis {} of shape {}", begin, end, axis,
                ShapeText(x.shape()));
  }
  if (begin == 0 && end == x.shape()[*at]) return x;
  return Apply(Op::kShrink, {x}, WholeExcept(x.shape(), *at, begin, end));
}

Expr SliceAxis(const Expr& x, int64_t axis, const Slice& slice) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("slice", x, axis);
  if (slice.step == 0) return Fail(x, "slice: the step is 0");
  const int64_t size = x.shape()[*at];
  const bool forward = slice.step > 0;
  // The positions a bound may have: a backward walk ends before element 0.
  const int64_t lowest = forward ? 0 : -1, highest = forward ? size : size - 1;
  const auto clip = [&](std::optional<int64_t> bound, int64_t absent) {
    if (!bound) return absent;
    return std::clamp(*bound < 0 ? *bound + size : *bound, lowest, highest);
  };
  const int64_t begin = clip(slice.begin, forward ? lowest : highest);
  const int64_t end = clip(slice.end, forward ? highest : lowest);
  if (forward) return Stride(Shrink(x, *at, begin, std::max(begin, end)), *at, slice.step);
  // Walking down from begin to end + 1 is walking up the flipped range.
  const Expr part = Shrink(x, *at, std::min(begin, end) + 1, begin + 1);
  return Stride(Flip(part, {*at}), *at, -slice.step);
}

Expr Select(const Expr& x, int64_t axis, int64_t index) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("index", x, axis);
  const int64_t size = x.shape()[*at];
  const std::optional<int64_t> i = ResolveAxis(index, size);
  if (!i) {
    return Fail(x, "index: {} is outside of axis {} of shape {}", index, axis,
                ShapeText(x.shape()));
  }
  Dims dims(x.shape().begin(), x.shape().end());
  dims.erase(dims.begin() + *at);
  return Reshape(Shrink(x, *at, *i, *i + 1), dims);
}

Expr Squeeze(const Expr& x) {
  if (!x.ok()) return x;
  Dims dims;
  for (int64_t dim : x.shape()) {
    if (dim != 1) dims.push_back(dim);
  }
  return Reshape(x, dims);
}

Expr Squeeze(const Expr& x, int64_t axis) {
  if (!x.ok()) return x;
  if (x.rank() == 0 && (axis == 0 || axis == -1)) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("squeeze", x, axis);
  if (x.shape()[*at] != 1) return x;
  Dims dims(x.shape().begin(), x.shape().end());
  dims.erase(dims.begin() + *at);
  return Reshape(x, dims);
}

Expr Unsqueeze(const Expr& x, int64_t axis) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank() + 1);
  if (!at) {
    return Fail(x, "unsqueeze: axis {} is outside of [{}, {}]", axis, -x.rank() - 1, x.rank());
  }
  return Reshape(x, WithInserted(x.shape(), *at, 1));
}

Expr Flatten(const Expr& x, int64_t first, int64_t last) {
  if (!x.ok()) return x;
  if (x.rank() == 0) return Reshape(x, {1});
  const std::optional<int64_t> a = ResolveAxis(first, x.rank()), b = ResolveAxis(last, x.rank());
  if (!a || !b) return AxisError("flatten", x, a ? last : first);
  if (*a > *b) return Fail(x, "flatten: axis {} comes after axis {}", first, last);
  Dims dims(x.shape().begin(), x.shape().begin() + *a + 1);
  for (int64_t i = *a + 1; i < x.rank(); ++i) {
    if (i <= *b) {
      dims.back() *= x.shape()[i];
    } else {
      dims.push_back(x.shape()[i]);
    }
  }
  return Reshape(x, dims);
}

Expr Unflatten(const Expr& x, int64_t axis, absl::Span<const int64_t> dims) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("unflatten", x, axis);
  Dims result(x.shape().begin(), x.shape().begin() + *at);
  result.insert(result.end(), dims.begin(), dims.end());
  result.insert(result.end(), x.shape().begin() + *at + 1, x.shape().end());
  return Reshape(x, result);
}

Expr Cat(absl::Span<const Expr> operands, int64_t axis) {
  const Expr& first = operands[0];
  if (!first.ok()) return first;
  const std::optional<int64_t> at = ResolveAxis(axis, first.rank());
  if (!at) return AxisError("cat", first, axis);
  DType dtype = first.dtype();
  int64_t total = 0;
  for (const Expr& x : operands) {
    if (!x.ok()) return x;
    bool fits = x.rank() == first.rank();
    for (int64_t i = 0; fits && i < x.rank(); ++i) {
      fits = i == *at || x.shape()[i] == first.shape()[i];
    }
    if (!fits) {
      return Fail(first, "cat: {} and {} differ in more than axis {}", ShapeText(first.shape()),
                  ShapeText(x.shape()), axis);
    }
    dtype = Promote(dtype, x.dtype());
    total += x.shape()[*at];
  }
  // Each piece padded to the whole length, and the index chooses. The sum of the pieces would be
  // shorter, but loses the sign of zero.
  std::optional<Expr> result;
  int64_t end = total;
  for (auto x = operands.rbegin(); x != operands.rend(); ++x) {
    const int64_t size = x->shape()[*at];
    if (size == 0) continue;
    std::vector<PadAmount> amounts(first.rank());
    amounts[*at] = {end - size, total - end};
    const Expr piece = Pad(Cast(*x, dtype), amounts);
    if (!piece.ok()) return piece;
    result = result ? Where(Lt(IndexAlong(piece, *at), end), piece, *result) : piece;
    end -= size;
  }
  return result ? *result : Cast(first, dtype);
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

absl::StatusOr<std::vector<Expr>> Split(const Expr& x, absl::Span<const int64_t> sizes,
                                        int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("split", x, axis).status();
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

absl::StatusOr<std::vector<Expr>> Chunk(const Expr& x, int64_t count, int64_t axis) {
  if (!x.ok()) return x.status();
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("chunk", x, axis).status();
  if (count < 1) return InvalidArgument("chunk: {} pieces", count);
  const int64_t size = x.shape()[*at];
  const int64_t each = std::max<int64_t>((size + count - 1) / count, 1);
  Dims sizes;
  for (int64_t left = size; left > 0; left -= each) sizes.push_back(std::min(each, left));
  if (sizes.empty()) sizes.push_back(0);
  return Split(x, sizes, axis);
}

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
  Dims batch(x.shape().begin(), x.shape().end() - 2);
  const auto with = [&](std::initializer_list<int64_t> tail) {
    Dims dims = batch;
    dims.insert(dims.end(), tail);
    return dims;
  };
  if (n == 0) return Reshape(square, with({0}));
  // Row by row, the diagonal is every (n+1)-th element; n more make whole rows of that length.
  std::vector<PadAmount> amounts(batch.size() + 1);
  amounts.back().after = n;
  const Expr lines = Reshape(Pad(Reshape(square, with({n * n})), amounts), with({n, n + 1}));
  return Select(lines, -1, 0);
}

Expr Windows(const Expr& x, int64_t axis, const Window& window) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("windows", x, axis);
  const auto [taps, stride, dilation] = window;
  const int64_t size = x.shape()[*at];
  if (taps < 1 || stride < 1 || dilation < 1) {
    return Fail(x, "windows: {} taps, stride {} and dilation {} must be at least 1", taps, stride,
                dilation);
  }
  const int64_t span = (taps - 1) * dilation + 1;
  if (span > size) {
    return Fail(x, "windows: {} taps with dilation {} need {} elements, axis {} of {} has {}", taps,
                dilation, span, axis, ShapeText(x.shape()), size);
  }
  const int64_t count = (size - span) / stride + 1;
  if (dilation == 1 && stride == taps) {
    // Windows side by side are a reshape; then the gradient needs no sum over taps.
    Dims dims = WithAxis(x.shape(), *at, count);
    dims.insert(dims.begin() + *at + 1, taps);
    return Reshape(Shrink(x, *at, 0, count * taps), dims);
  }
  const Expr apart = Reshape(x, WithInserted(x.shape(), *at + 1, 1));
  const Expr wide = BroadcastTo(apart, WithInserted(x.shape(), *at + 1, taps));
  if (stride == 1 && taps == 1) return wide;
  return Apply(Op::kSlide, {wide}, {*at, *at + 1, stride, dilation, count});
}

Expr Unwindows(const Expr& x, int64_t axis, const Window& window, int64_t size) {
  if (!x.ok()) return x;
  return Apply(Op::kUnslide, {x}, {axis, axis + 1, window.stride, window.dilation, size});
}

}  // namespace tensord
