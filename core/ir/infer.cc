#include "core/ir/infer.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/infer_shape.h"

namespace tensord {
namespace {

// Ops that take only some kinds of dtypes: {op set, predicate, what it needs}.
struct DTypeNeed {
  OpSet ops;
  bool (*holds)(DType);
  const char* need;
};

OpSet Bits(std::initializer_list<Op> ops) {
  OpSet bits;
  for (Op op : ops) bits |= OpBit(op);
  return bits;
}

absl::Status CheckOperandDTypes(const NodeSpec& spec) {
  constexpr OpSet kTakeVoid =
      OpBit(Op::kSink) | OpBit(Op::kLoopResult) | OpBit(Op::kUserKernelResult);
  static const DTypeNeed kNeeds[] = {
      {Bits({Op::kExp, Op::kLog, Op::kSin, Op::kSqrt, Op::kTrunc, Op::kDiv, Op::kWithSlope}),
       IsFloat, "a float"},
      {Bits({Op::kFloorDiv, Op::kFloorMod, Op::kTruncDiv, Op::kTruncMod, Op::kShl, Op::kShr}),
       [](DType d) { return IsInt(d) || d == DType::kIndex; }, "an integer"},
      {Bits({Op::kAnd, Op::kOr, Op::kXor}), [](DType d) { return IsInt(d) || d == DType::kBool; },
       "an integer or bool"},
      {Bits({Op::kNeg, Op::kSub}), [](DType d) { return d != DType::kBool; }, "a number"},
  };
  for (const DTypeNeed& need : kNeeds) {
    if (In(spec.op, need.ops) && !need.holds(spec.src[0]->dtype)) {
      return InvalidArgument("{}: the operand is {}, needs {}", Name(spec.op),
                             Name(spec.src[0]->dtype), need.need);
    }
  }
  if (In(spec.op, Bits({Op::kScan, Op::kRunning})) && !IsFloat(spec.src[0]->dtype) &&
      spec.ints[0] == static_cast<int64_t>(ScanKind::kLogAdd)) {
    return InvalidArgument("{}: the operand of logadd is {}, needs a float", Name(spec.op),
                           Name(spec.src[0]->dtype));
  }
  for (const Node* src : spec.src) {
    if (src->dtype == DType::kVoid && !In(spec.op, kTakeVoid)) {
      return InvalidArgument("{}: operand {} has no value", Name(spec.op), Name(src->op));
    }
  }
  return absl::OkStatus();
}

absl::Status InferDType(const NodeSpec& spec, DType& dtype) {
  const auto same_from = [&](size_t first) -> absl::Status {
    const int fixed = Info(spec.op).num_src;  // sizes stand behind the operands
    const size_t end = fixed == kAnySources ? spec.src.size() : static_cast<size_t>(fixed);
    for (size_t i = first; i < end; ++i) {
      if (spec.src[i]->dtype != spec.src[first]->dtype) {
        return InvalidArgument("{}: operands are {} and {}, need one dtype", Name(spec.op),
                               Name(spec.src[first]->dtype), Name(spec.src[i]->dtype));
      }
    }
    return absl::OkStatus();
  };
  switch (Info(spec.op).dtype) {
    case DTypeRule::kDeclared:
      if (spec.dtype == DType::kVoid || static_cast<int>(spec.dtype) >= kNumDTypes) {
        return InvalidArgument("{}: needs a dtype", Name(spec.op));
      }
      dtype = spec.dtype;
      if (spec.op == Op::kBitcast && ItemSize(spec.src[0]->dtype) != ItemSize(dtype)) {
        return InvalidArgument("Bitcast: {} and {} differ in size", Name(spec.src[0]->dtype),
                               Name(dtype));
      }
      if (In(spec.op, Bits({Op::kIota, Op::kVariable, Op::kRamp})) && !IsInt(dtype) &&
          dtype != DType::kIndex) {
        return InvalidArgument("{}: dtype {} is not an integer", Name(spec.op), Name(dtype));
      }
      return absl::OkStatus();
    case DTypeRule::kSame:
      dtype = spec.src[0]->dtype;
      return same_from(0);
    case DTypeRule::kBool:
      dtype = DType::kBool;
      return same_from(0);
    case DTypeRule::kFirst:
      if (spec.src.empty()) return InvalidArgument("{}: needs operands", Name(spec.op));
      dtype = spec.src[0]->dtype;
      return absl::OkStatus();
    case DTypeRule::kSecond:
      if (spec.src[0]->dtype != DType::kBool) {
        return InvalidArgument("{}: the condition is {}, needs bool", Name(spec.op),
                               Name(spec.src[0]->dtype));
      }
      dtype = spec.src[1]->dtype;
      return same_from(1);
    case DTypeRule::kIndex:
      dtype = DType::kIndex;
      return absl::OkStatus();
    case DTypeRule::kVoid:
      dtype = DType::kVoid;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckAttribute(const NodeSpec& spec) {
  size_t least = 0, most = std::numeric_limits<size_t>::max();
  switch (Info(spec.op).attr) {
    // clang-format off
    case AttrKind::kNone:     least = most = 0; break;
    case AttrKind::kValue:    least = most = 1; break;
    case AttrKind::kSlide:    least = most = 5; break;
    case AttrKind::kRange:    least = most = 3; break;
    case AttrKind::kVariable: least = most = 2; break;
    case AttrKind::kFold:     least = most = 1; break;
    case AttrKind::kScan:     least = most = 4; break;
    case AttrKind::kRunning:  least = most = 2; break;
    case AttrKind::kScatter:  least = most = 2; break;
    case AttrKind::kModify:   least = most = 1; break;
    case AttrKind::kSlot:     least = most = 1; break;
    case AttrKind::kCarry:
    case AttrKind::kLoop:     least = most = 2; break;
    case AttrKind::kExchange: least = most = 3; break;
    case AttrKind::kReduce:   least = 1; break;
    case AttrKind::kParam:    least = 1; break;
    case AttrKind::kShape:
    case AttrKind::kAxes:
    case AttrKind::kPairs:
    case AttrKind::kUserKernel:
    case AttrKind::kPlace:    break;
      // clang-format on
  }
  if (spec.ints.size() < least || spec.ints.size() > most) {
    return InvalidArgument("{}: {} numbers in the attribute, needs {}", Name(spec.op),
                           spec.ints.size(), least);
  }
  const AttrKind kind = Info(spec.op).attr;
  std::optional<int64_t> last;  // of an enumeration
  if (kind == AttrKind::kReduce || kind == AttrKind::kFold) {
    last = static_cast<int64_t>(ReduceKind::kMin);
  } else if (kind == AttrKind::kScan || kind == AttrKind::kRunning) {
    last = static_cast<int64_t>(ScanKind::kLogAdd);
  } else if (kind == AttrKind::kScatter || kind == AttrKind::kModify) {
    last = static_cast<int64_t>(ScatterKind::kSet);
  }
  if (last && (spec.ints[0] < 0 || spec.ints[0] > *last)) {
    return InvalidArgument("{}: unknown kind of reduction {}", Name(spec.op), spec.ints[0]);
  }
  const size_t flags = kind == AttrKind::kScan ? 2 : kind == AttrKind::kRunning ? 1 : 0;
  for (const int64_t flag : spec.ints.last(flags)) {
    if (flag != 0 && flag != 1) {
      return InvalidArgument("{}: flag {} is neither 0 nor 1", Name(spec.op), flag);
    }
  }
  if (kind == AttrKind::kRange && (spec.ints[1] < 1 || spec.ints[2] < 0 ||
                                   spec.ints[2] > static_cast<int64_t>(RangeKind::kVector))) {
    return InvalidArgument("Range: size {} or kind {} out of range", spec.ints[1], spec.ints[2]);
  }
  if (kind == AttrKind::kVariable && (spec.ints[0] > spec.ints[1] || spec.text.empty())) {
    return InvalidArgument("Variable '{}': bounds [{}, {}] are empty, or it has no name", spec.text,
                           spec.ints[0], spec.ints[1]);
  }
  if (kind == AttrKind::kVariable && IsInt(spec.dtype) && spec.dtype != DType::kUint64 &&
      (spec.ints[0] < IntMin(spec.dtype) || spec.ints[1] > IntMax(spec.dtype))) {
    return InvalidArgument("Variable '{}': bounds [{}, {}] don't fit {}", spec.text, spec.ints[0],
                           spec.ints[1], Name(spec.dtype));
  }
  if (kind == AttrKind::kParam && spec.ints[0] < 0) {
    return InvalidArgument("Param: slot {} is negative", spec.ints[0]);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t NumElements(Shape shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return count;
}

absl::Status Infer(Graph& graph, const NodeSpec& spec, Inferred& result) {
  const OpInfo& info = Info(spec.op);
  if (info.num_src != kAnySources) {
    int64_t needed = info.num_src;
    if (HasSizes(spec.op)) {
      needed += std::count(spec.ints.begin() + std::min(FirstSize(spec.op), spec.ints.size()),
                           spec.ints.end(), kSymbolic);
    }
    const int64_t given = static_cast<int64_t>(spec.src.size());
    if (given != needed && !(spec.op == Op::kRange && given == 1)) {
      return InvalidArgument("{}: {} operands, needs {}", info.name, given, needed);
    }
  }
  TD_RETURN_IF_ERROR(CheckAttribute(spec));
  TD_RETURN_IF_ERROR(CheckOperandDTypes(spec));
  TD_RETURN_IF_ERROR(InferDType(spec, result.dtype));
  Sizes shape;
  TD_RETURN_IF_ERROR(InferShape(graph, spec, shape));
  for (size_t i = 0; i < shape.size(); ++i) {
    result.shape.push_back(shape[i].size);
    if (shape[i].node == nullptr) continue;
    result.dims.resize(shape.size());
    result.dims[i] = shape[i].node;
  }
  result.lanes = spec.lanes;
  if (spec.lanes == 0) {
    result.lanes = 1;
    if (spec.op == Op::kStack) {
      result.lanes = static_cast<uint16_t>(spec.src.size());
    } else if (In(spec.op, ElementwiseOps()) || spec.op == Op::kAccumulator ||
               spec.op == Op::kRead) {
      for (const Node* src : spec.src) result.lanes = std::max(result.lanes, src->lanes);
    }
  }
  return absl::OkStatus();
}

}  // namespace tensord
