#include "core/tensor/build.h"

#include <absl/strings/cord.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {

std::string Number::ToString() const {
  switch (kind_) {
    case Kind::kBool:
      return int_ != 0 ? "true" : "false";
    case Kind::kInt:
      return is_large_ ? fmt::format("{}", static_cast<uint64_t>(int_)) : fmt::format("{}", int_);
    case Kind::kFloat:
      return fmt::format("{}", float_);
  }
  return "";
}

namespace {

constexpr std::string_view kOverflow = "tensord/overflow";  // names the mark, holds nothing

bool Has(DType dtype, Number value) {
  if (!IsInt(dtype)) return true;
  const int value_bits = BitSize(dtype) - (IsUnsigned(dtype) ? 0 : 1);
  if (value.kind() == Number::Kind::kFloat) {
    const double whole = std::trunc(value.AsDouble()), limit = std::ldexp(1.0, value_bits);
    return whole >= (IsUnsigned(dtype) ? 0 : -limit) && whole < limit;  // not of NaN
  }
  if (value.is_large()) return dtype == DType::kUint64;
  if (dtype == DType::kUint64) return value.AsInt() >= 0;
  return value.AsInt() >= IntMin(dtype) && value.AsInt() <= IntMax(dtype);
}

}  // namespace

absl::Status Overflow(std::string_view message) {
  absl::Status status = InvalidArgument("{}", message);
  status.SetPayload({kOverflow.data(), kOverflow.size()}, absl::Cord());
  return status;
}

bool IsOverflow(const absl::Status& status) {
  return status.GetPayload({kOverflow.data(), kOverflow.size()}).has_value();
}

absl::Status CheckFits(Number value, DType dtype) {
  if (Has(dtype, value)) return absl::OkStatus();
  const Number most = dtype == DType::kUint64 ? Number(~uint64_t{0}) : Number(IntMax(dtype));
  return Overflow(
      fmt::format("the number {} does not fit {}, which goes from {} to {}; use a wider dtype",
                  value.ToString(), Name(dtype), IntMin(dtype), most.ToString()));
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

namespace {

// A weak integer as an operand of arithmetic in that dtype.
Expr AsBitsOf(Graph& graph, Number value, DType dtype) {
  if (!IsInt(dtype) || dtype == DType::kWeakInt) return Constant(graph, value, dtype);
  if (BitSize(dtype) < 64) {
    // Bit patterns are welcome: 0xFFFFFFFF beside int32 is -1, -1 beside uint8 is 255.
    const int64_t limit = int64_t{1} << BitSize(dtype);
    if (value.is_large() || value.AsInt() >= limit || value.AsInt() < -limit / 2) {
      return Expr(&graph,
                  Overflow(fmt::format(
                      "the number {} does not fit {}; cast the tensor to a wider dtype first",
                      value.ToString(), Name(dtype))));
    }
  }
  return Expr(&graph, graph.Int(dtype, value.AsInt()));
}

template <typename Convert>
std::optional<Expr> UnifyBy(Convert convert, std::string_view name,
                            std::initializer_list<Expr*> operands) {
  for (Expr* x : operands) {
    if (!x->ok()) return *x;
  }
  DType dtype = (*operands.begin())->dtype();
  for (Expr* x : operands) dtype = Promote(dtype, x->dtype());
  for (Expr* x : operands) *x = convert(*x, dtype);
  return UnifyShapes(name, operands);
}

}  // namespace

std::optional<Number> KnownNumber(const Expr& x) {
  if (!x.ok()) return std::nullopt;
  const Node* node = x.node();
  if (node->dtype == DType::kWeakInt && node->lo == node->hi) return Number(node->lo);
  if (node->dtype == DType::kWeakFloat && node->IsConst()) return Number(node->Float());
  return std::nullopt;
}

Expr AsValueOf(const Expr& x, DType dtype) {
  if (const std::optional<Number> number = KnownNumber(x)) {
    if (absl::Status fits = CheckFits(*number, dtype); !fits.ok()) return Expr(&x.graph(), fits);
  }
  return Cast(x, dtype);
}

std::optional<Expr> Unify(std::string_view name, std::initializer_list<Expr*> operands) {
  const auto convert = [](const Expr& x, DType dtype) {
    if (const std::optional<Number> number = KnownNumber(x)) {
      if (const Expr bits = AsBitsOf(x.graph(), *number, dtype); !bits.ok()) return bits;
    }
    return Cast(x, dtype);
  };
  return UnifyBy(convert, name, operands);
}

std::optional<Expr> UnifyValues(std::string_view name, std::initializer_list<Expr*> operands) {
  return UnifyBy(AsValueOf, name, operands);
}

Expr NumberBeside(const Expr& like, Number value) {
  if (!like.ok()) return like;
  return AsBitsOf(like.graph(), value, value.DTypeBeside(like.dtype()));
}

Expr ValueBeside(const Expr& like, Number value) {
  if (!like.ok()) return like;
  return Constant(like.graph(), value, value.DTypeBeside(like.dtype()));
}

Expr NumberComparedTo(const Expr& like, Number value) {
  if (!like.ok()) return like;
  const DType dtype = value.DTypeBeside(like.dtype());
  if (CheckFits(value, dtype).ok()) return Constant(like.graph(), value, dtype);
  if (BitSize(dtype) < 64 && !value.is_large()) {
    return Constant(like.graph(), value, DType::kInt64);
  }
  // Beyond every number of the dtype.
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return Constant(like.graph(), value.AsDouble() < 0 ? -kInf : kInf, DType::kFloat64);
}

std::optional<Expr> AsFloats(std::initializer_list<Expr*> operands) {
  DType common = DType::kBool;
  for (const Expr* x : operands) {
    if (!x->ok()) return *x;
    common = Promote(common, x->dtype());
  }
  common = LeastUpperFloat(common);
  for (Expr* x : operands) {
    if (!IsFloat(x->dtype())) *x = Cast(*x, common);
  }
  return std::nullopt;
}

DType ComputeDType(DType dtype) { return Promote(LeastUpperFloat(dtype), DType::kFloat32); }

}  // namespace tensord
