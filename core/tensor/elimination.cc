// Linear systems, determinants and triangular factors.
//
// Values come from elimination, which has no derivative here; derivatives come from steps of
// Newton's method on the equation that defines the result, each of which adds an order.
#include <algorithm>

#include "core/tensor/iterate.h"
#include "core/tensor/linalg.h"
#include "core/tensor/product.h"

namespace tensord {
namespace {

constexpr int kOrders = 2;  // of derivatives

Expr ToCompute(const Expr& x) { return Cast(x, ComputeDType(x.dtype())); }

// The lower part of x with half the diagonal.
Expr HalfLower(const Expr& x) {
  const Expr row = RowIndex(x.graph(), Rows(x)), column = ColumnIndex(x.graph(), Columns(x));
  return Where(Gt(row, column), x, Where(Eq(row, column), x * 0.5, 0));
}

// x that solves a x = b, near the inverse g of a. Each step adds an order of derivatives, and
// digits.
Expr Refined(const Expr& a, const Expr& g, const Expr& b) {
  Expr x = MatMul(g, b);
  for (int i = 0; i < kOrders; ++i) x = x + MatMul(g, b - MatMul(a, x));
  return x;
}

// A vector as a matrix of one column for the time of a calculation.
struct Column {
  Expr b;
  bool vector;

