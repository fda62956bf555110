#include "core/tensor/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scatter.h"
#include "core/tensor/spatial.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

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
    // The first window too may run over the end.
    const int64_t room = padded - span + (options.ceil_mode ? axis.stride - 1 : 0);
    int64_t count = room < 0 ? 0 : room / axis.stride + 1;
    // A further window counts only if it starts before the padding on the right.
    if (options.ceil_mode && (count - 1) * axis.stride >= size + axis.padding.before) --count;
    if (count < 1) {
      return Fail(x, "{}: a window of {} elements does not fit axis of {} with padding", name, span,
                  size);
    }
    axis.extra = std::max<int64_t>((count - 1) * axis.stride + span - padded, 0);
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

}  // namespace

namespace {

constexpr int64_t kNowhere = std::numeric_limits<int32_t>::max();

Number Least(DType dtype) { return IsFloat(dtype) ? Number(-kInf) : Number(IntMin(dtype)); }

// 0, 1, 2, .. in row-major order of axes of that size.
Expr PlaneIndex(Graph& graph, Shape size) {
  return Reshape(Arange(graph, 0, NumElements(size), 1, DType::kInt32), size);
}

// The largest of windows over `taps`, and the least index among those that have it.
PooledMax LargestOf(const Expr& windows, const Expr& index, const Axes& taps) {
  const Expr largest = Max(windows, taps, kKeepDims);
  Expr found = Eq(windows, largest);
  if (windows.ok() && IsFloat(windows.dtype())) found = LogicalOr(found, IsNan(windows));
  return {Max(windows, taps), Min(Where(found, index, kNowhere), taps)};
}

}  // namespace

Expr MaxPool(const Expr& x, const PoolOptions& options) {
  std::vector<PoolAxis> plan;
  if (auto error = PlanPool("max_pool", x, options, plan)) return *error;
  const Pooled pooled = PoolWindows(x, plan, Least(x.dtype()));
  return Max(pooled.windows, pooled.taps);
}

PooledMax MaxPoolWithIndices(const Expr& x, const PoolOptions& options) {
  std::vector<PoolAxis> plan;
  if (auto error = PlanPool("max_pool", x, options, plan)) return {*error, *error};
  const Pooled pooled = PoolWindows(x, plan, Least(x.dtype()));
  // The same windows of the places; padding is nowhere, so that it never wins a tie.
  const Shape size = x.shape().last(plan.size());
  const Pooled places = PoolWindows(PlaneIndex(x.graph(), size), plan, kNowhere);
  return LargestOf(pooled.windows, places.windows, pooled.taps);
}

Expr MaxUnpool(const Expr& x, const Expr& indices, Shape size) {
  if (!x.ok()) return x;
  if (!indices.ok()) return indices;
  const int64_t axes = static_cast<int64_t>(size.size());
  if (x.shape() != indices.shape() || axes > x.rank() || !IsInt(indices.dtype())) {
    return Fail(x,
                "max_unpool: input {} and indices {} {}; it needs integers of one shape, and {} "
                "axes to pool",
                ShapeText(x.shape()), Name(indices.dtype()), ShapeText(indices.shape()), axes);
  }
  Dims flat(x.shape().begin(), x.shape().end() - axes), result = flat;
  flat.push_back(NumElements(x.shape().last(axes)));
  result.insert(result.end(), size.begin(), size.end());
  const Expr source = Reshape(x, flat), place = Reshape(indices, flat);
  flat.back() = NumElements(size);
  const Expr nothing = Zeros(x.graph(), flat, x.dtype());
  const Expr set = ScatterAlong(nothing, -1, place, source, ScatterKind::kSet);
  // Each element takes the derivative of its place, those overwritten too, as in PyTorch: that of
  // the sum.
  const Expr sum = ScatterAlong(nothing, -1, place, source, ScatterKind::kAdd);
  const Expr y = IsFloat(x.dtype()) ? WithSlope(set, sum, FullLike(sum, 1)) : set;
  return Reshape(y, result);
}

Expr LpPool(const Expr& x, double p, const PoolOptions& options) {
  if (std::isinf(p)) return MaxPool(x, options);
  if (p == 0) return Fail(x, "lp_pool: the power is 0");
  PoolOptions mean = options;
  mean.divisor.reset();
  const Expr sum = AvgPool(Pow(x, p), mean) * static_cast<double>(NumElements(options.kernel));
  // The root of zero is zero with derivative zero, not infinity.
  return Where(Eq(sum, 0), 0, Pow(Where(Eq(sum, 0), 1, sum), 1 / p));
}

