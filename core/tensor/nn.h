// Products of tensors, convolution, pooling, normalisation, attention.
//
// Products are written as one sum over the product of two views, which is the form that the
// compiler recognises: Reduce(Add, Mul(view(a), view(b))). Floats below float32 are accumulated in
// float32 and the result comes back in the promoted dtype.
#pragma once

#include <optional>

#include "core/tensor/expr.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord {

// As in NumPy: vectors lose their axis, batch axes broadcast.
Expr MatMul(const Expr& a, const Expr& b);
// x [.., in], weight [out, in], bias [out].
Expr Linear(const Expr& x, const Expr& weight, const std::optional<Expr>& bias = std::nullopt);

struct ConvOptions {
  // Per spatial axis; one number serves all, none means the default (1, 1, 0).
  absl::Span<const int64_t> stride = {};
  absl::Span<const int64_t> dilation = {};
  absl::Span<const PadAmount> padding = {};  // negative amounts crop
  int64_t groups = 1;
};
// x [batch, in, spatial..], weight [out, in / groups, taps..]: 1 to 3 spatial axes.
Expr Conv(const Expr& x, const Expr& weight, const std::optional<Expr>& bias = std::nullopt,
          const ConvOptions& options = {});
// The adjoint of Conv in x. weight [in, out / groups, taps..]; `output_padding` more elements at
// the end of each spatial axis.
Expr ConvTranspose(const Expr& x, const Expr& weight,
                   const std::optional<Expr>& bias = std::nullopt, const ConvOptions& options = {},
                   absl::Span<const int64_t> output_padding = {});

struct PoolOptions {
  absl::Span<const int64_t> kernel;       // over the last axes, one number per axis
  absl::Span<const int64_t> stride = {};  // the kernel if not given
  absl::Span<const int64_t> dilation = {};
  absl::Span<const PadAmount> padding = {};
  bool ceil_mode = false;         // also windows that run over the end
  bool count_include_pad = true;  // AvgPool: padding counts as elements
};
Expr MaxPool(const Expr& x, const PoolOptions& options);
Expr AvgPool(const Expr& x, const PoolOptions& options);

// Statistics of each channel, axis 1.
struct BatchNormResult {
  Expr y;
  Expr mean;          // of the batch, [channels]
  Expr unbiased_var;  // for running statistics
};
BatchNormResult BatchNormTrain(const Expr& x, const std::optional<Expr>& weight,
                               const std::optional<Expr>& bias, double eps = 1e-5);
Expr BatchNorm(const Expr& x, const Expr& mean, const Expr& var, const std::optional<Expr>& weight,
               const std::optional<Expr>& bias, double eps = 1e-5);
// Over the last `axes` axes, which weight and bias have.
Expr LayerNorm(const Expr& x, int64_t axes = 1, const std::optional<Expr>& weight = std::nullopt,
               const std::optional<Expr>& bias = std::nullopt, double eps = 1e-5);
// x [batch, channels, ..]; weight and bias [channels].
Expr GroupNorm(const Expr& x, int64_t groups, const std::optional<Expr>& weight = std::nullopt,
               const std::optional<Expr>& bias = std::nullopt, double eps = 1e-5);
// Over the last axis.
Expr RmsNorm(const Expr& x, const std::optional<Expr>& weight = std::nullopt, double eps = 1e-6);

struct AttentionOptions {
  std::optional<Expr> mask = std::nullopt;     // bool: what to keep; float: added to the scores
  bool is_causal = false;                      // aligned at the first query and key
  bool grouped_heads = false;                  // fewer key and value heads, each serving a group
  std::optional<double> scale = std::nullopt;  // 1 / sqrt(size of a head)
};
// query [.., heads, queries, dim], key and value [.., heads, keys, dim].
Expr ScaledDotProductAttention(const Expr& query, const Expr& key, const Expr& value,
                               const AttentionOptions& options = {});

// `random` uniform in [0, 1), of the shape of x; what is kept is scaled by 1 / (1 - p).
Expr Dropout(const Expr& x, const Expr& random, double p);

}  // namespace tensord