  Column(const Expr& a, const Expr& b)
      : b(b),
        vector(b.rank() == 1 ||
               (b.rank() == a.rank() - 1 && b.shape() == a.shape().first(a.rank() - 1))) {
    if (vector) this->b = Unsqueeze(b, -1);
  }
  Expr Back(const Expr& x) const { return vector ? Squeeze(x, -1) : x; }
};

std::optional<Expr> CheckSystem(std::string_view name, const Expr& a, const Expr& b, bool left) {
  if (auto error = CheckSquare(name, a)) return error;
  if (!b.ok()) return b;
  const int64_t n = Rows(a);
  const bool fits = b.rank() > 1 && b.shape()[left ? b.rank() - 2 : b.rank() - 1] == n;
  if (!fits) {
    return Fail(a, "{}: {} and {} do not fit", name, ShapeText(a.shape()), ShapeText(b.shape()));
  }
  return std::nullopt;
}

struct Factored {
  Expr lu, pivots, order;  // order: which row of a became row i
};

Factored Factor(const Expr& a) {
  const int64_t m = Rows(a), n = Columns(a), count = std::min(m, n);
  Graph& graph = a.graph();
  const Expr row = RowIndex(graph, m), column = ColumnIndex(graph, n);
  const Expr index = ColumnIndex(graph, m), turn = ColumnIndex(graph, count);
  Dims batch(a.shape().begin(), a.shape().end() - 2), orders = batch, turns = batch;
  orders.push_back(m);
  turns.push_back(count);
  const std::vector<Expr> done = Steps(
      count, {a, BroadcastTo(turn, turns), BroadcastTo(index, orders)},
      [&](const Expr& k, absl::Span<const Expr> state) {
        const Expr &lu = state[0], &pivots = state[1], &order = state[2];
        const Expr own = Eq(row, k);
        const Expr under = Picked(Eq(column, k), lu, -1);  // [m, 1]
        const Expr chosen = ArgMax(Where(Ge(row, k), Abs(under), -1), -2, kKeepDims);
        const Expr from = Eq(row, chosen);
        const Expr top = Picked(from, lu, -2), pivot = Picked(from, under, -2);
        // Where the pivot is zero all below it is.
        const Expr moved_under = Where(from, Picked(own, under, -2), under);
        const Expr factors = moved_under / Where(Eq(pivot, 0), 1, pivot);
        const Expr moved = Where(own, top, Where(from, Picked(own, lu, -2), lu));
        const Expr rest =
            Where(Gt(column, k), moved - factors * top, Where(Eq(column, k), factors, moved));
        const Expr flat = Squeeze(chosen, -1);  // [.., 1]
        const Expr here = Eq(index, k), there = Eq(index, flat);
        const Expr swapped =
            Where(here, Picked(there, order, -1), Where(there, Picked(here, order, -1), order));
        return std::vector<Expr>{Where(Gt(row, k), rest, moved), Where(Eq(turn, k), flat, pivots),
                                 Cast(swapped, DType::kInt32)};
      });
  return {done[0], done[1], done[2]};
}

// Rows of x in that order, by products with ones and zeros.
Expr PermutationOf(const Expr& order, DType dtype) {
  const int64_t n = order.shape()[order.rank() - 1];
  return Cast(Eq(Unsqueeze(order, -1), ColumnIndex(order.graph(), n)), dtype);  // p^T
}

Expr UnitLower(const Expr& lu, int64_t size) {
  return Tril(Shrink(lu, -1, 0, size), -1) + EyeLike(lu, Rows(lu), size);
}

Expr UpperInverse(const Expr& u) { return Transposed(LowerInverse(Transposed(u))); }

// l and u of x = l u with the derivatives of x, from those without.
std::pair<Expr, Expr> DifferentiableLu(const Expr& x, const Expr& l0, const Expr& u0) {
  const int64_t m = Rows(x), n = Columns(x), k = std::min(m, n);
  const Expr linv = LowerInverse(Shrink(l0, -2, 0, k)), uinv = UpperInverse(Shrink(u0, -1, 0, k));
  Expr l = l0, u = u0;
  for (int i = 0; i < kOrders; ++i) {
    const Expr rest = x - MatMul(l, u);
    const Expr inner = MatMul(MatMul(linv, Shrink(Shrink(rest, -2, 0, k), -1, 0, k)), uinv);
    const Expr dl = MatMul(Shrink(l, -2, 0, k), Tril(inner, -1));
    const Expr du = MatMul(Triu(inner), Shrink(u, -1, 0, k));
    std::vector<Expr> rows = {dl}, columns = {du};
    if (m > k) {
      const Expr below = Shrink(rest, -2, k, m) - MatMul(Shrink(l, -2, k, m), du);
      rows.push_back(MatMul(below, uinv));
    }
    if (n > k) {
      const Expr right = Shrink(rest, -1, k, n) - MatMul(dl, Shrink(u, -1, k, n));
      columns.push_back(MatMul(linv, right));
    }
    l = l + Cat(rows, -2);
    u = u + Cat(columns, -1);
  }
  return {WithDerivativeOf(l0, l), WithDerivativeOf(u0, u)};
}

struct Determinant {
  Expr value, sign, log;
  Expr change;  // log(det a / det of the value of a): zero, with the derivatives of log det
};

Determinant DeterminantOf(const Expr& a) {
  const int64_t n = Rows(a);
  const Factored factored = Factor(a);
  const Expr diagonal = Diagonal(factored.lu);
  const Expr turn = ColumnIndex(a.graph(), n);
  const Expr swaps = Where(Ne(factored.pivots, turn), -1, FullLike(diagonal, 1));
  const Expr parity = Prod(swaps, -1);
  // With g = a^-1: log det(g a) = log det(1 + e) = tr e - tr(e e) / 2 + ..
  const Expr e = MatMul(EliminationInverse(a), a) - EyeLike(a, n, n);
  const Expr change = Sum(Diagonal(e), -1) - Sum(e * Transposed(e), {-2, -1}) * 0.5;
  return {Detach(Prod(diagonal, -1) * parity), Detach(Prod(Sign(diagonal), -1) * parity),
          Detach(Sum(Log(Abs(diagonal)), -1)), change};
}

}  // namespace

Expr Inverse(const Expr& a) {
  if (auto error = CheckSquare("inverse", a)) return *error;
  const Expr x = ToCompute(a), value = EliminationInverse(x);
  const Expr twice = EyeLike(x, Rows(x), Rows(x)) * 2;
  Expr y = value;
  for (int i = 0; i < kOrders; ++i) y = MatMul(y, twice - MatMul(x, y));
  return Cast(WithDerivativeOf(value, y), LeastUpperFloat(a.dtype()));
}

Expr Solve(const Expr& a, const Expr& b, bool left) {
  if (a.ok() && b.ok() && !left) return Transposed(Solve(Transposed(a), Transposed(b)));
  if (auto error = CheckSquare("solve", a)) return *error;
  if (!b.ok()) return b;
  const Column column(a, b);
  if (auto error = CheckSystem("solve", a, column.b, true)) return *error;
  const DType dtype = LeastUpperFloat(Promote(a.dtype(), b.dtype()));
  const Expr x = Cast(a, ComputeDType(dtype)), y = Cast(column.b, ComputeDType(dtype));
  return Cast(column.Back(Refined(x, EliminationInverse(x), y)), dtype);
}

Expr SolveTriangular(const Expr& a, const Expr& b, const TriangularOptions& options) {
  constexpr std::string_view kName = "solve_triangular";
  if (auto error = CheckSystem(kName, a, b, options.left)) return *error;
  if (!options.left) {
    const TriangularOptions turned = {.upper = !options.upper, .left = true, .unit = options.unit};
    return Transposed(SolveTriangular(Transposed(a), Transposed(b), turned));
  }
  const DType dtype = LeastUpperFloat(Promote(a.dtype(), b.dtype()));
  Expr x = Cast(a, ComputeDType(dtype));
  const Expr y = Cast(b, ComputeDType(dtype));
  x = options.upper ? Triu(x, options.unit ? 1 : 0) : Tril(x, options.unit ? -1 : 0);
  if (options.unit) x = x + EyeLike(x, Rows(x), Rows(x));
  return Cast(Refined(x, options.upper ? UpperInverse(x) : LowerInverse(x), y), dtype);
}

Expr Det(const Expr& a) {
  if (auto error = CheckSquare("det", a)) return *error;
  const Determinant d = DeterminantOf(ToCompute(a));
  const Expr change = d.change - Detach(d.change);
  const Expr value = d.value * Exp(Where(Eq(d.value, 0), 0, change));
  return Cast(Where(IsFinite(d.change), value, d.value), LeastUpperFloat(a.dtype()));
}

SignedLog SlogDet(const Expr& a) {
  const auto failed = [](const Expr& error) { return SignedLog{error, error}; };
  if (auto error = CheckSquare("slogdet", a)) return failed(*error);
  const Determinant d = DeterminantOf(ToCompute(a));
  const DType dtype = LeastUpperFloat(a.dtype());
  return {Cast(d.sign, dtype), Cast(WithDerivativeOf(d.log, d.change), dtype)};
}

Expr Cholesky(const Expr& a, bool upper) {
  if (auto error = CheckSquare("cholesky", a)) return *error;
  Expr x = ToCompute(a);
  x = (x + Transposed(x)) * 0.5;
  const int64_t n = Rows(x);
  const Expr row = RowIndex(x.graph(), n), column = ColumnIndex(x.graph(), n);
  const Expr l0 = Steps(n, {x, FullLike(x, 0)}, [&](const Expr& k, absl::Span<const Expr> state) {
    const Expr &m = state[0], &l = state[1];
    const Expr under = Picked(Eq(column, k), m, -1), left = Picked(Eq(row, k), m, -2);
    const Expr pivot = Picked(Eq(row, k), under, -2);
    const Expr made = Where(Ge(row, k), under / Sqrt(pivot), 0);
    return std::vector<Expr>{m - under * left / pivot, Where(Eq(column, k), made, l)};
  })[1];
  const Expr g = LowerInverse(l0);
  Expr l = l0;
  for (int i = 0; i < kOrders; ++i) {
    const Expr rest = x - MatMul(l, Transposed(l));
    l = l + MatMul(l, HalfLower(MatMul(MatMul(g, rest), Transposed(g))));
  }
  const Expr result = Cast(WithDerivativeOf(l0, l), LeastUpperFloat(a.dtype()));
  return upper ? Transposed(result) : result;
}

Expr CholeskySolve(const Expr& b, const Expr& factor, bool upper) {
  if (auto error = CheckSystem("cholesky_solve", factor, b, true)) return *error;
  const Expr l = upper ? Transposed(factor) : factor;
  return SolveTriangular(Transposed(l), SolveTriangular(l, b), {.upper = true});
}

Expr CholeskyInverse(const Expr& factor, bool upper) {
  if (auto error = CheckSquare("cholesky_inverse", factor)) return *error;
  return CholeskySolve(EyeLike(factor, Rows(factor), Rows(factor)), factor, upper);
}

LuParts Lu(const Expr& a) {
  const auto failed = [](const Expr& error) { return LuParts{error, error, error}; };
  if (auto error = CheckMatrix("lu", a)) return failed(*error);
  const int64_t k = std::min(Rows(a), Columns(a));
  const Expr x = ToCompute(a);
  const Factored factored = Factor(x);
  const Expr pt = PermutationOf(factored.order, x.dtype());
  const Expr l0 = UnitLower(factored.lu, k), u0 = Triu(Shrink(factored.lu, -2, 0, k));
  const auto [l, u] = DifferentiableLu(MatMul(pt, x), l0, u0);
  const DType dtype = LeastUpperFloat(a.dtype());
  return {Cast(Transposed(pt), dtype), Cast(l, dtype), Cast(u, dtype)};
}

LuFactors LuFactor(const Expr& a) {
  if (auto error = CheckMatrix("lu_factor", a)) return {*error, *error};
  const int64_t k = std::min(Rows(a), Columns(a));
  const Expr x = ToCompute(a);
  const Factored factored = Factor(x);
  const Expr pt = PermutationOf(factored.order, x.dtype());
  const Expr l0 = UnitLower(factored.lu, k), u0 = Triu(Shrink(factored.lu, -2, 0, k));
  const auto [l, u] = DifferentiableLu(MatMul(pt, x), l0, u0);
  const std::vector<PadAmount> down = [&] {
    std::vector<PadAmount> amounts(a.rank());
    amounts[a.rank() - 2] = {0, Rows(a) - k};
    return amounts;
  }();
  const std::vector<PadAmount> across = [&] {
    std::vector<PadAmount> amounts(a.rank());
    amounts[a.rank() - 1] = {0, Columns(a) - k};
    return amounts;
  }();
  const Expr packed = Pad(Tril(l, -1), across) + Pad(u, down);
  return {Cast(packed, LeastUpperFloat(a.dtype())), factored.pivots + 1};
}

Expr FirstWhere(const Expr& holds) {
  if (!holds.ok()) return holds;
  const Expr found = Cast(holds, DType::kInt32);
  if (holds.shape().back() == 0) return Sum(found, -1);
  return Where(Any(holds, -1), ArgMax(found, -1) + 1, 0);
}

Expr LuInfo(const Expr& lu) {
  if (auto error = CheckMatrix("lu", lu)) return *error;
  return FirstWhere(Eq(Detach(Diagonal(lu)), 0));
}

Expr CholeskyInfo(const Expr& factor) {
  if (auto error = CheckSquare("cholesky", factor)) return *error;
  return FirstWhere(LogicalNot(IsFinite(Detach(Diagonal(factor)))));
}

namespace {

// The order of rows that exchanging row i with row pivots[i] - 1, one after the other, leads to.
Expr OrderOf(const Expr& pivots, int64_t rows) {
  const Expr index = ColumnIndex(pivots.graph(), rows);
  const int64_t count = pivots.shape()[pivots.rank() - 1];
  const Expr turn = ColumnIndex(pivots.graph(), count);
  Dims dims(pivots.shape().begin(), pivots.shape().end() - 1);
  dims.push_back(rows);
  return Steps(count, {BroadcastTo(index, dims)}, [&](const Expr& k, absl::Span<const Expr> state) {
    const Expr here = Eq(index, k);
    const Expr there = Eq(index, Picked(Eq(turn, k), pivots, -1) - 1);
    const Expr swapped = Where(here, Picked(there, state[0], -1),
                               Where(there, Picked(here, state[0], -1), state[0]));
    return std::vector<Expr>{swapped};
  })[0];
}

std::optional<Expr> CheckFactors(std::string_view name, const LuFactors& factors) {
  if (auto error = CheckMatrix(name, factors.lu)) return error;
  if (!factors.pivots.ok()) return factors.pivots;
  const int64_t count = std::min(Rows(factors.lu), Columns(factors.lu));
  if (!IsInt(factors.pivots.dtype()) || factors.pivots.rank() != factors.lu.rank() - 1 ||
      factors.pivots.shape()[factors.pivots.rank() - 1] != count) {
    return Fail(factors.lu, "{}: pivots {} {} do not fit factors {}", name,
                Name(factors.pivots.dtype()), ShapeText(factors.pivots.shape()),
                ShapeText(factors.lu.shape()));
  }
  return std::nullopt;
}

}  // namespace

LuParts LuUnpack(const LuFactors& factors) {
  if (auto error = CheckFactors("lu_unpack", factors)) return {*error, *error, *error};
  const int64_t k = std::min(Rows(factors.lu), Columns(factors.lu));
  const Expr order = OrderOf(Cast(factors.pivots, DType::kInt32), Rows(factors.lu));
  return {Transposed(PermutationOf(order, factors.lu.dtype())), UnitLower(factors.lu, k),
          Triu(Shrink(factors.lu, -2, 0, k))};
}

Expr LuSolve(const LuFactors& factors, const Expr& b, bool left, bool adjoint) {
  if (auto error = CheckFactors("lu_solve", factors)) return *error;
  if (auto error = CheckSystem("lu_solve", factors.lu, b, left)) return *error;
  if (!left) return Transposed(LuSolve(factors, Transposed(b), true, !adjoint));
  const LuParts parts = LuUnpack(factors);
  if (adjoint) {
    // u^T l^T p^T x = b.
    const Expr y = SolveTriangular(Transposed(parts.u), b);
    const Expr z = SolveTriangular(Transposed(parts.l), y, {.upper = true, .unit = true});
    return MatMul(parts.p, z);
  }
  const Expr y = SolveTriangular(parts.l, MatMul(Transposed(parts.p), b), {.unit = true});
  return SolveTriangular(parts.u, y, {.upper = true});
}

}  // namespace tensord
