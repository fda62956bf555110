#include "core/tensor/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/ir/eval.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The axes in ascending order, or the error in `x`. A tensor without axes takes 0 and -1 as well.
std::optional<Expr> Resolve(std::string_view name, const Expr& x, const Axes& axes, Dims& result) {
  if (!x.ok()) return x;
  if (axes.all()) {
    for (int64_t i = 0; i < x.rank(); ++i) result.push_back(i);
    return std::nullopt;
  }
  for (int64_t axis : axes.list()) {
    if (x.rank() == 0 && (axis == 0 || axis == -1)) continue;
    const std::optional<int64_t> at = ResolveAxis(axis, x.rank());
    if (!at) return AxisError(name, x, axis);
    result.push_back(*at);
  }
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) {
    return Fail(x, "{}: an axis occurs twice in {}", name, ShapeText(axes.list()));
  }
  return std::nullopt;
}

Expr Drop(const Expr& x, Shape axes) {
  if (!x.ok()) return x;
  Dims dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) dims.push_back(x.shape()[i]);
  }
  return Reshape(x, dims);
}

// `axes` ascending; reduced axes stay.
Expr ReduceOver(ReduceKind kind, const Expr& x, Shape axes) {
  Dims ints = {static_cast<int64_t>(kind)};
  Dims kept(x.shape().begin(), x.shape().end());
  bool empty = false;
  for (int64_t axis : axes) {
    if (kept[axis] != 1) ints.push_back(axis);
    empty |= kept[axis] == 0;
    kept[axis] = 1;
  }
  if (empty) {
    const Scalar identity = ReduceIdentity(kind, x.dtype());
    if (IsFloat(x.dtype())) return Full(x.graph(), kept, identity.f, x.dtype());
    return Full(x.graph(), kept, identity.i, x.dtype());
  }
  return ints.size() == 1 ? x : Apply(Op::kReduce, {x}, ints);
}

int64_t CountOver(const Expr& x, Shape axes) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= x.shape()[axis];
  return count;
}

Expr Reduce(std::string_view name, ReduceKind kind, const Expr& x, const Axes& axes, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve(name, x, axes, over)) return *error;
  const bool extreme = kind == ReduceKind::kMax || kind == ReduceKind::kMin;
  if (extreme && x.dtype() != DType::kBool && CountOver(x, over) == 0) {
    return Fail(x, "{}: shape {} has no elements over axes {}", name, ShapeText(x.shape()),
                ShapeText(over));
  }
  const Expr reduced = ReduceOver(kind, x, over);
  return keep == kKeepDims ? reduced : Drop(reduced, over);
}

// In float32 or wider, axes kept.
Moments MomentsOver(const Expr& x, Shape over, int64_t correction) {
  const double n = static_cast<double>(CountOver(x, over));
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Expr mean = ReduceOver(ReduceKind::kAdd, f, over) / n;
  const Expr centred = f - mean;
  const Expr squares = ReduceOver(ReduceKind::kAdd, centred * centred, over);
  return {mean, squares / std::max(n - static_cast<double>(correction), 0.0)};
}

// x minus its maximum along `axis`; the maximum only keeps exp in range, so it has no gradient.
Expr Shifted(const Expr& x, int64_t axis) {
  const Expr largest = ReduceOver(ReduceKind::kMax, x, {axis});
  return x - Detach(largest);
}

Expr ArgExtreme(std::string_view name, ReduceKind kind, const Expr& x, int64_t axis, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve(name, x, Axes(axis), over)) return *error;
  if (CountOver(x, over) == 0) {
    return Fail(x, "{}: axis {} of {} has no elements", name, axis, ShapeText(x.shape()));
  }
  if (over.empty()) return Constant(x.graph(), 0, DType::kInt32);
  const Expr extreme = ReduceOver(kind, x, over);
  Expr here = Eq(x, extreme);
  if (IsFloat(x.dtype())) here = LogicalOr(here, IsNan(x));  // then the extreme is NaN as well
  const Expr index = Where(here, IndexAlong(x, over[0]), std::numeric_limits<int32_t>::max());
  const Expr first = ReduceOver(ReduceKind::kMin, index, over);
  return keep == kKeepDims ? first : Drop(first, over);
}

Expr Cumulate(std::string_view name, ReduceKind kind, const Expr& x, int64_t axis,
              Number identity) {
  Dims over;
  if (std::optional<Expr> error = Resolve(name, x, Axes(axis), over)) return *error;
  if (over.empty() || x.shape()[over[0]] <= 1) return x;
  const int64_t at = over[0], size = x.shape()[at];
  std::vector<PadAmount> amounts(x.rank());
  amounts[at].before = size - 1;
  const Expr windows = Windows(Pad(x, amounts, identity), at, {.taps = size});
  if (!windows.ok()) return windows;
  return Drop(ReduceOver(kind, windows, {at + 1}), {at + 1});
}

}  // namespace

Expr Sum(const Expr& x, const Axes& axes, Keep keep) {
  if (!x.ok()) return x;
  const Expr sum = Reduce("sum", ReduceKind::kAdd, Cast(x, SumAccumulator(x.dtype())), axes, keep);
  return IsFloat(x.dtype()) ? Cast(sum, x.dtype()) : sum;
}

