// What the algorithms of linear algebra share: steps over carried state, masks in place of indices
// that differ from step to step, and results whose derivative is written down and not derived.
// Internal to core/tensor.
#pragma once

#include <string_view>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/expr.h"
#include "core/tensor/loop.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord {

// A ForLoop whose states have no derivatives: those of the results are written down, see below. No
// iterations if `count` is negative.
std::vector<Expr> Steps(int64_t count, std::vector<Expr> state, const CountedBody& body);

// `value`, whose derivatives are those of `proxy`.
Expr WithDerivativeOf(const Expr& value, const Expr& proxy);

// int32 [n, 1] and [1, n]: the index of the row and of the column beside a matrix.
inline Expr RowIndex(Graph& graph, int64_t n) {
  return Unsqueeze(Arange(graph, 0, n, 1, DType::kInt32), -1);
}
inline Expr ColumnIndex(Graph& graph, int64_t n) { return Arange(graph, 0, n, 1, DType::kInt32); }

// What the mask keeps of x along an axis, which stays: an element, a row or a column.
inline Expr Picked(const Expr& mask, const Expr& x, int64_t axis) {
  return Sum(Where(mask, x, 0), axis, kKeepDims);
}

// Identity matrices [n, m] for the batch axes of `like`.
Expr EyeLike(const Expr& like, int64_t n, int64_t m);

inline int64_t Rows(const Expr& a) { return a.shape()[a.rank() - 2]; }
inline int64_t Columns(const Expr& a) { return a.shape()[a.rank() - 1]; }
inline Expr Transposed(const Expr& a) { return Transpose(a, -1, -2); }

// The error if `a` is no batch of matrices, or of square ones.
std::optional<Expr> CheckMatrix(std::string_view name, const Expr& a);
std::optional<Expr> CheckSquare(std::string_view name, const Expr& a);

// The inverse of a lower triangular matrix, without derivative; what is above the diagonal is not
// read.
Expr LowerInverse(const Expr& l);
// The inverse by elimination, without derivative.
Expr EliminationInverse(const Expr& a);

// Where it holds first along the last axis, from 1 on, or 0: int32.
Expr FirstWhere(const Expr& holds);

}  // namespace tensord
