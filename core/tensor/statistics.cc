#include "core/tensor/statistics.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/join.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/scan.h"
#include "core/tensor/size.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// f(x), but 0 with derivative 0 where x is 0.
template <typename Function>
Expr ZeroAtZero(const Expr& x, Function f) {
  const Expr zero = Eq(x, 0);
  return Where(zero, 0, f(Where(zero, 1, x)));
}

}  // namespace

Expr NanSum(const Expr& x, const Axes& axes, Keep keep) {
  return x.ok() && IsFloat(x.dtype()) ? Sum(Where(IsNan(x), 0, x), axes, keep) : Sum(x, axes, keep);
}

Expr NanMean(const Expr& x, const Axes& axes, Keep keep) {
  if (!x.ok() || !IsFloat(x.dtype())) return Mean(x, axes, keep);
  return InFloat32(x, [&](const Expr& f) {
    const Expr count = Sum(Cast(LogicalNot(IsNan(f)), f.dtype()), axes, keep);
    return NanSum(f, axes, keep) / count;
  });
}

Expr CountNonzero(const Expr& x, const Axes& axes, Keep keep) {
  return Sum(Cast(AsBool(x), DType::kInt32), axes, keep);
}

Expr VectorNorm(const Expr& x, double p, const Axes& axes, Keep keep) {
  return InFloat32(x, [&](const Expr& f) {
    if (p == 2) {
      return ZeroAtZero(Sum(f * f, axes, keep), [](const Expr& sum) { return Sqrt(sum); });
    }
    const Expr size = Abs(f);
    if (p == kInf) return Max(size, axes, keep);
    if (p == -kInf) return Min(size, axes, keep);
    if (p == 0) return Sum(Cast(Ne(f, 0), f.dtype()), axes, keep);
    if (p == 1) return Sum(size, axes, keep);
    if (p < 0) {  // 0 where one element is
      const Expr zero = Eq(size, 0);
      const Expr sum = Sum(Pow(Where(zero, 1, size), p), axes, keep);
      return Where(Any(zero, axes, keep), 0, Pow(sum, 1 / p));
    }
    const Expr powers = ZeroAtZero(size, [p](const Expr& s) { return Pow(s, p); });
    const Expr sum = Sum(powers, axes, keep);
    return ZeroAtZero(sum, [p](const Expr& s) { return Pow(s, 1 / p); });
  });
}

Expr NormalizeNorm(const Expr& x, double p, int64_t axis, double eps) {
  return InFloat32(x, [&](const Expr& f) {
    const Expr norm = VectorNorm(f, p, axis, kKeepDims);
    return f / Clamp(norm, eps, std::nullopt);
  });
}

Expr Dist(const Expr& a, const Expr& b, double p) { return VectorNorm(a - b, p); }

Expr Diff(const Expr& x, int64_t n, int64_t axis, const std::optional<Expr>& prepend,
          const std::optional<Expr>& append) {
  if (!x.ok()) return x;
  if (x.rank() == 0) return Fail(x, "diff: the input has no axes");
  if (n < 0) return Fail(x, "diff: n is {}, it cannot be negative", n);
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("diff", x, axis);
  if (n == 0) return x;
  std::vector<Expr> parts;
  if (prepend) parts.push_back(*prepend);
  parts.push_back(x);
  if (append) parts.push_back(*append);
  Expr result = parts.size() == 1 ? x : Cat(parts, *at);
  for (int64_t i = 0; i < n && result.ok(); ++i) {
    const int64_t size = result.shape()[*at];
    if (size == 0) break;
    const Expr later = Shrink(result, *at, 1, size), earlier = Shrink(result, *at, 0, size - 1);
    result = x.dtype() == DType::kBool ? LogicalXor(later, earlier) : later - earlier;
  }
  return result;
}

