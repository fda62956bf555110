#include "core/tensor/create.h"

#include <cmath>
#include <limits>

#include "core/tensor/build.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// 0, 1, ... n-1 in any dtype.
Expr Counter(Graph& graph, int64_t n, DType dtype) {
  const DType count = n > std::numeric_limits<int32_t>::max() ? DType::kInt64 : DType::kInt32;
  return Cast(Expr(&graph, graph.TryMake({.op = Op::kIota, .ints = {n}, .dtype = count})), dtype);
}

bool Fits(int64_t value, DType dtype) {
  if (dtype == DType::kInt64) return true;
  if (dtype == DType::kUint64) return value >= 0;
  return value >= IntMin(dtype) && value <= IntMax(dtype);
}

}  // namespace

Expr Constant(Graph& graph, Number value, DType dtype) {
  if (value.kind() == Number::Kind::kFloat) {
    return Expr(&graph, graph.Value(dtype, value.AsDouble()));
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

Expr Arange(Graph& graph, Number start, Number stop, Number step, DType dtype) {
  const auto fail = [&](std::string_view rule) {
    return Expr(&graph, InvalidArgument("arange: {}", rule));
  };
  if (step.AsDouble() == 0) return fail("the step is 0");
  if (dtype == DType::kBool) return fail("bool can't count; use an integer dtype");
  const double count = std::ceil((stop.AsDouble() - start.AsDouble()) / step.AsDouble());
  if (!(count < 1e15)) return fail("the range is not finite or too long");
  const int64_t n = count > 0 ? static_cast<int64_t>(count) : 0;
  using enum Number::Kind;
  const bool whole = start.kind() != kFloat && step.kind() != kFloat;
  if (IsInt(dtype) && whole && n > 0) {
    const int64_t last = start.AsInt() + (n - 1) * step.AsInt();
    if (!Fits(start.AsInt(), dtype) || !Fits(last, dtype)) {
      return Expr(&graph, InvalidArgument("arange: {} to {} does not fit {}; use a wider dtype",
                                          start.AsInt(), last, Name(dtype)));
    }
  }
  // Steps that are fractions are counted in floats even if the result is an integer.
  const DType compute = whole ? dtype : ComputeDType(dtype);
  Expr x = Counter(graph, n, compute);
  if (step.AsDouble() != 1) x = Mul(x, Constant(graph, step, compute));
  if (start.AsDouble() != 0) x = Add(x, Constant(graph, start, compute));
  return Cast(x, dtype);
}

Expr IndexAlong(const Expr& x, int64_t axis, DType dtype) {
  if (!x.ok()) return x;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("index along", x, axis);
  Dims dims(x.rank(), 1);
  dims[*at] = x.shape()[*at];
  return BroadcastTo(Reshape(Counter(x.graph(), dims[*at], dtype), dims), x.shape());
}

Expr Linspace(Graph& graph, Number start, Number stop, int64_t steps, DType dtype) {
  if (steps < 0) return Expr(&graph, InvalidArgument("linspace: {} steps", steps));
  if (dtype == DType::kBool) return Expr(&graph, InvalidArgument("linspace: bool can't count"));
  const double first = start.AsDouble(), last = stop.AsDouble();
  const DType compute = ComputeDType(dtype);
  if (steps == 1) return Full(graph, {1}, first, dtype);
  Expr x = Mul(Counter(graph, steps, compute),
               Constant(graph, (last - first) / static_cast<double>(steps - 1), compute));
  return Cast(Add(x, Constant(graph, first, compute)), dtype);
}

Expr Eye(Graph& graph, int64_t rows, int64_t columns, DType dtype) {
  if (rows < 0 || columns < 0) {
    return Expr(&graph, InvalidArgument("eye: size {} x {} is negative", rows, columns));
  }
  const Expr row = Reshape(Counter(graph, rows, DType::kInt32), {rows, 1});
  return Cast(Eq(row, Counter(graph, columns, DType::kInt32)), dtype);
}

}  // namespace tensord
