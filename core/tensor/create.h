// Tensors made from nothing: constants and counted sequences. None takes memory: they fold into
// the kernels that use them.
//
//   Expr steps = Arange(graph, 0, 10, 2, DType::kInt32);  // 0 2 4 6 8
#pragma once

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

// start, start + step, ... before stop.
Expr Arange(Graph& graph, Number start, Number stop, Number step, DType dtype);
// The index along `axis` at every element, in the shape of `x`.
Expr IndexAlong(const Expr& x, int64_t axis, DType dtype = DType::kInt32);
Expr Linspace(Graph& graph, Number start, Number stop, int64_t steps, DType dtype);
// Ones where row = column, a matrix of rows x columns.
Expr Eye(Graph& graph, int64_t rows, int64_t columns, DType dtype);

}  // namespace tensord
