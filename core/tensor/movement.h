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
Expr MoveAxes(const Expr& x, absl::Span<const int64_t> from, absl::Span<const int64_t> to);
Expr Flip(const Expr& x, absl::Span<const int64_t> axes);

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

Expr Squeeze(const Expr& x);                // drops all axes of size 1
Expr Squeeze(const Expr& x, int64_t axis);  // drops it if it has size 1
Expr Squeeze(const Expr& x, absl::Span<const int64_t> axes);
Expr Unsqueeze(const Expr& x, int64_t axis);  // `axis` is the place of the new axis in the result
Expr Flatten(const Expr& x, int64_t first = 0, int64_t last = -1);
Expr Unflatten(const Expr& x, int64_t axis, absl::Span<const int64_t> dims);

// `length` elements from `start`, which may count from the end.
Expr Narrow(const Expr& x, int64_t axis, int64_t start, int64_t length);
// The first elements of each axis; nothing keeps an axis whole.
Expr ShrinkTo(const Expr& x, absl::Span<const std::optional<int64_t>> dims);

}  // namespace tensord

// The rest of movement, by topic.
#include "core/tensor/arrange.h"  // IWYU pragma: export
#include "core/tensor/join.h"     // IWYU pragma: export
#include "core/tensor/pad.h"      // IWYU pragma: export
#include "core/tensor/windows.h"  // IWYU pragma: export
