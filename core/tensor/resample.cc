#include "core/tensor/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/pool.h"
#include "core/tensor/product.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

// How one axis is resized. Places are computed in float32 as PyTorch does, or in float64 for it.
struct Resized {
  int64_t axis, in, out;
  double scale;  // elements of the source per element of the result
  bool align;
  DType dtype;

  // Where element i of the result lies in the source, [out].
  Expr Places(Graph& graph) const {
    const Expr i = Cast(Arange(graph, 0, out, 1, DType::kInt32), dtype);
    return align ? i * scale : (i + 0.5) * scale - 0.5;
  }
  // The same on the host, for choices that depend on it.
  double Place(int64_t i) const {
    const double at = static_cast<double>(i);
    return align ? at * scale : (at + 0.5) * scale - 0.5;
  }
};

// [out] numbers beside a tensor, along an axis.
Expr Beside(const Expr& x, const Expr& numbers, int64_t axis) {
  Dims dims(x.rank(), 1);
  dims[axis] = -1;
  return Reshape(numbers, dims);
}

Expr Taken(const Expr& x, int64_t axis, const Expr& index) {
  std::vector<IndexItem> items(axis, Slice{});
  items.push_back(index);
  return Index(x, items);
}

Expr Clipped(const Expr& index, int64_t size) { return Clamp(index, 0, size - 1); }

Expr NearestAxis(const Expr& x, const Resized& r, bool exact) {
  // Whole ratios are copies and strides.
  if (std::abs(r.scale * static_cast<double>(r.out) - static_cast<double>(r.in)) < 1e-9) {
    if (r.out % r.in == 0) return RepeatInterleave(x, r.out / r.in, r.axis);
    if (r.in % r.out == 0) {
      const int64_t step = r.in / r.out;
      return SliceAxis(x, r.axis, {.begin = exact ? step / 2 : 0, .step = step});
    }
  }
  const Expr i = Cast(Arange(x.graph(), 0, r.out, 1, DType::kInt32), r.dtype);
  const Expr place = Cast(Floor(exact ? (i + 0.5) * r.scale : i * r.scale), DType::kInt32);
  return Taken(x, r.axis, Clipped(place, r.in));
}

Expr LinearAxis(const Expr& x, const Resized& r) {
  const Expr place = Maximum(r.Places(x.graph()), 0);
  const Expr low = Clipped(Cast(Floor(place), DType::kInt32), r.in);
  const Expr a = Taken(x, r.axis, low), b = Taken(x, r.axis, Clipped(low + 1, r.in));
  const Expr w = Beside(a, place - Cast(low, r.dtype), r.axis);
  return a * (1 - w) + b * w;
}

// uint8 by weights in fixed point with as many bits as fit 16, rounded at the end.
Expr LinearAxisFixed(const Expr& x, const Resized& r) {
  double widest = 0.5;
  for (int64_t i = 0; i < r.out; ++i) {
    const double place = std::max(r.Place(i), 0.0), fraction = place - std::floor(place);
    widest = std::max({widest, fraction, 1 - fraction});
  }
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + std::ldexp(widest, bits + 1)) < (1 << 15)) ++bits;
  const Expr place = Maximum(r.Places(x.graph()), 0);
  const Expr low = Clipped(Cast(Floor(place), DType::kInt32), r.in);
  const Expr a = Cast(Taken(x, r.axis, low), DType::kInt32);
  const Expr b = Cast(Taken(x, r.axis, Clipped(low + 1, r.in)), DType::kInt32);
  const Expr w = place - Cast(low, r.dtype);
  const auto fixed = [&](const Expr& weight) {
    return Beside(a, Cast(weight * std::ldexp(1, bits) + 0.5, DType::kInt32), r.axis);
  };
  const Expr sum = a * fixed(1 - w) + b * fixed(w) + (int64_t{1} << (bits - 1));
  return Cast(Clamp(ShiftRight(sum, bits), 0, 255), DType::kUint8);
}

// Keys' cubic kernel at distances up to 1, and from 1 to 2.
constexpr double kKeys = -0.75;
Expr CubicNear(const Expr& d) { return ((d * (kKeys + 2) - (kKeys + 3)) * d) * d + 1; }
Expr CubicFar(const Expr& d) { return ((d * kKeys - 5 * kKeys) * d + 8 * kKeys) * d - 4 * kKeys; }

