// Movement: every element of the result is an element of the source, or padding. Axes may count
// from the end.
//
//   Expr y = Transpose(Reshape(x, {2, -1}), 0, 1);
#pragma once

#include <optional>
#include <vector>

#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

// One size may be -1: what remains.
Expr Reshape(const Expr& x, absl::Span<const int64_t> dims);
// To exactly that shape: new axes come in front, axes of size 1 are repeated.
Expr BroadcastTo(const Expr& x, Shape shape);
// The same, but -1 keeps a size.
Expr Expand(const Expr& x, absl::Span<const int64_t> dims);
Expr Permute(const Expr& x, absl::Span<const int64_t> order);
Expr Transpose(const Expr& x, int64_t axis0, int64_t axis1);
// Brings an axis to another place; the others keep their order.
Expr MoveAxis(const Expr& x, int64_t from, int64_t to);
Expr Flip(const Expr& x, absl::Span<const int64_t> axes);

struct PadAmount {
  int64_t before = 0;  // a negative amount crops
  int64_t after = 0;
};
// One amount per axis.
Expr Pad(const Expr& x, absl::Span<const PadAmount> amounts, Number value = 0);

// Elements begin <= i < end of an axis; both must be inside.
Expr Shrink(const Expr& x, int64_t axis, int64_t begin, int64_t end);

// As in Python: an absent bound means "from the end where it starts", bounds are clipped, and a
// negative step walks backwards.
struct Slice {
  std::optional<int64_t> begin = std::nullopt;
  std::optional<int64_t> end = std::nullopt;
  int64_t step = 1;
};
Expr SliceAxis(const Expr& x, int64_t axis, const Slice& slice);
// One element of an axis, which goes away.
Expr Select(const Expr& x, int64_t axis, int64_t index);

Expr Squeeze(const Expr& x);                  // drops all axes of size 1
Expr Squeeze(const Expr& x, int64_t axis);    // drops it if it has size 1
Expr Unsqueeze(const Expr& x, int64_t axis);  // `axis` is the place of the new axis in the result
Expr Flatten(const Expr& x, int64_t first = 0, int64_t last = -1);
Expr Unflatten(const Expr& x, int64_t axis, absl::Span<const int64_t> dims);

// Operands are promoted to one dtype.
Expr Cat(absl::Span<const Expr> operands, int64_t axis);
Expr Stack(absl::Span<const Expr> operands, int64_t axis);
// Pieces of those sizes, which must add up.
absl::StatusOr<std::vector<Expr>> Split(const Expr& x, absl::Span<const int64_t> sizes,
                                        int64_t axis);
// At most `count` pieces of one size, the last may be shorter.
absl::StatusOr<std::vector<Expr>> Chunk(const Expr& x, int64_t count, int64_t axis);

// The whole tensor, `times` per axis; more numbers than axes make new axes in front.
Expr Repeat(const Expr& x, absl::Span<const int64_t> times);
// Each element `times` in a row.
Expr RepeatInterleave(const Expr& x, int64_t times, int64_t axis);
Expr Roll(const Expr& x, int64_t shift, int64_t axis);

// Keeps what is on or below (above) the diagonal of the last two axes; the rest is zero.
Expr Tril(const Expr& x, int64_t diagonal = 0);
Expr Triu(const Expr& x, int64_t diagonal = 0);
// The diagonal of the last two axes as the last axis.
Expr Diagonal(const Expr& x, int64_t offset = 0);

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

}  // namespace tensord