Expr AvgPool(const Expr& x, const PoolOptions& options) {
  std::vector<PoolAxis> plan;
  if (auto error = PlanPool("avg_pool", x, options, plan)) return *error;
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Pooled pooled = PoolWindows(f, plan, 0);
  Expr result = Sum(pooled.windows, pooled.taps);
  if (options.divisor) {
    if (*options.divisor == 0) return Fail(x, "avg_pool: the divisor is 0");
    const Expr quotient = result / static_cast<double>(*options.divisor);
    return Cast(quotient, LeastUpperFloat(x.dtype()));
  }
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

namespace {

// An axis as [n, taps]: window i of n has the elements from floor(i size / n) to
// ceil((i + 1) size / n).
struct Shares {
  int64_t axis, size, n;
  int64_t taps = 0;
  bool even = false;
  Expr index;  // int32 [n, taps]
  Expr valid;  // bool [n, taps]; the rest of `index` is beyond the window

  Shares(Graph& graph, int64_t axis, int64_t size, int64_t n)
      : axis(axis), size(size), n(n), index(&graph, nullptr), valid(index) {
    even = size % n == 0;
    for (int64_t i = 0; i < n; ++i) {
      taps = std::max(taps, ((i + 1) * size + n - 1) / n - i * size / n);
    }
    const Expr window = Unsqueeze(Arange(graph, 0, n, 1, DType::kInt64), 1);
    const Expr begin = FloorDivide(window * size, n);
    const Expr end = FloorDivide((window + 1) * size + (n - 1), n);
    const Expr place = begin + Arange(graph, 0, taps, 1, DType::kInt64);
    index = Cast(place, DType::kInt32);
    valid = Lt(place, end);
  }

  Expr Of(const Expr& x) const {
    if (even) return Unflatten(x, axis, {n, taps});
    std::vector<IndexItem> items(axis, Slice{});
    items.push_back(index);
    return Index(x, items);
  }
  // [n, taps] beside what Of gives.
  Expr Beside(const Expr& x, const Expr& windows) const {
    Dims dims(windows.rank(), 1);
    dims[axis] = n;
    dims[axis + 1] = taps;
    return Reshape(x, dims);
  }
};

// The sizes with -1 filled in, or the error.
std::optional<Expr> CheckAdaptive(std::string_view name, const Expr& x,
                                  absl::Span<const int64_t> size, Dims& sizes) {
  if (!x.ok()) return x;
  const int64_t axes = static_cast<int64_t>(size.size());
  if (axes < 1 || axes > x.rank()) {
    return Fail(x, "{}: an output of {} axes for shape {}", name, axes, ShapeText(x.shape()));
  }
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t from = x.shape()[x.rank() - axes + i], to = size[i] == -1 ? from : size[i];
    if (to < 1 || from < 1) {
      return Fail(x, "{}: axes {} of {} become {}; sizes must be at least 1", name, axes,
                  ShapeText(x.shape()), ShapeText(size));
    }
    sizes.push_back(to);
  }
  return std::nullopt;
}

}  // namespace

