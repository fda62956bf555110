// Normalisation and dropout. Statistics are taken in float32 or wider; the result has the float
// dtype of x.
#pragma once

#include <optional>

#include "core/tensor/expr.h"
#include "core/tensor/reduce.h"

namespace tensord {

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
// By the root of the mean of squares over the last `axes` axes, which weight has.
Expr RmsNorm(const Expr& x, const std::optional<Expr>& weight = std::nullopt, double eps = 1e-6,
             int64_t axes = 1);
// Each channel of each sample by its own statistics; x [batch, channels, ..].
Expr InstanceNorm(const Expr& x, const std::optional<Expr>& weight = std::nullopt,
                  const std::optional<Expr>& bias = std::nullopt, double eps = 1e-5);
// Zero mean and unit variance over any axes.
Expr Standardize(const Expr& x, const Axes& axes, double eps = 1e-5);
// (x - mean) * inverse_deviation * weight + bias, each a vector along `axis`.
Expr NormalizeBy(const Expr& x, const Expr& mean, const Expr& inverse_deviation,
                 const std::optional<Expr>& weight, const std::optional<Expr>& bias,
                 int64_t axis = 1);

struct LocalResponse {
  int64_t size;  // channels in a window, the middle one being that of the element
  double alpha = 1e-4, beta = 0.75, k = 1;
};
// x / (k + alpha * mean of squares in the window)^beta; x [batch, channels, ..].
Expr LocalResponseNorm(const Expr& x, const LocalResponse& options);

// `random` uniform in [0, 1), broadcasting to x, so that whole channels are dropped where it has
// size 1; what is kept is scaled by 1 / (1 - p).
Expr Dropout(const Expr& x, const Expr& random, double p);
// What is dropped takes the value that SELU has at minus infinity, and all is scaled so that mean
// and variance stay.
Expr AlphaDropout(const Expr& x, const Expr& random, double p);

}  // namespace tensord
