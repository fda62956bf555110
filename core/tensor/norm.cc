#include "core/tensor/norm.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/pad.h"
#include "core/tensor/windows.h"

namespace tensord {
namespace {

// y * weight + bias in the dtype of y, where both are given; they broadcast.
Expr Affine(const Expr& y, const std::optional<Expr>& weight, const std::optional<Expr>& bias) {
  Expr result = y;
  if (weight) result = result * *weight;
  if (bias) result = result + *bias;
  return result;
}

std::optional<Expr> CheckParameters(std::string_view name, const Expr& x, Shape expected,
                                    std::initializer_list<const std::optional<Expr>*> parameters) {
  for (const std::optional<Expr>* parameter : parameters) {
    if (!*parameter) continue;
    if (!(*parameter)->ok()) return **parameter;
    if ((*parameter)->shape() != expected) {
      return Fail(x, "{}: weight, bias and statistics have shape {} for input {}, not {}", name,
                  ShapeText(expected), ShapeText(x.shape()), ShapeText((*parameter)->shape()));
    }
  }
  return std::nullopt;
}

// A vector over axis 1 beside a tensor of that rank.
std::optional<Expr> AlongChannels(const std::optional<Expr>& vector, int64_t rank) {
  if (!vector) return std::nullopt;
  Dims dims(rank, 1);
  dims[1] = -1;
  return Reshape(*vector, dims);
}

std::optional<Expr> CheckChannels(std::string_view name, const Expr& x) {
  if (!x.ok()) return x;
  if (x.rank() >= 2) return std::nullopt;
  return Fail(x, "{}: input {} has no channel axis; it needs [batch, channels, ..]", name,
              ShapeText(x.shape()));
}

// A vector without elements has no channels either; batch norm lets it pass, as in PyTorch.
bool IsNothing(const Expr& x) { return x.ok() && x.rank() == 1 && x.shape()[0] == 0; }

// Zero mean and unit variance over `axes`, in at least float32.
Expr Normalise(const Expr& x, const Axes& axes, double eps) {
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Moments moments = VarMean(f, axes, 0, kKeepDims);
  return (f - moments.mean) * Rsqrt(moments.var + eps);
}

Axes LastAxes(int64_t count) {
  Dims axes;
  for (int64_t i = -count; i < 0; ++i) axes.push_back(i);
  return Axes(absl::Span<const int64_t>(axes));
}

}  // namespace

BatchNormResult BatchNormTrain(const Expr& x, const std::optional<Expr>& weight,
                               const std::optional<Expr>& bias, double eps) {
  constexpr std::string_view kName = "batch_norm";
  const auto failed = [](const Expr& error) { return BatchNormResult{error, error, error}; };
  if (IsNothing(x)) {
    const Expr none = Cast(x, LeastUpperFloat(x.dtype()));
    return {none, none, none};
  }
  if (auto error = CheckChannels(kName, x)) return failed(*error);
  const int64_t channels = x.shape()[1];
  if (auto error = CheckParameters(kName, x, {channels}, {&weight, &bias})) return failed(*error);
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (auto error = NeedsNumber(kName, x, i)) return failed(*error);
  }
  Dims over = {0};
  for (int64_t i = 2; i < x.rank(); ++i) over.push_back(i);
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Axes axes{absl::Span<const int64_t>(over)};
  const Moments moments = VarMean(f, axes, 0, kKeepDims);
  Expr scale = Rsqrt(moments.var + eps);
  if (weight) scale = scale * *AlongChannels(weight, x.rank());
  const Expr y = Affine((f - moments.mean) * scale, std::nullopt, AlongChannels(bias, x.rank()));
  const double n =
      channels == 0 ? 0
                    : static_cast<double>(NumElements(x.shape())) / static_cast<double>(channels);
  // One element has no unbiased variance; as in PyTorch's running statistics the factor is
  // infinite.
  const Expr unbiased = Reshape(moments.var, {channels}) * (n / (n - 1));
  return {Cast(y, LeastUpperFloat(x.dtype())), Reshape(moments.mean, {channels}), unbiased};
}

Expr BatchNorm(const Expr& x, const Expr& mean, const Expr& var, const std::optional<Expr>& weight,
               const std::optional<Expr>& bias, double eps) {
  constexpr std::string_view kName = "batch_norm";
  if (IsNothing(x)) return Cast(x, LeastUpperFloat(x.dtype()));
  if (auto error = CheckChannels(kName, x)) return *error;
  const std::optional<Expr> mean_given = mean, var_given = var;
  if (auto error =
          CheckParameters(kName, x, {x.shape()[1]}, {&weight, &bias, &mean_given, &var_given})) {
    return *error;
  }
  Expr scale = Rsqrt(*AlongChannels(var, x.rank()) + eps);
  if (weight) scale = scale * *AlongChannels(weight, x.rank());
  const Expr centred = Cast(x, ComputeDType(x.dtype())) - *AlongChannels(mean, x.rank());
  return Cast(Affine(centred * scale, std::nullopt, AlongChannels(bias, x.rank())),
              LeastUpperFloat(x.dtype()));
}

