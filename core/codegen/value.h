// Val: a scalar node with operators, so that arithmetic that is built reads like arithmetic. A
// plain number beside a Val is a constant of its dtype. Internal to codegen.
//
//   Val sign = bits & 0x80;  Val y = Where(Lt(x, 0), -x, x).As(DType::kInt32);
#pragma once

#include "core/ir/graph.h"

namespace tensord {

class Val {
 public:
  Val(Graph& graph, const Node* node) : graph_(&graph), node_(node) {}

  const Node* node() const { return node_; }
  DType dtype() const { return node_->dtype; }
  Val As(DType dtype) const { return {*graph_, graph_->Cast(node_, dtype)}; }
  Val Bits(DType dtype) const {
    return {*graph_, graph_->Make({.op = Op::kBitcast, .src = {node_}, .dtype = dtype})};
  }
  // Constants of the same dtype.
  Val Of(int64_t value) const {
    return {*graph_, IsFloat(dtype()) ? graph_->Float(dtype(), static_cast<double>(value))
                                      : graph_->Int(dtype(), value)};
  }
  Val OfFloat(double value) const { return {*graph_, graph_->Float(dtype(), value)}; }

  Val Apply(Op op, const Val& other) const {
    return {*graph_, graph_->Make(op, {node_, other.node_})};
  }
  Val Apply(Op op, int64_t other) const { return Apply(op, Of(other)); }
  Val Select(const Val& yes, const Val& no) const {
    return {*graph_, graph_->Make(Op::kWhere, {node_, yes.node_, no.node_})};
  }

 private:
  Graph* graph_;
  const Node* node_;
};

#define TD_VAL_OP(name, op)                                                     \
  inline Val name(const Val& a, const Val& b) { return a.Apply(Op::k##op, b); } \
  inline Val name(const Val& a, int64_t b) { return a.Apply(Op::k##op, b); }
TD_VAL_OP(operator+, Add)
TD_VAL_OP(operator-, Sub)
TD_VAL_OP(operator*, Mul)
TD_VAL_OP(operator&, And)
TD_VAL_OP(operator|, Or)
TD_VAL_OP(operator^, Xor)
TD_VAL_OP(operator<<, Shl)
TD_VAL_OP(operator>>, Shr)
TD_VAL_OP(Lt, CmpLt)
TD_VAL_OP(Eq, CmpEq)
TD_VAL_OP(Ne, CmpNe)
#undef TD_VAL_OP

inline Val Where(const Val& condition, const Val& yes, const Val& no) {
  return condition.Select(yes, no);
}
inline Val Where(const Val& condition, const Val& yes, int64_t no) {
  return condition.Select(yes, yes.Of(no));
}
inline Val Where(const Val& condition, int64_t yes, const Val& no) {
  return condition.Select(no.Of(yes), no);
}

}  // namespace tensord
