#include "core/tensor/scan.h"

#include <limits>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/scatter.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// A tensor without axes is one element on axis 0 or -1.
template <typename Function>
Expr Along(std::string_view name, const Expr& x, int64_t axis, const Function& f) {
  if (!x.ok()) return x;
  if (x.rank() == 0 && (axis == 0 || axis == -1)) return Reshape(f(Reshape(x, {1}), 0), {});
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError(name, x, axis);
  if (auto error = NeedsNumber(name, x, *at)) return *error;
  return f(x, *at);
}

// Where each running extreme was first reached, int32 or int64.
Expr ExtremeIndices(ScanKind kind, const Expr& x, int64_t axis, const ScanOptions& options) {
  const int64_t size = x.shape()[axis];
  const bool is_wide = size > std::numeric_limits<int32_t>::max();
  const Expr before = Scan(kind, x, axis, {.reverse = options.reverse, .exclusive = true});
  Expr is_new = kind == ScanKind::kMax ? Lt(before, x) : Lt(x, before);
  if (IsFloat(x.dtype()))
    is_new = LogicalOr(is_new, LogicalAnd(IsNan(x), LogicalNot(IsNan(before))));
  // Positions only grow along the scan, so the latest is the largest. The first element need not be
  // better than nothing.
  const Expr position = IndexAlong(x, axis, is_wide ? DType::kInt64 : DType::kInt32);
  const Expr found = Where(is_new, position, options.reverse ? size - 1 : 0);
  return Scan(options.reverse ? ScanKind::kMin : ScanKind::kMax, found, axis, options);
}

CumExtreme Extremes(std::string_view name, ScanKind kind, const Expr& x, int64_t axis) {
  return {Along(name, x, axis, [&](const Expr& e, int64_t at) { return Scan(kind, e, at); }),
          Along(name, x, axis, [&](const Expr& e, int64_t at) {
            return Cast(ExtremeIndices(kind, e, at, {}), DType::kInt32);
          })};
}

}  // namespace

Expr Scan(ScanKind kind, const Expr& x, int64_t axis, const ScanOptions& options) {
  if (!x.ok()) return x;
  return Apply(Op::kScan, {x},
               {static_cast<int64_t>(kind), axis, options.reverse, options.exclusive});
}

Expr CumSum(const Expr& x, int64_t axis, const ScanOptions& options) {
  if (!x.ok()) return x;
  const Expr sum =
      Along("cumsum", Cast(x, SumAccumulator(x.dtype())), axis,
            [&](const Expr& e, int64_t at) { return Scan(ScanKind::kAdd, e, at, options); });
  return IsFloat(x.dtype()) ? Cast(sum, x.dtype()) : sum;
}

Expr CumProd(const Expr& x, int64_t axis, const ScanOptions& options) {
  if (!x.ok()) return x;
  const DType dtype = IsFloat(x.dtype()) ? ComputeDType(x.dtype()) : x.dtype();
  return Cast(
      Along("cumprod", Cast(x, dtype), axis,
            [&](const Expr& e, int64_t at) { return Scan(ScanKind::kMul, e, at, options); }),
      x.dtype());
}

Expr LogCumSumExp(const Expr& x, int64_t axis, const ScanOptions& options) {
  return Along("logcumsumexp", x, axis, [&](const Expr& e, int64_t at) {
    return InFloat32(e, [&](const Expr& f) { return Scan(ScanKind::kLogAdd, f, at, options); });
  });
}

CumExtreme CumMax(const Expr& x, int64_t axis) {
  return Extremes("cummax", ScanKind::kMax, x, axis);
}
CumExtreme CumMin(const Expr& x, int64_t axis) {
  return Extremes("cummin", ScanKind::kMin, x, axis);
}

Expr ScanGradient(const Expr& x, const Expr& y, const Expr& g) {
  const Node* scan = y.node();
  const int64_t axis = scan->scan_axis();
  const ScanOptions same = {.reverse = scan->scan_reverse(), .exclusive = scan->scan_exclusive()};
  const ScanOptions back = {.reverse = !same.reverse, .exclusive = same.exclusive};
  switch (scan->scan_kind()) {
    case ScanKind::kAdd:
      return Scan(ScanKind::kAdd, g, axis, back);
    case ScanKind::kMul: {
      // By division where x is not 0. The first 0 stands in all products from there on: the
      // derivative by it is of the product of the others. Behind it that by any other is 0.
      const Expr zero = Eq(x, 0);
      const Expr zeros =
          Scan(ScanKind::kAdd, Cast(zero, DType::kInt32), axis, {.reverse = same.reverse});
      const Expr first = LogicalAnd(zero, Eq(zeros, 1));
      const Expr others = Scan(ScanKind::kMul, Where(first, 1, x), axis, same);
      const Expr by_zero = Scan(ScanKind::kAdd, g * others, axis, back);
      const Expr by_factor = Scan(ScanKind::kAdd, g * y, axis, back) / Where(zero, 1, x);
      return Where(zero, Where(first, by_zero, 0), by_factor);
    }
    case ScanKind::kMax:
    case ScanKind::kMin: {
      const Expr index = ExtremeIndices(scan->scan_kind(), x, axis, same);
      return Scatter(ScatterKind::kAdd, FullLike(x, 0), index, g, axis);
    }
    case ScanKind::kLogAdd: {
      // The sum of g exp(x - y) over all y that x stands in, in logarithms: those of the positive
      // and of the negative g.
      const auto part = [&](const Expr& weight) {
        const Expr counts = Lt(0, weight);
        const Expr log = Where(counts, Log(Where(counts, weight, 1)) - y, -kInf);
        return Exp(x + Scan(ScanKind::kLogAdd, log, axis, back));
      };
      return part(g) - part(-g);
    }
  }
  return g;
}

}  // namespace tensord
