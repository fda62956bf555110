#include "core/tensor/nn.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Sum over `axes` of the product of two tensors that broadcast; summed axes go away. Operands are
// of one dtype that is its own accumulator, so that nothing stands between product and sum.
Expr Contract(const Expr& a, const Expr& b, const Axes& axes) { return Sum(Mul(a, b), axes); }

int64_t At(absl::Span<const int64_t> values, int64_t axis, int64_t absent) {
  return values.empty() ? absent : values[values.size() == 1 ? 0 : axis];
}
PadAmount At(absl::Span<const PadAmount> values, int64_t axis) {
  return values.empty() ? PadAmount{} : values[values.size() == 1 ? 0 : axis];
}

// Whether each list has nothing, one number, or one per spatial axis.
std::optional<Expr> CheckCounts(std::string_view name, const Expr& x, int64_t spatial,
                                std::initializer_list<size_t> counts) {
  for (size_t count : counts) {
    if (count > 1 && count != static_cast<size_t>(spatial)) {
      return Fail(x, "{}: {} numbers for {} spatial axes; give one, or one per axis", name, count,
                  spatial);
    }
  }
  return std::nullopt;
}

std::optional<Expr> CheckConv(std::string_view name, const Expr& x, const Expr& weight,
                              const std::optional<Expr>& bias, const ConvOptions& options) {
  if (!x.ok()) return x;
  if (!weight.ok()) return weight;
  if (bias && !bias->ok()) return *bias;
  const int64_t spatial = weight.rank() - 2;
  if (spatial < 1 || spatial > 3 || x.rank() != weight.rank()) {
    return Fail(x,
                "{}: input {} and weight {}: both need two axes and then the same 1 to 3 spatial "
                "axes",
                name, ShapeText(x.shape()), ShapeText(weight.shape()));
  }
  if (options.groups < 1) return Fail(x, "{}: {} groups", name, options.groups);
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t stride = At(options.stride, i, 1), dilation = At(options.dilation, i, 1);
    if (stride < 1 || dilation < 1) {
      return Fail(x, "{}: stride {} and dilation {} must be at least 1", name, stride, dilation);
    }
  }
  return CheckCounts(name, x, spatial,
                     {options.stride.size(), options.dilation.size(), options.padding.size()});
}

Expr AddBias(std::string_view name, const Expr& y, const std::optional<Expr>& bias) {
  if (!y.ok() || !bias) return y;
  if (bias->rank() != 1 || bias->shape()[0] != y.shape()[1]) {
    return Fail(y, "{}: bias {} does not fit {} output channels", name, ShapeText(bias->shape()),
                y.shape()[1]);
  }
  Dims dims(y.rank(), 1);
  dims[1] = y.shape()[1];
  return y + Cast(Reshape(*bias, dims), y.dtype());
}

// [batch, groups, 1, channels, o0, k0, o1, k1, ..] beside a weight
// [out, in, k0, k1, ..] as [1, groups, out / groups, in, 1, k0, 1, k1, ..]; sums channels and taps.
Expr ConvSum(const Expr& windows, const Expr& weight, int64_t groups, DType dtype) {
  if (!windows.ok()) return windows;
  const int64_t spatial = weight.rank() - 2;
  const int64_t out = weight.shape()[0];
  Dims weight_dims = {1, groups, out / groups, weight.shape()[1]};
  Dims result = {windows.shape()[0], out};
  Dims summed = {3};
  for (int64_t i = 0; i < spatial; ++i) {
    weight_dims.insert(weight_dims.end(), {1, weight.shape()[2 + i]});
    summed.push_back(5 + 2 * i);
    result.push_back(windows.shape()[4 + 2 * i]);
  }
  const Expr sum =
      Contract(windows, Reshape(weight, weight_dims), Axes(absl::Span<const int64_t>(summed)));
  return Cast(Reshape(sum, result), dtype);
}

