#include "core/tensor/windows.h"

#include "core/tensor/build.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

// Whether the patches can be cut from an image of that size, and how many along each axis.
struct Counts {
  int64_t number[2];
};
absl::StatusOr<Counts> CountPatches(std::string_view name, const int64_t (&size)[2],
                                    const Patches& p) {
  Counts counts;
  for (int i = 0; i < 2; ++i) {
    if (p.kernel[i] < 1 || p.dilation[i] < 1 || p.stride[i] < 1 || p.padding[i] < 0) {
      return InvalidArgument(
          "{}: kernel, dilation and stride must be at least 1 and padding at least 0; axis {} has "
          "{}, {}, {} and {}",
          name, i, p.kernel[i], p.dilation[i], p.stride[i], p.padding[i]);
    }
    const int64_t span = (p.kernel[i] - 1) * p.dilation[i] + 1;
    const int64_t room = size[i] + 2 * p.padding[i];
    if (span > room) {
      return InvalidArgument(
          "{}: {} taps with dilation {} need {} elements, the padded image has {}", name,
          p.kernel[i], p.dilation[i], span, room);
    }
    counts.number[i] = (room - span) / p.stride[i] + 1;
  }
  return counts;
}

Window AlongAxis(const Patches& p, int i) {
  return {.taps = p.kernel[i], .stride = p.stride[i], .dilation = p.dilation[i]};
}

}  // namespace

Expr Windows(const Expr& x, int64_t axis, const Window& window) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("windows", x, axis);
  if (auto error = NeedsNumber("windows", x, *at)) return *error;
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

Expr Unfold(const Expr& x, int64_t axis, int64_t size, int64_t step) {
  if (!x.ok()) return x;
  // A tensor without axes unfolds like one of a single element.
  if (x.rank() == 0 && (axis == 0 || axis == -1)) {
    const Expr one = Unfold(Reshape(x, {1}), 0, size, step);
    return one.ok() ? Reshape(one, {size}) : one;
  }
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("unfold", x, axis);
  const int64_t length = x.shape()[*at];
  if (size < 0 || size > length || step < 1) {
    return Fail(x,
                "unfold: windows of {} elements, {} apart, do not lie on axis {} of {}; the size "
                "goes from 0 to the axis's, the step is positive",
                size, step, axis, ShapeText(x.shape()));
  }
  if (size == 0) {
    Dims dims = WithAxis(x.shape(), *at, length / step + 1);
    const Expr nothing = Shrink(Unsqueeze(x, -1), -1, 0, 0);  // keeps the way of gradients
    return Reshape(nothing, [&] {
      dims.push_back(0);
      return dims;
    }());
  }
  return MoveAxis(Windows(x, *at, {.taps = size, .stride = step}), *at + 1, -1);
}

Expr Im2Col(const Expr& x, const Patches& p) {
  if (!x.ok()) return x;
  if (x.rank() == 3) return Squeeze(Im2Col(Unsqueeze(x, 0), p), 0);
  if (x.rank() != 4) {
    return Fail(x, "unfold: an image is [n, channels, height, width], not {}",
                ShapeText(x.shape()));
  }
  const absl::StatusOr<Counts> counts = CountPatches("unfold", {x.shape()[2], x.shape()[3]}, p);
  if (!counts.ok()) return Expr(&x.graph(), counts.status());
  Expr image = Pad(x, {{0, 0}, {0, 0}, {p.padding[0], p.padding[0]}, {p.padding[1], p.padding[1]}});
  // [n, c, rows, taps, columns, taps]
  const Expr windows = Windows(Windows(image, 3, AlongAxis(p, 1)), 2, AlongAxis(p, 0));
  return Reshape(Permute(windows, {0, 1, 3, 5, 2, 4}),
                 {x.shape()[0], x.shape()[1] * p.kernel[0] * p.kernel[1],
                  counts->number[0] * counts->number[1]});
}

Expr Col2Im(const Expr& x, int64_t height, int64_t width, const Patches& p) {
  if (!x.ok()) return x;
  if (x.rank() == 2) return Squeeze(Col2Im(Unsqueeze(x, 0), height, width, p), 0);
  if (x.rank() != 3) {
    return Fail(x, "fold: columns are [n, channels * taps, patches], not {}", ShapeText(x.shape()));
  }
  if (height < 1 || width < 1) return Fail(x, "fold: an image of {} x {}", height, width);
  const absl::StatusOr<Counts> counts = CountPatches("fold", {height, width}, p);
  if (!counts.ok()) return Expr(&x.graph(), counts.status());
  const int64_t taps = p.kernel[0] * p.kernel[1];
  const auto [rows, columns] = counts->number;
  if (x.shape()[1] % taps != 0 || x.shape()[2] != rows * columns) {
    return Fail(x, "fold: {} is not [n, channels * {}, {}], which an image of {} x {} has",
                ShapeText(x.shape()), taps, rows * columns, height, width);
  }
  const int64_t n = x.shape()[0], channels = x.shape()[1] / taps;
  const Expr apart = Permute(Reshape(x, {n, channels, p.kernel[0], p.kernel[1], rows, columns}),
                             {0, 1, 4, 2, 5, 3});
  const Expr placed = Unwindows(Unwindows(apart, 4, AlongAxis(p, 1), width + 2 * p.padding[1]), 2,
                                AlongAxis(p, 0), height + 2 * p.padding[0]);
  return Pad(Sum(placed, {3, 5}),
             {{0, 0}, {0, 0}, {-p.padding[0], -p.padding[0]}, {-p.padding[1], -p.padding[1]}});
}

}  // namespace tensord
