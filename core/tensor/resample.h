// Sampling between elements: resizing of the last axes, and reading at given places.
//
//   Expr y = Interpolate(image, {64, 64}, {.mode = ResampleMode::kLinear});
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor/expr.h"

namespace tensord {

enum class ResampleMode { kNearest, kNearestExact, kLinear, kCubic, kArea };
struct InterpolateOptions {
  ResampleMode mode = ResampleMode::kNearest;
  bool align_corners = false;  // first and last elements keep their places; linear and cubic only
  bool antialias = false;      // linear and cubic: a wider filter where the size shrinks
  // Elements of the result per element, one number per axis, where it is not the ratio of sizes.
  absl::Span<const double> scale = {};
};
// The last axes in that size. Integers keep their dtype; uint8 is rounded in fixed point after each
// axis, the last first, other integers towards zero.
Expr Interpolate(const Expr& x, absl::Span<const int64_t> size, const InterpolateOptions& options);

enum class GridPadding { kZeros, kBorder, kReflection };
struct GridSampleOptions {
  ResampleMode mode = ResampleMode::kLinear;  // or nearest, or for images cubic
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false;  // whether -1 and 1 are centres of the outer elements or their edges
};
// x [batch, channels, spatial..], grid [batch, out.., axes] in [-1, 1] with the last axis of x
// first: the elements there, [batch, channels, out..]. Two or three spatial axes.
Expr GridSample(const Expr& x, const Expr& grid, const GridSampleOptions& options = {});
// theta [batch, axes, axes + 1]: a grid for GridSample of images of that size (batch, channels,
// spatial..).
Expr AffineGrid(const Expr& theta, absl::Span<const int64_t> size, bool align_corners = false);

}  // namespace tensord