// Where windows of a pool lie along one axis.
struct PoolAxis {
  int64_t taps, stride, dilation;
  PadAmount padding;    // as asked for
  int64_t extra = 0;    // elements after the padding, for a last window that runs over the end
  bool uneven = false;  // windows differ in how many real elements they hold
};

// Appends one entry per pooled axis, or returns the error.
std::optional<Expr> PlanPool(std::string_view name, const Expr& x, const PoolOptions& options,
                             std::vector<PoolAxis>& plan) {
  if (!x.ok()) return x;
  const int64_t spatial = static_cast<int64_t>(options.kernel.size());
  if (spatial < 1 || spatial > x.rank()) {
    return Fail(x, "{}: a kernel of {} axes for shape {}", name, spatial, ShapeText(x.shape()));
  }
  if (auto error =
          CheckCounts(name, x, spatial,
                      {options.stride.size(), options.dilation.size(), options.padding.size()})) {
    return error;
  }
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t size = x.shape()[x.rank() - spatial + i];
    PoolAxis axis;
    axis.taps = options.kernel[i];
    axis.stride = At(options.stride, i, axis.taps);
    axis.dilation = At(options.dilation, i, 1);
    axis.padding = At(options.padding, i);
    const int64_t padded = size + axis.padding.before + axis.padding.after;
    const int64_t span = (axis.taps - 1) * axis.dilation + 1;
    if (axis.taps < 1 || axis.stride < 1 || axis.dilation < 1) {
      return Fail(x, "{}: kernel {}, stride {} and dilation {} must be at least 1", name, axis.taps,
                  axis.stride, axis.dilation);
    }
    if (padded < span) {
      return Fail(x, "{}: a window of {} elements does not fit axis of {} with padding", name, span,
                  size);
    }
    const int64_t over = (padded - span) % axis.stride;
    // A further window counts only if it starts before the padding on the right.
    if (options.ceil_mode && over != 0 &&
        padded - span - over + axis.stride < size + axis.padding.before) {
      axis.extra = axis.stride - over;
    }
    axis.uneven = axis.extra > 0 || ((axis.padding.before > 0 || axis.padding.after > 0) &&
                                     !options.count_include_pad);
    plan.push_back(axis);
  }
  return std::nullopt;
}

struct Pooled {
  Expr windows;
  Axes taps;  // which axes hold them
};

Pooled PoolWindows(const Expr& x, absl::Span<const PoolAxis> plan, Number filler) {
  const int64_t first = x.rank() - static_cast<int64_t>(plan.size());
  std::vector<PadAmount> amounts(x.rank());
  for (size_t i = 0; i < plan.size(); ++i) {
    amounts[first + i] = {plan[i].padding.before, plan[i].padding.after + plan[i].extra};
  }
  Expr windows = Pad(x, amounts, filler);
  Dims taps;
  for (size_t i = 0; i < plan.size(); ++i) {
    const int64_t axis = first + 2 * static_cast<int64_t>(i);
    windows = Windows(windows, axis, {plan[i].taps, plan[i].stride, plan[i].dilation});
    taps.push_back(axis + 1);
  }
  return {windows, Axes(absl::Span<const int64_t>(taps))};
}

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

