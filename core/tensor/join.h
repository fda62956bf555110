// Joining tensors and taking them apart.
#pragma once

#include <vector>

#include "core/tensor/expr.h"

namespace tensord {

// Operands are promoted to one dtype. A vector without elements fits any.
Expr Cat(absl::Span<const Expr> operands, int64_t axis);
Expr Stack(absl::Span<const Expr> operands, int64_t axis);
// Side by side: columns (elements of vectors), rows, along a third axis; and vectors as columns.
Expr HStack(absl::Span<const Expr> operands);
Expr VStack(absl::Span<const Expr> operands);
Expr DStack(absl::Span<const Expr> operands);
Expr ColumnStack(absl::Span<const Expr> operands);

// Pieces of those sizes, which must add up.
absl::StatusOr<std::vector<Expr>> Split(const Expr& x, absl::Span<const int64_t> sizes,
                                        int64_t axis);
// Pieces of `size`, the last may be shorter.
absl::StatusOr<std::vector<Expr>> SplitEvery(const Expr& x, int64_t size, int64_t axis);
// At most `count` pieces of one size, the last may be shorter.
absl::StatusOr<std::vector<Expr>> Chunk(const Expr& x, int64_t count, int64_t axis);
// Exactly `count` pieces whose sizes differ by one at most, the longer ones first.
absl::StatusOr<std::vector<Expr>> TensorSplit(const Expr& x, int64_t count, int64_t axis);
// Cut before each of those indices, as slices are.
absl::StatusOr<std::vector<Expr>> TensorSplit(const Expr& x, absl::Span<const int64_t> indices,
                                              int64_t axis);
// The slices along an axis, without it.
absl::StatusOr<std::vector<Expr>> Unbind(const Expr& x, int64_t axis);

// All to the shape that they broadcast to.
absl::StatusOr<std::vector<Expr>> BroadcastTensors(absl::Span<const Expr> operands);
// Vectors (or numbers) as the axes of a grid: result k varies along axis k. With `xy` the first two
// axes change places.
absl::StatusOr<std::vector<Expr>> Meshgrid(absl::Span<const Expr> operands, bool xy);

// With axes of size 1 until there are 1, 2 or 3.
Expr AtLeast1d(const Expr& x);
Expr AtLeast2d(const Expr& x);  // a vector is a row
Expr AtLeast3d(const Expr& x);  // a matrix gets its new axis behind

}  // namespace tensord
