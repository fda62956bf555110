#include "core/ir/infer.h"

#include <absl/numeric/int128.h>

#include <algorithm>
#include <limits>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
// Offsets in a tensor, even in bytes and with some room, stay within 63 bits.
constexpr int64_t kMaxElements = int64_t{1} << 48;

std::string Text(Shape shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

absl::Status CheckDims(Op op, Shape dims) {
  absl::int128 count = 1;
  for (int64_t dim : dims) {
    if (dim < 0) return InvalidArgument("{}: size {} in {} is negative", Name(op), dim, Text(dims));
    count *= std::max<int64_t>(dim, 1);
    if (count > kMaxElements) {
      return InvalidArgument("{}: shape {} overflows: more than 2^48 elements", Name(op),
                             Text(dims));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(Op op, int64_t axis, Shape shape) {
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) {
    return InvalidArgument("{}: axis {} is outside of shape {}", Name(op), axis, Text(shape));
  }
  return absl::OkStatus();
}

absl::Status InferMovement(const NodeSpec& spec, std::vector<int64_t>& shape) {
  const Shape in = spec.src[0]->shape;
  const absl::Span<const int64_t> ints = spec.ints;
  shape.assign(in.begin(), in.end());
  switch (spec.op) {
    case Op::kReshape:
      TD_RETURN_IF_ERROR(CheckDims(spec.op, ints));
      if (NumElements(in) != NumElements(ints)) {
        return InvalidArgument("Reshape: {} has {} elements, {} has {}", Text(in), NumElements(in),
                               Text(ints), NumElements(ints));
      }
      shape.assign(ints.begin(), ints.end());
      return absl::OkStatus();
    case Op::kExpand:
      TD_RETURN_IF_ERROR(CheckDims(spec.op, ints));
      if (ints.size() != in.size()) {
        return InvalidArgument("Expand: {} and {} differ in rank", Text(in), Text(ints));
      }
      for (size_t i = 0; i < in.size(); ++i) {
        if (in[i] != ints[i] && in[i] != 1) {
          return InvalidArgument("Expand: {} to {}: only axes of size 1 can grow", Text(in),
                                 Text(ints));
        }
      }
      shape.assign(ints.begin(), ints.end());
      return absl::OkStatus();
    case Op::kPermute: {
      std::vector<bool> seen(in.size());
      if (ints.size() != in.size()) {
        return InvalidArgument("Permute: {} axes for shape {}", ints.size(), Text(in));
      }
      for (size_t i = 0; i < ints.size(); ++i) {
        TD_RETURN_IF_ERROR(CheckAxis(spec.op, ints[i], in));
        if (seen[ints[i]]) return InvalidArgument("Permute: axis {} occurs twice", ints[i]);
        seen[ints[i]] = true;
        shape[i] = in[ints[i]];
      }
      return absl::OkStatus();
    }
    case Op::kPad:
    case Op::kShrink:
      if (ints.size() != 2 * in.size()) {
        return InvalidArgument("{}: {} numbers for shape {}, needs two per axis", Name(spec.op),
                               ints.size(), Text(in));
      }
      for (size_t i = 0; i < in.size(); ++i) {
        const int64_t a = ints[2 * i], b = ints[2 * i + 1];
        if (spec.op == Op::kPad) {
          if (a < 0 || b < 0 || a > kMaxElements || b > kMaxElements) {
            return InvalidArgument("Pad: ({}, {}) on axis {} is out of range", a, b, i);
          }
          shape[i] = in[i] + a + b;
        } else {
          if (a < 0 || b < a || b > in[i]) {
            return InvalidArgument("Shrink: [{}, {}) is outside of axis {} of {}", a, b, i,
                                   Text(in));
          }
          shape[i] = b - a;
        }
      }
      return CheckDims(spec.op, shape);
    case Op::kFlip:
      for (size_t i = 0; i < ints.size(); ++i) {
        TD_RETURN_IF_ERROR(CheckAxis(spec.op, ints[i], in));
        if (i > 0 && ints[i] <= ints[i - 1]) {
          return InvalidArgument("Flip: axes [{}] don't ascend", fmt::join(ints, ", "));
        }
      }
      return absl::OkStatus();
    case Op::kSlide:
    case Op::kUnslide: {
      const int64_t axis = ints[0], along = ints[1], stride = ints[2], dilation = ints[3],
                    size = ints[4];
      TD_RETURN_IF_ERROR(CheckAxis(spec.op, axis, in));
      TD_RETURN_IF_ERROR(CheckAxis(spec.op, along, in));
      if (axis == along)
        return InvalidArgument("{}: axis and along are both {}", Name(spec.op), axis);
      if (stride < 1 || dilation < 1 || size < 0 || stride > kMaxElements ||
          dilation > kMaxElements || size > kMaxElements) {
        return InvalidArgument("{}: stride {}, dilation {}, size {} out of range", Name(spec.op),
                               stride, dilation, size);
      }
      const int64_t from = spec.op == Op::kSlide ? size : in[axis];
      const int64_t to = spec.op == Op::kSlide ? in[axis] : size;
      const absl::int128 last =
          absl::int128(from - 1) * stride + absl::int128(in[along] - 1) * dilation;
      if (from > 0 && in[along] > 0 && last >= to) {
        return InvalidArgument("{}: {} windows of {} taps, stride {}, dilation {}, exceed size {}",
                               Name(spec.op), from, in[along], stride, dilation, to);
      }
      shape[axis] = size;
      return CheckDims(spec.op, shape);
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status InferShape(const NodeSpec& spec, std::vector<int64_t>& shape) {
  const absl::Span<const int64_t> ints = spec.ints;
  switch (spec.op) {
    case Op::kParam:
      TD_RETURN_IF_ERROR(CheckDims(spec.op, ints.subspan(1)));
      shape.assign(ints.begin() + 1, ints.end());
      return absl::OkStatus();
    case Op::kIota:
      if (ints.size() != 1) return InvalidArgument("Iota: needs one size, has {}", ints.size());
      TD_RETURN_IF_ERROR(CheckDims(spec.op, ints));
      shape.assign(ints.begin(), ints.end());
      return absl::OkStatus();
    case Op::kReduce: {
      const Shape in = spec.src[0]->shape;
      shape.assign(in.begin(), in.end());
      for (size_t i = 1; i < ints.size(); ++i) {
        TD_RETURN_IF_ERROR(CheckAxis(spec.op, ints[i], in));
        if (i > 1 && ints[i] <= ints[i - 1]) {
          return InvalidArgument("Reduce: axes [{}] don't ascend",
                                 fmt::join(ints.subspan(1), ", "));
        }
        shape[ints[i]] = 1;
      }
      return absl::OkStatus();
    }
    case Op::kGather: {
      const Node* x = spec.src[0];
      const Node* index = spec.src[1];
      if (x->shape.empty()) return InvalidArgument("Gather: the source is a scalar");
      if (!IsInt(index->dtype)) {
        return InvalidArgument("Gather: the index is {}, needs an integer", Name(index->dtype));
      }
      shape.assign(index->shape.begin(), index->shape.end());
      shape.insert(shape.end(), x->shape.begin() + 1, x->shape.end());
      return CheckDims(spec.op, shape);
    }
    case Op::kLoad:
    case Op::kStore:
    case Op::kSink:
    case Op::kFold:
      return absl::OkStatus();  // without a shape
    default:
      break;
  }
  if (In(spec.op, MovementOps())) return InferMovement(spec, shape);
  if (In(spec.op, ElementwiseOps())) {
    for (const Node* src : spec.src) {
      if (src->shape != spec.src[0]->shape) {
        return InvalidArgument("{}: shapes {} and {} differ", Name(spec.op),
                               Text(spec.src[0]->shape), Text(src->shape));
      }
    }
  }
  if (!spec.src.empty()) shape.assign(spec.src[0]->shape.begin(), spec.src[0]->shape.end());
  return absl::OkStatus();
}

// Ops that take only some kinds of dtypes: {op set, predicate, what it needs}.
struct DTypeNeed {
  uint64_t ops;
  bool (*holds)(DType);
  const char* need;
};

uint64_t Bits(std::initializer_list<Op> ops) {
  uint64_t bits = 0;
  for (Op op : ops) bits |= OpBit(op);
  return bits;
}

absl::Status CheckOperandDTypes(const NodeSpec& spec) {
  static const DTypeNeed kNeeds[] = {
      {Bits({Op::kExp, Op::kLog, Op::kSin, Op::kSqrt, Op::kTrunc, Op::kDiv}), IsFloat, "a float"},
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
  for (const Node* src : spec.src) {
    if (src->dtype == DType::kVoid && spec.op != Op::kSink) {
      return InvalidArgument("{}: operand {} has no value", Name(spec.op), Name(src->op));
    }
  }
  return absl::OkStatus();
}

absl::Status InferDType(const NodeSpec& spec, DType& dtype) {
  const auto same_from = [&](size_t first) -> absl::Status {
    for (size_t i = first; i < spec.src.size(); ++i) {
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
    case AttrKind::kSlot:     least = most = 1; break;
    case AttrKind::kReduce:   least = 1; break;
    case AttrKind::kParam:    least = 1; break;
    case AttrKind::kShape:
    case AttrKind::kAxes:
    case AttrKind::kPairs:    break;
      // clang-format on
  }
  if (spec.ints.size() < least || spec.ints.size() > most) {
    return InvalidArgument("{}: {} numbers in the attribute, needs {}", Name(spec.op),
                           spec.ints.size(), least);
  }
  const AttrKind kind = Info(spec.op).attr;
  if ((kind == AttrKind::kReduce || kind == AttrKind::kFold) &&
      (spec.ints[0] < 0 || spec.ints[0] > static_cast<int64_t>(ReduceKind::kMin))) {
    return InvalidArgument("{}: unknown kind of reduction {}", Name(spec.op), spec.ints[0]);
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

absl::Status Infer(const NodeSpec& spec, Inferred& result) {
  const OpInfo& info = Info(spec.op);
  if (info.num_src != kAnySources && static_cast<int>(spec.src.size()) != info.num_src) {
    return InvalidArgument("{}: {} operands, needs {}", info.name, spec.src.size(), info.num_src);
  }
  TD_RETURN_IF_ERROR(CheckAttribute(spec));
  TD_RETURN_IF_ERROR(CheckOperandDTypes(spec));
  TD_RETURN_IF_ERROR(InferDType(spec, result.dtype));
  TD_RETURN_IF_ERROR(InferShape(spec, result.shape));
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
      }
      return;
    case Op::kFloorMod:
      if (src(1)->IsConst() && src(1)->Int() > 0 && node.dtype != DType::kUint64) {
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
