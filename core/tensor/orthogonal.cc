// Orthogonal factorisations, and what follows from them.
//
// Values come from reflections and rotations without derivative. Derivatives come from steps of
// Newton's method on the equations that define the result (Ogita and Aishima, "Iterative refinement
// for symmetric eigenvalue decomposition", 2018, and its like for singular values), taken from the
// values: two steps for derivatives of the first and second order.
#include <algorithm>
#include <cmath>

#include "core/tensor/iterate.h"
#include "core/tensor/linalg.h"
#include "core/tensor/product.h"

namespace tensord {
namespace {

constexpr int kOrders = 2;

Expr ToCompute(const Expr& x) { return Cast(x, ComputeDType(x.dtype())); }

double Epsilon(DType dtype) { return dtype == DType::kFloat64 ? 0x1p-52 : 0x1p-23; }

// m x n, complete; r is not cleared below its diagonal yet.
QrParts Reflected(const Expr& a) {
  const int64_t m = Rows(a), n = Columns(a);
  const Expr row = RowIndex(a.graph(), m), column = ColumnIndex(a.graph(), n);
  const std::vector<Expr> done = Steps(
      std::min(m - 1, n), {a, EyeLike(a, m, m)}, [&](const Expr& k, absl::Span<const Expr> state) {
        const Expr &r = state[0], &q = state[1];
        const Expr under = Where(Ge(row, k), Picked(Eq(column, k), r, -1), 0);  // [m, 1]
        const Expr own = Picked(Eq(row, k), under, -2);
        const Expr rest = Sum(Where(Gt(row, k), under * under, 0), -2, kKeepDims);
        const Expr norm = Sqrt(own * own + rest);
        // Away from the element on the diagonal, so that nothing cancels.
        const Expr v = Where(Eq(row, k), own + Where(Lt(own, 0), -norm, norm), under);
        const Expr square = norm * (norm + Abs(own));
        const Expr scale = Where(Eq(rest, 0), 0, 1 / Where(Eq(square, 0), 1, square));
        const Expr across = MatMul(Transposed(v), r) * scale;  // [1, n]
        const Expr along = MatMul(q, v) * scale;               // [m, 1]
        return std::vector<Expr>{r - v * across, q - along * Transposed(v)};
      });
  return {done[1], done[0]};
}

// Sides of matrices are split into halves, whose columns i are rotated together; between rounds
// they move as in a tournament, so that all meet in n - 1 rounds and are where they were then.
Expr Moved(const Expr& x, int64_t axis) {
  const int64_t n = x.shape()[x.rank() + axis], h = n / 2;
  if (h == 1) return x;
  const Expr parts[] = {Shrink(x, axis, 0, 1), Shrink(x, axis, h, h + 1), Shrink(x, axis, 1, h - 1),
                        Shrink(x, axis, h + 1, n), Shrink(x, axis, h - 1, h)};
  return Cat(parts, axis);
}

struct Rotation {
  Expr cosine, sine;  // one per pair
};

// What makes the off-diagonal element of [[a, b], [b, d]] zero.
Rotation RotationOf(const Expr& a, const Expr& b, const Expr& d, const Expr& negligible) {
  const Expr theta = (d - a) / (Where(negligible, 1, b) * 2);
  const Expr t =
      Where(Lt(theta, 0), FullLike(theta, -1), 1) / (Abs(theta) + Sqrt(theta * theta + 1));
  const Expr tangent = Where(negligible, 0, t);
  const Expr cosine = Rsqrt(tangent * tangent + 1);
  return {cosine, cosine * tangent};
}

Expr Rotate(const Expr& x, int64_t axis, const Rotation& rotation) {
  const int64_t n = x.shape()[x.rank() + axis], h = n / 2;
  const Expr first = Shrink(x, axis, 0, h), second = Shrink(x, axis, h, n);
  const Expr parts[] = {first * rotation.cosine - second * rotation.sine,
                        first * rotation.sine + second * rotation.cosine};
  return Moved(Cat(parts, axis), axis);
}

int64_t Rounds(int64_t even, DType dtype) {
  if (even == 2) return 2;
  int64_t sweeps = dtype == DType::kFloat64 ? 7 : 5;
  for (int64_t size = 4; size < even; size *= 2) ++sweeps;
  return sweeps * (even - 1);
}

Expr PadSides(const Expr& x, int64_t rows, int64_t columns) {
  std::vector<PadAmount> amounts(x.rank());
  amounts[x.rank() - 2] = {0, rows};
  amounts[x.rank() - 1] = {0, columns};
  return Pad(x, amounts);
}

// [.., n, n] with a one in column r of row i if element i of [.., n] is the r-th in order; so a
// product with it from the right sorts columns.
Expr SortMatrix(const Expr& x, bool descending) {
  const int64_t n = x.shape()[x.rank() - 1];
  const Expr index = ColumnIndex(x.graph(), n);
  const Expr own = Unsqueeze(x, -1), other = Unsqueeze(x, -2);
  const Expr before = descending ? Gt(other, own) : Lt(other, own);
  const Expr tie = LogicalAnd(Eq(other, own), Lt(index, Unsqueeze(index, -1)));
  const Expr rank = Sum(Cast(LogicalOr(before, tie), DType::kInt32), -1, kKeepDims);  // [.., n, 1]
  return Cast(Eq(rank, index), x.dtype());
}

// NaN where the matrix holds one, or an infinity, since no order of such values means anything.
Expr Poison(const Expr& a) { return Sum(a * 0, {-2, -1}, kKeepDims); }

// 1 / (x_j - x_i) off the diagonal; 0 where they are equal.
Expr InverseGaps(const Expr& x) {
  const Expr gap = Unsqueeze(x, -2) - Unsqueeze(x, -1);
  return Where(Eq(gap, 0), 0, 1 / Where(Eq(gap, 0), 1, gap));
}

EighParts EighValues(const Expr& a) {
  const int64_t n = Rows(a), even = n + n % 2, h = even / 2;
  if (n == 1) return {Squeeze(a, -1), EyeLike(a, 1, 1)};
  const Expr padded = PadSides(a, even - n, even - n);
  const std::vector<Expr> done =
      Steps(Rounds(even, a.dtype()), {padded, EyeLike(a, even, even)},
            [&](const Expr&, absl::Span<const Expr> state) {
              const Expr& m = state[0];
              const Expr diagonal = Diagonal(m);
              const Expr p = Shrink(diagonal, -1, 0, h), q = Shrink(diagonal, -1, h, even);
              const Expr off = Diagonal(m, h);
              const Rotation r = RotationOf(p, off, q, Eq(off, 0));
              const Rotation across = {Unsqueeze(r.cosine, -2), Unsqueeze(r.sine, -2)};
              const Rotation down = {Unsqueeze(r.cosine, -1), Unsqueeze(r.sine, -1)};
              return std::vector<Expr>{Rotate(Contiguous(Rotate(m, -1, across)), -2, down),
                                       Rotate(state[1], -1, across)};
            });
  const Expr values = Shrink(Diagonal(done[0]), -1, 0, n);
  const Expr vectors = Shrink(Shrink(done[1], -1, 0, n), -2, 0, n);
  const Expr order = Contiguous(SortMatrix(values, false));
  const Expr poison = Poison(a);
  return {Squeeze(MatMul(Unsqueeze(values, -2), order), -2) + Squeeze(poison, -1),
          MatMul(vectors, order) + poison};
}

// One more step towards the eigenvectors, from near ones.
EighParts EighStep(const Expr& a, const Expr& v) {
  const int64_t n = Rows(a);
  const Expr identity = EyeLike(a, n, n);
  const Expr r = identity - MatMul(Transposed(v), v);
  const Expr s = MatMul(Transposed(v), MatMul(a, v));
  const Expr values = Diagonal(s) / (1 - Diagonal(r));
  const Expr off = (s + r * Unsqueeze(values, -2)) * InverseGaps(values);
  const Expr e = Where(Ne(identity, 0), r * 0.5, off);
  return {values, v + MatMul(v, e)};
}

// Of a tall or square matrix: u complete, s descending.
SvdParts SvdValues(const Expr& a) {
  const int64_t m = Rows(a), n = Columns(a), even = n + n % 2, h = even / 2;
  Expr turned = a, v = EyeLike(a, n, n);
  if (n > 1) {
    const Expr padded = PadSides(a, 0, even - n);
    // Columns whose cosine is below rounding are orthogonal.
    const double limit = std::pow(Epsilon(a.dtype()) / 4, 2);
    const std::vector<Expr> done = Steps(
        Rounds(even, a.dtype()), {padded, EyeLike(a, even, even)},
        [&](const Expr&, absl::Span<const Expr> state) {
          const Expr first = Shrink(state[0], -1, 0, h), second = Shrink(state[0], -1, h, even);
          const Expr p = Sum(first * first, -2, kKeepDims);
          const Expr q = Sum(second * second, -2, kKeepDims);
          const Expr off = Sum(first * second, -2, kKeepDims);
          const Expr negligible = LogicalOr(Eq(off, 0), Le(off * off, p * q * limit));
          Rotation r = RotationOf(p, off, q, negligible);
          r = {Contiguous(r.cosine), Contiguous(r.sine)};
          return std::vector<Expr>{Rotate(state[0], -1, r), Rotate(state[1], -1, r)};
        });
    turned = Shrink(done[0], -1, 0, n);
    v = Shrink(Shrink(done[1], -1, 0, n), -2, 0, n);
  }
  const Expr s = Sqrt(Sum(turned * turned, -2));
  const Expr order = Contiguous(SortMatrix(s, true));
  // The columns are orthogonal, so this only completes them, also where s is zero.
  const Expr sorted = MatMul(turned, order);
  const QrParts qr = Reflected(sorted);
  const Expr sign = Where(Lt(Diagonal(qr.r), 0), -1, FullLike(s, 1));
  std::vector<PadAmount> rest(sign.rank());
  rest.back() = {0, m - n};
  const Expr poison = Poison(a);
  return {qr.q * Unsqueeze(Pad(sign, rest, 1), -2) + poison,
          Squeeze(MatMul(Unsqueeze(s, -2), order), -2) + Squeeze(poison, -1),
          Transposed(MatMul(v, order)) + poison};
}

// One more step towards the singular vectors (u reduced), from near ones.
SvdParts SvdStep(const Expr& a, const Expr& u, const Expr& v) {
  const int64_t n = Columns(a);
  const Expr identity = EyeLike(a, n, n), diagonal = Ne(identity, 0);
  const Expr r = identity - MatMul(Transposed(u), u), w = identity - MatMul(Transposed(v), v);
  const Expr av = MatMul(a, v);
  const Expr t = MatMul(Transposed(u), av);
  const Expr s = Diagonal(t) / (1 - (Diagonal(r) + Diagonal(w)) * 0.5);
  const Expr across = Unsqueeze(s, -2), down = Unsqueeze(s, -1);  // s_j and s_i
  const Expr alpha = t + r * across, beta = Transposed(t) + w * across;
  const Expr gaps = InverseGaps(s * s);
  const Expr e = Where(diagonal, r * 0.5, (alpha * across + beta * down) * gaps);
  const Expr f = Where(diagonal, w * 0.5, (alpha * down + beta * across) * gaps);
  Expr turned = u + MatMul(u, e);
  if (Rows(a) > n) {
    // What a brings from outside the span of u, whose columns are orthogonal only nearly: 1 + r is
    // the inverse of u^T u to second order.
    const Expr scale = Where(Eq(across, 0), 0, 1 / Where(Eq(across, 0), 1, across));
    turned = turned + (av - MatMul(u, t + MatMul(r, t))) * scale;
  }
  return {turned, s, v + MatMul(v, f)};
}

// Singular values above the cutoff; bool [.., n].
Expr Counted(const Expr& s, int64_t larger, const Cutoff& cutoff, DType dtype) {
  const auto each = [&](const Expr& x) { return Unsqueeze(Cast(x, s.dtype()), -1); };
  const Expr least = Constant(s.graph(), static_cast<double>(larger) * Epsilon(dtype), s.dtype());
  const Expr zero = Constant(s.graph(), 0, s.dtype());
  const Expr absolute = cutoff.absolute ? each(*cutoff.absolute) : zero;
  const Expr relative =
      cutoff.relative ? each(*cutoff.relative) : Where(Gt(absolute, 0), zero, least);
  return Gt(s, Maximum(Max(s, -1, kKeepDims) * relative, absolute));
}

}  // namespace

QrParts Qr(const Expr& a, Completeness completeness) {
  const auto failed = [](const Expr& error) { return QrParts{error, error}; };
  if (auto error = CheckMatrix("qr", a)) return failed(*error);
  const int64_t m = Rows(a), n = Columns(a), k = std::min(m, n);
  const DType dtype = LeastUpperFloat(a.dtype());
  const Expr x = ToCompute(a);
  const QrParts values = Reflected(x);
  const Expr q0 = Shrink(values.q, -1, 0, k), r0 = Triu(values.r);
  // d = x - q r and f = 1 - q^T q vanish; q^T dq = w + f / 2 with w antisymmetric.
  const Expr reduced = Shrink(r0, -2, 0, k);
  const Expr rinv = Transposed(LowerInverse(Transposed(Shrink(reduced, -1, 0, k))));
  Expr q = Detach(q0), r = Detach(reduced);
  // The columns of r beyond k follow from q.
  for (int i = 0; i < kOrders; ++i) {
    const Expr d = x - MatMul(q, r), qt = Transposed(q);
    const Expr f = (EyeLike(x, k, k) - MatMul(qt, q)) * 0.5;
    const Expr c = MatMul(Shrink(d, -1, 0, k), rinv), qc = MatMul(qt, c);
    const Expr lower = Tril(qc - f, -1);
    const Expr w = lower - Transposed(lower);
    const Expr dq = MatMul(q, w + f) + (c - MatMul(q, qc));
    Expr dr = MatMul(qc - f - w, Shrink(r, -1, 0, k));
    if (n > k) {
      const Expr right = Shrink(d, -1, k, n) - MatMul(dq, Shrink(r, -1, k, n));
      const Expr parts[] = {dr, MatMul(qt, right)};
      dr = Cat(parts, -1);
    }
    q = q + dq;
    r = r + dr;
  }
  const Expr q1 = WithDerivativeOf(q0, q), r1 = WithDerivativeOf(reduced, r);
  if (completeness == kReduced || m == k) return {Cast(q1, dtype), Cast(r1, dtype)};
  const Expr sides[] = {q1, Detach(Shrink(values.q, -1, k, m))};
  return {Cast(Cat(sides, -1), dtype), Cast(PadSides(r1, m - k, 0), dtype)};
}

SvdParts Svd(const Expr& a, Completeness completeness) {
  const auto failed = [](const Expr& error) { return SvdParts{error, error, error}; };
  if (auto error = CheckMatrix("svd", a)) return failed(*error);
  const int64_t m = Rows(a), n = Columns(a), k = std::min(m, n);
  const DType dtype = LeastUpperFloat(a.dtype());
  if (k == 0) {
    const Expr none = Cast(Sum(a, m == 0 ? -2 : -1), dtype);  // [.., the other side]
    const Expr like = Cast(a, dtype);
    const bool complete = completeness == kComplete;
    return {EyeLike(like, m, complete ? m : 0), Shrink(none, -1, 0, 0),
            EyeLike(like, complete ? n : 0, n)};
  }
  if (m < n) {
    const SvdParts turned = Svd(Transposed(a), completeness);
    return {Transposed(turned.vh), turned.s, Transposed(turned.u)};
  }
  const Expr x = ToCompute(a);
  const SvdParts values = SvdValues(x);
  const Expr u0 = Shrink(values.u, -1, 0, n);
  SvdParts near = {Detach(u0), values.s, Detach(Transposed(values.vh))};
  for (int i = 0; i < kOrders; ++i) {
    const SvdParts next = SvdStep(x, near.u, near.vh);
    near = {next.u, next.s, next.vh};
  }
  Expr u = WithDerivativeOf(u0, near.u);
  if (completeness == kComplete && m > n) {
    const Expr sides[] = {u, Detach(Shrink(values.u, -1, n, m))};
    u = Cat(sides, -1);
  }
  return {Cast(u, dtype), Cast(WithDerivativeOf(values.s, near.s), dtype),
          Cast(WithDerivativeOf(values.vh, Transposed(near.vh)), dtype)};
}

Expr SvdVals(const Expr& a) { return Svd(a, kReduced).s; }

Expr Symmetric(const Expr& a, bool upper) {
  if (auto error = CheckSquare("symmetric", a)) return *error;
  const Expr x = Cast(a, LeastUpperFloat(a.dtype()));
  const Expr half = upper ? Triu(x) : Tril(x), strict = upper ? Triu(x, 1) : Tril(x, -1);
  return WithDerivativeOf(Detach(half + Transposed(strict)), x);
}

EighParts Eigh(const Expr& a, bool upper) {
  const auto failed = [](const Expr& error) { return EighParts{error, error}; };
  if (auto error = CheckSquare("eigh", a)) return failed(*error);
  const int64_t n = Rows(a);
  const DType dtype = LeastUpperFloat(a.dtype());
  if (n == 0) return {Cast(Sum(ToCompute(a), -1), dtype), Cast(a, dtype)};
  const Expr read = Symmetric(ToCompute(a), upper);
  // The same, with derivatives as if both triangles had moved.
  const Expr x = (read + Transposed(read)) * 0.5;
  const EighParts values = EighValues(Detach(x));
  EighParts near = {values.values, Detach(values.vectors)};
  for (int i = 0; i < kOrders; ++i) near = EighStep(x, near.vectors);
  return {Cast(WithDerivativeOf(values.values, near.values), dtype),
          Cast(WithDerivativeOf(values.vectors, near.vectors), dtype)};
}

Expr EigVals(const Expr& a) {
  if (auto error = CheckSquare("eig", a)) return *error;
  return Fail(a,
              "eig: the eigenvalues of a general real matrix are complex, and there is no complex "
              "dtype; use eigh for symmetric matrices");
}

Expr Pinv(const Expr& a, const Cutoff& cutoff) {
  if (auto error = CheckMatrix("pinv", a)) return *error;
  const DType dtype = LeastUpperFloat(a.dtype());
  if (Rows(a) == 0 || Columns(a) == 0) return Cast(Transposed(a), dtype);
  const Expr x = ToCompute(a);
  const SvdParts svd = Svd(Detach(x), kReduced);
  if (!svd.s.ok()) return svd.s;
  const Expr counted = Counted(svd.s, std::max(Rows(a), Columns(a)), cutoff, dtype);
  const Expr inverse = Where(counted, 1 / Where(counted, svd.s, 1), 0);
  const Expr y = Detach(MatMul(Transposed(svd.vh) * Unsqueeze(inverse, -2), Transposed(svd.u)));
  const Expr fixed = Detach(x), d = x - fixed, dt = Transposed(d);
  // What d makes of the inverse z of a matrix w, to first order: Golub and Pereyra, 1973.
  const auto change = [&](const Expr& w, const Expr& z) {
    const Expr zt = Transposed(z);
    const Expr left = EyeLike(x, Columns(x), Columns(x)) - MatMul(z, w);
    const Expr right = EyeLike(x, Rows(x), Rows(x)) - MatMul(w, z);
    return MatMul(MatMul(z, MatMul(zt, dt)), right) + MatMul(MatMul(left, MatMul(dt, zt)), z) -
           MatMul(MatMul(z, d), z);
  };
  // Half way between the two it is right to second order.
  const Expr half = y + change(fixed, y) * 0.5;
  return Cast(WithDerivativeOf(y, change(fixed + d * 0.5, half)), dtype);
}

Expr MatrixRank(const Expr& a, const Cutoff& cutoff) {
  if (auto error = CheckMatrix("matrix_rank", a)) return *error;
  const Expr s = SvdVals(a);
  if (!s.ok()) return s;
  if (s.shape().back() == 0) return Cast(Sum(s, -1), DType::kInt32);
  const Expr counted = Counted(s, std::max(Rows(a), Columns(a)), cutoff, s.dtype());
  return Detach(Sum(Cast(counted, DType::kInt32), -1));
}

Expr Lstsq(const Expr& a, const Expr& b, const Cutoff& cutoff) {
  if (auto error = CheckMatrix("lstsq", a)) return *error;
  if (!b.ok()) return b;
  const bool vector = b.rank() == a.rank() - 1;
  const Expr right = vector ? Unsqueeze(b, -1) : b;
  if (right.rank() < 2 || Rows(right) != Rows(a)) {
    return Fail(a, "lstsq: {} and {} do not fit", ShapeText(a.shape()), ShapeText(b.shape()));
  }
  const Expr inverse = Pinv(a, cutoff);
  const Expr x = MatMul(inverse, right);
  // One step of refinement.
  const Expr refined = x + MatMul(inverse, right - MatMul(a, x));
  return vector ? Squeeze(refined, -1) : refined;
}

}  // namespace tensord
