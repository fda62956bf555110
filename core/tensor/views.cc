#include "core/tensor/views.h"

#include "core/tensor/build.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// Whether x repeats one element along the axis.
bool Repeats(const Expr& x, int64_t axis) {
  return x.node()->op == Op::kExpand && x.node()->src[0]->dim(axis).IsOne() && x.shape()[axis] != 1;
}

Expr Inner(const Expr& x) { return Expr(&x.graph(), x.node()->src[0]); }

Dims With(Shape shape, int64_t axis, int64_t size) {
  Dims dims(shape.begin(), shape.end());
  dims[axis] = size;
  return dims;
}

// The shape below an Expand from `inner` to `outer` that makes `target` of it, if a reshape never
// joins repeated axes with others.
std::optional<Dims> ReshapeBelow(Shape inner, Shape outer, Shape target) {
  if (AnyVaries(outer) || AnyVaries(target) || NumElements(outer) == 0) return std::nullopt;
  Dims result(target.size(), 1);
  size_t i = 0, j = 0;
  while (true) {
    while (i < outer.size() && outer[i] == 1) ++i;
    while (j < target.size() && target[j] == 1) ++j;
    if (i == outer.size()) return result;
    // The smallest run of axes on both sides with one number of elements.
    const size_t first_i = i, first_j = j;
    int64_t from = outer[i++], to = target[j++];
    while (from != to) {
      if (from < to) {
        from *= outer[i++];
      } else {
        to *= target[j++];
      }
    }
    bool whole = true, repeated = true;
    for (size_t k = first_i; k < i; ++k) {
      whole &= inner[k] == outer[k];
      repeated &= inner[k] == 1;
    }
    if (!whole && !repeated) return std::nullopt;
    for (size_t k = first_j; whole && k < j; ++k) result[k] = target[k];
  }
}

Expr MoveFactor(Op op, absl::Span<const int64_t> ints, const Expr& x);

Expr BelowExpand(Op op, absl::Span<const int64_t> ints, const Expr& x) {
  const Expr inner = Inner(x);
  switch (op) {
    case Op::kPermute: {
      Dims dims;
      for (int64_t axis : ints) dims.push_back(x.shape()[axis]);
      return BroadcastTo(MoveFactor(op, ints, inner), dims);
    }
    case Op::kReshape:
      if (auto dims = ReshapeBelow(inner.shape(), x.shape(), ints)) {
        return BroadcastTo(Reshape(inner, *dims), ints);
      }
      break;
    case Op::kShrink: {
      if (AnyVaries(ints)) break;
      Dims pairs, dims;
      for (int64_t i = 0; i < x.rank(); ++i) {
        const int64_t begin = ints[2 * i], end = ints[2 * i + 1];
        dims.push_back(end - begin);
        pairs.push_back(Repeats(x, i) ? 0 : begin);
        pairs.push_back(Repeats(x, i) ? 1 : end);
      }
      return BroadcastTo(Apply(op, {inner}, pairs), dims);
    }
    case Op::kSlide:
    case Op::kUnslide: {
      const int64_t axis = ints[0], along = ints[1], size = ints[4];
      if (Repeats(x, axis)) {
        // Every window is the same; but Unslide has to put zeros between them.
        if (op == Op::kSlide) return BroadcastTo(inner, With(x.shape(), axis, size));
        break;
      }
      const Expr taps = BroadcastTo(inner, With(inner.shape(), along, x.shape()[along]));
      return BroadcastTo(Apply(op, {taps}, ints), With(x.shape(), axis, size));
    }
    default:
      break;
  }
  return op == Op::kReshape ? Reshape(x, ints) : Apply(op, {x}, ints);
}

// A product is zero where one factor is, so one factor gets the zeros of Unslide and the other may
// go on repeating.
Expr UnslideProduct(absl::Span<const int64_t> ints, const Expr& a, const Expr& b) {
  const int64_t axis = ints[0], size = ints[4];
  const auto longer = [&](const Expr& x) {
    return BroadcastTo(Inner(x), With(x.shape(), axis, size));
  };
  if (Repeats(b, axis)) return Mul(MoveFactor(Op::kUnslide, ints, a), longer(b));
  if (Repeats(a, axis)) return Mul(longer(a), MoveFactor(Op::kUnslide, ints, b));
  return Mul(MoveFactor(Op::kUnslide, ints, a), MoveFactor(Op::kUnslide, ints, b));
}

// One factor, which may itself be a product: going on below it could visit a node many times.
Expr MoveFactor(Op op, absl::Span<const int64_t> ints, const Expr& x) {
  if (x.ok() && x.node()->op == Op::kExpand) return BelowExpand(op, ints, x);
  if (op == Op::kReshape) return Reshape(x, ints);
  if (op == Op::kPermute) return Permute(x, ints);
  return Apply(op, {x}, ints);
}

}  // namespace

Expr MoveBelow(Op op, absl::Span<const int64_t> ints, const Expr& x) {
  if (!x.ok() || x.node()->op != Op::kMul) return MoveFactor(op, ints, x);
  const Expr a(&x.graph(), x.node()->src[0]), b(&x.graph(), x.node()->src[1]);
  if (op == Op::kUnslide) return UnslideProduct(ints, a, b);
  return Mul(MoveFactor(op, ints, a), MoveFactor(op, ints, b));
}

}  // namespace tensord
