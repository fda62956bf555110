// Sliding windows, and images as columns of patches.
#pragma once

#include "core/tensor/expr.h"
#include "core/tensor/pad.h"

namespace tensord {

struct Window {
  int64_t taps;
  int64_t stride = 1;
  int64_t dilation = 1;
};
// Sliding windows: the axis becomes the number of the window, and the tap follows as a new axis.
Expr Windows(const Expr& x, int64_t axis, const Window& window);
// The adjoint without the sum: x has the axes that Windows makes, window number and tap; the tap
// stays an axis of its own, and element i of the others is that of the window which has i at that
// tap, or zero. `size` is the length of the axis before Windows.
Expr Unwindows(const Expr& x, int64_t axis, const Window& window, int64_t size);

// Windows of `size` elements, `step` apart, as a new last axis. A size of 0 is allowed.
Expr Unfold(const Expr& x, int64_t axis, int64_t size, int64_t step);

// How patches lie on an image of two axes.
struct Patches {
  int64_t kernel[2];
  int64_t dilation[2] = {1, 1};
  int64_t padding[2] = {0, 0};
  int64_t stride[2] = {1, 1};
};
// [n, channels, height, width] to [n, channels * taps, patches]; the first axis may be absent.
Expr Im2Col(const Expr& x, const Patches& patches);
// The adjoint: what lies at the same place of the image is added.
Expr Col2Im(const Expr& x, int64_t height, int64_t width, const Patches& patches);

}  // namespace tensord
