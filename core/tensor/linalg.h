// Linear algebra: factorisations, and what is solved by them. Matrices are the last two axes; other
// axes are batches. Below float32 it computes in float32.
//
//   Expr x = Solve(a, b);              // a x = b
//   Svd parts = SvdOf(a, kReduced);    // a = u diag(s) vh
//
// Where a matrix has no such thing (the inverse of a singular one) results hold infinities or NaN;
// nothing can be raised, since data is not known here. Derivatives are those of the exact result,
// and so are second ones, except where it is said.
#pragma once

#include <optional>

#include "core/tensor/expr.h"
#include "core/tensor/reduce.h"

namespace tensord {

// ---- by elimination

Expr Inverse(const Expr& a);
// a x = b, or x a = b with `left` false; b is a matrix, or a vector where a has one axis more.
Expr Solve(const Expr& a, const Expr& b, bool left = true);
struct TriangularOptions {
  bool upper = false;
  bool left = true;
  bool unit = false;  // ones are taken for the diagonal
};
// The same for a triangular matrix, whose other half is not read.
Expr SolveTriangular(const Expr& a, const Expr& b, const TriangularOptions& options = {});

Expr Det(const Expr& a);  // the derivative of a singular matrix's is given as zero
struct SignedLog {
  Expr sign;  // 0 if singular
  Expr log;   // of the absolute value
};
SignedLog SlogDet(const Expr& a);

// Of symmetric positive definite matrices: a = l l^T, or a = u^T u with `upper`. NaN for others.
Expr Cholesky(const Expr& a, bool upper = false);
// a x = b with the factor of a.
Expr CholeskySolve(const Expr& b, const Expr& factor, bool upper = false);
Expr CholeskyInverse(const Expr& factor, bool upper = false);

// a = p l u, with rows exchanged for the largest pivot.
struct LuParts {
  Expr p, l, u;
};
LuParts Lu(const Expr& a);
// The same packed: u with l below its diagonal, and LAPACK's pivots, int32 from 1 on.
struct LuFactors {
  Expr lu, pivots;
};
LuFactors LuFactor(const Expr& a);
LuParts LuUnpack(const LuFactors& factors);
// LAPACK's info of a packed u, and of a Cholesky factor: the first pivot, from 1 on, that is zero,
// or where the matrix is not positive definite; 0 if there is none. int32.
Expr LuInfo(const Expr& lu);
Expr CholeskyInfo(const Expr& factor);
Expr LuSolve(const LuFactors& factors, const Expr& b, bool left = true, bool adjoint = false);

// Of symmetric matrices, whose lower triangle is read: p a p^T = l d l^T in LAPACK's form: d, of
// blocks 1 x 1 and 2 x 2, and l below it, whose columns the later exchanges of rows have not moved,
// and pivots, int32, from 1 on: the row that was exchanged with this one, or for both rows of a
// block of two -1 times the one that was exchanged with the second. No derivative.
struct LdlFactors {
  Expr ld, pivots;
};
LdlFactors LdlFactor(const Expr& a);
Expr LdlInfo(const LdlFactors& factors);  // the first block that is zero, from 1 on, or 0; int32
Expr LdlSolve(const LdlFactors& factors, const Expr& b);  // a x = b

// ---- orthogonal

enum Completeness { kReduced, kComplete };

// The same r, with the vectors v of the reflections 1 - tau v v^T below its diagonal (their first
// element is 1 and not there): LAPACK's form. Without derivative.
struct Reflections {
  Expr a, tau;  // [.., m, n] and [.., min(m, n)]
};
Reflections Geqrf(const Expr& a);
// q x, or q^T x with `transpose`, for the product q [m, m] of the reflections: `a` [.., m, n],
// `tau` [.., k] with k up to n, and x [.., m, p].
Expr Reflect(const Reflections& reflections, const Expr& x, bool transpose = false);
// The first n columns of q, for `a` [.., m, n].
Expr HouseholderProduct(const Reflections& reflections);

// a [m, n] = q r by Householder's reflections: q [m, k], r [k, n] with k the lesser of m and n, or
// complete q [m, m], r [m, n]. The complete q of a tall matrix has no derivative beyond k.
struct QrParts {
  Expr q, r;
};
QrParts Qr(const Expr& a, Completeness completeness = kReduced);

// a = u diag(s) vh by one-sided Jacobi rotations, s descending.
struct SvdParts {
  Expr u, s, vh;
};
SvdParts Svd(const Expr& a, Completeness completeness = kReduced);
Expr SvdVals(const Expr& a);

// Of symmetric matrices, by Jacobi rotations: eigenvalues ascending, eigenvectors as columns. One
// triangle is read.
struct EighParts {
  Expr values, vectors;
};
EighParts Eigh(const Expr& a, bool upper = false);
// The symmetric matrix of which one triangle is read, with the derivatives of `a` itself.
Expr Symmetric(const Expr& a, bool upper = false);
Expr EigVals(const Expr& a);  // an error: those of a general matrix are complex

// Singular values up to max(absolute, relative * largest) count as zero. Numbers, or one for each
// matrix of a batch.
struct Cutoff {
  std::optional<Expr> absolute = std::nullopt;
  // Else max(m, n) times the dtype's epsilon, or 0 where an absolute one is given.
  std::optional<Expr> relative = std::nullopt;
};
// The pseudo-inverse; it has first derivatives only.
Expr Pinv(const Expr& a, const Cutoff& cutoff = {});
Expr MatrixRank(const Expr& a, const Cutoff& cutoff = {});  // int32
// The x of least norm among those with the least |a x - b|.
Expr Lstsq(const Expr& a, const Expr& b, const Cutoff& cutoff = {});

// ---- functions of matrices

Expr Trace(const Expr& a);
Expr MatrixPower(const Expr& a, int64_t n);
Expr MatrixExp(const Expr& a);
// Steps of x <- p0 x + p1 (x x^T) x + p2 (x x^T)^2 x + .. from a / |a|: towards the nearest matrix
// with orthonormal rows or columns.
Expr NewtonSchulz(const Expr& a, int64_t steps, absl::Span<const double> polynomial,
                  double eps = 1e-7);

enum class MatrixNormKind {
  kFrobenius,
  kNuclear,
  kInf,
  kMinusInf,
  kOne,
  kMinusOne,
  kTwo,
  kMinusTwo
};
std::optional<MatrixNormKind> MatrixNormFromName(std::string_view name);  // "fro", "inf", "-2", ..
Expr MatrixNorm(const Expr& a, MatrixNormKind kind = MatrixNormKind::kFrobenius);
// Of the matrices in two axes of x.
Expr MatrixNorm(const Expr& x, MatrixNormKind kind, const Axes& axes, Keep keep = kDropDims);
// |a| |a^-1|, or by the norm 2 the quotient of the extreme singular values.
Expr Cond(const Expr& a, MatrixNormKind kind = MatrixNormKind::kTwo);

}  // namespace tensord
