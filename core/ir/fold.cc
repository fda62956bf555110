#include "core/ir/fold.h"

#include <absl/container/inlined_vector.h>

#include "core/ir/affine.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

bool IsTrue(const Node* node) { return node->IsConst() && node->Int() == 1; }
bool IsFalse(const Node* node) { return node->IsConst() && node->Int() == 0; }

const Node* FoldConstants(Graph& graph, const NodeSpec& spec, DType dtype) {
  if (spec.src.empty() || dtype == DType::kVoid) return nullptr;
  absl::InlinedVector<Scalar, 3> values;
  for (const Node* src : spec.src) {
    if (!src->IsConst() || !src->shape.empty() || src->lanes != 1) return nullptr;
    values.push_back(Scalar::FromAttribute(src->dtype, src->ints[0]));
  }
  const std::optional<Scalar> result = EvalOp(spec.op, dtype, values);
  if (!result) return nullptr;
  return graph.Intern({.op = Op::kConst, .ints = {result->attribute()}, .dtype = dtype});
}

const Node* FoldBool(Graph& graph, Op op, const Node* a, const Node* b) {
  switch (op) {
    case Op::kAnd:
    case Op::kMul:
      if (IsFalse(a) || IsFalse(b)) return graph.Bool(false);
      if (IsTrue(a) || a == b) return b;
      if (IsTrue(b)) return a;
      return nullptr;
    case Op::kOr:
    case Op::kAdd:
      if (IsTrue(a) || IsTrue(b)) return graph.Bool(true);
      if (IsFalse(a) || a == b) return b;
      if (IsFalse(b)) return a;
      return nullptr;
    case Op::kXor:
      if (a == b) return graph.Bool(false);
      if (IsFalse(a)) return b;
      if (IsFalse(b)) return a;
      if (IsTrue(b) && a->op == Op::kXor && IsTrue(a->src[1])) return a->src[0];  // not not x
      return nullptr;
    default:
      return nullptr;
  }
}

// Comparisons of integers that their bounds decide.
const Node* FoldCompare(Graph& graph, Op op, const Node* a, const Node* b) {
  if (!IsInt(a->dtype) || a->dtype == DType::kUint64) return nullptr;
  switch (op) {
    case Op::kCmpLt:
      if (a->hi < b->lo) return graph.Bool(true);
      if (a->lo >= b->hi) return graph.Bool(false);
      return nullptr;
    case Op::kCmpEq:
    case Op::kCmpNe:
      if (a->hi < b->lo || b->hi < a->lo) return graph.Bool(op == Op::kCmpNe);
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

const Node* Fold(Graph& graph, const NodeSpec& spec, DType dtype) {
  if (!In(spec.op, ElementwiseOps())) return nullptr;
  if (const Node* folded = FoldConstants(graph, spec, dtype)) return folded;
  // What follows makes scalars: a tensor of the same value would need its shape.
  if (!spec.src[0]->shape.empty() || spec.lanes > 1) return nullptr;
  for (const Node* src : spec.src) {
    if (src->lanes > 1) return nullptr;
  }
  const Node* a = spec.src[0];
  if (spec.op == Op::kCast) {
    if (a->dtype == dtype) return a;
    // An integer that became another type and comes back as an index is the index itself.
    if (dtype == DType::kIndex && a->op == Op::kCast && a->src[0]->dtype == DType::kIndex &&
        a->lo == a->src[0]->lo && a->hi == a->src[0]->hi) {
      return a->src[0];
    }
    return nullptr;
  }
  if (spec.op == Op::kWhere) {
    if (IsTrue(a) || spec.src[1] == spec.src[2]) return spec.src[1];
    if (IsFalse(a)) return spec.src[2];
    return nullptr;
  }
  if (a->dtype == DType::kIndex) {
    return SimplifyIndexOp(graph, spec.op, a, spec.src.size() > 1 ? spec.src[1] : nullptr);
  }
  if (spec.src.size() != 2) return nullptr;
  const Node* b = spec.src[1];
  if (a->dtype == DType::kBool && dtype == DType::kBool) {
    if (const Node* folded = FoldBool(graph, spec.op, a, b)) return folded;
  }
  if (const Node* folded = FoldCompare(graph, spec.op, a, b)) return folded;
  // Constants stand on the right of a commutative op.
  if (In(spec.op, CommutativeOps()) && a->IsConst() && !b->IsConst()) {
    return graph.Make(spec.op, {b, a});
  }
  return nullptr;
}

}  // namespace tensord
