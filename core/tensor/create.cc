#include "core/tensor/create.h"

#include <absl/numeric/int128.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/base/check.h"
#include "core/tensor/build.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// 0, 1, ... n-1 in any dtype.
Expr Counter(Graph& graph, int64_t n, DType dtype) {
  const DType count =
      SizeHigh(n) > std::numeric_limits<int32_t>::max() ? DType::kInt64 : DType::kInt32;
  if (Varies(n)) {
    absl::StatusOr<SizedOp> iota = MakeSizedOp(graph, Op::kIota, {}, {n});
    if (!iota.ok()) return Expr(&graph, iota.status());
    return Cast(
        Expr(&graph, graph.TryMake(
                         {.op = Op::kIota, .src = iota->src, .ints = iota->ints, .dtype = count})),
        dtype);
  }
  return Cast(Expr(&graph, graph.TryMake({.op = Op::kIota, .ints = {n}, .dtype = count})), dtype);
}

bool IsWhole(Number start, Number stop, Number step) {
  using enum Number::Kind;
  return start.kind() != kFloat && stop.kind() != kFloat && step.kind() != kFloat;
}

// How many numbers an Arange has; negative where that is no number.
double ArangeCount(Number start, Number stop, Number step) {
  if (step.AsDouble() == 0) return -1;
  if (IsWhole(start, stop, step)) {
    const absl::int128 distance = absl::int128(stop.AsInt()) - start.AsInt(), by = step.AsInt();
    if (distance == 0 || (distance < 0) != (by < 0)) return 0;
    return static_cast<double>((distance + by - (by > 0 ? 1 : -1)) / by);
  }
  const double count = std::ceil((stop.AsDouble() - start.AsDouble()) / step.AsDouble());
  return std::isnan(count) ? -1 : std::max(count, 0.0);
}

}  // namespace

Expr Constant(Graph& graph, Number value, DType dtype) {
  if (absl::Status fits = CheckFits(value, dtype); !fits.ok()) return Expr(&graph, fits);
  if (value.kind() == Number::Kind::kFloat) {
    // Beyond int64 the conversion below is not defined.
    if (dtype == DType::kUint64) {
      return Expr(&graph,
                  graph.Int(dtype, static_cast<int64_t>(static_cast<uint64_t>(value.AsDouble()))));
    }
    return Expr(&graph, graph.Value(dtype, value.AsDouble()));
  }
  if (value.is_large() && IsFloat(dtype)) {
    return Expr(&graph, graph.Float(dtype, value.AsDouble()));
  }
  return Expr(&graph, graph.Int(dtype, value.AsInt()));
}

Expr Full(Graph& graph, Shape shape, Number value, DType dtype) {
  return BroadcastTo(Constant(graph, value, dtype), shape);
}

Expr Zeros(Graph& graph, Shape shape, DType dtype) { return Full(graph, shape, 0, dtype); }
Expr Ones(Graph& graph, Shape shape, DType dtype) { return Full(graph, shape, 1, dtype); }

Expr FullLike(const Expr& x, Number value) {
  if (!x.ok()) return x;
  return Full(x.graph(), x.shape(), value, x.dtype());
}

bool ArangeFits(Number start, Number stop, Number step, DType dtype) {
  const double count = ArangeCount(start, stop, step);
  if (count <= 0) return true;
  const absl::int128 first = start.AsInt();
  const absl::int128 last = first + absl::int128(static_cast<int64_t>(count - 1)) * step.AsInt();
  const absl::int128 min = IntMin(dtype);
  const absl::int128 max = dtype == DType::kUint64 ? absl::int128(~uint64_t{0}) : IntMax(dtype);
  return std::min(first, last) >= min && std::max(first, last) <= max;
}

DType ArangeDType(Number start, Number stop, Number step) {
  if (!IsWhole(start, stop, step)) return DefaultFloat();
  const DType standard = DefaultInt();
  return ArangeFits(start, stop, step, standard) ? standard : DType::kInt64;
}

Expr Arange(Graph& graph, Number start, Number stop, Number step, DType dtype) {
  const auto fail = [&](std::string_view rule) {
    return Expr(&graph, InvalidArgument("arange: {}", rule));
  };
  if (step.AsDouble() == 0) return fail("the step is 0");
  if (dtype == DType::kBool) return fail("bool can't count; use an integer dtype");
  const double count = ArangeCount(start, stop, step);
  if (!(count >= 0 && count < 1e15)) return fail("the range is not finite or too long");
  const int64_t n = static_cast<int64_t>(count);
  const bool whole = IsWhole(start, stop, step);
  if (IsInt(dtype) && whole && !ArangeFits(start, stop, step, dtype)) {
    return Expr(&graph, Overflow(fmt::format(
                            "arange: {} to {} in steps of {} does not fit {}; use a wider dtype",
                            start.ToString(), stop.ToString(), step.ToString(), Name(dtype))));
  }
  // Steps that are fractions are counted in floats even if the result is an integer.
  const DType compute = whole && IsInt(dtype) ? dtype : ComputeDType(dtype);
  Expr x = Counter(graph, n, compute);
  if (step.AsDouble() != 1) x = Mul(x, Constant(graph, step, compute));
  if (start.AsDouble() != 0) x = Add(x, Constant(graph, start, compute));
  return Cast(x, dtype);
}

