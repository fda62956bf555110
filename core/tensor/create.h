// Tensors made from nothing: constants and counted sequences. None takes memory: they fold into
// the kernels that use them.
//
//   Expr steps = Arange(graph, 0, 10, 2, DType::kInt32);  // 0 2 4 6 8
#pragma once

#include <vector>

#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

// A tensor without axes. Integers wrap, floats round, as in Cast.
Expr Constant(Graph& graph, Number value, DType dtype);

Expr Full(Graph& graph, Shape shape, Number value, DType dtype);
Expr Zeros(Graph& graph, Shape shape, DType dtype);
Expr Ones(Graph& graph, Shape shape, DType dtype);
// Of the shape and dtype of `x`.
Expr FullLike(const Expr& x, Number value);

// start, start + step, ... before stop. An integer dtype must hold the first and the last number.
Expr Arange(Graph& graph, Number start, Number stop, Number step, DType dtype);
// 0, 1, ... size-1, where the size may vary (size.h).
Expr ArangeOfSize(Graph& graph, int64_t size, DType dtype);
// The dtype for an Arange without one: the default integer, or int64 where that is too small; the
// default float if one of the numbers is a float.
DType ArangeDType(Number start, Number stop, Number step);
// Whether an Arange of whole numbers stays within the dtype.
bool ArangeFits(Number start, Number stop, Number step, DType dtype);
// The index along `axis` at every element, in the shape of `x`.
Expr IndexAlong(const Expr& x, int64_t axis, DType dtype = DType::kInt32);
// Evenly spaced, both ends included; counted from both, so that both are exact. Integers truncate.
// Between integers the bounds are cut off first.
Expr Linspace(Graph& graph, Number start, Number stop, int64_t steps, DType dtype);
Expr Linspace(const Expr& start, const Expr& stop, int64_t steps, DType dtype);
// base to the power of each number of a Linspace.
Expr Logspace(Graph& graph, Number start, Number stop, int64_t steps, double base, DType dtype);
Expr Logspace(const Expr& start, const Expr& stop, int64_t steps, double base, DType dtype);
// Ones where row = column, a matrix of rows x columns.
Expr Eye(Graph& graph, int64_t rows, int64_t columns, DType dtype);

// Every combination of one element of each vector, as rows: [product of sizes, operands].
Expr CartesianProd(absl::Span<const Expr> vectors);
// Matrices (vectors are rows, scalars 1 x 1) along the diagonal, zeros elsewhere.
Expr BlockDiag(absl::Span<const Expr> matrices);
// Powers of the vectors [.., m] as columns [.., m, n]: x^(n-1) ... x^0, or the other way round.
Expr Vander(const Expr& x, int64_t n, bool increasing);

// ---- Numbers that are computed here rather than by a program.

// Rows and columns of the entries of a rows x columns matrix on and below the diagonal (or, for
// Triu, on and above): first all rows, then all columns.
std::vector<int64_t> TrilIndices(int64_t rows, int64_t columns, int64_t offset);
std::vector<int64_t> TriuIndices(int64_t rows, int64_t columns, int64_t offset);

// Windows for signal processing: n numbers that are symmetric, or `periodic`, as for a transform:
// the first n of n + 1 symmetric ones.
enum class WindowKind { kCosines, kBartlett, kKaiser, kSine, kExponential, kGaussian };
struct WindowOptions {
  bool periodic = true;
  // kCosines: a, b, c .. of a - b cos + c cos 2 - ..; kKaiser: beta; kExponential: how far it falls
  // to 1 / e; kGaussian: the standard deviation.
  std::vector<double> parameters;
  std::optional<double> center;  // of kExponential, if not the middle
};
std::vector<double> SignalWindow(WindowKind kind, int64_t n, const WindowOptions& options);

}  // namespace tensord
