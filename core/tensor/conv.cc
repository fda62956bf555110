#include "core/tensor/conv.h"

#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/reduce.h"
#include "core/tensor/spatial.h"

namespace tensord {
namespace {

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
      Sum(windows * Reshape(weight, weight_dims), Axes(absl::Span<const int64_t>(summed)));
  return Cast(Reshape(sum, result), dtype);
}

}  // namespace

Expr Conv(const Expr& x, const Expr& weight, const std::optional<Expr>& bias,
          const ConvOptions& options) {
  if (x.ok() && weight.ok() && x.rank() == weight.rank() - 1 && x.rank() >= 2) {
    return Squeeze(Conv(Unsqueeze(x, 0), weight, bias, options), 0);
  }
  if (auto error = CheckConv("conv", x, weight, bias, options)) return *error;
  const int64_t groups = options.groups, channels = x.shape()[1], out = weight.shape()[0];
  if (channels != weight.shape()[1] * groups || out % groups != 0) {
    return Fail(x,
                "conv: channels of input {} in {} groups do not fit weight {}, which is [out, in / "
                "groups, taps..]",
                ShapeText(x.shape()), groups, ShapeText(weight.shape()));
  }
  const int64_t spatial = weight.rank() - 2;
  std::vector<PadAmount> amounts(x.rank());
  for (int64_t i = 0; i < spatial; ++i) amounts[2 + i] = At(options.padding, i);
  const DType dtype = options.dtype.value_or(Promote(x.dtype(), weight.dtype()));
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

std::vector<PadAmount> SamePadding(Shape weight, absl::Span<const int64_t> dilation) {
  std::vector<PadAmount> amounts;
  for (size_t i = 2; i < weight.size(); ++i) {
    const int64_t total = (weight[i] - 1) * At(dilation, static_cast<int64_t>(i) - 2, 1);
    amounts.push_back({total / 2, total - total / 2});
  }
  return amounts;
}

Expr ConvTranspose(const Expr& x, const Expr& weight, const std::optional<Expr>& bias,
                   const ConvOptions& options, absl::Span<const int64_t> output_padding) {
  constexpr std::string_view kName = "conv_transpose";
  if (x.ok() && weight.ok() && x.rank() == weight.rank() - 1 && x.rank() >= 2) {
    return Squeeze(ConvTranspose(Unsqueeze(x, 0), weight, bias, options, output_padding), 0);
  }
  if (auto error = CheckConv(kName, x, weight, bias, options)) return *error;
  const int64_t groups = options.groups, channels = x.shape()[1], spatial = weight.rank() - 2;
  if (channels != weight.shape()[0] || channels % groups != 0) {
    return Fail(
        x,
        "{}: channels of input {} in {} groups do not fit weight {}, which is [in, out / groups, "
        "taps..]",
        kName, ShapeText(x.shape()), groups, ShapeText(weight.shape()));
  }
  if (auto error = CheckCounts(kName, x, spatial, {output_padding.size()})) return *error;
  const DType dtype = options.dtype.value_or(Promote(x.dtype(), weight.dtype()));
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

}  // namespace tensord
