// Pooling: reductions of windows over the last axes.
//
//   Expr y = MaxPool(x, {.kernel = {2, 2}, .ceil_mode = true});
#pragma once

#include "core/tensor/expr.h"
#include "core/tensor/movement.h"

namespace tensord {

struct PoolOptions {
  absl::Span<const int64_t> kernel;       // over the last axes, one number per axis
  absl::Span<const int64_t> stride = {};  // the kernel if not given
  absl::Span<const int64_t> dilation = {};
  absl::Span<const PadAmount> padding = {};  // negative amounts crop
  // Also windows that run over the end, unless they would start in the padding there.
  bool ceil_mode = false;
  bool count_include_pad = true;                  // AvgPool: padding counts as elements
  std::optional<int64_t> divisor = std::nullopt;  // AvgPool: instead of the number of elements
};
// NaN counts as the largest; tied elements share the gradient.
Expr MaxPool(const Expr& x, const PoolOptions& options);
Expr AvgPool(const Expr& x, const PoolOptions& options);

struct PooledMax {
  Expr values;
  Expr indices;  // int32: the first largest element's place in the flattened pooled axes
};
PooledMax MaxPoolWithIndices(const Expr& x, const PoolOptions& options);
// Puts elements back to their places in axes of that size; the rest is zero, and elements with one
// place add up.
Expr MaxUnpool(const Expr& x, const Expr& indices, Shape size);

// The root of the sum of p-th powers. Windows that run over the end are scaled up, as in PyTorch.
Expr LpPool(const Expr& x, double p, const PoolOptions& options);

// Windows that share out the last axes evenly: window i of n goes from floor(i * size / n) to
// ceil((i + 1) * size / n). -1 keeps a size.
Expr AdaptiveAvgPool(const Expr& x, absl::Span<const int64_t> size);
PooledMax AdaptiveMaxPool(const Expr& x, absl::Span<const int64_t> size);

// Windows at pseudo-random places (Graham, "Fractional max-pooling", 2014). `random` [batch,
// channels, axes], uniform in [0, 1); x [batch, channels, axes..].
PooledMax FractionalMaxPool(const Expr& x, absl::Span<const int64_t> kernel,
                            absl::Span<const int64_t> size, const Expr& random);

}  // namespace tensord
