#include "core/tensor/histogram.h"

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/order.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scatter.h"

namespace tensord {

Expr HistogramEdges(const Expr& x, int64_t bins, std::optional<std::pair<double, double>> ends) {
  if (!x.ok()) return x;
  if (!IsFloat(x.dtype()))
    return Fail(x, "histogram: x is {}, it must be a float", Name(x.dtype()));
  if (bins < 1) return Fail(x, "histogram: {} bins", bins);
  if (ends && ends->second < ends->first) {
    return Fail(x, "histogram: range ({}, {}) descends", ends->first, ends->second);
  }
  const DType wide = ComputeDType(x.dtype());
  Expr low = Constant(x.graph(), ends ? ends->first : 0.0, wide);
  Expr high = Constant(x.graph(), ends ? ends->second : 1.0, wide);
  if (!ends && NumElements(x.shape()) > 0) {
    low = Cast(Min(x), wide);
    high = Cast(Max(x), wide);
  }
  const Expr equal = Eq(low, high);
  low = Where(equal, low - 0.5, low);
  high = Where(equal, high + 0.5, high);
  const Expr number = Arange(x.graph(), 0, bins + 1, 1, DType::kInt32);
  const Expr edges = low + (high - low) * (Cast(number, wide) / static_cast<double>(bins));
  return Cast(Where(Eq(number, bins), high, edges), x.dtype());
}

namespace {

std::optional<Expr> CheckEdges(std::string_view name, const Expr& x, const Expr& edges) {
  if (!edges.ok()) return edges;
  if (edges.rank() == 1 && edges.shape()[0] >= 2) return std::nullopt;
  return Fail(x, "{}: edges {}, they must be one row of two or more", name,
              ShapeText(edges.shape()));
}

// Which bin each number of a row is in; -1 or the number of bins outside.
Expr BinOf(const Expr& row, const Expr& edges) {
  const int64_t bins = edges.shape()[0] - 1;
  const Expr bin = SearchSorted(edges, row, true) - 1;
  return Where(Eq(row, Select(edges, 0, bins)), bins - 1, bin);
}

Expr WidthOf(const Expr& edges, DType dtype) {
  const int64_t bins = edges.shape()[0] - 1;
  return Cast(Shrink(edges, 0, 1, bins + 1) - Shrink(edges, 0, 0, bins), dtype);
}

}  // namespace

Expr Histogram(const Expr& x, const Expr& edges, const std::optional<Expr>& weights, bool density) {
  if (!x.ok()) return x;
  if (auto error = CheckEdges("histogram", x, edges)) return *error;
  if (weights && !weights->ok()) return *weights;
  if (weights && weights->shape() != x.shape()) {
    return Fail(x, "histogram: weights {} for {}", ShapeText(weights->shape()),
                ShapeText(x.shape()));
  }
  return HistogramOfPoints(Unsqueeze(x, -1), {&edges, 1}, weights, density);
}

Expr HistogramOfPoints(const Expr& points, absl::Span<const Expr> edges,
                       const std::optional<Expr>& weights, bool density) {
  constexpr std::string_view kName = "histogram";
  if (!points.ok()) return points;
  if (weights && !weights->ok()) return *weights;
  if (!IsFloat(points.dtype())) {
    return Fail(points, "{}: x is {}, it must be a float", kName, Name(points.dtype()));
  }
  const int64_t axes = static_cast<int64_t>(edges.size());
  if (points.rank() == 0 || points.shape().back() != axes || axes == 0) {
    return Fail(points, "{}: points {}, with edges of {} axes they must be [.., {}]", kName,
                ShapeText(points.shape()), axes, axes);
  }
  const Shape lead = points.shape().first(points.rank() - 1);
  if (weights && weights->shape() != lead) {
    return Fail(points, "{}: weights {} for points {}", kName, ShapeText(weights->shape()),
                ShapeText(points.shape()));
  }
  const int64_t count = NumElements(lead);
  const DType wide = ComputeDType(points.dtype());
  const Expr rows = Reshape(points, {count, axes});
  Dims bins;
  Expr place = Zeros(points.graph(), {count}, DType::kInt64);
  Expr inside = Full(points.graph(), {count}, true, DType::kBool);
  for (int64_t i = 0; i < axes; ++i) {
    if (auto error = CheckEdges(kName, points, edges[i])) return *error;
    bins.push_back(edges[i].shape()[0] - 1);
    const Expr bin = BinOf(Select(rows, 1, i), edges[i]);
    inside = LogicalAnd(inside, LogicalAnd(Ge(bin, 0), Lt(bin, bins.back())));
    place = place * bins.back() + bin;
  }
  const Expr each =
      weights ? Cast(Reshape(*weights, {count}), wide) : Full(points.graph(), {count}, 1, wide);
  const Expr flat = Scatter(ScatterKind::kAdd, Zeros(points.graph(), {NumElements(bins)}, wide),
                            Where(inside, place, -1), each, 0);
  Expr counts = Reshape(flat, bins);
  if (density) {
    counts = counts / Sum(counts);
    for (int64_t i = 0; i < axes; ++i) {
      Dims dims(axes, 1);
      dims[i] = bins[i];
      counts = counts / Reshape(WidthOf(edges[i], wide), dims);
    }
  }
  return Cast(counts, points.dtype());
}

}  // namespace tensord