// At the distances 1 + t, t, 1 - t and 2 - t.
std::vector<Expr> CubicWeights(const Expr& t) {
  return {CubicFar(t + 1), CubicNear(t), CubicNear(1 - t), CubicFar(2 - t)};
}

Expr CubicAxis(const Expr& x, const Resized& r) {
  const Expr place = r.Places(x.graph()), floor = Floor(place);
  const Expr low = Cast(floor, DType::kInt32);
  const std::vector<Expr> weights = CubicWeights(place - floor);
  Expr sum = x;
  for (int64_t tap = 0; tap < 4; ++tap) {
    const Expr value = Taken(x, r.axis, Clipped(low + (tap - 1), r.in));
    const Expr term = value * Beside(value, weights[tap], r.axis);
    sum = tap == 0 ? term : sum + term;
  }
  return sum;
}

// A product with a matrix [out, in] of weights: the kernel widened by the scale, and normalised.
Expr AntialiasedAxis(const Expr& x, const Resized& r, bool cubic) {
  Graph& graph = x.graph();
  const double wide = std::max(r.scale, 1.0), support = (cubic ? 2 : 1) * wide;
  const Expr i = Cast(Unsqueeze(Arange(graph, 0, r.out, 1, DType::kInt32), 1), r.dtype);
  const Expr j = Cast(Arange(graph, 0, r.in, 1, DType::kInt32), r.dtype);
  // Of elements' middles, also where corners are aligned: as PyTorch has it.
  const Expr centre = (i + 0.5) * r.scale;
  const Expr first = Maximum(Trunc(centre - support + 0.5), 0);
  const Expr last = Minimum(Trunc(centre + support + 0.5), r.in);
  const Expr d = Abs((j - centre + 0.5) * (1 / wide));
  constexpr double kA = -0.5;
  const Expr kernel = cubic
                          ? Where(Lt(d, 1), ((d * (kA + 2) - (kA + 3)) * d) * d + 1,
                                  Where(Lt(d, 2), ((d * kA - 5 * kA) * d + 8 * kA) * d - 4 * kA, 0))
                          : Maximum(1 - d, 0);
  const Expr inside = LogicalAnd(Ge(j, first), Lt(j, last));
  const Expr raw = Where(inside, kernel, 0);
  const Expr weights = Contiguous(raw / Sum(raw, 1, kKeepDims));
  return MoveAxis(MatMul(MoveAxis(x, r.axis, -1), Transpose(weights, 0, 1)), -1, r.axis);
}

// One axis of the result, on the scale of the source.
struct GridAxis {
  Expr place;
  int64_t size;
};

// Turned back at the edges low and high, in halves of an element.
Expr Reflected(const Expr& x, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) return FullLike(x, 0);
  const double low = static_cast<double>(twice_low) / 2;
  const double span = static_cast<double>(twice_high - twice_low) / 2;
  const Expr distance = Abs(x - low);
  const Expr turns = Floor(distance / span), rest = distance - turns * span;
  const Expr even = Eq(turns - Floor(turns * 0.5) * 2, 0);
  return Where(even, rest + low, span - rest + low);
}

Expr Inside(const Expr& place, int64_t size, const GridSampleOptions& options) {
  if (options.padding == GridPadding::kZeros) return place;
  Expr x = place;
  if (options.padding == GridPadding::kReflection) {
    x = options.align_corners ? Reflected(x, 0, 2 * (size - 1)) : Reflected(x, -1, 2 * size - 1);
  }
  return Clamp(x, 0.0, static_cast<double>(size - 1));
}

}  // namespace

