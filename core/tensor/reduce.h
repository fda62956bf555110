// Reductions, and what is made of them.
//
//   Expr m = Mean(x, {0, 2, 3}, kKeepDims);  // [1, c, 1, 1]
#pragma once

#include <absl/container/inlined_vector.h>

#include <initializer_list>

#include "core/tensor/expr.h"

namespace tensord {

// Which axes an operation runs over: all when none is given.
class Axes {
 public:
  Axes() = default;
  Axes(int64_t axis) : all_(false), axes_({axis}) {}  // NOLINT: reads as an argument
  Axes(std::initializer_list<int64_t> axes) : all_(false), axes_(axes) {}
  explicit Axes(absl::Span<const int64_t> axes) : all_(false), axes_(axes.begin(), axes.end()) {}

  bool all() const { return all_; }
  absl::Span<const int64_t> list() const { return axes_; }

 private:
  bool all_ = true;
  absl::InlinedVector<int64_t, 6> axes_;
};

enum Keep { kDropDims, kKeepDims };  // whether reduced axes stay, with size 1

// Sums of bool and narrow integers are int32 or uint32; floats below float32 are accumulated in
// float32 and come back.
Expr Sum(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);
Expr Prod(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);
// A NaN gives NaN; tied extremes share the gradient; no elements are an error.
Expr Max(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);
Expr Min(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);
Expr Any(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);
Expr All(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);

// Integers give float32.
Expr Mean(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);
// Divides by max(n - correction, 0).
Expr Var(const Expr& x, const Axes& axes = {}, double correction = 1, Keep keep = kDropDims);
Expr Std(const Expr& x, const Axes& axes = {}, double correction = 1, Keep keep = kDropDims);
struct Moments {
  Expr mean, var;
};
Moments VarMean(const Expr& x, const Axes& axes = {}, double correction = 1, Keep keep = kDropDims);

// int32 indices of the first extreme; NaN counts as the extreme.
Expr ArgMax(const Expr& x, int64_t axis, Keep keep = kDropDims);
Expr ArgMin(const Expr& x, int64_t axis, Keep keep = kDropDims);

Expr LogSumExp(const Expr& x, const Axes& axes = {}, Keep keep = kDropDims);
Expr Softmax(const Expr& x, int64_t axis);
Expr LogSoftmax(const Expr& x, int64_t axis);

}  // namespace tensord