Expr NumericalGradient(const Expr& x, int64_t axis, const GradientOptions& options) {
  if (!x.ok()) return x;
  const std::optional<int64_t> resolved = ResolveAxis(axis, x.rank());
  if (!resolved || x.rank() == 0) return AxisError("gradient", x, axis);
  const int64_t at = *resolved, size = x.shape()[at], order = options.edge_order;
  if (order != 1 && order != 2) return Fail(x, "gradient: edge_order is {}, not 1 or 2", order);
  if (Varies(size)) return Fail(x, "gradient: the size {} varies", SizeText(size));
  if (size <= order) {
    return Fail(x, "gradient: axis {} of {} has {} elements; edge_order {} needs {}", axis,
                ShapeText(x.shape()), size, order, order + 1);
  }
  if (options.points && options.points->ok() && options.points->shape() != Dims{size}) {
    return Fail(x, "gradient: points {} for axis {} of {}", ShapeText(options.points->shape()),
                axis, ShapeText(x.shape()));
  }
  return InFloat32(x, [&](const Expr& f) {
    // Between neighbours: the slopes, and at each inner point how much the one behind it counts.
    const Expr steps = Diff(f, 1, at);
    std::optional<Expr> distance;
    if (options.points) {
      Dims dims(f.rank(), 1);
      dims[at] = -1;
      distance = Reshape(Cast(Diff(*options.points, 1, 0), f.dtype()), dims);
    }
    const Expr slopes = distance ? steps / *distance : steps / options.spacing;
    const auto part = [at](const Expr& e, int64_t from, int64_t to) {
      return Shrink(e, at, from, to);
    };
    const int64_t n = size - 1;
    Expr first = part(slopes, 0, 1), last = part(slopes, n - 1, n);
    if (n == 1) return Cat({first, last}, at);
    const Expr before = part(slopes, 0, n - 1), change = part(slopes, 1, n) - before;
    Expr bend = change * 0.5;  // from a slope to that at the point behind it
    if (distance) {
      const Expr left = part(*distance, 0, n - 1), right = part(*distance, 1, n);
      bend = change * (left / (left + right));
    }
    if (order == 2) {
      first = first - part(bend, 0, 1);
      last = last + part(change, n - 2, n - 1) - part(bend, n - 2, n - 1);
    }
    return Cat({first, before + bend, last}, at);
  });
}

Expr SumTo(const Expr& x, absl::Span<const int64_t> shape) {
  if (!x.ok()) return x;
  const int64_t extra = x.rank() - static_cast<int64_t>(shape.size());
  bool fits = extra >= 0;
  std::vector<int64_t> over;
  for (int64_t i = 0; fits && i < x.rank(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && x.shape()[i] != 1)) {
      over.push_back(i);
    } else {
      fits = shape[i - extra] == x.shape()[i];
    }
  }
  if (!fits) {
    return Fail(x, "sum_to_size: {} does not broadcast to {}", ShapeText(shape),
                ShapeText(x.shape()));
  }
  if (over.empty()) return x;
  return Reshape(Sum(x, Axes(absl::Span<const int64_t>(over)), kKeepDims), shape);
}

namespace {

// The areas between neighbours along the axis `at`.
Expr Trapezoids(const Expr& y, const std::optional<Expr>& x, double dx, int64_t at) {
  const int64_t size = y.shape()[at];
  const int64_t from = std::min<int64_t>(size, 1), to = std::max<int64_t>(size - 1, 0);
  const Expr sums = Shrink(y, at, from, size) + Shrink(y, at, 0, to);
  if (!x) return sums * (dx / 2);
  Expr points = *x;
  if (points.rank() == 1) {
    Dims dims(y.rank(), 1);
    dims[at] = -1;
    points = Reshape(points, dims);
  }
  return sums * Diff(points, 1, points.ok() ? at - y.rank() : 0) * 0.5;
}

}  // namespace

Expr Trapezoid(const Expr& y, const std::optional<Expr>& x, double dx, int64_t axis) {
  if (!y.ok()) return y;
  if (x && !x->ok()) return *x;
  const std::optional<int64_t> at = ResolveAxis(axis, y.rank());
  if (!at) return AxisError("trapezoid", y, axis);
  return Sum(Trapezoids(y, x, dx, *at), *at);
}