Expr ArangeOfSize(Graph& graph, int64_t size, DType dtype) {
  if (dtype == DType::kBool) {
    return Expr(&graph, InvalidArgument("arange: bool can't count; use an integer dtype"));
  }
  return Counter(graph, size, dtype);
}

Expr IndexAlong(const Expr& x, int64_t axis, DType dtype) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("index along", x, axis);
  Dims dims(x.rank(), 1);
  dims[*at] = x.shape()[*at];
  return BroadcastTo(Reshape(Counter(x.graph(), dims[*at], dtype), dims), x.shape());
}

namespace {

// The bounds of a Linspace in the dtype that it is computed in: integers without their fractions.
// float32 has no room for large integers.
DType LinspaceCompute(DType dtype) { return IsInt(dtype) ? DType::kFloat64 : ComputeDType(dtype); }

Expr LinspaceBound(const Expr& bound, DType dtype) {
  const DType compute = LinspaceCompute(dtype);
  if (!bound.ok()) return bound;
  if (bound.rank() > 0) {
    return Fail(bound, "linspace: a bound has shape {}, it must be one number",
                ShapeText(bound.shape()));
  }
  const Expr x = Cast(bound, compute);
  return IsInt(dtype) ? Trunc(x) : x;
}

// As it will be cut off: powers of whole numbers are whole, and come out a few roundings beside.
Expr NearlyWhole(const Expr& x) {
  const Expr whole = Round(x);
  return Where(Le(Abs(x - whole), Abs(x) * 1e-12), whole, x);
}

}  // namespace

Expr Linspace(const Expr& start, const Expr& stop, int64_t steps, DType dtype) {
  const Expr first = LinspaceBound(start, dtype), last = LinspaceBound(stop, dtype);
  if (!first.ok()) return first;
  if (!last.ok()) return last;
  Graph& graph = start.graph();
  if (steps < 0) return Expr(&graph, InvalidArgument("linspace: {} steps", steps));
  if (dtype == DType::kBool) return Expr(&graph, InvalidArgument("linspace: bool can't count"));
  if (steps == 1) return Cast(Reshape(first, {1}), dtype);
  const Expr step = (last - first) / std::max(static_cast<double>(steps - 1), 1.0);
  const Expr i = Counter(graph, steps, DType::kInt64);
  const Expr up = Cast(i, first.dtype()) * step + first;
  const Expr down = last - Cast(Sub(steps - 1, i), first.dtype()) * step;
  return Cast(Where(Lt(i, steps / 2), up, down), dtype);
}

Expr Linspace(Graph& graph, Number start, Number stop, int64_t steps, DType dtype) {
  const DType compute = LinspaceCompute(dtype);
  return Linspace(Constant(graph, start.AsDouble(), compute),
                  Constant(graph, stop.AsDouble(), compute), steps, dtype);
}

Expr Logspace(const Expr& start, const Expr& stop, int64_t steps, double base, DType dtype) {
  const DType compute = LinspaceCompute(dtype);
  const Expr first = LinspaceBound(start, dtype), last = LinspaceBound(stop, dtype);
  const Expr exponents = Linspace(first, last, steps, compute);
  if (!exponents.ok()) return exponents;
  const Expr powers = Pow(FullLike(exponents, base), exponents);
  return Cast(IsInt(dtype) ? NearlyWhole(powers) : powers, dtype);
}

Expr Logspace(Graph& graph, Number start, Number stop, int64_t steps, double base, DType dtype) {
  const DType compute = LinspaceCompute(dtype);
  return Logspace(Constant(graph, start.AsDouble(), compute),
                  Constant(graph, stop.AsDouble(), compute), steps, base, dtype);
}

Expr Eye(Graph& graph, int64_t rows, int64_t columns, DType dtype) {
  if (rows < 0 || columns < 0) {
    return Expr(&graph, InvalidArgument("eye: size {} x {} is negative", rows, columns));
  }
  const Expr row = Reshape(Counter(graph, rows, DType::kInt32), {rows, 1});
  return Cast(Eq(row, Counter(graph, columns, DType::kInt32)), dtype);
}

