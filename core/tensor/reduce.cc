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
#include "core/tensor/sort_key.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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
    return BroadcastTo(Expr(&x.graph(), x.graph().Int(x.dtype(), identity.i)), kept);
  }
  return ints.size() == 1 ? x : Apply(Op::kReduce, {x}, ints);
}

bool NoneOver(const Expr& x, Shape axes) {
  return std::any_of(axes.begin(), axes.end(), [&](int64_t axis) { return x.shape()[axis] == 0; });
}

// How many elements are reduced to one.
Expr CountOver(const Expr& x, Shape axes, DType dtype) {
  Dims sizes;
  for (int64_t axis : axes) sizes.push_back(x.shape()[axis]);
  const absl::StatusOr<int64_t> count = SizeProduct(sizes);
  if (!count.ok()) return Expr(&x.graph(), count.status());
  if (Varies(*count)) return SizeValue(x.graph(), *count, dtype);
  return Constant(x.graph(), static_cast<double>(*count), dtype);
}

Expr Reduce(std::string_view name, ReduceKind kind, const Expr& x, const Axes& axes, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve(name, x, axes, over)) return *error;
  const bool extreme = kind == ReduceKind::kMax || kind == ReduceKind::kMin;
  if (extreme && x.dtype() != DType::kBool && NoneOver(x, over)) {
    return Fail(x, "{}: shape {} has no elements over axes {}", name, ShapeText(x.shape()),
                ShapeText(over));
  }
  const Expr reduced = ReduceOver(kind, x, over);
  return keep == kKeepDims ? reduced : Drop(reduced, over);
}

// In float32 or wider, axes kept.
Moments MomentsOver(const Expr& x, Shape over, double correction) {
  const Expr f = Cast(x, ComputeDType(x.dtype()));
  const Expr n = CountOver(x, over, f.dtype());
  const Expr mean = ReduceOver(ReduceKind::kAdd, f, over) / n;
  const Expr centred = f - mean;
  const Expr squares = ReduceOver(ReduceKind::kAdd, centred * centred, over);
  const Expr divisor = n - correction;
  const bool is_number = n.ok() && n.node()->IsConst();
  if (!is_number) return {mean, squares / Maximum(divisor, 0.0)};
  const double count = n.node()->Float(), rest = count - correction;
  if (rest > 0 || count == 0) return {mean, squares / std::max(rest, 0.0)};
  // More is taken off than there are elements. The derivative of the quotient by 0 would be NaN all
  // over; as in PyTorch it is infinite, and NaN at the mean.
  const Expr slope = Where(Eq(f, BroadcastTo(mean, f.shape())), kNan, FullLike(f, kInf));
  const Expr steep = ReduceOver(ReduceKind::kAdd, WithSlope(FullLike(f, 0), f, slope), over);
  return {mean, Detach(squares / 0.0) + steep};
}

// x minus its maximum along `axis`; the maximum only keeps exp in range, so it has no gradient.
Expr Shifted(const Expr& x, int64_t axis) {
  const Expr largest = ReduceOver(ReduceKind::kMax, x, {axis});
  return x - Detach(largest);
}

Expr ArgExtreme(std::string_view name, ReduceKind kind, const Expr& x, int64_t axis, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve(name, x, Axes(axis), over)) return *error;
  if (NoneOver(x, over)) {
    return Fail(x, "{}: axis {} of {} has no elements", name, axis, ShapeText(x.shape()));
  }
  if (over.empty()) return Constant(x.graph(), 0, DType::kInt32);
  const Expr position = IndexAlong(x, over[0]);
  const bool is_max = kind == ReduceKind::kMax;
  Expr first = position;
  if (BitSize(x.dtype()) < 64) {
    // One reduction of pairs: the value above the position, which counts back for a maximum.
    const Expr key = NarrowSortKey(x, is_max ? IntMax(DType::kInt32) : IntMin(DType::kInt32));
    const Expr low = Cast(is_max ? BitwiseNot(position) : position, DType::kUint32);
    const Expr pair = BitwiseOr(ShiftLeft(Cast(key, DType::kInt64), 32), Cast(low, DType::kInt64));
    const Expr best = Cast(ReduceOver(kind, pair, over), DType::kInt32);
    first = is_max ? BitwiseNot(best) : best;
  } else {
    const Expr extreme = ReduceOver(kind, x, over);
    Expr here = Eq(x, extreme);
    if (IsFloat(x.dtype())) here = LogicalOr(here, IsNan(x));  // then the extreme is NaN as well
    const Expr index = Where(here, position, std::numeric_limits<int32_t>::max());
    first = ReduceOver(ReduceKind::kMin, index, over);
  }
  return keep == kKeepDims ? first : Drop(first, over);
}

}  // namespace

Expr Sum(const Expr& x, const Axes& axes, Keep keep) {
  if (!x.ok()) return x;
  const Expr sum = Reduce("sum", ReduceKind::kAdd, Cast(x, SumAccumulator(x.dtype())), axes, keep);
  return IsFloat(x.dtype()) ? Cast(sum, Strong(x.dtype())) : sum;
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
  return InFloat32(x, [&](const Expr& f) {
    const Expr mean = ReduceOver(ReduceKind::kAdd, f, over) / CountOver(f, over, f.dtype());
    return keep == kKeepDims ? mean : Drop(mean, over);
  });
}

Moments VarMean(const Expr& x, const Axes& axes, double correction, Keep keep) {
  Dims over;
  if (std::optional<Expr> error = Resolve("var", x, axes, over)) return {*error, *error};
  const Moments moments = MomentsOver(x, over, correction);
  const auto finish = [&](const Expr& value) {
    const Expr result = Cast(value, LeastUpperFloat(x.dtype()));
    return keep == kKeepDims ? result : Drop(result, over);
  };
  return {finish(moments.mean), finish(moments.var)};
}

Expr Var(const Expr& x, const Axes& axes, double correction, Keep keep) {
  return VarMean(x, axes, correction, keep).var;
}
Expr Std(const Expr& x, const Axes& axes, double correction, Keep keep) {
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
  if (NoneOver(x, over)) return Cast(x, LeastUpperFloat(x.dtype()));
  return InFloat32(x, [&](const Expr& f) {
    if (over.empty()) return FullLike(f, 1);
    const Expr e = Exp(Shifted(f, over[0]));
    return e / ReduceOver(ReduceKind::kAdd, e, over);
  });
}

Expr LogSoftmax(const Expr& x, int64_t axis) {
  Dims over;
  if (std::optional<Expr> error = Resolve("log_softmax", x, Axes(axis), over)) return *error;
  if (NoneOver(x, over)) return Cast(x, LeastUpperFloat(x.dtype()));
  return InFloat32(x, [&](const Expr& f) {
    if (over.empty()) return FullLike(f, 0);
    const Expr shifted = Shifted(f, over[0]);
    return shifted - Log(ReduceOver(ReduceKind::kAdd, Exp(shifted), over));
  });
}

}  // namespace tensord