Expr MatMul(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (a.rank() == 0 || b.rank() == 0) {
    return Fail(a, "matmul: {} @ {}: an operand has no axes; use mul", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  const int64_t inner = a.shape()[a.rank() - 1];
  if (inner != b.shape()[b.rank() == 1 ? 0 : b.rank() - 2]) {
    return Fail(a, "matmul: inner sizes differ: {} @ {}", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  const DType dtype = Promote(a.dtype(), b.dtype());
  const Expr x = Cast(a, SumAccumulator(dtype)), y = Cast(b, SumAccumulator(dtype));
  // [.., m, 1, k] and [.., 1, n, k]; a vector has no axis m or n.
  const Expr left = b.rank() == 1 ? x : Unsqueeze(x, -2);
  Expr right = b.rank() == 1 ? y : Transpose(y, -1, -2);
  if (a.rank() > 1 && b.rank() > 1) right = Unsqueeze(right, -3);
  if (!BroadcastShapes(left.shape(), right.shape())) {
    return Fail(a, "matmul: batch axes of {} @ {} do not broadcast", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  return Cast(Contract(left, right, -1), dtype);
}

Expr Linear(const Expr& x, const Expr& weight, const std::optional<Expr>& bias) {
  if (!x.ok()) return x;
  if (!weight.ok()) return weight;
  if (weight.rank() != 2 || x.rank() == 0 || x.shape()[x.rank() - 1] != weight.shape()[1]) {
    return Fail(x,
                "linear: input {} and weight {}; the weight is [out, in], in the last axis of "
                "the input",
                ShapeText(x.shape()), ShapeText(weight.shape()));
  }
  const Expr y = MatMul(x, Transpose(weight, 0, 1));
  if (!bias || !y.ok()) return y;
  if (!bias->ok()) return *bias;
  if (bias->rank() != 1 || bias->shape()[0] != weight.shape()[0]) {
    return Fail(x, "linear: bias {} does not fit {} outputs", ShapeText(bias->shape()),
                weight.shape()[0]);
  }
  return y + *bias;
}

Expr Conv(const Expr& x, const Expr& weight, const std::optional<Expr>& bias,
          const ConvOptions& options) {
  if (auto error = CheckConv("conv", x, weight, bias, options)) return *error;
  const int64_t groups = options.groups, channels = x.shape()[1], out = weight.shape()[0];
  if (channels != weight.shape()[1] * groups || out % groups != 0) {
    return Fail(x,
                "conv: input {} with {} groups does not fit weight {}, which is [out, in / "
                "groups, taps..]",
                ShapeText(x.shape()), groups, ShapeText(weight.shape()));
  }
  const int64_t spatial = weight.rank() - 2;
  std::vector<PadAmount> amounts(x.rank());
  for (int64_t i = 0; i < spatial; ++i) amounts[2 + i] = At(options.padding, i);
  const DType dtype = Promote(x.dtype(), weight.dtype());
  Expr windows = Pad(Cast(x, SumAccumulator(dtype)), amounts);
  if (!windows.ok()) return windows;
  for (int64_t i = 0; i < spatial; ++i) {
    const Window window = {weight.shape()[2 + i], At(options.stride, i, 1),
                           At(options.dilation, i, 1)};
    const int64_t axis = 2 + 2 * i;
    const int64_t span = (window.taps - 1) * window.dilation + 1;
    if (window.taps < 1 || windows.shape()[axis] < span) {
      return Fail(x, "conv: {} taps with dilation {} do not fit the {} elements of spatial axis {}",
                  window.taps, window.dilation, windows.shape()[axis], i);
    }
    windows = Windows(windows, axis, window);
  }
  windows = Unsqueeze(Unflatten(windows, 1, {groups, channels / groups}), 2);
  return AddBias("conv", ConvSum(windows, Cast(weight, SumAccumulator(dtype)), groups, dtype),
                 bias);
}

Expr ConvTranspose(const Expr& x, const Expr& weight, const std::optional<Expr>& bias,
                   const ConvOptions& options, absl::Span<const int64_t> output_padding) {
  constexpr std::string_view kName = "conv_transpose";
  if (auto error = CheckConv(kName, x, weight, bias, options)) return *error;
  const int64_t groups = options.groups, channels = x.shape()[1], spatial = weight.rank() - 2;
  if (channels != weight.shape()[0] || channels % groups != 0) {
    return Fail(x,
                "{}: input {} with {} groups does not fit weight {}, which is [in, out / groups, "
                "taps..]",
                kName, ShapeText(x.shape()), groups, ShapeText(weight.shape()));
  }
  if (auto error = CheckCounts(kName, x, spatial, {output_padding.size()})) return *error;
  const DType dtype = Promote(x.dtype(), weight.dtype());
  // Each element goes to the places that would read it; a tap is an axis until the sum.
  Expr windows = Cast(x, SumAccumulator(dtype));
  std::vector<PadAmount> crop(x.rank());
  for (int64_t i = 0; i < spatial; ++i) {
    const Window window = {weight.shape()[2 + i], At(options.stride, i, 1),
                           At(options.dilation, i, 1)};
    const int64_t axis = 2 + 2 * i, extra = At(output_padding, i, 0);
    if (window.taps < 1 || extra < 0) {
      return Fail(x, "{}: {} taps and output padding {}", kName, window.taps, extra);
    }
    const int64_t count = windows.shape()[axis];
    const int64_t size =
        (count - 1) * window.stride + (window.taps - 1) * window.dilation + 1 + extra;
    Dims wide(windows.shape().begin(), windows.shape().end());
    wide.insert(wide.begin() + axis + 1, window.taps);
    windows = Unwindows(BroadcastTo(Unsqueeze(windows, axis + 1), wide), axis, window, size);
    if (!windows.ok()) return windows;
    const PadAmount padding = At(options.padding, i);
    crop[2 + i] = {-padding.before, -padding.after};
  }
  windows = Unsqueeze(Unflatten(windows, 1, {groups, channels / groups}), 2);
  // [in, out / groups, ..] to [out, in / groups, ..].
  const int64_t out = weight.shape()[1] * groups;
  Expr turned = Unflatten(Cast(weight, SumAccumulator(dtype)), 0, {groups, channels / groups});
  turned = Flatten(Transpose(turned, 1, 2), 0, 1);
  if (turned.ok() && turned.shape()[0] != out) return Fail(x, "{}: weight without channels", kName);
  return AddBias(kName, Pad(ConvSum(windows, turned, groups, dtype), crop), bias);
}

Expr MaxPool(const Expr& x, const PoolOptions& options) {
  std::vector<PoolAxis> plan;
  if (auto error = PlanPool("max_pool", x, options, plan)) return *error;
  const Number least = IsFloat(x.dtype()) ? Number(-kInf) : Number(IntMin(x.dtype()));
  const Pooled pooled = PoolWindows(x, plan, least);
  return Max(pooled.windows, pooled.taps);
}

Expr AvgPool(const Expr& x, const PoolOptions& options) {
  std::vector<PoolAxis> plan;
  if (auto error = PlanPool("avg_pool", x, options, plan)) return *error;
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Pooled pooled = PoolWindows(f, plan, 0);
  Expr result = Sum(pooled.windows, pooled.taps);
  // The number of elements that count is a product over the axes.
  double count = 1;
  for (size_t i = 0; i < plan.size(); ++i) {
    PoolAxis axis = plan[i];
    if (!axis.uneven) {
      count *= static_cast<double>(axis.taps);
      continue;
    }
    int64_t size = x.shape()[x.rank() - plan.size() + i];
    if (options.count_include_pad) {
      size += axis.padding.before + axis.padding.after;
      axis.padding = {};
    }
    const Pooled ones = PoolWindows(Ones(x.graph(), {size}, f.dtype()), {axis}, 0);
    Dims dims(plan.size() - i, 1);
    dims[0] = -1;
    result = result / Reshape(Sum(ones.windows, ones.taps), dims);
  }
  return Cast(result / count, LeastUpperFloat(x.dtype()));
}

BatchNormResult BatchNormTrain(const Expr& x, const std::optional<Expr>& weight,
                               const std::optional<Expr>& bias, double eps) {
  constexpr std::string_view kName = "batch_norm";
  const auto failed = [](const Expr& error) { return BatchNormResult{error, error, error}; };
  if (auto error = CheckChannels(kName, x)) return failed(*error);
  const int64_t channels = x.shape()[1];
  if (auto error = CheckParameters(kName, x, {channels}, {&weight, &bias})) return failed(*error);
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

Expr RmsNorm(const Expr& x, const std::optional<Expr>& weight, double eps) {
  if (!x.ok()) return x;
  if (x.rank() == 0) return Fail(x, "rms_norm: the input has no axes");
  if (auto error = CheckParameters("rms_norm", x, x.shape().last(1), {&weight})) return *error;
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Expr y = f * Rsqrt(Mean(f * f, -1, kKeepDims) + eps);
  return Cast(Affine(y, weight, std::nullopt), LeastUpperFloat(x.dtype()));
}

Expr ScaledDotProductAttention(const Expr& query, const Expr& key, const Expr& value,
                               const AttentionOptions& options) {
  for (const Expr* x : {&query, &key, &value}) {
    if (!x->ok()) return *x;
  }
  if (options.mask && !options.mask->ok()) return *options.mask;
  const auto fail = [&](std::string_view rule) {
    return Fail(query, "attention: query {}, key {}, value {}: {}", ShapeText(query.shape()),
                ShapeText(key.shape()), ShapeText(value.shape()), rule);
  };
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2) return fail("needs two axes or more");
  const int64_t queries = query.shape()[query.rank() - 2], keys = key.shape()[key.rank() - 2];
  const int64_t dim = query.shape()[query.rank() - 1];
  if (key.shape()[key.rank() - 1] != dim) return fail("query and key differ in their last size");
  if (value.shape()[value.rank() - 2] != keys) return fail("key and value differ in length");
  if (options.mask && options.is_causal) return fail("give a mask or is_causal, not both");

  const DType compute = ComputeDType(query.dtype());
  Expr q = Cast(query, compute), k = Cast(key, compute), v = Cast(value, compute);
  std::optional<Expr> mask = options.mask;
  int64_t group = 1;
  if (options.grouped_heads && query.rank() >= 3 && key.rank() >= 3 && value.rank() >= 3) {
    const int64_t heads = query.shape()[query.rank() - 3];
    const int64_t kv_heads = key.shape()[key.rank() - 3];
    if (kv_heads == 0 || heads % kv_heads != 0 || value.shape()[value.rank() - 3] != kv_heads) {
      return fail("the heads of the query are no multiple of those of key and value");
    }
    // Heads that share a key become an axis that keys and values broadcast over.
    group = heads / kv_heads;
    q = Unflatten(q, -3, {kv_heads, group});
    k = Unsqueeze(k, -3);
    v = Unsqueeze(v, -3);
    if (mask && mask->rank() >= 3) {
      const bool per_head = mask->shape()[mask->rank() - 3] == heads;
      mask = per_head ? Unflatten(*mask, -3, {kv_heads, group}) : Unsqueeze(*mask, -3);
    }
  }
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
  Expr scores = MatMul(q, Transpose(k, -1, -2)) * scale;
  if (!scores.ok()) return scores;
  if (options.is_causal) {
    const Expr keep = Tril(Ones(query.graph(), {queries, keys}, DType::kBool));
    scores = Where(keep, scores, -kInf);
  } else if (mask) {
    scores = mask->dtype() == DType::kBool ? Where(*mask, scores, -kInf) : scores + *mask;
  }
  const Expr y = MatMul(Softmax(scores, -1), v);
  return Cast(group == 1 || !y.ok() ? y : Flatten(y, -4, -3), LeastUpperFloat(query.dtype()));
}

Expr Dropout(const Expr& x, const Expr& random, double p) {
  if (!x.ok()) return x;
  if (!random.ok()) return random;
  if (!(p >= 0 && p <= 1)) return Fail(x, "dropout: probability {} is outside of [0, 1]", p);
  if (random.shape() != x.shape()) {
    return Fail(x, "dropout: {} random numbers for input {}", ShapeText(random.shape()),
                ShapeText(x.shape()));
  }
  if (p == 1) return FullLike(x, 0);
  return Where(Ge(random, p), x * (1 / (1 - p)), 0);
}

}  // namespace tensord
