// Convolutions.
#pragma once

#include <optional>
#include <vector>

#include "core/tensor/expr.h"
#include "core/tensor/movement.h"

namespace tensord {

struct ConvOptions {
  // Per spatial axis; one number serves all, none means the default (1, 1, 0).
  absl::Span<const int64_t> stride = {};
  absl::Span<const int64_t> dilation = {};
  absl::Span<const PadAmount> padding = {};  // negative amounts crop
  int64_t groups = 1;
  std::optional<DType> dtype = std::nullopt;  // of the sum and the result
};
// x [batch, in, spatial..], weight [out, in / groups, taps..]: 1 to 3 spatial axes. The batch axis
// may be left out.
Expr Conv(const Expr& x, const Expr& weight, const std::optional<Expr>& bias = std::nullopt,
          const ConvOptions& options = {});
// The padding with which a convolution of stride 1 keeps the size; what is odd goes to the end.
std::vector<PadAmount> SamePadding(Shape weight, absl::Span<const int64_t> dilation);
// The adjoint of Conv in x. weight [in, out / groups, taps..]; `output_padding` more elements at
// the end of each spatial axis.
Expr ConvTranspose(const Expr& x, const Expr& weight,
                   const std::optional<Expr>& bias = std::nullopt, const ConvOptions& options = {},
                   absl::Span<const int64_t> output_padding = {});

}  // namespace tensord