Expr Interpolate(const Expr& x, absl::Span<const int64_t> size, const InterpolateOptions& options) {
  using enum ResampleMode;
  if (!x.ok()) return x;
  const int64_t axes = static_cast<int64_t>(size.size());
  const bool smooth = options.mode == kLinear || options.mode == kCubic;
  if (axes < 1 || axes > x.rank()) {
    return Fail(x, "interpolate: {} sizes for shape {}", axes, ShapeText(x.shape()));
  }
  if (!smooth && (options.align_corners || options.antialias)) {
    return Fail(x, "interpolate: align_corners and antialias are for linear and cubic only");
  }
  if (!options.scale.empty() && options.scale.size() != size.size()) {
    return Fail(x, "interpolate: {} scales for {} axes", options.scale.size(), axes);
  }
  for (int64_t i = 0; i < axes; ++i) {
    if (size[i] < 1 || x.shape()[x.rank() - axes + i] < 1) {
      return Fail(x, "interpolate: shape {} to {}; sizes must be at least 1", ShapeText(x.shape()),
                  ShapeText(size));
    }
  }
  const bool fixed = x.dtype() == DType::kUint8 && options.mode == kLinear && !options.antialias;
  const DType compute = ComputeDType(x.dtype());
  Expr y = !smooth && options.mode != kArea ? x : fixed ? x : Cast(x, compute);
  if (options.mode == kArea) return Cast(AdaptiveAvgPool(y, size), x.dtype());
  for (int64_t i = axes - 1; i >= 0; --i) {
    const int64_t axis = x.rank() - axes + i;
    Resized r = {axis, x.shape()[axis], size[i], 1, options.align_corners, compute};
    r.scale = static_cast<double>(r.in) / static_cast<double>(r.out);
    if (!options.scale.empty() && options.scale[i] > 0) r.scale = 1 / options.scale[i];
    if (r.align) {
      r.scale = r.out == 1 ? 0 : static_cast<double>(r.in - 1) / static_cast<double>(r.out - 1);
    }
    const bool same = r.in == r.out && (r.align || options.scale.empty());
    if (same) continue;
    if (options.antialias) {
      y = AntialiasedAxis(y, r, options.mode == kCubic);
    } else if (fixed) {
      y = LinearAxisFixed(y, r);
    } else if (options.mode == kLinear) {
      y = LinearAxis(y, r);
    } else if (options.mode == kCubic) {
      y = CubicAxis(y, r);
    } else {
      y = NearestAxis(y, r, options.mode == kNearestExact);
    }
  }
  if (!y.ok() || y.dtype() == x.dtype()) return y;
  // Filters with negative weights leave the range of uint8.
  if (x.dtype() == DType::kUint8) y = Clamp(Floor(y + 0.5), 0, 255);
  return Cast(y, x.dtype());
}

