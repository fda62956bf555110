#include <absl/container/inlined_vector.h>

#include <algorithm>

#include "core/rewrite/letters.h"
#include "core/rules/rules.h"

namespace tensord {
namespace {

using namespace letters;

using Ints = absl::InlinedVector<int64_t, 8>;

const Node* Make(const Match& match, Op op, const Node* src, absl::Span<const int64_t> ints) {
  return match.graph().Make(op, {&src, 1}, ints);
}

bool KeepsShape(const Match& match) { return SameShape(match.root(), match[x]); }

// The same op, straight from the inner source to the outer shape.
const Node* OuterShape(const Match& match) {
  return Make(match, match.root()->op, match[x], match.root()->shape);
}

bool PermutesNothing(const Match& match) { return std::ranges::is_sorted(match.root()->ints); }

const Node* MergePermutes(const Match& match) {
  const absl::Span<const int64_t> outer = match.root()->ints, inner = match.root()->src[0]->ints;
  Ints axes;
  for (const int64_t axis : outer) axes.push_back(inner[axis]);
  return Make(match, Op::kPermute, match[x], axes);
}

// Axes of size 1 may go anywhere: if the others keep their order, the elements do.
const Node* PermuteToReshape(const Match& match) {
  if (match[x]->has_dims()) return nullptr;
  int64_t last = -1;
  for (const int64_t axis : match.root()->ints) {
    if (match[x]->shape[axis] == 1) continue;
    if (axis < last) return nullptr;
    last = axis;
  }
  return Make(match, Op::kReshape, match[x], match.root()->shape);
}

bool PadsNothing(const Match& match) {
  return std::ranges::all_of(match.root()->ints, [](int64_t n) { return n == 0; });
}

const Node* MergePads(const Match& match) {
  const absl::Span<const int64_t> outer = match.root()->ints, inner = match.root()->src[0]->ints;
  Ints pairs;
  for (size_t s = 0; s < outer.size(); ++s) pairs.push_back(outer[s] + inner[s]);
  return Make(match, Op::kPad, match[x], pairs);
}

const Node* MergeShrinks(const Match& match) {
  const absl::Span<const int64_t> outer = match.root()->ints, inner = match.root()->src[0]->ints;
  Ints pairs;
  for (size_t s = 0; s < outer.size(); ++s) pairs.push_back(outer[s] + inner[s & ~size_t{1}]);
  return Make(match, Op::kShrink, match[x], pairs);
}

// Cuts first and pads less. Not where only padding is left of an axis.
const Node* ShrinkOfPad(const Match& match) {
  const absl::Span<const int64_t> cut = match.root()->ints, pad = match.root()->src[0]->ints;
  Ints new_cut, new_pad;
  for (size_t axis = 0; axis < match[x]->shape.size(); ++axis) {
    const int64_t size = match[x]->shape[axis], before = pad[2 * axis];
    const int64_t begin = cut[2 * axis] - before, end = cut[2 * axis + 1] - before;
    const int64_t from = std::max<int64_t>(begin, 0), to = std::min(end, size);
    if (from >= to) return nullptr;
    new_cut.insert(new_cut.end(), {from, to});
    new_pad.insert(new_pad.end(), {from - begin, end - to});
  }
  return Make(match, Op::kPad, Make(match, Op::kShrink, match[x], new_cut), new_pad);
}

// Leaves out axes of size 1.
const Node* FlipLess(const Match& match) {
  Ints axes;
  for (const int64_t axis : match.root()->ints) {
    if (!match[x]->dim(axis).IsOne()) axes.push_back(axis);
  }
  return axes.empty() ? match[x] : Make(match, Op::kFlip, match[x], axes);
}

const Node* MergeFlips(const Match& match) {
  const absl::Span<const int64_t> outer = match.root()->ints, inner = match.root()->src[0]->ints;
  Ints axes;
  std::ranges::set_symmetric_difference(outer, inner, std::back_inserter(axes));
  return axes.empty() ? match[x] : Make(match, Op::kFlip, match[x], axes);
}

// With one tap and stride 1 a slide only cuts the axis, and its adjoint pads it.
const Node* SlideToShrink(const Match& match) {
  const absl::Span<const int64_t> ints = match.root()->ints;
  if (match[x]->shape[ints[1]] != 1 || ints[2] != 1 || match[x]->has_dims()) return nullptr;
  Ints pairs;
  for (const int64_t dim : match[x]->shape) pairs.insert(pairs.end(), {0, dim});
  pairs[2 * ints[0] + 1] = ints[4];
  return Make(match, Op::kShrink, match[x], pairs);
}
const Node* UnslideToPad(const Match& match) {
  const absl::Span<const int64_t> ints = match.root()->ints;
  if (match[x]->shape[ints[1]] != 1 || ints[2] != 1) return nullptr;
  Ints pairs(2 * match[x]->shape.size(), 0);
  pairs[2 * ints[0] + 1] = ints[4] - match[x]->shape[ints[0]];
  return Make(match, Op::kPad, match[x], pairs);
}

// Reductions that no order of rounding can change.
const Node* MergeReduces(const Match& match) {
  const Node *outer = match.root(), *inner = match.root()->src[0];
  const ReduceKind kind = outer->reduce_kind();
  const bool rounds =
      IsFloat(outer->dtype) && (kind == ReduceKind::kAdd || kind == ReduceKind::kMul);
  if (kind != inner->reduce_kind() || rounds) return nullptr;
  Ints ints = {static_cast<int64_t>(kind)};
  std::ranges::set_union(outer->reduce_axes(), inner->reduce_axes(), std::back_inserter(ints));
  return Make(match, Op::kReduce, match[x], ints);
}

}  // namespace

const RuleSet& MovementRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      // name                    from                         to                       when
      {"reshape-to-same",        Reshape(x),                  x,                       KeepsShape},
      {"reshape-reshape",        Reshape(Reshape(x)),         Call(OuterShape)},
      {"expand-to-same",         Expand(x),                   x,                       KeepsShape},
      {"expand-expand",          Expand(Expand(x)),           Call(OuterShape)},
      {"permute-nothing",        Permute(x),                  x,                       PermutesNothing},
      {"permute-permute",        Permute(Permute(x)),         Call(MergePermutes)},
      {"permute-ones",           Permute(x),                  Call(PermuteToReshape)},
      {"pad-nothing",            Pad(x),                      x,                       PadsNothing},
      {"pad-pad",                Pad(Pad(x)),                 Call(MergePads)},
      {"shrink-nothing",         Shrink(x),                   x,                       KeepsShape},
      {"shrink-shrink",          Shrink(Shrink(x)),           Call(MergeShrinks)},
      {"shrink-pad",             Shrink(Pad(x)),              Call(ShrinkOfPad)},
      {"flip-flip",              Flip(Flip(x)),               Call(MergeFlips)},
      {"flip-less",              Flip(x),                     Call(FlipLess)},
      {"slide-one-tap",          Slide(x),                    Call(SlideToShrink)},
      {"unslide-one-tap",        Unslide(x),                  Call(UnslideToPad)},
      {"reduce-one-element",     Reduce(x),                   x,                       KeepsShape},     // by any kind
      {"reduce-reduce",          Reduce(Reduce(x)),           Call(MergeReduces)},
      // clang-format on
  };
  return rules;
}

const RuleSet& LowerTensorRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      {"detach",                 Detach(x),                   x},
      {"with-slope",             WithSlope(x, y, z),          x},
      {"contiguous-contiguous",  Contiguous(Contiguous(x)),   Contiguous(x)},
      // clang-format on
  };
  return rules;
}

}  // namespace tensord
