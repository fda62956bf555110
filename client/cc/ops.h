// The tensor language over tensors: every function of core/tensor, by its name and with its default
// arguments, and operators.
//
//   Tensor y = Softmax(MatMul(x, Transpose(x, 0, 1)) / 10, -1);
//   auto [values, indices] = TopK(y, 2);
//   Tensor picked = Index(y, {Slice{.begin = 1}, indices});
//
// Operators are elementwise and mean what they mean in Python: % has the sign of the divisor, >> is
// arithmetic, & | ^ ~ are of bits. So == compares elements and gives a bool tensor. A tensor is no
// condition and turns into no bool, hence what wants to know whether two tensors are one (an if,
// std::find, EXPECT_EQ) does not compile; compare state(), or the data. There is no += and so on:
// it could mean another tensor by that name or Assign, which can fail. && || ! are LogicalAnd and
// such.
#pragma once

#include "client/cc/functional.h"  // IWYU pragma: export
#include "client/cc/operations.h"  // IWYU pragma: export
#include "client/cc/tensor.h"      // IWYU pragma: export
#include "core/tensor/number.h"

namespace tensord {

#define TD_OPERATOR(symbol, Name)                                                        \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return Name(a, b); } \
  inline Tensor operator symbol(const Tensor& a, Number b) { return Name(a, b); }        \
  inline Tensor operator symbol(Number a, const Tensor& b) { return Name(a, b); }
TD_OPERATOR(+, Add)
TD_OPERATOR(-, Sub)
TD_OPERATOR(*, Mul)
TD_OPERATOR(/, Div)
TD_OPERATOR(%, Mod)
TD_OPERATOR(&, BitwiseAnd)
TD_OPERATOR(|, BitwiseOr)
TD_OPERATOR(^, BitwiseXor)
TD_OPERATOR(<<, ShiftLeft)
TD_OPERATOR(>>, ShiftRight)
TD_OPERATOR(==, Eq)
TD_OPERATOR(!=, Ne)
TD_OPERATOR(<, Lt)
TD_OPERATOR(<=, Le)
TD_OPERATOR(>, Gt)
TD_OPERATOR(>=, Ge)
#undef TD_OPERATOR
inline Tensor operator-(const Tensor& x) { return Neg(x); }
inline Tensor operator~(const Tensor& x) { return BitwiseNot(x); }

}  // namespace tensord
