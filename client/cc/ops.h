// The tensor language over tensors. Functions mean what they mean in core/tensor; those that have
// no name here are called through Lift.
#pragma once

#include <concepts>
#include <initializer_list>

#include "client/cc/tensor.h"
#include "core/tensor/activation.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/number.h"
#include "core/tensor/reduce.h"

namespace tensord {

#define TD_UNARY(Name)                                     \
  inline Tensor Name(const Tensor& x) {                    \
    return Lift([](const Expr& e) { return Name(e); }, x); \
  }
TD_UNARY(Neg)
TD_UNARY(Abs)
TD_UNARY(Exp)
TD_UNARY(Log)
TD_UNARY(Sqrt)
TD_UNARY(Sin)
TD_UNARY(Cos)
TD_UNARY(Tanh)
TD_UNARY(Sigmoid)
TD_UNARY(Relu)
TD_UNARY(Detach)
TD_UNARY(Contiguous)
#undef TD_UNARY

#define TD_BINARY(Name)                                                         \
  inline Tensor Name(const Tensor& a, const Tensor& b) {                        \
    return Lift([](const Expr& x, const Expr& y) { return Name(x, y); }, a, b); \
  }                                                                             \
  inline Tensor Name(const Tensor& a, Number b) {                               \
    return Lift([b](const Expr& x) { return Name(x, b); }, a);                  \
  }                                                                             \
  inline Tensor Name(Number a, const Tensor& b) {                               \
    return Lift([a](const Expr& y) { return Name(a, y); }, b);                  \
  }
TD_BINARY(Add)
TD_BINARY(Sub)
TD_BINARY(Mul)
TD_BINARY(Div)
TD_BINARY(Maximum)
TD_BINARY(Minimum)
TD_BINARY(Pow)
TD_BINARY(Eq)
TD_BINARY(Lt)
TD_BINARY(Gt)
#undef TD_BINARY

#define TD_OPERATOR(symbol, Name)                                                        \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return Name(a, b); } \
  inline Tensor operator symbol(const Tensor& a, Number b) { return Name(a, b); }        \
  inline Tensor operator symbol(Number a, const Tensor& b) { return Name(a, b); }
TD_OPERATOR(+, Add)
TD_OPERATOR(-, Sub)
TD_OPERATOR(*, Mul)
TD_OPERATOR(/, Div)
#undef TD_OPERATOR
inline Tensor operator-(const Tensor& x) { return Neg(x); }

inline Tensor MatMul(const Tensor& a, const Tensor& b) {
  return Lift([](const Expr& x, const Expr& y) { return MatMul(x, y); }, a, b);
}
inline Tensor Cast(const Tensor& x, DType dtype) {
  return Lift([dtype](const Expr& e) { return Cast(e, dtype); }, x);
}
inline Tensor Reshape(const Tensor& x, absl::Span<const int64_t> dims) {
  return LiftView([dims](const Expr& e) { return Reshape(e, dims); }, x);
}
inline Tensor Transpose(const Tensor& x, int64_t axis0, int64_t axis1) {
  return LiftView([=](const Expr& e) { return Transpose(e, axis0, axis1); }, x);
}
inline Tensor SliceAxis(const Tensor& x, int64_t axis, const Slice& slice) {
  return LiftView([&](const Expr& e) { return SliceAxis(e, axis, slice); }, x);
}
inline Tensor Sum(const Tensor& x, const Axes& axes = {}, Keep keep = kDropDims) {
  return Lift([&](const Expr& e) { return Sum(e, axes, keep); }, x);
}
inline Tensor Mean(const Tensor& x, const Axes& axes = {}, Keep keep = kDropDims) {
  return Lift([&](const Expr& e) { return Mean(e, axes, keep); }, x);
}
inline Tensor Max(const Tensor& x, const Axes& axes = {}, Keep keep = kDropDims) {
  return Lift([&](const Expr& e) { return Max(e, axes, keep); }, x);
}
inline Tensor Softmax(const Tensor& x, int64_t axis) {
  return Lift([axis](const Expr& e) { return Softmax(e, axis); }, x);
}

}  // namespace tensord
