#include "core/tensor/movement.h"

#include <algorithm>
#include <numeric>

#include "core/tensor/build.h"

namespace tensord {
namespace {

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

// Every `stride`-th element from the first.
Expr Stride(const Expr& x, int64_t axis, int64_t stride) {
  if (stride == 1) return x;
  if (auto error = NeedsNumber("slice", x, axis)) return *error;
  const int64_t count = (x.shape()[axis] + stride - 1) / stride;
  const Expr apart = Reshape(x, WithInserted(x.shape(), axis + 1, 1));
  const Expr slid = Apply(Op::kSlide, {apart}, {axis, axis + 1, stride, 1, count});
  return Reshape(slid, WithAxis(x.shape(), axis, count));
}

// Bounds or sizes vary: steps of 1 only.
Expr SliceVarying(const Expr& x, int64_t axis, const Slice& slice) {
  const int64_t size = x.shape()[axis];
  if (slice.step != 1) {
    return Fail(x, "slice: step {} on axis {} of {}: where sizes vary the step must be 1",
                slice.step, axis, ShapeText(x.shape()));
  }
  // From the end where it is negative, and at most the size.
  const auto place = [&](int64_t bound) -> absl::StatusOr<int64_t> {
    if (!Varies(bound) && bound < 0) {
      TD_ASSIGN_OR_RETURN(bound, SizePlus(size, bound));
      return SizeLow(bound) >= 0 ? bound : SizeArithmetic(Op::kMax, bound, 0);
    }
    if (SizeLow(bound) < 0) {
      return InvalidArgument(
          "slice: bound {} may be negative, which would count from the end only then",
          SizeText(bound));
    }
    return SizeAtMost(bound, size) ? bound : SizeArithmetic(Op::kMin, bound, size);
  };
  const absl::StatusOr<int64_t> begin = place(slice.begin.value_or(0));
  if (!begin.ok()) return Expr(&x.graph(), begin.status());
  const absl::StatusOr<int64_t> end = slice.end ? place(*slice.end) : size;
  if (!end.ok()) return Expr(&x.graph(), end.status());
  return Shrink(x, axis, *begin, *end);
}

Expr UnflattenVarying(const Expr& x, int64_t axis, Shape dims) {
  Dims result(x.shape().begin(), x.shape().begin() + axis), known;
  for (int64_t dim : dims) {
    if (dim != -1) known.push_back(dim);
  }
  const absl::StatusOr<Sizes> part = DimsOfShape(x.graph(), known);
  if (!part.ok()) return Expr(&x.graph(), part.status());
  const std::optional<Dim> missing = MissingFactor(x.graph(), {x.node()->dim(axis)}, *part);
  if (!missing || known.size() + 1 < dims.size() ||
      (known.size() == dims.size() && !missing->IsOne())) {
    return Fail(x, "unflatten: axis {} of {} does not split into {}", axis, ShapeText(x.shape()),
                ShapeText(dims));
  }
  for (int64_t dim : dims) result.push_back(dim == -1 ? SizeOf(*missing) : dim);
  result.insert(result.end(), x.shape().begin() + axis + 1, x.shape().end());
  return Reshape(x, result);
}

// Sizes vary on either side.
Expr ReshapeVarying(const Expr& x, Shape dims) {
  Dims known;
  int64_t unknown = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1 && unknown < 0) {
      unknown = static_cast<int64_t>(i);
    } else if (dims[i] < 0 && !Varies(dims[i])) {
      return Fail(x, "reshape: {} may have one -1 and no other negative size", ShapeText(dims));
    } else {
      known.push_back(dims[i]);
    }
  }
  absl::StatusOr<Sizes> part = DimsOfShape(x.graph(), known);
  if (!part.ok()) return Expr(&x.graph(), part.status());
  const std::optional<Dim> missing = MissingFactor(x.graph(), ShapeOf(x.node()), *part);
  if (!missing ||
      (unknown < 0 && !missing->IsOne() && !SameCount(x.graph(), ShapeOf(x.node()), *part))) {
    return Fail(x, "reshape: {} does not fit {}: sizes that vary must be factors on both sides",
                ShapeText(x.shape()), ShapeText(dims));
  }
  if (unknown >= 0) part->insert(part->begin() + unknown, *missing);
  if (ShapeOf(x.node()) == *part) return x;
  const Node* node = x.node();
  const SizedOp sized({&node, 1}, *part);
  return Expr(&x.graph(),
              x.graph().TryMake({.op = Op::kReshape, .src = sized.src, .ints = sized.ints}));
}

}  // namespace

