// How many elements, or points, lie in which part of a range.
#pragma once

#include <optional>
#include <utility>

#include "core/tensor/expr.h"

namespace tensord {

// `bins` equal parts of [low, high], or of what lies between the extremes of x: bins + 1 edges.
Expr HistogramEdges(const Expr& x, int64_t bins, std::optional<std::pair<double, double>> ends);
// How many elements of x, or what weights, lie between each two of the edges [bins + 1], which
// ascend; the last bin holds its end. Of floats, in their dtype. `density`: the sum of counts times
// widths is 1.
Expr Histogram(const Expr& x, const Expr& edges, const std::optional<Expr>& weights, bool density);

// The same of points [.., d], with edges for each of their d axes and a weight a point: [bins of
// the first axis, bins of the second, ..].
Expr HistogramOfPoints(const Expr& points, absl::Span<const Expr> edges,
                       const std::optional<Expr>& weights, bool density);

}  // namespace tensord