Expr CartesianProd(absl::Span<const Expr> vectors) {
  TD_CHECK(!vectors.empty(), "an operation needs an operand");
  Dims sizes;
  for (const Expr& x : vectors) {
    if (!x.ok()) return x;
    if (x.rank() != 1) {
      return Fail(x, "cartesian_prod: operands are vectors, one has shape {}",
                  ShapeText(x.shape()));
    }
    sizes.push_back(x.shape()[0]);
  }
  if (vectors.size() == 1) return vectors[0];
  std::vector<Expr> columns;
  for (size_t i = 0; i < vectors.size(); ++i) {
    Dims dims(vectors.size(), 1);
    dims[i] = sizes[i];
    columns.push_back(Reshape(BroadcastTo(Reshape(vectors[i], dims), sizes), {NumElements(sizes)}));
  }
  return Stack(columns, 1);
}

Expr BlockDiag(absl::Span<const Expr> matrices) {
  TD_CHECK(!matrices.empty(), "an operation needs an operand");
  int64_t columns = 0;
  std::vector<Expr> blocks;
  for (const Expr& x : matrices) {
    if (!x.ok()) return x;
    if (x.rank() > 2) {
      return Fail(x, "block_diag: operands have at most two axes, one has shape {}",
                  ShapeText(x.shape()));
    }
    blocks.push_back(AtLeast2d(x));
    columns += blocks.back().shape()[1];
  }
  int64_t before = 0;
  for (Expr& block : blocks) {
    const int64_t own = block.shape()[1];
    const PadAmount amounts[] = {{0, 0}, {before, columns - before - own}};
    block = Pad(block, amounts, 0);
    before += own;
  }
  return Cat(blocks, 0);
}

Expr Vander(const Expr& x, int64_t n, bool increasing) {
  if (!x.ok()) return x;
  if (x.rank() == 0) {
    return Fail(x, "vander: a tensor without axes has no powers side by side; it needs a vector");
  }
  if (n < 0) return Fail(x, "vander: {} columns", n);
  const Expr base = x.dtype() == DType::kBool ? Cast(x, DefaultInt()) : x;
  if (n == 0) return Zeros(x.graph(), WithInserted(x.shape(), x.rank(), 0), base.dtype());
  std::vector<Expr> powers = {FullLike(base, 1)};
  while (static_cast<int64_t>(powers.size()) < n) powers.push_back(powers.back() * base);
  if (!increasing) std::reverse(powers.begin(), powers.end());
  return Stack(powers, -1);
}

std::vector<int64_t> TrilIndices(int64_t rows, int64_t columns, int64_t offset) {
  std::vector<int64_t> i, j;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns && column - row <= offset; ++column) {
      i.push_back(row);
      j.push_back(column);
    }
  }
  i.insert(i.end(), j.begin(), j.end());
  return i;
}

std::vector<int64_t> TriuIndices(int64_t rows, int64_t columns, int64_t offset) {
  std::vector<int64_t> i, j;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = std::max<int64_t>(row + offset, 0); column < columns; ++column) {
      i.push_back(row);
      j.push_back(column);
    }
  }
  i.insert(i.end(), j.begin(), j.end());
  return i;
}

std::vector<double> SignalWindow(WindowKind kind, int64_t n, const WindowOptions& options) {
  if (n == 1 && !options.center) return {1.0};
  const double last = static_cast<double>(options.periodic ? n : n - 1);
  const double scale = options.parameters.empty() ? 1 : options.parameters[0];
  const auto at = [&](double i) {
    const double x = i / last;
    switch (kind) {
      case WindowKind::kCosines: {
        double sum = 0, sign = 1, k = 0;
        for (double each : options.parameters) {
          sum += sign * each * std::cos(2 * std::numbers::pi * k * x);
          sign = -sign;
          ++k;
        }
        return sum;
      }
      case WindowKind::kBartlett:
        return 1 - std::abs(2 * x - 1);
      case WindowKind::kKaiser:
        return std::cyl_bessel_i(0, scale * std::sqrt(std::max(0.0, 4 * x * (1 - x)))) /
               std::cyl_bessel_i(0, scale);
      case WindowKind::kSine:
        return std::sin(std::numbers::pi * (i + 0.5) / (last + 1));
      case WindowKind::kExponential:
        return std::exp(-std::abs(i - options.center.value_or(last / 2)) / scale);
      case WindowKind::kGaussian:
        return std::exp(-std::pow((i - last / 2) / scale, 2) / 2);
    }
    return 0.0;
  };
  std::vector<double> window;
  for (int64_t i = 0; i < n; ++i) window.push_back(at(static_cast<double>(i)));
  return window;
}

}  // namespace tensord
