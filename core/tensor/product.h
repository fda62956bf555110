// Products of matrices and vectors.
//
// A product is written as one sum over the product of two views, which is the form that the
// compiler recognises: Reduce(Add, Mul(view(a), view(b))). Floats below float32 are accumulated in
// float32 and the result comes back in the promoted dtype, or in `dtype` where one is given.
#pragma once

#include <optional>

#include "core/tensor/expr.h"
#include "core/tensor/number.h"
#include "core/tensor/reduce.h"

namespace tensord {

// As in NumPy: vectors lose their axis, batch axes broadcast.
Expr MatMul(const Expr& a, const Expr& b, std::optional<DType> dtype = std::nullopt);
// x [.., in], weight [out, in], bias [out].
Expr Linear(const Expr& x, const Expr& weight, const std::optional<Expr>& bias = std::nullopt);
// The same with a weight [in, out]; a weight with one axis multiplies elementwise.
Expr LinearColumns(const Expr& x, const Expr& weight,
                   const std::optional<Expr>& bias = std::nullopt,
                   std::optional<DType> dtype = std::nullopt);
// y[.., o] = sum of x1[.., i] weight[o, i, j] x2[.., j], plus the bias.
Expr Bilinear(const Expr& x1, const Expr& x2, const Expr& weight,
              const std::optional<Expr>& bias = std::nullopt);

// Of exactly the axes that the name says: mm of two matrices, bmm of two batches of them, mv of a
// matrix and a vector.
Expr Mm(const Expr& a, const Expr& b);
Expr Bmm(const Expr& a, const Expr& b);
Expr Mv(const Expr& a, const Expr& b);

// beta * input + alpha * product; a beta of zero ignores the input, NaN or not.
struct AddScale {
  Number beta = 1;
  Number alpha = 1;
};
Expr AddMm(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale = {});
Expr BaddBmm(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale = {});
Expr AddBmm(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale = {});
Expr AddMv(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale = {});
Expr AddR(const Expr& input, const Expr& a, const Expr& b, const AddScale& scale = {});

// Over the last axes of both; with a scalar, the elementwise product.
Expr Inner(const Expr& a, const Expr& b);
Expr Outer(const Expr& a, const Expr& b);
// The sum of products of two vectors.
Expr VDot(const Expr& a, const Expr& b);
// The same along an axis of tensors that broadcast.
Expr VecDot(const Expr& a, const Expr& b, int64_t axis = -1);
// Sums over those axes of a and of b, in pairs; the rest of a, then that of b.
Expr TensorDot(const Expr& a, const Expr& b, absl::Span<const int64_t> a_axes,
               absl::Span<const int64_t> b_axes);
Expr Kron(const Expr& a, const Expr& b);
// Of vectors of three elements along an axis; the others broadcast.
Expr Cross(const Expr& a, const Expr& b, int64_t axis = -1);
// The chain in the order of least work; the first and the last may be vectors.
Expr MultiDot(absl::Span<const Expr> operands);
// x1 [.., p, m], x2 [.., r, m]: distances [.., p, r] by the p-norm; 0 counts differences, infinity
// takes the largest.
Expr CDist(const Expr& x1, const Expr& x2, double p = 2);

// "ij,jk->ik" and the like: spaces, an ellipsis, a label twice in one operand (its diagonal), the
// result left out (labels that occur once, in alphabetical order, after the ellipsis). More than
// two operands are contracted from the left.
Expr Einsum(std::string_view formula, absl::Span<const Expr> operands,
            std::optional<DType> dtype = std::nullopt);

}  // namespace tensord