Expr CumulativeTrapezoid(const Expr& y, const std::optional<Expr>& x, double dx, int64_t axis) {
  if (!y.ok()) return y;
  if (x && !x->ok()) return *x;
  const std::optional<int64_t> at = ResolveAxis(axis, y.rank());
  if (!at) return AxisError("cumulative_trapezoid", y, axis);
  return CumSum(Trapezoids(y, x, dx, *at), *at);
}

Expr Renorm(const Expr& x, double p, int64_t axis, double most) {
  if (!x.ok()) return x;
  if (x.rank() < 2) {
    return Fail(x, "renorm: shape {}, it needs two axes or more", ShapeText(x.shape()));
  }
  if (!IsFloat(x.dtype())) return Fail(x, "renorm: x is {}, it must be a float", Name(x.dtype()));
  if (!(p > 0)) return Fail(x, "renorm: p is {}, it must be positive", p);
  if (!(most >= 0)) return Fail(x, "renorm: maxnorm is {}, it must be at least 0", most);
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("renorm", x, axis);
  Dims over;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != *at) over.push_back(i);
  }
  return InFloat32(x, [&](const Expr& f) {
    const Expr norm = VectorNorm(f, p, Axes(absl::Span<const int64_t>(over)), kKeepDims);
    // The small number is PyTorch's.
    return f * Where(Gt(norm, most), most / (norm + 1e-7), FullLike(norm, 1));
  });
}

Expr Covariance(const Expr& x, const CovarianceOptions& options) {
  if (!x.ok()) return x;
  if (x.rank() > 2) {
    return Fail(x, "cov: the input has shape {}; it needs variables, or variables and observations",
                ShapeText(x.shape()));
  }
  const int64_t n = x.rank() == 0 ? 1 : x.shape().back();
  for (const std::optional<Expr>* each : {&options.frequencies, &options.weights}) {
    if (!*each) continue;
    if (!(*each)->ok()) return **each;
    if ((*each)->rank() != 1 || (*each)->shape()[0] != n) {
      return Fail(x, "cov: weights {} for {} observations", ShapeText((*each)->shape()), n);
    }
  }
  if (options.frequencies && IsFloat(options.frequencies->dtype())) {
    return Fail(x, "cov: fweights are {}, they must be integers",
                Name(options.frequencies->dtype()));
  }
  const Expr result = InFloat32(Reshape(x, {-1, n}), [&](const Expr& f) {
    std::optional<Expr> w;
    if (options.frequencies) w = Cast(*options.frequencies, f.dtype());
    if (options.weights) {
      const Expr weights = Cast(*options.weights, f.dtype());
      w = w ? *w * weights : weights;
    }
    const Expr total = w ? Sum(*w) : Constant(f.graph(), n, f.dtype());
    const Expr mean = (w ? Sum(f * *w, 1, kKeepDims) : Sum(f, 1, kKeepDims)) / total;
    const Expr centred = f - mean;
    Expr divisor = total;
    if (options.weights && options.frequencies) {
      divisor = total - Sum(*w * Cast(*options.weights, f.dtype())) / total *
                            static_cast<double>(options.correction);
    } else if (options.weights) {
      divisor = total - Sum(*w * *w) / total * static_cast<double>(options.correction);
    } else {
      divisor = total - static_cast<double>(options.correction);
    }
    const Expr weighted = w ? centred * *w : centred;
    return MatMul(weighted, Transpose(centred, 0, 1)) / Clamp(divisor, 0, std::nullopt);
  });
  return x.rank() < 2 || x.shape()[0] == 1 ? Reshape(result, {}) : result;
}

Expr Correlation(const Expr& x) {
  const Expr covariance = Covariance(x);
  if (!covariance.ok()) return covariance;
  if (covariance.rank() == 0) return covariance / covariance;
  const Expr deviation = Sqrt(Diagonal(covariance));
  const Expr scaled = covariance / Unsqueeze(deviation, 1) / Unsqueeze(deviation, 0);
  return Clamp(scaled, -1, 1);
}

}  // namespace tensord
