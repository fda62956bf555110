#include "core/rewrite/constant.h"

#include <absl/container/inlined_vector.h>

#include "core/rewrite/letters.h"
#include "core/rules/rules.h"

namespace tensord {
namespace {

using namespace letters;

const Node* Replace(const Match& match, const Scalar& value) {
  return MakeConstantLike(match.graph(), value, match.root());
}

const Node* EvaluateConstants(const Match& match) {
  const Node* root = match.root();
  absl::InlinedVector<Scalar, 3> values;
  for (const Node* src : root->src) {
    const std::optional<Scalar> value = ConstantOf(src);
    if (!value) return nullptr;
    values.push_back(*value);
  }
  const std::optional<Scalar> result = EvalOp(root->op, root->dtype, values);
  return result ? Replace(match, *result) : nullptr;
}

// Everything that only moves elements of a constant is that constant.
const Node* MoveConstant(const Match& match) { return Replace(match, match.Value(c0)); }

// Padding and the gaps of Unslide are +0.
const Node* PadConstant(const Match& match) {
  const Scalar value = match.Value(c0);
  return value == Scalar::Of(value.dtype, 0) ? Replace(match, value) : nullptr;
}

// The bounds leave one value.
const Node* OnlyValue(const Match& match) {
  const Node* root = match.root();
  const bool bounded = IsInt(root->dtype) || root->dtype == DType::kBool;
  if (!bounded || root->dtype == DType::kUint64 || root->lo != root->hi) return nullptr;
  return Replace(match, Scalar::Int(root->dtype, root->lo));
}

// What bounds say about a comparison; they are not kept for floats and uint64.
const Node* CompareBounds(const Match& match) {
  const Node *a = match[x], *b = match[y];
  const bool bounded = IsInt(a->dtype) || a->dtype == DType::kIndex;
  if (!bounded || a->dtype == DType::kUint64) return nullptr;
  const auto decide = [&](bool value) { return Replace(match, Scalar::Int(DType::kBool, value)); };
  if (match.root()->op == Op::kCmpLt) {
    if (a->hi < b->lo) return decide(true);
    if (a->lo >= b->hi) return decide(false);
    return nullptr;
  }
  if (a->hi < b->lo || b->hi < a->lo) return decide(match.root()->op == Op::kCmpNe);
  return nullptr;
}

// Nothing to compute, and nothing to launch a kernel for.
const Node* EmptyTensor(const Match& match) {
  const Node* root = match.root();
  if (NumElements(root->shape) != 0) return nullptr;
  return Replace(match, Scalar::Of(root->dtype, 0));
}

const Node* ReduceNothing(const Match& match) {
  const Node* root = match.root();
  if (NumElements(root->src[0]->shape) != 0 || NumElements(root->shape) == 0) return nullptr;
  return Replace(match, ReduceIdentity(root->reduce_kind(), root->dtype));
}

// Sums and products only where no order of rounding could matter.
const Node* ReduceConstant(const Match& match) {
  const Node* root = match.root();
  const int64_t elements = NumElements(root->src[0]->shape);
  // A reduced axis that varies may have no elements, or fewer than in memory.
  for (const int64_t axis : root->reduce_axes()) {
    if (root->src[0]->dim(axis).node != nullptr) return nullptr;
  }
  if (elements == 0) return nullptr;
  const Scalar value = match.Value(c0);
  const int64_t count = elements / NumElements(root->shape);
  const bool is_zero = value == Scalar::Of(value.dtype, 0);
  switch (root->reduce_kind()) {
    case ReduceKind::kMax:
    case ReduceKind::kMin:
      return Replace(match, value);
    case ReduceKind::kMul:
      if (is_zero || value == Scalar::Of(value.dtype, 1)) return Replace(match, value);
      return nullptr;
    case ReduceKind::kAdd:
      break;
  }
  if (is_zero || value.dtype == DType::kBool) return Replace(match, value);
  if (IsFloat(value.dtype)) return nullptr;
  const Scalar product[] = {value, Scalar::Int(value.dtype, count)};
  return Replace(match, *EvalOp(Op::kMul, value.dtype, product));
}

bool ConstantIsLeft(const Match& match) {
  return match.root()->src[0] == match[c0] && !ConstantOf(match[x]);
}

const Node* SwapSources(const Match& match) {
  return match.graph().Make(match.root()->op, {match[x], match[c0]});
}

constexpr OpSet kMoving = OpBit(Op::kReshape) | OpBit(Op::kExpand) | OpBit(Op::kPermute) |
                             OpBit(Op::kShrink) | OpBit(Op::kFlip) | OpBit(Op::kSlide);
constexpr OpSet kFilling = OpBit(Op::kPad) | OpBit(Op::kUnslide);
constexpr OpSet kCompare = OpBit(Op::kCmpLt) | OpBit(Op::kCmpEq) | OpBit(Op::kCmpNe);

// Tensor ops that a constant can stand for.
OpSet Computing() {
  return ElementwiseOps() | MovementOps() | OpBit(Op::kIota) | OpBit(Op::kReduce) |
         OpBit(Op::kGather);
}

}  // namespace

const RuleSet& ConstantRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      // name                    from                              to                   when
      {"constants-unary",        OneOf(UnaryOps(), {c0}),          Call(EvaluateConstants)},
      {"constants-binary",       OneOf(BinaryOps(), {c0, c1}),     Call(EvaluateConstants)},
      {"constants-ternary",      OneOf(OpBit(Op::kWhere), {c0, c1, c2}), Call(EvaluateConstants)},
      {"constant-to-the-right",  OneOf(CommutativeOps(), {c0, x}), Call(SwapSources),   ConstantIsLeft},
      {"move-constant",          OneOf(kMoving, {c0}),             Call(MoveConstant)},
      {"pad-constant",           OneOf(kFilling, {c0}),            Call(PadConstant)},
      {"reduce-constant",        Reduce(c0),                       Call(ReduceConstant)},
      {"reduce-nothing",         Reduce(x),                        Call(ReduceNothing)},
      {"compare-bounds",         OneOf(kCompare, {x, y}),          Call(CompareBounds)},
      {"only-value",             OneOf(Computing() & ~kMoving),    Call(OnlyValue)},
      {"empty",                  OneOf(Computing()),               Call(EmptyTensor)},
      // clang-format on
  };
  return rules;
}

}  // namespace tensord