Expr Prod(const Expr& x, const Axes& axes, Keep keep) {
  if (!x.ok()) return x;
  const DType dtype = IsFloat(x.dtype()) ? ComputeDType(x.dtype()) : x.dtype();
  return Cast(Reduce("prod", ReduceKind::kMul, Cast(x, dtype), axes, keep), x.dtype());
}

Expr Max(const Expr& x, const Axes& axes, Keep keep) {
  return Reduce("max", ReduceKind::kMax, x, axes, keep);
}
Expr Min(const Expr& x, const Axes& axes, Keep keep) {
  return Reduce("min", ReduceKind::kMin, x, axes, keep);
}
Expr Any(const Expr& x, const Axes& axes, Keep keep) {
  return Reduce("any", ReduceKind::kMax, AsBool(x), axes, keep);
}
Expr All(const Expr& x, const Axes& axes, Keep keep) {
  return Reduce("all", ReduceKind::kMin, AsBool(x), axes, keep);
}

Expr Mean(const Expr& x, const Axes& axes, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve("mean", x, axes, over)) return *error;
  const double n = static_cast<double>(CountOver(x, over));
  return InFloat32(x, [&](const Expr& f) {
    const Expr mean = ReduceOver(ReduceKind::kAdd, f, over) / n;
    return keep == kKeepDims ? mean : Drop(mean, over);
  });
}

Moments VarMean(const Expr& x, const Axes& axes, int64_t correction, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve("var", x, axes, over)) return {*error, *error};
  const Moments moments = MomentsOver(x, over, correction);
  const auto finish = [&](const Expr& value) {
    const Expr result = Cast(value, LeastUpperFloat(x.dtype()));
    return keep == kKeepDims ? result : Drop(result, over);
  };
  return {finish(moments.mean), finish(moments.var)};
}

Expr Var(const Expr& x, const Axes& axes, int64_t correction, Keep keep) {
  return VarMean(x, axes, correction, keep).var;
}
Expr Std(const Expr& x, const Axes& axes, int64_t correction, Keep keep) {
  return Sqrt(Var(x, axes, correction, keep));
}

Expr ArgMax(const Expr& x, int64_t axis, Keep keep) {
  return ArgExtreme("argmax", ReduceKind::kMax, x, axis, keep);
}
Expr ArgMin(const Expr& x, int64_t axis, Keep keep) {
  return ArgExtreme("argmin", ReduceKind::kMin, x, axis, keep);
}

Expr LogSumExp(const Expr& x, const Axes& axes, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve("logsumexp", x, axes, over)) return *error;
  if (CountOver(x, over) == 0) {
    return Fail(x, "logsumexp: shape {} has no elements over axes {}", ShapeText(x.shape()),
                ShapeText(over));
  }
  return InFloat32(x, [&](const Expr& f) {
    const Expr largest = Detach(ReduceOver(ReduceKind::kMax, f, over));
    // An infinite maximum would make inf - inf.
    const Expr shift = Where(IsFinite(largest), largest, 0);
    const Expr sum = Log(ReduceOver(ReduceKind::kAdd, Exp(f - shift), over)) + shift;
    return keep == kKeepDims ? sum : Drop(sum, over);
  });
}

Expr Softmax(const Expr& x, int64_t axis) {
  Dims over;
  if (std::optional<Expr> error = Resolve("softmax", x, Axes(axis), over)) return *error;
  if (CountOver(x, over) == 0) return Cast(x, LeastUpperFloat(x.dtype()));
  return InFloat32(x, [&](const Expr& f) {
    if (over.empty()) return FullLike(f, 1);
    const Expr e = Exp(Shifted(f, over[0]));
    return e / ReduceOver(ReduceKind::kAdd, e, over);
  });
}

Expr LogSoftmax(const Expr& x, int64_t axis) {
  Dims over;
  if (std::optional<Expr> error = Resolve("log_softmax", x, Axes(axis), over)) return *error;
  if (CountOver(x, over) == 0) return Cast(x, LeastUpperFloat(x.dtype()));
  return InFloat32(x, [&](const Expr& f) {
    if (over.empty()) return FullLike(f, 0);
    const Expr shifted = Shifted(f, over[0]);
    return shifted - Log(ReduceOver(ReduceKind::kAdd, Exp(shifted), over));
  });
}

Expr CumSum(const Expr& x, int64_t axis) {
  if (!x.ok()) return x;
  const Expr sum =
      Cumulate("cumsum", ReduceKind::kAdd, Cast(x, SumAccumulator(x.dtype())), axis, 0);
  return IsFloat(x.dtype()) ? Cast(sum, x.dtype()) : sum;
}

Expr CumProd(const Expr& x, int64_t axis) {
  return Cumulate("cumprod", ReduceKind::kMul, x, axis, 1);
}

Expr CumMax(const Expr& x, int64_t axis) {
  if (!x.ok()) return x;
  const Number least = IsFloat(x.dtype()) ? Number(-kInf) : Number(IntMin(x.dtype()));
  return Cumulate("cummax", ReduceKind::kMax, x, axis, least);
}

Expr CumMin(const Expr& x, int64_t axis) {
  if (!x.ok()) return x;
  const Number most = IsFloat(x.dtype()) ? Number(kInf) : Number(IntMax(x.dtype()));
  return Cumulate("cummin", ReduceKind::kMin, x, axis, most);
}

}  // namespace tensord
