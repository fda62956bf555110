// What reductions are made into: norms, sums that skip NaN, differences, covariance.
#pragma once

#include <optional>

#include "core/tensor/expr.h"
#include "core/tensor/reduce.h"

namespace tensord {

Expr NanSum(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);   // NaN counts as 0
Expr NanMean(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);  // NaN does not count
Expr CountNonzero(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);  // int32

// (sum of |x|^p)^(1/p); the largest size for p = inf, the smallest for -inf, the number of nonzeros
// for 0. The derivative at 0 is 0.
Expr VectorNorm(const Expr& x, double p = 2, const Axes& axes = {}, Keep keep = kDropDims);
// x by its norm along an axis, or by eps if that is larger.
Expr NormalizeNorm(const Expr& x, double p = 2, int64_t axis = 1, double eps = 1e-12);
// The norm of the difference.
Expr Dist(const Expr& a, const Expr& b, double p = 2);

// n times the difference of neighbours, of x with what is put before and behind it. bool: whether
// they differ. x itself for n = 0.
Expr Diff(const Expr& x, int64_t n = 1, int64_t axis = -1,
          const std::optional<Expr>& prepend = std::nullopt,
          const std::optional<Expr>& append = std::nullopt);
// How fast x grows along an axis, in its shape, by differences of neighbours: inside by the one
// before and the one behind, at the ends by the one beside them (edge_order 1) or the two (2).
// Points are `spacing` apart, or stand at `points` [n], whose distances need not be equal.
struct GradientOptions {
  double spacing = 1;
  std::optional<Expr> points = std::nullopt;
  int64_t edge_order = 1;
};
Expr NumericalGradient(const Expr& x, int64_t axis, const GradientOptions& options = {});
// The sum over the axes that broadcasting to x's shape would have repeated, in that shape.
Expr SumTo(const Expr& x, absl::Span<const int64_t> shape);
// The integral over an axis by the trapezoidal rule: of points at x, a vector or of the shape of y,
// or of points dx apart.
Expr Trapezoid(const Expr& y, const std::optional<Expr>& x, double dx = 1, int64_t axis = -1);
// The integrals up to each point but the first.
Expr CumulativeTrapezoid(const Expr& y, const std::optional<Expr>& x, double dx = 1,
                         int64_t axis = -1);
// Slices of an axis of x, of which those whose norm is larger than `most` are scaled down to it.
Expr Renorm(const Expr& x, double p, int64_t axis, double most);

struct CovarianceOptions {
  int64_t correction = 1;
  std::optional<Expr> frequencies = std::nullopt;  // how often each observation counts, integers
  std::optional<Expr> weights = std::nullopt;      // how much
};
// Of variables, the rows, given observations, the columns; a vector is one variable. Of one
// variable it has no axes.
Expr Covariance(const Expr& x, const CovarianceOptions& options = {});
Expr Correlation(const Expr& x);

}  // namespace tensord