Expr Reshape(const Expr& x, absl::Span<const int64_t> dims) {
  if (!x.ok()) return x;
  if (x.node()->has_dims() || AnyVaries(dims)) return ReshapeVarying(x, dims);
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
    if (dim < 0 && !Varies(dim)) {
      return Fail(x, "size {} in {} is negative", dim, ShapeText(shape));
    }
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
  if (IsNumberAlong(x, axis0) && IsNumberAlong(x, axis1)) return x;
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

Expr Shrink(const Expr& x, int64_t axis, int64_t begin, int64_t end) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("shrink", x, axis);
  const int64_t size = x.shape()[*at];
  if (!SizeAtMost(0, begin) || !SizeAtMost(begin, end) || !SizeAtMost(end, size)) {
    const bool varies = Varies(begin) || Varies(end) || Varies(size);
    return Fail(x, "shrink: [{}, {}) is outside of axis {} of shape {}{}", SizeText(begin),
                SizeText(end), axis, ShapeText(x.shape()),
                varies ? ", or may be: give the variables narrower bounds" : "");
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
  if (Varies(size) || Varies(slice.begin.value_or(0)) || Varies(slice.end.value_or(0))) {
    return SliceVarying(x, *at, slice);
  }
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
  if (Varies(size) || Varies(index)) {
    const absl::StatusOr<int64_t> from =
        !Varies(index) && index < 0 ? SizePlus(size, index) : index;
    const absl::StatusOr<int64_t> to = from.ok() ? SizePlus(*from, 1) : from;
    if (!to.ok()) return Expr(&x.graph(), to.status());
    return Reshape(Shrink(x, *at, *from, *to), WithoutAxis(x.shape(), *at));
  }
  const std::optional<int64_t> i = ResolveAxis(index, size);
  if (!i) {
    return FailIndex(x, "index: {} is outside of axis {} of shape {}", index, axis,
                     ShapeText(x.shape()));
  }
  return Reshape(Shrink(x, *at, *i, *i + 1), WithoutAxis(x.shape(), *at));
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
  return x.shape()[*at] == 1 ? Reshape(x, WithoutAxis(x.shape(), *at)) : x;
}

Expr Unsqueeze(const Expr& x, int64_t axis) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank() + 1);
  if (!at) {
    return FailIndex(x, "unsqueeze: axis {} is outside of [{}, {}]", axis, -x.rank() - 1, x.rank());
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
      const absl::StatusOr<int64_t> product = SizeProduct({dims.back(), x.shape()[i]});
      if (!product.ok()) return Expr(&x.graph(), product.status());
      dims.back() = *product;
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
  if (Varies(x.shape()[*at]) || AnyVaries(dims)) return UnflattenVarying(x, *at, dims);
  // The sizes are of that axis alone: -1 is what remains of it.
  int64_t known = 1, unknown = 0;
  for (int64_t dim : dims) {
    if (dim == -1) {
      ++unknown;
    } else if (dim < 0 || dim > kMaxElements / std::max<int64_t>(known, 1)) {
      return Fail(x, "unflatten: sizes {} are out of range", ShapeText(dims));
    } else {
      known *= dim;
    }
  }
  const int64_t size = x.shape()[*at];
  const bool fits = unknown == 0   ? known == size
                    : unknown == 1 ? known != 0 && size % known == 0
                                   : false;
  if (!fits || dims.empty()) {
    return Fail(x, "unflatten: axis {} of {} does not split into {}", axis, ShapeText(x.shape()),
                ShapeText(dims));
  }
  Dims result(x.shape().begin(), x.shape().begin() + *at);
  for (int64_t dim : dims) result.push_back(dim == -1 ? size / known : dim);
  result.insert(result.end(), x.shape().begin() + *at + 1, x.shape().end());
  return Reshape(x, result);
}

Expr Narrow(const Expr& x, int64_t axis, int64_t start, int64_t length) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("narrow", x, axis);
  const int64_t size = x.shape()[*at];
  if (Varies(size) || Varies(start) || Varies(length)) {
    const absl::StatusOr<int64_t> end = SizePlus(start, length);
    if (!end.ok()) return Expr(&x.graph(), end.status());
    return Shrink(x, *at, start, *end);
  }
  if (start < -size || start > size) {
    return FailIndex(x, "narrow: start {} is outside of axis {} of {}", start, axis,
                     ShapeText(x.shape()));
  }
  const int64_t begin = start < 0 ? start + size : start;
  if (length < 0 || length > size - begin) {
    return Fail(x, "narrow: {} elements from {} are outside of axis {} of {}", length, start, axis,
                ShapeText(x.shape()));
  }
  return Shrink(x, *at, begin, begin + length);
}

Expr ShrinkTo(const Expr& x, absl::Span<const std::optional<int64_t>> dims) {
  if (!x.ok()) return x;
  if (static_cast<int64_t>(dims.size()) != x.rank()) {
    return Fail(x, "shrink_to: {} sizes for shape {}; give one per axis", dims.size(),
                ShapeText(x.shape()));
  }
  Expr result = x;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (dims[i]) result = Shrink(result, i, 0, *dims[i]);
  }
  return result;
}

Expr MoveAxes(const Expr& x, absl::Span<const int64_t> from, absl::Span<const int64_t> to) {
  if (!x.ok()) return x;
  if (from.size() != to.size()) {
    return Fail(x, "movedim: {} axes go to {} places", from.size(), to.size());
  }
  Dims order(x.rank(), -1);
  std::vector<bool> moved(x.rank());
  for (size_t i = 0; i < from.size(); ++i) {
    const auto a = ResolveAxis(from[i], x.rank()), b = ResolveAxis(to[i], x.rank());
    if (!a || !b) return AxisError("movedim", x, a ? to[i] : from[i]);
    if (moved[*a] || order[*b] != -1) {
      return Fail(x, "movedim: an axis occurs twice in {} or {}", ShapeText(from), ShapeText(to));
    }
    moved[*a] = true;
    order[*b] = *a;
  }
  int64_t next = 0;
  for (int64_t& axis : order) {
    if (axis != -1) continue;
    while (moved[next]) ++next;
    axis = next++;
  }
  return Permute(x, order);
}

Expr Squeeze(const Expr& x, absl::Span<const int64_t> axes) {
  if (!x.ok()) return x;
  Dims dims;
  std::vector<bool> dropped(x.rank());
  for (int64_t axis : axes) {
    const std::optional<int64_t> at = ResolveAxis(axis, std::max<int64_t>(x.rank(), 1));
    if (!at) return AxisError("squeeze", x, axis);
    if (x.rank() > 0) dropped[*at] = x.shape()[*at] == 1;
  }
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!dropped[i]) dims.push_back(x.shape()[i]);
  }
  return Reshape(x, dims);
}

}  // namespace tensord