Expr LayerNorm(const Expr& x, int64_t axes, const std::optional<Expr>& weight,
               const std::optional<Expr>& bias, double eps) {
  if (!x.ok()) return x;
  if (axes < 1 || axes > x.rank()) {
    return Fail(x, "layer_norm: {} axes of input {}", axes, ShapeText(x.shape()));
  }
  const Shape expected = x.shape().last(axes);
  if (auto error = CheckParameters("layer_norm", x, expected, {&weight, &bias})) return *error;
  return Cast(Affine(Normalise(x, LastAxes(axes), eps), weight, bias), LeastUpperFloat(x.dtype()));
}

Expr GroupNorm(const Expr& x, int64_t groups, const std::optional<Expr>& weight,
               const std::optional<Expr>& bias, double eps) {
  constexpr std::string_view kName = "group_norm";
  if (auto error = CheckChannels(kName, x)) return *error;
  const int64_t channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0) {
    return Fail(x, "{}: {} channels do not split into {} groups", kName, channels, groups);
  }
  if (auto error = CheckParameters(kName, x, {channels}, {&weight, &bias})) return *error;
  const Expr apart = Unflatten(x, 1, {groups, channels / groups});
  const Expr y = Reshape(Normalise(apart, LastAxes(apart.rank() - 2), eps), x.shape());
  return Cast(Affine(y, AlongChannels(weight, x.rank()), AlongChannels(bias, x.rank())),
              LeastUpperFloat(x.dtype()));
}

Expr RmsNorm(const Expr& x, const std::optional<Expr>& weight, double eps, int64_t axes) {
  if (!x.ok()) return x;
  if (axes < 1 || axes > x.rank()) {
    return Fail(x, "rms_norm: {} axes of input {}", axes, ShapeText(x.shape()));
  }
  if (auto error = CheckParameters("rms_norm", x, x.shape().last(axes), {&weight})) return *error;
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Expr y = f * Rsqrt(Mean(f * f, LastAxes(axes), kKeepDims) + eps);
  return Cast(Affine(y, weight, std::nullopt), LeastUpperFloat(x.dtype()));
}

Expr InstanceNorm(const Expr& x, const std::optional<Expr>& weight, const std::optional<Expr>& bias,
                  double eps) {
  constexpr std::string_view kName = "instance_norm";
  if (auto error = CheckChannels(kName, x)) return *error;
  if (auto error = CheckParameters(kName, x, {x.shape()[1]}, {&weight, &bias})) return *error;
  const Expr y = Normalise(x, LastAxes(x.rank() - 2), eps);
  return Cast(Affine(y, AlongChannels(weight, x.rank()), AlongChannels(bias, x.rank())),
              LeastUpperFloat(x.dtype()));
}

Expr Standardize(const Expr& x, const Axes& axes, double eps) {
  return x.ok() ? Cast(Normalise(x, axes, eps), LeastUpperFloat(x.dtype())) : x;
}

Expr NormalizeBy(const Expr& x, const Expr& mean, const Expr& inverse_deviation,
                 const std::optional<Expr>& weight, const std::optional<Expr>& bias, int64_t axis) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("batchnorm", x, axis);
  const auto along = [&](const std::optional<Expr>& vector) -> std::optional<Expr> {
    if (!vector || vector->rank() != 1) return vector;
    Dims dims(x.rank(), 1);
    dims[*at] = -1;
    return Reshape(*vector, dims);
  };
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Expr y = Affine((f - *along(mean)) * *along(inverse_deviation), along(weight), along(bias));
  return Cast(y, LeastUpperFloat(x.dtype()));
}

Expr LocalResponseNorm(const Expr& x, const LocalResponse& options) {
  constexpr std::string_view kName = "local_response_norm";
  if (auto error = CheckChannels(kName, x)) return *error;
  if (options.size < 1) return Fail(x, "{}: size {} is not positive", kName, options.size);
  return InFloat32(x, [&](const Expr& f) {
    std::vector<PadAmount> padding(x.rank());
    padding[1] = {options.size / 2, (options.size - 1) / 2};
    const Expr windows = Windows(Pad(f * f, padding), 1, {.taps = options.size});
    const Expr squares = Mean(windows, 2);
    return f / Pow(squares * options.alpha + options.k, options.beta);
  });
}

Expr Dropout(const Expr& x, const Expr& random, double p) {
  if (!x.ok()) return x;
  if (!(p >= 0 && p <= 1)) return Fail(x, "dropout: probability {} is outside of [0, 1]", p);
  if (p == 1) return FullLike(x, 0);
  return Where(Ge(random, p), x * (1 / (1 - p)), 0);
}

Expr AlphaDropout(const Expr& x, const Expr& random, double p) {
  if (!x.ok()) return x;
  if (!(p >= 0 && p <= 1)) return Fail(x, "dropout: probability {} is outside of [0, 1]", p);
  if (p == 1) return FullLike(x, 0);
  constexpr double kLeast = -1.7580993408473766;  // -alpha * gamma of SELU
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * kLeast * kLeast));
  return Where(Ge(random, p), x, kLeast) * scale - scale * p * kLeast;
}

}  // namespace tensord
