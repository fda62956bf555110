#include "core/tensor/build.h"

#include <algorithm>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {

std::string Number::ToString() const {
  switch (kind_) {
    case Kind::kBool:
      return int_ != 0 ? "true" : "false";
    case Kind::kInt:
      return fmt::format("{}", int_);
    case Kind::kFloat:
      return fmt::format("{}", float_);
  }
  return "";
}

std::string ShapeText(Shape shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + SizeText(size);
  return "[" + text + "]";
}

Dims WithAxis(Shape shape, int64_t axis, int64_t size) {
  Dims dims(shape.begin(), shape.end());
  dims[axis] = size;
  return dims;
}

Dims WithInserted(Shape shape, int64_t axis, int64_t size) {
  Dims dims(shape.begin(), shape.end());
  dims.insert(dims.begin() + axis, size);
  return dims;
}

Dims WithoutAxis(Shape shape, int64_t axis) {
  Dims dims(shape.begin(), shape.end());
  dims.erase(dims.begin() + axis);
  return dims;
}

Expr Apply(Op op, std::initializer_list<Expr> src, absl::Span<const int64_t> ints) {
  absl::InlinedVector<const Node*, 3> nodes;
  for (const Expr& x : src) {
    if (!x.ok()) return x;
    nodes.push_back(x.node());
  }
  Graph& graph = src.begin()->graph();
  if (HasSizes(op) && AnyVaries(ints)) {
    absl::StatusOr<SizedOp> sized = MakeSizedOp(graph, op, nodes, ints);
    if (!sized.ok()) return Expr(&graph, sized.status());
    return Expr(&graph, graph.TryMake({.op = op, .src = sized->src, .ints = sized->ints}));
  }
  return Expr(&graph, graph.TryMake({.op = op, .src = nodes, .ints = ints}));
}

std::optional<Expr> NeedsNumber(std::string_view name, const Expr& x, int64_t axis) {
  if (!Varies(x.shape()[axis])) return std::nullopt;
  return Fail(x, "{}: axis {} of {} varies, and this operation needs a size that is a number", name,
              axis, ShapeText(x.shape()));
}

std::optional<int64_t> ResolveAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

Expr AxisError(std::string_view name, const Expr& x, int64_t axis) {
  if (x.rank() == 0) return FailIndex(x, "{}: axis {} of a tensor without axes", name, axis);
  return FailIndex(x, "{}: axis {} is outside of shape {}; axes go from {} to {}", name, axis,
                   ShapeText(x.shape()), -x.rank(), x.rank() - 1);
}

std::optional<Dims> BroadcastShapes(Shape a, Shape b) {
  if (a.size() < b.size()) std::swap(a, b);
  Dims result(a.begin(), a.end());
  const size_t offset = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& dim = result[offset + i];
    if (dim == b[i] || b[i] == 1) continue;
    if (dim != 1) return std::nullopt;
    dim = b[i];
  }
  return result;
}

std::optional<Expr> UnifyShapes(std::string_view name, std::initializer_list<Expr*> operands) {
  const Expr& first = **operands.begin();
  Dims shape;
  for (Expr* x : operands) {
    if (!x->ok()) return *x;
    if (&x->graph() != &first.graph()) {
      return Fail(first, "{}: operands belong to different graphs", name);
    }
    const std::optional<Dims> common = BroadcastShapes(shape, x->shape());
    if (!common) {
      std::string shapes;
      for (Expr* each : operands) {
        if (each->ok() && each->rank() > 0) {
          shapes += (shapes.empty() ? "" : " and ") + ShapeText(each->shape());
        }
      }
      return Fail(first,
                  "{}: shapes {} do not broadcast: aligned from the last axis, sizes must be equal "
                  "or 1",
                  name, shapes);
    }
    shape = *common;
  }
  for (Expr* x : operands) *x = BroadcastTo(*x, shape);
  return std::nullopt;
}

std::optional<Expr> Unify(std::string_view name, std::initializer_list<Expr*> operands) {
  for (Expr* x : operands) {
    if (!x->ok()) return *x;
  }
  DType dtype = (*operands.begin())->dtype();
  for (Expr* x : operands) dtype = Promote(dtype, x->dtype());
  for (Expr* x : operands) *x = Cast(*x, dtype);
  return UnifyShapes(name, operands);
}

Expr NumberBeside(const Expr& like, Number value) {
  if (!like.ok()) return like;
  const DType dtype = value.DTypeBeside(like.dtype());
  if (IsInt(dtype) && dtype != DType::kUint64 && BitSize(dtype) < 64) {
    // Bit patterns are welcome: 0xFFFFFFFF beside int32 is -1, -1 beside uint8 is 255.
    const int64_t limit = int64_t{1} << BitSize(dtype);
    if (value.AsInt() >= limit || value.AsInt() < -limit / 2) {
      return Fail(like, "the number {} does not fit {}; cast the tensor to a wider dtype first",
                  value.AsInt(), Name(dtype));
    }
  }
  return Constant(like.graph(), value, dtype);
}

Expr NumberComparedTo(const Expr& like, Number value) {
  if (!like.ok()) return like;
  const DType dtype = value.DTypeBeside(like.dtype());
  const bool fits =
      !IsInt(dtype) || dtype == DType::kInt64 ||
      (dtype == DType::kUint64 ? value.AsInt() >= 0
                               : value.AsInt() >= IntMin(dtype) && value.AsInt() <= IntMax(dtype));
  return Constant(like.graph(), value, fits ? dtype : DType::kInt64);
}

DType ComputeDType(DType dtype) { return Promote(LeastUpperFloat(dtype), DType::kFloat32); }

}  // namespace tensord
