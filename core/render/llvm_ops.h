// How the elementwise ops are spelled in LLVM IR. Internal to the LLVM renderer.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include "core/device/target.h"
#include "core/ir/node.h"
#include "core/render/llvm_emitter.h"

namespace tensord::llvm_ir {

// What a dtype is in a register. float16 and bfloat16 are their bits (i16) and become floats only
// while an op computes.
Scalar RegisterType(DType dtype);
// What it is in memory: bool is a byte.
Scalar MemoryType(DType dtype);

class Ops {
 public:
  Ops(Emitter& emitter, const Target& target);

  Value Constant(DType dtype, int lanes, int64_t attribute);
  // `src` are the values of node.src; the node's intervals are trusted.
  absl::StatusOr<Value> Elementwise(const Node& node, absl::Span<const Value> src);
  // An op with two sources of this dtype and result, without a node that knows more of them.
  absl::StatusOr<Value> Binary(Op op, DType dtype, const Value& a, const Value& b);

 private:
  struct Operands;
  using Function = Value (Ops::*)(const Operands&);
  struct FunctionRow;
  static const FunctionRow kFunctions[];

  absl::StatusOr<Value> Apply(const Operands& x);
  // The same op on float32 values of float16 and bfloat16 sources.
  absl::StatusOr<Value> ApplyWide(const Operands& x);

  Value Cast(const Operands& x);
  Value Bitcast(const Operands& x);
  Value Negate(const Operands& x);
  Value Identity(const Operands& x);
  Value Exp(const Operands& x);
  Value Log(const Operands& x);
  Value Sin(const Operands& x);
  Value Sqrt(const Operands& x);
  Value Quotient(const Operands& x);
  Value Trunc(const Operands& x);
  Value MaxMin(const Operands& x);
  Value Divide(const Operands& x);
  Value Shift(const Operands& x);
  Value Fma(const Operands& x);

  Value NonNegativeDivide(const Operands& x);
  Value FloatToInt(const Value& x, DType to);
  Value IntToFloat(const Value& x, DType from, DType to);
  Value Widen(const Value& bits, DType from);  // float16, bfloat16 -> float32
  Value Narrow(const Value& x, DType to);      // float32, float64 -> float16, bfloat16
  Value RoundToOdd(const Value& x);            // float64 -> float32
  Value StickySum(const Value& sum, const Value& error);

  Emitter& e_;
  bool half_in_hardware_;
};

// Within 2 units in the last place for float and double, any number of lanes.
Value EmitExp(Emitter& e, const Value& x);
Value EmitLog(Emitter& e, const Value& x);
Value EmitSin(Emitter& e, const Value& x);

}  // namespace tensord::llvm_ir
