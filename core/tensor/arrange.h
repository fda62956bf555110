// The same elements in another arrangement: repeated, turned, as diagonals, as blocks.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/tensor/expr.h"

namespace tensord {

// The whole tensor, `times` per axis; more numbers than axes make new axes in front.
Expr Repeat(const Expr& x, absl::Span<const int64_t> times);
// The same, but fewer numbers than axes are for the last ones.
Expr Tile(const Expr& x, absl::Span<const int64_t> times);
// Each element `times` in a row.
Expr RepeatInterleave(const Expr& x, int64_t times, int64_t axis);
Expr Roll(const Expr& x, int64_t shift, int64_t axis);
// Several axes; without any, the elements in row-major order.
Expr Roll(const Expr& x, absl::Span<const int64_t> shifts, absl::Span<const int64_t> axes);
// By `turns` quarters, from the first of the axes towards the second.
Expr Rot90(const Expr& x, int64_t turns, int64_t first, int64_t second);

// Keeps what is on or below (above) the diagonal of the last two axes; the rest is zero.
Expr Tril(const Expr& x, int64_t diagonal = 0);
Expr Triu(const Expr& x, int64_t diagonal = 0);
// The diagonal of the last two axes as the last axis.
Expr Diagonal(const Expr& x, int64_t offset = 0);
// The same for any two axes, which go away.
Expr Diagonal(const Expr& x, int64_t offset, int64_t axis0, int64_t axis1);
// The last axis as the diagonal of two new axes, zero elsewhere.
Expr DiagEmbed(const Expr& x, int64_t offset = 0, int64_t axis0 = -2, int64_t axis1 = -1);
// A vector as a diagonal, or the diagonal of a matrix.
Expr Diag(const Expr& x, int64_t offset = 0);

// [.., channels * r * r, height, width] to [.., channels, height * r, width * r], and back.
Expr PixelShuffle(const Expr& x, int64_t factor);
Expr PixelUnshuffle(const Expr& x, int64_t factor);
// Channels (axis 1) dealt out to groups.
Expr ChannelShuffle(const Expr& x, int64_t groups);

// Element (i, j, ..) is that at offset + i * strides[0] + j * strides[1] + ... in row-major order.
Expr AsStrided(const Expr& x, absl::Span<const int64_t> dims, absl::Span<const int64_t> strides,
               int64_t offset);

// "b (h w) c -> b c h w", as einops writes it: names in brackets share an axis, 1 is an axis of
// that size, ... stands for any axes. `sizes` gives what cannot be computed.
Expr Rearrange(const Expr& x, std::string_view formula,
               const std::map<std::string, int64_t>& sizes = {});

}  // namespace tensord
