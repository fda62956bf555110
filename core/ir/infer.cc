#include "core/ir/infer.h"

#include <absl/numeric/int128.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/user_kernel.h"

namespace tensord {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
// Offsets in a tensor, even in bytes and with some room, stay within 63 bits.
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr int64_t kMaxLoopLevel = 62;  // loops in loops

absl::Status CheckSizes(Op op, const Sizes& sizes) {
  absl::int128 count = 1;
  for (const Dim& dim : sizes) {
    if (dim.node != nullptr && dim.node->lo < 0) {
      return InvalidArgument("{}: size {} in {} may be negative: it is in [{}, {}]", Name(op),
                             TextOf(dim), TextOf(sizes), dim.node->lo, dim.node->hi);
    }
    if (dim.size < 0) {
      return InvalidArgument("{}: size {} in {} is negative", Name(op), dim.size, TextOf(sizes));
    }
    count *= std::max<int64_t>(dim.size, 1);
    if (count > kMaxElements) {
      return InvalidArgument("{}: shape {} overflows: more than 2^48 elements", Name(op),
                             TextOf(sizes));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(Op op, int64_t axis, const Node* source) {
  if (axis < 0 || axis >= source->rank()) {
    return InvalidArgument("{}: axis {} is outside of shape {}", Name(op), axis, ShapeText(source));
  }
  return absl::OkStatus();
}

// The sources that are sizes of the op.
absl::Status CheckSymbolic(const NodeSpec& spec) {
  for (const Node* size : spec.src.subspan(Info(spec.op).num_src)) {
    if (!IsDim(size)) {
      return InvalidArgument("{}: a size is a {} {}, needs an index made of variables",
                             Name(spec.op), Name(size->dtype), Name(size->op));
    }
  }
  return absl::OkStatus();
}

absl::Status InferMovement(Graph& graph, const NodeSpec& spec, Sizes& shape) {
  const Node* source = spec.src[0];
  const absl::Span<const int64_t> ints = spec.ints;
  const Sizes in = ShapeOf(source);
  shape = in;
  switch (spec.op) {
    case Op::kReshape: {
      Sizes dims = AttributeOf(spec);
      TD_RETURN_IF_ERROR(CheckSizes(spec.op, dims));
      if (!SameCount(graph, in, dims)) {
        return InvalidArgument("Reshape: {} has {} elements, {} has {}", TextOf(in),
                               TextOf(TimesAll(graph, in)), TextOf(dims),
                               TextOf(TimesAll(graph, dims)));
      }
      shape = std::move(dims);
      return absl::OkStatus();
    }
    case Op::kExpand: {
      Sizes dims = AttributeOf(spec);
      TD_RETURN_IF_ERROR(CheckSizes(spec.op, dims));
      if (dims.size() != in.size()) {
        return InvalidArgument("Expand: {} and {} differ in rank", TextOf(in), TextOf(dims));
      }
      for (size_t i = 0; i < in.size(); ++i) {
        if (in[i] != dims[i] && !in[i].IsOne()) {
          return InvalidArgument("Expand: {} to {}: only axes of size 1 can grow", TextOf(in),
                                 TextOf(dims));
        }
      }
      shape = std::move(dims);
      return absl::OkStatus();
    }
    case Op::kPermute: {
      std::vector<bool> seen(in.size());
      if (ints.size() != in.size()) {
        return InvalidArgument("Permute: {} axes for shape {}", ints.size(), TextOf(in));
      }
      for (size_t i = 0; i < ints.size(); ++i) {
        TD_RETURN_IF_ERROR(CheckAxis(spec.op, ints[i], source));
        if (seen[ints[i]]) return InvalidArgument("Permute: axis {} occurs twice", ints[i]);
        seen[ints[i]] = true;
        shape[i] = in[ints[i]];
      }
      return absl::OkStatus();
    }
    case Op::kPad:
    case Op::kShrink: {
      if (ints.size() != 2 * in.size()) {
        return InvalidArgument("{}: {} numbers for shape {}, needs two per axis", Name(spec.op),
                               ints.size(), TextOf(in));
      }
      const Sizes pairs = AttributeOf(spec);
      for (size_t i = 0; i < in.size(); ++i) {
        const Dim a = pairs[2 * i], b = pairs[2 * i + 1];
        if (spec.op == Op::kPad) {
          if (!AtMost({0}, a) || !AtMost({0}, b) || a.size > kMaxElements ||
              b.size > kMaxElements) {
            return InvalidArgument("Pad: ({}, {}) on axis {} is out of range", TextOf(a), TextOf(b),
                                   i);
          }
          shape[i] = Plus(graph, Plus(graph, in[i], a), b);
        } else {
          if (!AtMost({0}, a) || !AtMost(a, b) || !AtMost(b, in[i])) {
            return InvalidArgument(
                "Shrink: [{}, {}) is outside of axis {} of {}, or may be for some values",
                TextOf(a), TextOf(b), i, TextOf(in));
          }
          shape[i] = Minus(graph, b, a);
        }
      }
      return CheckSizes(spec.op, shape);
    }
    case Op::kFlip:
      for (size_t i = 0; i < ints.size(); ++i) {
        TD_RETURN_IF_ERROR(CheckAxis(spec.op, ints[i], source));
        if (i > 0 && ints[i] <= ints[i - 1]) {
          return InvalidArgument("Flip: axes [{}] don't ascend", fmt::join(ints, ", "));
        }
      }
      return absl::OkStatus();
    case Op::kSlide:
    case Op::kUnslide: {
      const int64_t axis = ints[0], along = ints[1], stride = ints[2], dilation = ints[3],
                    size = ints[4];
      TD_RETURN_IF_ERROR(CheckAxis(spec.op, axis, source));
      TD_RETURN_IF_ERROR(CheckAxis(spec.op, along, source));
      if (axis == along)
        return InvalidArgument("{}: axis and along are both {}", Name(spec.op), axis);
      if (in[axis].node != nullptr || in[along].node != nullptr) {
        return InvalidArgument("{}: axes {} and {} of {} need sizes that are numbers",
                               Name(spec.op), axis, along, TextOf(in));
      }
      if (stride < 1 || dilation < 1 || size < 0 || stride > kMaxElements ||
          dilation > kMaxElements || size > kMaxElements) {
        return InvalidArgument("{}: stride {}, dilation {}, size {} out of range", Name(spec.op),
                               stride, dilation, size);
      }
      const int64_t from = spec.op == Op::kSlide ? size : in[axis].size;
      const int64_t to = spec.op == Op::kSlide ? in[axis].size : size;
      const absl::int128 last =
          absl::int128(from - 1) * stride + absl::int128(in[along].size - 1) * dilation;
      if (from > 0 && in[along].size > 0 && last >= to) {
        return InvalidArgument("{}: {} windows of {} taps, stride {}, dilation {}, exceed size {}",
                               Name(spec.op), from, in[along].size, stride, dilation, to);
      }
      shape[axis] = {size};
      return CheckSizes(spec.op, shape);
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckLoop(const NodeSpec& spec) {
  if (spec.src.size() % 2 == 0) {
    return InvalidArgument("Loop: {} operands, needs a condition and two for each state",
                           spec.src.size());
  }
  if (spec.ints[0] < 0 || spec.ints[0] > kMaxLoopLevel || spec.ints[1] < 0) {
    return InvalidArgument("Loop: level {} is outside of [0, {}], or {} iterations are negative",
                           spec.ints[0], kMaxLoopLevel, spec.ints[1]);
  }
  const Node* condition = spec.src[0];
  if (condition->dtype != DType::kBool || !condition->shape.empty()) {
    return InvalidArgument("Loop: the condition is {}{}, needs a bool without axes",
                           Name(condition->dtype), ShapeText(condition));
  }
  for (size_t i = 1; i < spec.src.size(); i += 2) {
    const Node* carry = spec.src[i];
    const Node* next = spec.src[i + 1];
    const int64_t number = static_cast<int64_t>(i / 2);
    if (carry->op != Op::kCarry || carry->ints[0] != spec.ints[0] || carry->ints[1] != number) {
      return InvalidArgument("Loop: operand {} is no Carry of level {} with number {}", i,
                             spec.ints[0], number);
    }
    if (carry->dtype != next->dtype || ShapeOf(carry) != ShapeOf(next)) {
      return InvalidArgument("Loop: state {} is {}{} and would become {}{}", number,
                             Name(carry->dtype), ShapeText(carry), Name(next->dtype),
                             ShapeText(next));
    }
  }
  return absl::OkStatus();
}

absl::Status InferLoopResult(const NodeSpec& spec, Sizes& shape) {
  const Node* loop = spec.src[0];
  const int64_t states = static_cast<int64_t>(loop->src.size()) / 2;
  if (loop->op != Op::kLoop || spec.ints[0] < 0 || spec.ints[0] >= states) {
    return InvalidArgument("LoopResult: the operand is a {} without a state {}", Name(loop->op),
                           spec.ints[0]);
  }
  const Node* carry = loop->src[1 + 2 * spec.ints[0]];
  if (carry->dtype != spec.dtype) {
    return InvalidArgument("LoopResult: state {} is {}, not {}", spec.ints[0], Name(carry->dtype),
                           Name(spec.dtype));
  }
  shape = ShapeOf(carry);
  return absl::OkStatus();
}

absl::Status InferExchange(const NodeSpec& spec, Sizes& shape) {
  const Node* x = spec.src[0];
  const int64_t kind = spec.ints[0], devices = spec.ints[1], shift = spec.ints[2];
  if (kind < 0 || kind > static_cast<int64_t>(ExchangeKind::kShift)) {
    return InvalidArgument("Exchange: unknown kind {}", kind);
  }
  if (devices < 2 || devices > kMaxDevices) {
    return InvalidArgument("Exchange: {} devices, needs 2 to {}", devices, kMaxDevices);
  }
  const bool shifts = kind == static_cast<int64_t>(ExchangeKind::kShift);
  if (shifts ? shift < 1 || shift >= devices : shift != 0) {
    return InvalidArgument("Exchange: shift {} among {} devices", shift, devices);
  }
  if (x->has_dims()) {
    return InvalidArgument("Exchange: sizes need to be numbers, not {}", ShapeText(x));
  }
  shape = ShapeOf(x);
  if (kind == static_cast<int64_t>(ExchangeKind::kGather)) shape.insert(shape.begin(), {devices});
  if (kind == static_cast<int64_t>(ExchangeKind::kSwap) &&
      (x->shape.empty() || x->shape[0] != devices)) {
    return InvalidArgument("Exchange: a row for each of {} devices is swapped, not {}", devices,
                           ShapeText(x));
  }
  return CheckSizes(spec.op, shape);
}

// What the attribute says of the outputs. That the body fits is checked where it is read.
absl::Status CheckUserKernel(const NodeSpec& spec) {
  const std::optional<std::vector<user_kernel::Output>> outputs = user_kernel::OutputsOf(spec.ints);
  if (!outputs || outputs->empty()) {
    return InvalidArgument("UserKernel: the attribute is no list of outputs: dtype, rank, dims");
  }
  for (const user_kernel::Output& output : *outputs) {
    if (ItemSize(output.dtype) == 0) {
      return InvalidArgument("UserKernel: an output is {}, which memory can't hold",
                             Name(output.dtype));
    }
    Sizes sizes;
    for (const int64_t size : output.dims) sizes.push_back({size});
    TD_RETURN_IF_ERROR(CheckSizes(spec.op, sizes));
  }
  for (const Node* src : spec.src) {
    if (src->has_dims()) {
      return InvalidArgument("UserKernel: an input has shape {}: its sizes must be numbers",
                             ShapeText(src));
    }
  }
  return absl::OkStatus();
}

absl::Status InferUserKernelResult(const NodeSpec& spec, Sizes& shape) {
  const Node* call = spec.src[0];
  if (call->op != Op::kUserKernel) {
    return InvalidArgument("UserKernelResult: the operand is a {}", Name(call->op));
  }
  const std::vector<user_kernel::Output> outputs = user_kernel::OutputsOf(call);
  if (spec.ints[0] < 0 || spec.ints[0] >= static_cast<int64_t>(outputs.size())) {
    return InvalidArgument("UserKernelResult: there is no output {}", spec.ints[0]);
  }
  const user_kernel::Output& output = outputs[spec.ints[0]];
  if (output.dtype != spec.dtype) {
    return InvalidArgument("UserKernelResult: output {} is {}, not {}", spec.ints[0],
                           Name(output.dtype), Name(spec.dtype));
  }
  for (const int64_t size : output.dims) shape.push_back({size});
  return absl::OkStatus();
}

absl::Status CheckScatter(const NodeSpec& spec) {
  const Node *x = spec.src[0], *index = spec.src[1], *values = spec.src[2];
  TD_RETURN_IF_ERROR(CheckAxis(spec.op, spec.ints[1], x));
  if (!IsInt(index->dtype)) {
    return InvalidArgument("Scatter: the index is {}, needs an integer", Name(index->dtype));
  }
  if (values->dtype != x->dtype) {
    return InvalidArgument("Scatter: values of {} into {}", Name(values->dtype), Name(x->dtype));
  }
  const size_t before = static_cast<size_t>(spec.ints[1]), after = x->shape.size() - before - 1;
  bool fits = values->shape.size() >= before + after && index->shape.size() == values->shape.size();
  for (size_t i = 0; fits && i < values->shape.size(); ++i) {
    const int64_t from_end = static_cast<int64_t>(values->shape.size() - i);
    const bool is_rest = from_end <= static_cast<int64_t>(after);
    const bool repeats = index->shape[i] == 1 && (i < before || is_rest);
    fits = index->shape[i] == values->shape[i] || repeats;
    if (i < before) fits = fits && values->shape[i] == x->shape[i];
    if (is_rest) fits = fits && values->shape[i] == x->shape[x->shape.size() - from_end];
  }
  if (!fits) {
    return InvalidArgument("Scatter: values {} at {} do not fit {} with {} axes before the indexed",
                           ShapeText(values), ShapeText(index), ShapeText(x), before);
  }
  return absl::OkStatus();
}

absl::Status InferShape(Graph& graph, const NodeSpec& spec, Sizes& shape) {
  const absl::Span<const int64_t> ints = spec.ints;
  if (HasSizes(spec.op)) TD_RETURN_IF_ERROR(CheckSymbolic(spec));
  switch (spec.op) {
    case Op::kParam:
      shape = AttributeOf(spec);
      return CheckSizes(spec.op, shape);
    case Op::kIota:
      if (ints.size() != 1) return InvalidArgument("Iota: needs one size, has {}", ints.size());
      shape = AttributeOf(spec);
      return CheckSizes(spec.op, shape);
    case Op::kReduce: {
      shape = ShapeOf(spec.src[0]);
      for (size_t i = 1; i < ints.size(); ++i) {
        TD_RETURN_IF_ERROR(CheckAxis(spec.op, ints[i], spec.src[0]));
        if (i > 1 && ints[i] <= ints[i - 1]) {
          return InvalidArgument("Reduce: axes [{}] don't ascend",
                                 fmt::join(ints.subspan(1), ", "));
        }
        shape[ints[i]] = {1};
      }
      return absl::OkStatus();
    }
    case Op::kScan:
      TD_RETURN_IF_ERROR(CheckAxis(spec.op, ints[1], spec.src[0]));
      shape = ShapeOf(spec.src[0]);
      return absl::OkStatus();
    case Op::kScatter:
      TD_RETURN_IF_ERROR(CheckScatter(spec));
      shape = ShapeOf(spec.src[0]);
      return absl::OkStatus();
    case Op::kGather: {
      const Node* x = spec.src[0];
      const Node* index = spec.src[1];
      if (x->shape.empty()) return InvalidArgument("Gather: the source is a scalar");
      if (!IsInt(index->dtype)) {
        return InvalidArgument("Gather: the index is {}, needs an integer", Name(index->dtype));
      }
      shape = ShapeOf(index);
      const Sizes rows = ShapeOf(x);
      shape.insert(shape.end(), rows.begin() + 1, rows.end());
      return CheckSizes(spec.op, shape);
    }
    case Op::kExchange:
      return InferExchange(spec, shape);
    case Op::kLoop:
      return CheckLoop(spec);
    case Op::kLoopResult:
      return InferLoopResult(spec, shape);
    case Op::kUserKernel:
      return CheckUserKernel(spec);
    case Op::kUserKernelResult:
      return InferUserKernelResult(spec, shape);
    case Op::kRange:
      for (const Node* bound : spec.src) {
        if (bound->dtype != DType::kIndex) return InvalidArgument("Range: the bound is no index");
      }
      return absl::OkStatus();
    case Op::kLoad:
    case Op::kStore:
    case Op::kSink:
    case Op::kFold:
    case Op::kRunning:
    case Op::kModify:
    case Op::kEnd:
      return absl::OkStatus();  // without a shape
    default:
      break;
  }
  if (In(spec.op, MovementOps())) return InferMovement(graph, spec, shape);
  if (In(spec.op, ElementwiseOps()) || spec.op == Op::kWithSlope) {
    for (const Node* src : spec.src) {
      if (!SameShape(src, spec.src[0])) {
        return InvalidArgument("{}: shapes {} and {} differ", Name(spec.op), ShapeText(spec.src[0]),
                               ShapeText(src));
      }
    }
  }
  if (!spec.src.empty()) shape = ShapeOf(spec.src[0]);
  return absl::OkStatus();
}

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

void InferInterval(const Node& node, int64_t& lo, int64_t& hi) {
  lo = kMin;
  hi = kMax;
  const auto saturate = [](absl::int128 value) -> int64_t {
    return value < kMin ? kMin : value > kMax ? kMax : static_cast<int64_t>(value);
  };
  const bool integer = IsInt(node.dtype) || node.dtype == DType::kBool;
  if (integer && node.dtype != DType::kUint64) {
    lo = IntMin(node.dtype);
    hi = IntMax(node.dtype);
  }
  if (!integer && node.dtype != DType::kIndex) return;
  const auto narrow = [&](absl::int128 a, absl::int128 b) {
    // An integer that might wrap keeps the limits of its type.
    if (a < lo || b > hi) return;
    lo = saturate(a);
    hi = saturate(b);
  };
  const auto src = [&](int i) { return node.src[i]; };
  switch (node.op) {
    case Op::kConst:
      lo = hi = node.Int();
      return;
    case Op::kVariable:
      lo = node.ints[0];
      hi = node.ints[1];
      return;
    case Op::kRange:
      lo = 0;
      hi = node.range_size() - 1;
      return;
    case Op::kIota:
      narrow(0, std::max<int64_t>(node.shape[0] - 1, 0));
      return;
    case Op::kGridIndex:
      lo = 0;
      return;
    case Op::kRamp:
      narrow(0, node.lanes - 1);
      return;
    case Op::kReshape:
    case Op::kExpand:
    case Op::kPermute:
    case Op::kShrink:
    case Op::kFlip:
    case Op::kSlide:
    case Op::kContiguous:
    case Op::kDetach:
    case Op::kBroadcast:
    case Op::kExtract:
      lo = src(0)->lo;
      hi = src(0)->hi;
      return;
    case Op::kPad:
    case Op::kUnslide:
    case Op::kGather:
      lo = std::min<int64_t>(src(0)->lo, 0);
      hi = std::max<int64_t>(src(0)->hi, 0);
      return;
    case Op::kCast:
      if (IsInt(src(0)->dtype) || src(0)->dtype == DType::kBool || src(0)->dtype == DType::kIndex) {
        if (src(0)->dtype != DType::kUint64) narrow(src(0)->lo, src(0)->hi);
      }
      return;
    case Op::kScan: {
      const bool starts_at_identity = node.scan_exclusive();
      const int64_t n = std::max<int64_t>(node.shape[node.scan_axis()], 1);
      if (node.dtype == DType::kUint64 || node.dtype == DType::kBool) return;
      if (node.scan_kind() == ScanKind::kAdd) {
        // At least one element, or none; at most n.
        const absl::int128 a = src(0)->lo, b = src(0)->hi, least = starts_at_identity ? 0 : 1;
        narrow(std::min(a * least, a * n), std::max(b * least, b * n));
      } else if (node.scan_kind() != ScanKind::kMul && !starts_at_identity) {
        narrow(src(0)->lo, src(0)->hi);
      }
      return;
    }
    case Op::kScatter:
      if (node.dtype == DType::kUint64 || node.scatter_kind() == ScatterKind::kAdd ||
          node.scatter_kind() == ScatterKind::kMul) {
        return;
      }
      narrow(std::min(src(0)->lo, src(2)->lo), std::max(src(0)->hi, src(2)->hi));
      return;
    case Op::kAdd:
      if (node.dtype == DType::kBool) return;
      narrow(absl::int128(src(0)->lo) + src(1)->lo, absl::int128(src(0)->hi) + src(1)->hi);
      return;
    case Op::kSub:
      narrow(absl::int128(src(0)->lo) - src(1)->hi, absl::int128(src(0)->hi) - src(1)->lo);
      return;
    case Op::kNeg:
      narrow(-absl::int128(src(0)->hi), -absl::int128(src(0)->lo));
      return;
    case Op::kMul: {
      if (node.dtype == DType::kBool || node.dtype == DType::kUint64) return;
      const absl::int128 a = absl::int128(src(0)->lo) * src(1)->lo,
                         b = absl::int128(src(0)->lo) * src(1)->hi,
                         c = absl::int128(src(0)->hi) * src(1)->lo,
                         d = absl::int128(src(0)->hi) * src(1)->hi;
      narrow(std::min({a, b, c, d}), std::max({a, b, c, d}));
      return;
    }
    case Op::kFloorDiv:
      if (src(1)->IsConst() && src(1)->Int() > 0 && node.dtype != DType::kUint64) {
        const int64_t c = src(1)->Int();
        const auto floor = [&](int64_t x) { return x / c - (x % c != 0 && x < 0 ? 1 : 0); };
        narrow(floor(src(0)->lo), floor(src(0)->hi));
      } else if (node.dtype == DType::kIndex && src(0)->lo >= 0 && src(1)->lo >= 0) {
        // By zero it gives 0.
        narrow(src(1)->lo > 0 ? src(0)->lo / src(1)->hi : 0,
               src(0)->hi / std::max<int64_t>(src(1)->lo, 1));
      }
      return;
    case Op::kFloorMod:
      if (node.dtype == DType::kIndex && !src(1)->IsConst() && src(1)->lo >= 0) {
        narrow(0, std::max<int64_t>(src(1)->hi - 1, 0));
      } else if (src(1)->IsConst() && src(1)->Int() > 0 && node.dtype != DType::kUint64) {
        narrow(0, src(0)->lo >= 0 ? std::min(src(0)->hi, src(1)->Int() - 1) : src(1)->Int() - 1);
      }
      return;
    case Op::kMax:
    case Op::kMin:
      if (node.dtype == DType::kUint64) return;
      narrow(
          node.op == Op::kMax ? std::max(src(0)->lo, src(1)->lo) : std::min(src(0)->lo, src(1)->lo),
          node.op == Op::kMax ? std::max(src(0)->hi, src(1)->hi)
                              : std::min(src(0)->hi, src(1)->hi));
      return;
    case Op::kWhere:
      if (node.dtype == DType::kUint64) return;
      narrow(std::min(src(1)->lo, src(2)->lo), std::max(src(1)->hi, src(2)->hi));
      return;
    case Op::kAnd:
      if (node.dtype == DType::kUint64) return;
      if (src(0)->lo >= 0 && src(1)->lo >= 0) narrow(0, std::min(src(0)->hi, src(1)->hi));
      return;
    case Op::kShr:
      if (src(1)->IsConst() && src(0)->lo >= 0 && src(1)->Int() >= 0 && src(1)->Int() < 63 &&
          node.dtype != DType::kUint64) {
        narrow(src(0)->lo >> src(1)->Int(), src(0)->hi >> src(1)->Int());
      }
      return;
    default:
      return;
  }
}

}  // namespace tensord
