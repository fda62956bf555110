#include "core/ir/infer_shape.h"

#include <absl/numeric/int128.h>

#include <algorithm>
#include <optional>

#include "core/base/status.h"
#include "core/ir/user_kernel.h"

namespace tensord {
namespace {

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

}  // namespace

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

}  // namespace tensord