Expr GridSample(const Expr& x, const Expr& grid, const GridSampleOptions& options) {
  using enum ResampleMode;
  if (!x.ok()) return x;
  if (!grid.ok()) return grid;
  const int64_t axes = x.rank() - 2;
  if (axes < 2 || axes > 3 || grid.rank() != x.rank() || grid.shape()[0] != x.shape()[0] ||
      grid.shape()[grid.rank() - 1] != axes || !IsFloat(grid.dtype())) {
    return Fail(x,
                "grid_sample: input {} and grid {} {}; it needs [batch, channels, 2 or 3 axes..] "
                "and floats [batch, out.., axes]",
                ShapeText(x.shape()), Name(grid.dtype()), ShapeText(grid.shape()));
  }
  const bool cubic = options.mode == kCubic;
  if (options.mode == kArea || options.mode == kNearestExact) {
    return Fail(x, "grid_sample: modes are linear, nearest and cubic");
  }
  const DType dtype = LeastUpperFloat(x.dtype());
  const DType compute = Promote(ComputeDType(dtype), ComputeDType(grid.dtype()));
  const int64_t batch = x.shape()[0], channels = x.shape()[1];
  Dims out(grid.shape().begin() + 1, grid.shape().end() - 1);
  const int64_t places = NumElements(out);
  const int64_t elements = NumElements(x.shape().last(axes));
  if (elements == 0) return Fail(x, "grid_sample: the input {} is empty", ShapeText(x.shape()));
  const Expr flat = Reshape(Cast(x, compute), {batch, channels, elements});
  const Expr points = Reshape(Cast(grid, compute), {batch, places, axes});

  // Along each axis of x some taps, whose places, weights and presence multiply to those of all.
  const int64_t count = cubic ? 4 : options.mode == kNearest ? 1 : 2;
  const Expr number = Arange(x.graph(), cubic ? -1 : 0, cubic ? 3 : count, 1, DType::kInt32);
  const Expr k = Cast(number, compute);
  Expr index = Zeros(x.graph(), {batch, places, 1}, DType::kInt32);
  Expr weight = Ones(x.graph(), {batch, places, 1}, compute);
  Expr inside = Ones(x.graph(), {batch, places, 1}, DType::kBool);
  int64_t taps = 1;
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t size = x.shape()[2 + i];
    const double n = static_cast<double>(size);
    const Expr g = Select(points, -1, axes - 1 - i);
    Expr place = options.align_corners ? (g + 1) * ((n - 1) / 2) : ((g + 1) * n - 1) * 0.5;
    if (!cubic) place = Inside(place, size, options);
    const Expr low = Unsqueeze(count == 1 ? Round(place) : Floor(place), -1);
    const Expr t = Unsqueeze(place, -1) - low;
    const Expr distance = Where(Gt(number, 0), k - t, t - k);
    const Expr at = cubic ? Inside(low + k, size, options) : low + k;  // [batch, places, count]
    const Expr share = count == 1 ? FullLike(at, 1)
                       : cubic ? Where(LogicalOr(Eq(number, 0), Eq(number, 1)), CubicNear(distance),
                                       CubicFar(distance))
                               : 1 - distance;
    const auto beside = [&](const Expr& each) {
      return Reshape(BroadcastTo(Unsqueeze(each, -1), Dims{batch, places, taps, count}),
                     {batch, places, taps * count});
    };
    const auto beside_taps = [&](const Expr& each) {
      return Reshape(BroadcastTo(Unsqueeze(each, 2), Dims{batch, places, taps, count}),
                     {batch, places, taps * count});
    };
    const Expr here = LogicalAnd(Ge(at, 0), Le(at, size - 1));
    inside = LogicalAnd(beside(inside), beside_taps(here));
    index = beside(index) * size + beside_taps(Cast(at, DType::kInt32));
    weight = beside(weight) * beside_taps(share);
    taps *= count;
  }
  // What is outside reads as zero.
  const Expr from = Reshape(Where(inside, index, -1), {batch, 1, places * taps});
  const Expr values = GatherAlong(flat, 2, BroadcastTo(from, {batch, channels, places * taps}));
  const Expr sum = Sum(Reshape(values, {batch, channels, places, taps}) * Unsqueeze(weight, 1), -1);
  Dims result = {batch, channels};
  result.insert(result.end(), out.begin(), out.end());
  return Cast(Reshape(sum, result), dtype);
}

Expr AffineGrid(const Expr& theta, absl::Span<const int64_t> size, bool align_corners) {
  if (!theta.ok()) return theta;
  const int64_t axes = static_cast<int64_t>(size.size()) - 2;
  if (axes < 2 || axes > 3 || !IsFloat(theta.dtype()) ||
      theta.shape() != Shape{size[0], axes, axes + 1}) {
    return Fail(theta,
                "affine_grid: theta {} {} for size {}; it needs floats [batch, axes, axes + 1] and "
                "[batch, channels, 2 or 3 axes..]",
                Name(theta.dtype()), ShapeText(theta.shape()), ShapeText(size));
  }
  Graph& graph = theta.graph();
  Dims spatial(size.begin() + 2, size.end());
  std::vector<Expr> coordinates;
  for (int64_t i = axes - 1; i >= 0; --i) {
    const double n = static_cast<double>(spatial[i]);
    const Expr index = Cast(Arange(graph, 0, spatial[i], 1, DType::kInt32), theta.dtype());
    const Expr at = align_corners ? spatial[i] == 1 ? index * 0 : index * (2 / (n - 1)) - 1
                                  : (index * 2 + 1) * (1 / n) - 1;
    Dims dims(axes, 1);
    dims[i] = spatial[i];
    coordinates.push_back(BroadcastTo(Reshape(at, dims), spatial));
  }
  coordinates.push_back(Ones(graph, spatial, theta.dtype()));
  const Expr base = Reshape(Stack(coordinates, -1), {-1, axes + 1});
  Dims result = {size[0]};
  result.insert(result.end(), spatial.begin(), spatial.end());
  result.push_back(axes);
  return Reshape(MatMul(base, Transpose(theta, 1, 2)), result);
}

}  // namespace tensord