Expr AdaptiveAvgPool(const Expr& x, absl::Span<const int64_t> size) {
  Dims sizes;
  if (auto error = CheckAdaptive("adaptive_avg_pool", x, size, sizes)) return *error;
  Expr result = Cast(x, ComputeDType(x.dtype()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t axis = x.rank() - static_cast<int64_t>(sizes.size() - i);
    if (x.shape()[axis] == sizes[i]) continue;
    const Shares shares(x.graph(), axis, x.shape()[axis], sizes[i]);
    const Expr windows = shares.Of(result);
    if (!windows.ok()) return windows;
    if (shares.even) {
      result = Mean(windows, axis + 1);
      continue;
    }
    const Expr valid = shares.Beside(shares.valid, windows);
    const Expr count = Sum(Cast(valid, result.dtype()), axis + 1);
    result = Sum(Where(valid, windows, 0), axis + 1) / count;
  }
  return Cast(result, LeastUpperFloat(x.dtype()));
}

PooledMax AdaptiveMaxPool(const Expr& x, absl::Span<const int64_t> size) {
  Dims sizes;
  if (auto error = CheckAdaptive("adaptive_max_pool", x, size, sizes)) return {*error, *error};
  PooledMax result = {x,
                      BroadcastTo(PlaneIndex(x.graph(), x.shape().last(sizes.size())), x.shape())};
  // The last axis first, so that of equal elements the one in the first row wins.
  for (size_t i = sizes.size(); i-- > 0;) {
    const int64_t axis = x.rank() - static_cast<int64_t>(sizes.size() - i);
    const Shares shares(x.graph(), axis, x.shape()[axis], sizes[i]);
    Expr windows = shares.Of(result.values), places = shares.Of(result.indices);
    if (!windows.ok()) return {windows, windows};
    if (!shares.even) {
      const Expr valid = shares.Beside(shares.valid, windows);
      windows = Where(valid, windows, Least(x.dtype()));
      places = Where(valid, places, kNowhere);
    }
    result = LargestOf(windows, places, axis + 1);
  }
  return result;
}

PooledMax FractionalMaxPool(const Expr& x, absl::Span<const int64_t> kernel,
                            absl::Span<const int64_t> size, const Expr& random) {
  constexpr std::string_view kName = "fractional_max_pool";
  const auto fail = [](const Expr& error) { return PooledMax{error, error}; };
  if (!x.ok()) return fail(x);
  if (!random.ok()) return fail(random);
  const int64_t axes = static_cast<int64_t>(kernel.size());
  if (axes < 1 || x.rank() != axes + 2 || size.size() != kernel.size()) {
    return fail(Fail(x,
                     "{}: a kernel of {} axes and an output of {} for input {}, which is "
                     "[batch, channels, axes..]",
                     kName, axes, size.size(), ShapeText(x.shape())));
  }
  const int64_t batch = x.shape()[0], channels = x.shape()[1];
  if (Dims wanted = {batch, channels, axes}; random.shape() != Shape(wanted)) {
    return fail(Fail(x, "{}: random numbers {} for input {}; it needs {}", kName,
                     ShapeText(random.shape()), ShapeText(x.shape()), ShapeText(wanted)));
  }
  // The place of each tap of each window in the flattened axes.
  Expr place = Constant(x.graph(), 0, DType::kInt32);
  int64_t stride = 1;
  for (int64_t i = axes - 1; i >= 0; --i) {
    const int64_t in = x.shape()[2 + i], out = size[i], taps = kernel[i];
    if (out < 1 || taps < 1 || out + taps - 1 > in) {
      return fail(Fail(x, "{}: {} windows of {} elements do not fit axis {} of {}", kName, out,
                       taps, 2 + i, ShapeText(x.shape())));
    }
    // PyTorch's samples of two axes are those of the columns first.
    const Expr sample = Unsqueeze(Select(random, 2, axes == 2 ? 1 - i : i), -1);
    const double alpha =
        out == 1 ? 0 : static_cast<double>(in - taps) / static_cast<double>(out - 1);
    const Expr number = Arange(x.graph(), 0, out, 1, DType::kInt32);
    const Expr begin =
        Floor((Cast(number, random.dtype()) + sample) * alpha) - Floor(sample * alpha);
    const Expr first = Where(Eq(number, out - 1), in - taps, Cast(begin, DType::kInt32));
    const Expr tap = Unsqueeze(first, -1) + Arange(x.graph(), 0, taps, 1, DType::kInt32);
    Dims dims = {batch, channels};
    for (int64_t j = 0; j < axes; ++j) dims.push_back(j == i ? out : 1);
    for (int64_t j = 0; j < axes; ++j) dims.push_back(j == i ? taps : 1);
    place = place + Reshape(tap, dims) * stride;
    stride *= in;
  }
  const int64_t windows = NumElements(size), taps = NumElements(kernel);
  const Expr flat = Reshape(x, {batch, channels, stride});
  const Expr index = Reshape(place, {batch, channels, windows * taps});
  const Expr values = Reshape(GatherAlong(flat, 2, index), {batch, channels, windows, taps});
  PooledMax result = LargestOf(values, Reshape(index, {batch, channels, windows, taps}), Axes(-1));
  Dims dims = {batch, channels};
  dims.insert(dims.end(), size.begin(), size.end());
  return {Reshape(result.values, dims), Reshape(result.indices, dims)};
}

}  // namespace tensord
