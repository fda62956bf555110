// Factors of symmetric matrices that need not be positive definite: a = l d l^T with rows and
// columns exchanged, d of blocks 1 x 1 and 2 x 2 (Bunch and Kaufman's pivots), in LAPACK's form.
#include <algorithm>
#include <cmath>

#include "core/tensor/index.h"
#include "core/tensor/iterate.h"
#include "core/tensor/linalg.h"
#include "core/tensor/product.h"

namespace tensord {
namespace {

// x with rows, or by axis -1 columns, where the two masks hold exchanged.
Expr Exchanged(const Expr& x, const Expr& here, const Expr& there, int64_t axis) {
  return Where(here, Picked(there, x, axis), Where(there, Picked(here, x, axis), x));
}

std::optional<Expr> CheckFactors(const LdlFactors& factors, const Expr& b) {
  if (auto error = CheckSquare("ldl_solve", factors.ld)) return error;
  if (!factors.pivots.ok()) return factors.pivots;
  if (!b.ok()) return b;
  const Expr& ld = factors.ld;
  const int64_t n = Rows(ld);
  if (!IsInt(factors.pivots.dtype()) || factors.pivots.rank() != ld.rank() - 1 ||
      factors.pivots.shape()[factors.pivots.rank() - 1] != n) {
    return Fail(ld, "ldl_solve: pivots {} {} do not fit factors {}", Name(factors.pivots.dtype()),
                ShapeText(factors.pivots.shape()), ShapeText(ld.shape()));
  }
  if (b.rank() < 2 || Rows(b) != n) {
    return Fail(ld, "ldl_solve: {} and {} do not fit", ShapeText(ld.shape()), ShapeText(b.shape()));
  }
  return std::nullopt;
}

}  // namespace

LdlFactors LdlFactor(const Expr& a) {
  if (auto error = CheckSquare("ldl_factor", a)) return {*error, *error};
  // The growth of elements is least for this bound.
  const double bound = (1 + std::sqrt(17.0)) / 8;
  const Expr x = Detach(Symmetric(Cast(a, ComputeDType(a.dtype()))));
  const int64_t n = Rows(x);
  Graph& graph = x.graph();
  const Expr row = RowIndex(graph, n), column = ColumnIndex(graph, n);
  Dims turns(x.shape().begin(), x.shape().end() - 1), one = turns;
  one.back() = 1;
  one.push_back(1);
  const Expr none = BroadcastTo(Arange(graph, 0, 1, 1, DType::kInt32), one);
  const Expr first = BroadcastTo(column, turns);
  // What is left to do, whole; the factors; pivots; whether the column is the second of a block.
  const std::vector<Expr> done =
      Steps(n, {x, FullLike(x, 0), first, none}, [&](const Expr& k, absl::Span<const Expr> state) {
        const Expr &m = state[0], &ld = state[1], &pivots = state[2];
        const Expr second = Ne(state[3], 0);
        const Expr own = Picked(Eq(column, k), m, -1);
        const Expr diagonal = Abs(Picked(Eq(row, k), own, -2));
        const Expr below = Where(Gt(row, k), Abs(own), -1);
        const Expr largest = ArgMax(below, -2, kKeepDims);
        const Expr most = Maximum(Max(below, {-2}, kKeepDims), 0);
        const Expr other = Abs(Picked(Eq(column, largest), m, -1));
        const Expr other_diagonal = Picked(Eq(row, largest), other, -2);
        const Expr others = LogicalAnd(Ge(row, k), Ne(row, largest));
        const Expr other_most = Max(Where(others, other, 0), {-2}, kKeepDims);
        const Expr enough = Where(Eq(other_most, 0), 1, other_most);
        const Expr stays =
            LogicalOr(Ge(diagonal, most * bound), Ge(diagonal, most * bound * (most / enough)));
        const Expr single = LogicalOr(stays, Ge(other_diagonal, other_most * bound));
        const Expr chosen = Where(stays, k, largest);
        const Expr to = Where(single, k, k + 1);
        const Expr moved = Exchanged(Exchanged(m, Eq(row, to), Eq(row, chosen), -2), Eq(column, to),
                                     Eq(column, chosen), -1);
        const Expr left = Picked(Eq(column, k), moved, -1);
        const Expr right = Picked(Eq(column, k + 1), moved, -1);
        const Expr d11 = Picked(Eq(row, k), left, -2), d21 = Picked(Eq(row, k + 1), left, -2);
        const Expr d22 = Picked(Eq(row, k + 1), right, -2);
        // Columns of l: over the pivot, or times the inverse of the block, scaled by its corner.
        const Expr corner = Where(Eq(d21, 0), 1, d21);
        const Expr p = d22 / corner, q = d11 / corner;
        const Expr scale = 1 / ((p * q - 1) * corner);
        const Expr l1 = Where(single, left / Where(Eq(d11, 0), 1, d11), (left * p - right) * scale);
        const Expr l2 = Where(single, 0, (right * q - left) * scale);
        const Expr rest = moved - l1 * Transposed(left) - l2 * Transposed(right);
        const Expr inside = LogicalAnd(Gt(row, to), Gt(column, to));
        const Expr in_first = Where(Eq(row, k), d11, Where(Le(row, to), d21, l1));
        const Expr in_second = Where(Eq(row, to), d22, l2);
        const Expr is_second = LogicalAnd(LogicalNot(single), Eq(column, k + 1));
        const Expr made = Where(LogicalAnd(Eq(column, k), Ge(row, k)), in_first,
                                Where(LogicalAnd(is_second, Gt(row, k)), in_second, ld));
        const Expr flat = Squeeze(chosen, -1), alone = Squeeze(single, -1);
        const Expr mine =
            LogicalOr(Eq(column, k), LogicalAnd(LogicalNot(alone), Eq(column, k + 1)));
        const Expr noted = Where(mine, Where(alone, flat, -1 - flat), pivots);
        return std::vector<Expr>{Where(second, m, Where(inside, rest, moved)),
                                 Where(second, ld, made),
                                 Cast(Where(Squeeze(second, -1), pivots, noted), DType::kInt32),
                                 Cast(LogicalNot(LogicalOr(second, single)), DType::kInt32)};
      });
  const Expr pivots = Where(Ge(done[2], 0), done[2] + 1, done[2]);
  return {Cast(done[1], LeastUpperFloat(a.dtype())), pivots};
}

Expr LdlInfo(const LdlFactors& factors) {
  if (auto error = CheckSquare("ldl_factor", factors.ld)) return *error;
  const Expr zero = LogicalAnd(Eq(Detach(Diagonal(factors.ld)), 0), Gt(factors.pivots, 0));
  return FirstWhere(zero);
}

Expr LdlSolve(const LdlFactors& factors, const Expr& b) {
  if (auto error = CheckFactors(factors, b)) return *error;
  const Expr& ld = factors.ld;
  const int64_t n = Rows(ld);
  Graph& graph = ld.graph();
  const Expr row = RowIndex(graph, n), turn = ColumnIndex(graph, n);
  // Column j of l was written before the exchanges that came after it, all of which `from` says;
  // its first column has them all.
  const Expr column = ColumnIndex(graph, n + 1) - 1;
  Dims dims(ld.shape().begin(), ld.shape().end()), one = dims;
  dims.back() = n + 1;
  one[one.size() - 2] = one.back() = 1;
  const Expr pivots = Unsqueeze(Cast(factors.pivots, DType::kInt32), -2);  // [.., 1, n]
  Dims flags(pivots.shape().begin(), pivots.shape().end());
  const Expr none = BroadcastTo(Arange(graph, 0, 1, 1, DType::kInt32), one);
  const std::vector<Expr> done =
      Steps(n, {BroadcastTo(row, dims), none, BroadcastTo(turn * 0, flags)},
            [&](const Expr& k, absl::Span<const Expr> state) {
              const Expr &from = state[0], &starts = state[2];
              const Expr second = Ne(state[1], 0);
              const Expr pivot = Picked(Eq(turn, k), pivots, -1);
              const Expr pair = LogicalAnd(Lt(pivot, 0), LogicalNot(second));
              const Expr to = Where(pair, k + 1, k);
              const Expr swapped = Exchanged(from, Eq(row, to), Eq(row, Abs(pivot) - 1), -2);
              const Expr moves = LogicalAnd(Lt(column, k), LogicalNot(second));
              return std::vector<Expr>{
                  Cast(Where(moves, swapped, from), DType::kInt32), Cast(pair, DType::kInt32),
                  Cast(Where(LogicalAnd(Eq(turn, k), pair), 1, starts), DType::kInt32)};
            });
  const Expr begins = Ne(done[2], 0);  // a block of two, by column
  const Expr order = Shrink(done[0], -1, 0, 1);
  const Expr under = Eq(row, turn + 1);
  // The corner of a block stands where l would.
  const Expr corner = Where(LogicalAnd(under, begins), ld, 0);
  const Expr d = Where(Eq(row, turn), ld, corner + Transposed(corner));
  const Expr strict = Tril(ld, -1) - corner;
  const Expr l = GatherAlong(strict, -2, Shrink(done[0], -1, 1, n + 1)) + EyeLike(ld, n, n);
  const Expr pt = Cast(Eq(order, turn), ld.dtype());  // row i of it picks row order[i]
  const Expr y = SolveTriangular(l, MatMul(pt, b), {.unit = true});
  const Expr z = Solve(d, y);
  return MatMul(Transposed(pt), SolveTriangular(Transposed(l), z, {.upper = true, .unit = true}));
}

}  // namespace tensord
