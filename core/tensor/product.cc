#include "core/tensor/product.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// Sum over `axes` of the product of two tensors that broadcast; summed axes go away. Operands are
// of one dtype that is its own accumulator, so that nothing stands between product and sum.
Expr Contract(const Expr& a, const Expr& b, const Axes& axes) { return Sum(Mul(a, b), axes); }

}  // namespace

Expr MatMul(const Expr& a, const Expr& b, std::optional<DType> given) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (a.rank() == 0 || b.rank() == 0) {
    return Fail(a, "matmul: {} @ {}: an operand has no axes; use mul", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  const int64_t inner = a.shape()[a.rank() - 1];
  if (inner != b.shape()[b.rank() == 1 ? 0 : b.rank() - 2]) {
    return Fail(a, "matmul: inner sizes differ: {} @ {}", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  const DType dtype = given.value_or(Promote(a.dtype(), b.dtype()));
  const Expr x = Cast(a, SumAccumulator(dtype)), y = Cast(b, SumAccumulator(dtype));
  // [.., m, 1, k] and [.., 1, n, k]; a vector has no axis m or n.
  const Expr left = b.rank() == 1 ? x : Unsqueeze(x, -2);
  Expr right = b.rank() == 1 ? y : Transpose(y, -1, -2);
  if (a.rank() > 1 && b.rank() > 1) right = Unsqueeze(right, -3);
  if (!BroadcastShapes(left.shape(), right.shape())) {
    return Fail(a, "matmul: batch axes of {} @ {} do not broadcast", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  return Cast(Contract(left, right, -1), dtype);
}

namespace {

Expr AddLinearBias(const Expr& y, const std::optional<Expr>& bias) {
  if (!bias || !y.ok()) return y;
  if (!bias->ok()) return *bias;
  const std::optional<Dims> shape = BroadcastShapes(y.shape(), bias->shape());
  if (!shape || Shape(*shape) != y.shape()) {
    return Fail(y, "linear: bias {} does not fit the outputs {}", ShapeText(bias->shape()),
                ShapeText(y.shape()));
  }
  return y + *bias;
}

}  // namespace

Expr Linear(const Expr& x, const Expr& weight, const std::optional<Expr>& bias) {
  if (!x.ok()) return x;
  if (!weight.ok()) return weight;
  const int64_t rank = weight.rank();
  if (rank < 1 || rank > 2 || x.rank() == 0 ||
      x.shape()[x.rank() - 1] != weight.shape()[rank - 1]) {
    return Fail(x,
                "linear: input {} and weight {}; the weight is [out, in], in the last axis of "
                "the input",
                ShapeText(x.shape()), ShapeText(weight.shape()));
  }
  return AddLinearBias(MatMul(x, rank == 2 ? Transpose(weight, 0, 1) : weight), bias);
}

Expr LinearColumns(const Expr& x, const Expr& weight, const std::optional<Expr>& bias,
                   std::optional<DType> dtype) {
  if (!x.ok()) return x;
  if (!weight.ok()) return weight;
  if (weight.rank() == 1) return AddLinearBias(dtype ? Cast(x * weight, *dtype) : x * weight, bias);
  return AddLinearBias(MatMul(x, weight, dtype), bias);
}

Expr Bilinear(const Expr& x1, const Expr& x2, const Expr& weight, const std::optional<Expr>& bias) {
  for (const Expr* x : {&x1, &x2, &weight}) {
    if (!x->ok()) return *x;
  }
  if (weight.rank() != 3 || x1.rank() == 0 || x2.rank() == 0) {
    return Fail(x1, "bilinear: inputs {} and {}, weight {}; the weight is [out, in1, in2]",
                ShapeText(x1.shape()), ShapeText(x2.shape()), ShapeText(weight.shape()));
  }
  return AddLinearBias(Einsum("...i,oij,...j->...o", {x1, weight, x2}), bias);
}

namespace {

// A product of operands with exactly those ranks.
Expr Ranked(std::string_view name, const Expr& a, int64_t a_rank, const Expr& b, int64_t b_rank) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (a.rank() != a_rank || b.rank() != b_rank) {
    return Fail(a, "{}: {} and {}: it needs {} and {} axes; matmul takes others", name,
                ShapeText(a.shape()), ShapeText(b.shape()), a_rank, b_rank);
  }
  if (a_rank == 3 && a.shape()[0] != b.shape()[0]) {
    return Fail(a, "{}: batches of {} and {} matrices", name, a.shape()[0], b.shape()[0]);
  }
  return MatMul(a, b);
}

bool IsOne(Number x) { return x.AsDouble() == 1; }

Expr AddScaled(std::string_view name, const Expr& input, const Expr& product,
               const AddScale& scale) {
  if (!input.ok()) return input;
  if (!product.ok()) return product;
  const std::optional<Dims> shape = BroadcastShapes(input.shape(), product.shape());
  if (!shape || Shape(*shape) != product.shape()) {
    return Fail(input, "{}: the input {} does not broadcast to the product {}", name,
                ShapeText(input.shape()), ShapeText(product.shape()));
  }
  const Expr scaled = IsOne(scale.alpha) ? product : product * scale.alpha;
  if (scale.beta.AsDouble() == 0) return Cast(scaled, Promote(input.dtype(), product.dtype()));
  return (IsOne(scale.beta) ? input : input * scale.beta) + scaled;
}

}  // namespace

Expr Mm(const Expr& a, const Expr& b) { return Ranked("mm", a, 2, b, 2); }
Expr Bmm(const Expr& a, const Expr& b) { return Ranked("bmm", a, 3, b, 3); }
Expr Mv(const Expr& a, const Expr& b) { return Ranked("mv", a, 2, b, 1); }

Expr AddMm(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale) {
  return AddScaled("addmm", input, Ranked("addmm", a, 2, b, 2), scale);
}
Expr BaddBmm(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale) {
  return AddScaled("baddbmm", input, Ranked("baddbmm", a, 3, b, 3), scale);
}
Expr AddBmm(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale) {
  const Expr each = Ranked("addbmm", a, 3, b, 3);
  return AddScaled("addbmm", input, each.ok() ? Einsum("bij,bjk->ik", {a, b}) : each, scale);
}
Expr AddMv(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale) {
  return AddScaled("addmv", input, Ranked("addmv", a, 2, b, 1), scale);
}
Expr AddR(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale) {
  return AddScaled("addr", input, Outer(a, b), scale);
}

Expr Inner(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (a.rank() == 0 || b.rank() == 0) return a * b;
  if (a.shape()[a.rank() - 1] != b.shape()[b.rank() - 1]) {
    return Fail(a, "inner: the last sizes of {} and {} differ", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  return TensorDot(a, b, {-1}, {-1});
}

Expr Outer(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (a.rank() != 1 || b.rank() != 1) {
    return Fail(a, "outer: {} and {}: it needs two vectors", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  return Unsqueeze(a, 1) * b;
}

Expr VDot(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (a.rank() != 1 || a.shape() != b.shape()) {
    return Fail(a, "vdot: {} and {}: it needs two vectors of one length", ShapeText(a.shape()),
                ShapeText(b.shape()));
  }
  return MatMul(a, b);
}

Expr VecDot(const Expr& a, const Expr& b, int64_t axis) {
  Expr x = a, y = b;
  if (auto error = Unify("vecdot", {&x, &y})) return *error;
  const DType dtype = x.dtype();
  if (x.rank() == 0) return Fail(x, "vecdot: the operands have no axes");
  return Cast(Contract(Cast(x, SumAccumulator(dtype)), Cast(y, SumAccumulator(dtype)), axis),
              dtype);
}

Expr Kron(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  const int64_t rank = std::max(a.rank(), b.rank());
  Dims left, right, result;
  const auto size = [rank](const Expr& x, int64_t i) {
    const int64_t axis = i - (rank - x.rank());
    return axis < 0 ? 1 : x.shape()[axis];
  };
  for (int64_t i = 0; i < rank; ++i) {
    left.insert(left.end(), {size(a, i), 1});
    right.insert(right.end(), {1, size(b, i)});
    result.push_back(size(a, i) * size(b, i));
  }
  return Reshape(Reshape(a, left) * Reshape(b, right), result);
}

Expr Cross(const Expr& a, const Expr& b, int64_t axis) {
  Expr x = a, y = b;
  if (auto error = Unify("cross", {&x, &y})) return *error;
  const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
  if (!at) return AxisError("cross", x, axis);
  if (x.shape()[*at] != 3) {
    return Fail(x, "cross: axis {} of {} has {} elements, it needs 3", axis, ShapeText(x.shape()),
                x.shape()[*at]);
  }
  std::vector<Expr> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(Select(x, *at, j) * Select(y, *at, k) - Select(x, *at, k) * Select(y, *at, j));
  }
  return Stack(parts, *at);
}

Expr MultiDot(absl::Span<const Expr> operands) {
  const size_t n = operands.size();
  for (const Expr& x : operands) {
    if (!x.ok()) return x;
  }
  const Expr& first = operands.front();
  if (n < 2) return Fail(first, "multi_dot: {} operands, it needs two or more", n);
  // Sizes between the factors; a vector at the end is a matrix of one row or column.
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < n; ++i) {
    const Expr& x = operands[i];
    const bool vector = x.rank() == 1 && (i == 0 || i + 1 == n);
    if (!vector && x.rank() != 2) {
      return Fail(first,
                  "multi_dot: operand {} has shape {}; only the first and the last may be "
                  "vectors",
                  i, ShapeText(x.shape()));
    }
    const int64_t rows = !vector ? x.shape()[0] : i == 0 ? 1 : x.shape()[0];
    const int64_t columns = !vector ? x.shape()[1] : i == 0 ? x.shape()[0] : 1;
    if (i == 0) sizes.push_back(rows);
    if (sizes.back() != rows) {
      return Fail(first, "multi_dot: operands {} and {} do not fit: {} and {}", i - 1, i,
                  ShapeText(operands[i - 1].shape()), ShapeText(x.shape()));
    }
    sizes.push_back(columns);
  }
  // cost[i][j]: least work of the product of i..j; split[i][j]: where it divides.
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n, 0));
  for (size_t length = 2; length <= n; ++length) {
    for (size_t i = 0; i + length <= n; ++i) {
      const size_t j = i + length - 1;
      cost[i][j] = std::numeric_limits<double>::infinity();
      for (size_t k = i; k < j; ++k) {
        const double work = cost[i][k] + cost[k + 1][j] +
                            static_cast<double>(sizes[i]) * static_cast<double>(sizes[k + 1]) *
                                static_cast<double>(sizes[j + 1]);
        if (work < cost[i][j]) {
          cost[i][j] = work;
          split[i][j] = k;
        }
      }
    }
  }
  const auto product = [&](const auto& self, size_t i, size_t j) -> Expr {
    if (i == j) return operands[i];
    const size_t k = split[i][j];
    return MatMul(self(self, i, k), self(self, k + 1, j));
  };
  return product(product, 0, n - 1);
}

Expr CDist(const Expr& x1, const Expr& x2, double p) {
  if (!x1.ok()) return x1;
  if (!x2.ok()) return x2;
  if (x1.rank() < 2 || x2.rank() < 2 || x1.shape()[x1.rank() - 1] != x2.shape()[x2.rank() - 1]) {
    return Fail(x1, "cdist: {} and {}: it needs [.., points, size] and [.., points, size]",
                ShapeText(x1.shape()), ShapeText(x2.shape()));
  }
  if (!(p >= 0)) return Fail(x1, "cdist: p is {}, it must be at least 0", p);
  const DType dtype = LeastUpperFloat(Promote(x1.dtype(), x2.dtype()));
  const Expr a = Cast(x1, ComputeDType(dtype)), b = Cast(x2, ComputeDType(dtype));
  const Expr d = Abs(Unsqueeze(a, -2) - Unsqueeze(b, -3));
  if (!d.ok()) return d;
  if (p == 0) return Cast(Sum(Cast(Ne(d, 0), a.dtype()), -1), dtype);
  if (p == 1) return Cast(Sum(d, -1), dtype);
  const bool empty = d.shape()[d.rank() - 1] == 0;
  if (std::isinf(p) && !empty) return Cast(Max(d, -1), dtype);
  // Points that coincide have the derivative zero: no infinite slope of the root.
  const Expr sum = Sum(p == 2 ? d * d : Where(Eq(d, 0), 0, Pow(Where(Eq(d, 0), 1, d), p)), -1);
  const Expr positive = Where(Eq(sum, 0), 1, sum);
  return Cast(Where(Eq(sum, 0), 0, p == 2 ? Sqrt(positive) : Pow(positive, 1 / p)), dtype);
}

}  // namespace tensord
