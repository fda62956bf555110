#include "core/codegen/long_integers.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/status.h"
#include "core/codegen/value.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

using enum DType;

bool IsLong(DType dtype) { return dtype == kInt64 || dtype == kUint64; }

// Both words are uint32.
struct Long {
  Val low, high;
};

Long Select(const Val& condition, const Long& yes, const Long& no) {
  return {Where(condition, yes.low, no.low), Where(condition, yes.high, no.high)};
}
Long Constant(const Val& like, int64_t value) {
  return {like.Of(value & 0xffffffff), like.Of((value >> 32) & 0xffffffff)};
}
Val Not(const Val& condition) { return Eq(condition, 0); }

Long Add(const Long& a, const Long& b) {
  const Val low = a.low + b.low;
  return {low, a.high + b.high + Lt(low, a.low).As(kUint32)};
}
Long Subtract(const Long& a, const Long& b) {
  return {a.low - b.low, a.high - b.high - Lt(a.low, b.low).As(kUint32)};
}
Long Negate(const Long& a) { return Subtract(Constant(a.low, 0), a); }

// The whole product of two words, by halves of 16 bits.
Long Product(const Val& a, const Val& b) {
  const Val a0 = a & 0xffff, a1 = a >> 16, b0 = b & 0xffff, b1 = b >> 16;
  const Val middle = a1 * b0 + ((a0 * b0) >> 16);  // below 2^32
  const Val other = a0 * b1 + (middle & 0xffff);
  return {a * b, a1 * b1 + (middle >> 16) + (other >> 16)};
}
Long Multiply(const Long& a, const Long& b) {
  const Long low = Product(a.low, b.low);
  return {low.low, low.high + a.low * b.high + a.high * b.low};
}

Val Equal(const Long& a, const Long& b) { return Eq(a.low, b.low) & Eq(a.high, b.high); }
Val Less(const Long& a, const Long& b, bool is_signed) {
  const auto ordered = [&](const Val& high) { return is_signed ? high.Bits(kInt32) : high; };
  const Val above = Lt(ordered(a.high), ordered(b.high));
  return above | (Eq(a.high, b.high) & Lt(a.low, b.low));
}
Val IsNegative(const Long& a) { return Lt(a.high.Bits(kInt32), 0); }

// Shl and Shr of a word by 32 or more give 0 by definition.
Long ShiftLeft(const Long& a, const Val& count) {
  const Val over = Lt(count, 32);
  const Val carried = a.low >> (count.Of(32) - count);
  return Select(over, {a.low << count, (a.high << count) | carried},
                {a.low.Of(0), a.low << (count - 32)});
}
Long ShiftRight(const Long& a, const Val& count, bool is_signed) {
  const Val sign = is_signed ? Where(IsNegative(a), a.high.Of(0xffffffff), 0) : a.high.Of(0);
  const auto shift = [&](const Val& high, const Val& by) {
    if (!is_signed) return high >> by;
    return (high.Bits(kInt32) >> by.Bits(kInt32)).Bits(kUint32);
  };
  const Val over = Lt(count, 32);
  const Val carried = a.high << (count.Of(32) - count);
  const Val far = count - 32;
  return Select(over, {(a.low >> count) | carried, shift(a.high, count)},
                {Where(Lt(far, 32), shift(a.high, far), sign), sign});
}

// Of unsigned numbers, bit by bit; by zero both are 0.
struct Division {
  Long quotient, remainder;
};
Division Divide(const Long& a, const Long& b) {
  Long quotient = Constant(a.low, 0), remainder = quotient;
  for (int bit = 63; bit >= 0; --bit) {
    const Val next = ((bit >= 32 ? a.high : a.low) >> (bit % 32)) & 1;
    const Val top = remainder.high >> 31;  // what the shift loses: then b fits surely
    remainder = {(remainder.low << 1) | next, (remainder.high << 1) | (remainder.low >> 31)};
    const Val fits = Not(Less(remainder, b, false)) | Ne(top, 0);
    remainder = Select(fits, Subtract(remainder, b), remainder);
    Val& word = bit >= 32 ? quotient.high : quotient.low;
    word = word | (fits.As(kUint32) << (bit % 32));
  }
  const Val by_zero = Eq(b.low | b.high, 0);
  const Long zero = Constant(a.low, 0);
  return {Select(by_zero, zero, quotient), Select(by_zero, zero, remainder)};
}

Long Magnitude(const Long& a) { return Select(IsNegative(a), Negate(a), a); }

// Rounded to nearest even, once.
Val ToFloat32(const Long& a, bool is_signed) {
  const Val negative = is_signed ? IsNegative(a) : Ne(a.low.Of(0), 0);
  const Long size = is_signed ? Magnitude(a) : a;
  // The leading one goes to the top; what does not fit one word leaves a mark in its last bit,
  // which rounding to 24 digits heeds.
  Long top = size;
  Val exponent = a.low.Of(32);
  for (int step : {32, 16, 8, 4, 2, 1}) {
    const Long shifted = ShiftLeft(top, a.low.Of(step));
    const Val low = step == 32 ? Eq(top.high, 0) : Lt(top.high, int64_t{1} << (32 - step));
    top = Select(low, shifted, top);
    exponent = Where(low, exponent - step, exponent);
  }
  const Val word = top.high | Ne(top.low, 0).As(kUint32);
  const Val scale = ((exponent + 127) << 23).Bits(kFloat32);
  const Val value = word.As(kFloat32) * scale;
  const Val zero = Eq(size.low | size.high, 0);
  const Val positive = Where(zero, value.OfFloat(0), value);
  return Where(negative, positive * -1, positive);
}

// Truncated and saturated; NaN gives 0.
Long FromFloat32(const Val& x, bool is_signed) {
  const Val size = (x.Bits(kUint32) & 0x7fffffff).Bits(kFloat32);
  const Val high = (size * size.OfFloat(0x1p-32)).As(kUint32);
  const Val rest = size - high.As(kFloat32) * size.OfFloat(0x1p32);
  const Long whole = {rest.As(kUint32), high};
  const Val negative = Lt(x, 0);
  if (!is_signed) {
    const Long max = Constant(high, -1), zero = Constant(high, 0);
    return Select(negative, zero,
                  Select(Lt(size, size.OfFloat(0x1p64)), whole, Select(Ne(x, x), zero, max)));
  }
  const Long max = Constant(high, std::numeric_limits<int64_t>::max());
  const Long min = Constant(high, std::numeric_limits<int64_t>::min());
  const Long in_range = Select(negative, Negate(whole), whole);
  const Long beyond = Select(Ne(x, x), Constant(high, 0), Select(negative, min, max));
  return Select(Lt(size, size.OfFloat(0x1p63)), in_range, beyond);
}

class Splitter {
 public:
  explicit Splitter(LoopNest& nest) : graph_(nest.graph), numbers_(nest.sink) {}

  absl::Status Run(LoopNest& nest, std::vector<const Node*>& params) {
    std::vector<const Node*> roots = {nest.sink};
    roots.insert(roots.end(), params.begin(), params.end());
    for (const Node* node : TopologicalOrder(roots)) {
      if (node->op == Op::kSink) continue;
      const bool concerned =
          IsLong(node->dtype) || std::any_of(node->src.begin(), node->src.end(),
                                             [](const Node* src) { return IsLong(src->dtype); });
      if (!concerned) {
        narrow_[node] = Copy(node);
      } else if (!Split(node)) {
        return Unimplemented("{} of {}, which the target lacks", Name(node->op),
                             Name(IsLong(node->dtype) ? node->dtype : node->src[0]->dtype));
      }
    }
    std::vector<const Node*> stores;
    for (const Node* store : nest.sink->src) {
      const auto split = stores_.find(store);
      if (split == stores_.end()) {
        stores.push_back(narrow_.at(store));
      } else {
        stores.insert(stores.end(), split->second.begin(), split->second.end());
      }
    }
    nest.sink = graph_.Make(Op::kSink, stores, nest.sink->ints);
    for (const Node*& param : params) {
      if (IsLong(param->dtype))
        param = ParamOf(param);
      else
        param = narrow_.at(param);
    }
    return absl::OkStatus();
  }

 private:
  Val Narrow(const Node* node) { return {graph_, narrow_.at(node)}; }
  Long LongOf(const Node* node) { return long_.at(node); }  // by value: the map grows

  const Node* Copy(const Node* node) {
    std::vector<const Node*> src;
    for (const Node* old : node->src) src.push_back(narrow_.at(old));
    return std::ranges::equal(src, node->src) ? node : graph_.WithSources(node, src);
  }
  const Node* ParamOf(const Node* param) {
    return graph_.Param(param->slot(), kUint32, {2 * param->ints[1]});
  }
  // Where the words of an element are, behind the element's own place.
  std::vector<const Node*> Access(const Node* node, int word) {
    const Val index = {
        graph_,
        graph_.Make(Op::kAdd, {graph_.Make(Op::kMul, {narrow_.at(node->src[1]), graph_.Index(2)}),
                               graph_.Index(word)})};
    return {ParamOf(node->src[0]), index.node()};
  }

  // False where there is no way.
  bool Split(const Node* node) {
    switch (node->op) {
      case Op::kParam:
        return true;  // its accesses make the new one
      case Op::kConst: {
        const Val zero = {graph_, graph_.Int(kUint32, 0)};
        long_.emplace(node, Constant(zero, node->Int()));
        return true;
      }
      case Op::kLoad: {
        std::vector<const Node*> words;
        for (int word : {0, 1}) {
          std::vector<const Node*> src = Access(node, word);
          if (node->src.size() > 2) src.push_back(narrow_.at(node->src[2]));
          words.push_back(graph_.Make(Op::kLoad, src, {}));
        }
        long_.emplace(node, Long{{graph_, words[0]}, {graph_, words[1]}});
        return true;
      }
      case Op::kStore: {
        const Long value = LongOf(node->src[2]);
        for (int word : {0, 1}) {
          std::vector<const Node*> src = Access(node, word);
          src.push_back((word == 0 ? value.low : value.high).node());
          if (node->src.size() > 3) src.push_back(narrow_.at(node->src[3]));
          stores_[node].push_back(graph_.Make(Op::kStore, src, {}));
        }
        return true;
      }
      case Op::kCast:
        return Cast(node);
      case Op::kBitcast:
        if (!IsLong(node->dtype) || !IsLong(node->src[0]->dtype)) return false;
        long_.emplace(node, LongOf(node->src[0]));
        return true;
      case Op::kFold:
        return Fold(node);
      case Op::kWhere:
        long_.emplace(node,
                      Select(Narrow(node->src[0]), LongOf(node->src[1]), LongOf(node->src[2])));
        return true;
      case Op::kCmpLt:
      case Op::kCmpEq:
      case Op::kCmpNe: {
        const Long a = LongOf(node->src[0]), b = LongOf(node->src[1]);
        const bool is_signed = IsSigned(node->src[0]->dtype);
        const Val result = node->op == Op::kCmpLt   ? Less(a, b, is_signed)
                           : node->op == Op::kCmpEq ? Equal(a, b)
                                                    : Not(Equal(a, b));
        narrow_[node] = result.node();
        return true;
      }
      default:
        break;
    }
    if (!In(node->op, ElementwiseOps()) || !IsLong(node->dtype)) return false;
    const Long a = LongOf(node->src[0]);
    const std::optional<Long> result = Arithmetic(node->op, IsSigned(node->dtype), a,
                                                  node->src.size() > 1 ? LongOf(node->src[1]) : a);
    if (result) long_.emplace(node, *result);
    return result.has_value();
  }

  static std::optional<Long> Arithmetic(Op op, bool is_signed, const Long& a, const Long& b) {
    switch (op) {
      case Op::kNeg:
        return Negate(a);
      case Op::kTrunc:
        return a;
      case Op::kAdd:
        return Add(a, b);
      case Op::kSub:
        return Subtract(a, b);
      case Op::kMul:
        return Multiply(a, b);
      case Op::kAnd:
        return Long{a.low & b.low, a.high & b.high};
      case Op::kOr:
        return Long{a.low | b.low, a.high | b.high};
      case Op::kXor:
        return Long{a.low ^ b.low, a.high ^ b.high};
      case Op::kMax:
        return Select(Less(a, b, is_signed), b, a);
      case Op::kMin:
        return Select(Less(b, a, is_signed), b, a);
      case Op::kShl:
      case Op::kShr: {
        const bool left = op == Op::kShl;
        const Val inside = Eq(b.high, 0) & Lt(b.low, 64);
        const Long shifted = left ? ShiftLeft(a, b.low) : ShiftRight(a, b.low, is_signed);
        const Long outside =
            left || !is_signed ? Constant(a.low, 0) : ShiftRight(a, a.low.Of(63), true);
        return Select(inside, shifted, outside);
      }
      case Op::kFloorDiv:
      case Op::kFloorMod:
      case Op::kTruncDiv:
      case Op::kTruncMod:
        return DivideSigned(op, is_signed, a, b);
      default:
        return std::nullopt;
    }
  }

  static Long DivideSigned(Op op, bool is_signed, const Long& a, const Long& b) {
    const bool wants_quotient = op == Op::kFloorDiv || op == Op::kTruncDiv;
    if (!is_signed) {
      const Division division = Divide(a, b);
      return wants_quotient ? division.quotient : division.remainder;
    }
    const Division division = Divide(Magnitude(a), Magnitude(b));
    const Val signs_differ = IsNegative({a.low ^ b.low, a.high ^ b.high});
    const Long quotient = Select(signs_differ, Negate(division.quotient), division.quotient);
    const Long remainder = Select(IsNegative(a), Negate(division.remainder), division.remainder);
    if (op == Op::kTruncDiv) return quotient;
    if (op == Op::kTruncMod) return remainder;
    const Val inexact = Ne(remainder.low | remainder.high, 0) & signs_differ;
    if (wants_quotient) return Select(inexact, Subtract(quotient, Constant(a.low, 1)), quotient);
    return Select(inexact, Add(remainder, b), remainder);
  }

  bool Cast(const Node* node) {
    const DType from = node->src[0]->dtype, to = node->dtype;
    if (IsLong(from) && IsLong(to)) {
      long_.emplace(node, LongOf(node->src[0]));
      return true;
    }
    // bfloat16 would be rounded twice, by way of float32; the others have too few exponents for it.
    if (from == kFloat64 || to == kFloat64 || (IsLong(from) && to == kBFloat16)) return false;
    if (IsLong(from)) {
      const Long x = LongOf(node->src[0]);
      const bool is_signed = IsSigned(from);
      const Val result = to == kBool    ? Ne(x.low | x.high, 0)
                         : IsFloat(to)  ? ToFloat32(x, is_signed).As(to)
                         : to == kIndex ? x.low.Bits(kInt32).As(kIndex)
                                        : x.low.As(to);
      narrow_[node] = result.node();
      return true;
    }
    const Val x = Narrow(node->src[0]);
    if (IsFloat(from)) {
      long_.emplace(node, FromFloat32(x.As(kFloat32), IsSigned(to)));
      return true;
    }
    const Val low = x.As(kUint32);
    // An index of such a target has 32 bits.
    const bool may_be_negative = IsSigned(from) && node->src[0]->lo < 0;
    const Val high = may_be_negative ? Where(Lt(x, 0), low.Of(0xffffffff), 0) : low.Of(0);
    long_.emplace(node, Long{low, high});
    return true;
  }

  // The extreme of the high words decides, then that of the low words beside it.
  bool Fold(const Node* node) {
    const ReduceKind kind = node->reduce_kind();
    if (kind != ReduceKind::kMax && kind != ReduceKind::kMin) return false;
    const Long x = LongOf(node->src[0]);
    const bool is_signed = IsSigned(node->dtype);
    const Val order = is_signed ? x.high.Bits(kInt32) : x.high;
    std::vector<const Node*> first = {order.node()}, second = {nullptr};
    ReplacementMap again;  // the second time round in loops of its own
    for (const Node* range : node->src.subspan(1)) {
      first.push_back(range);
      second.push_back(numbers_.Make(graph_, range->range_size(), range->range_kind()));
      again[range] = {second.back(), {second.back()}};
    }
    const Val high = {graph_, graph_.Make(Op::kFold, first, node->ints)};
    const auto copies = Substitute(graph_, {order.node(), x.low.node()}, again);
    const Val low = {graph_, copies[1]};
    const Val identity = low.Of(kind == ReduceKind::kMax ? 0 : 0xffffffff);
    second[0] = Where(Eq(Val(graph_, copies[0]), high), low, identity).node();
    long_.emplace(node, Long{{graph_, graph_.Make(Op::kFold, second, node->ints)},
                             is_signed ? high.Bits(kUint32) : high});
    return true;
  }

  Graph& graph_;
  RangeNumbers numbers_;
  absl::flat_hash_map<const Node*, const Node*> narrow_;  // of nodes that are no long integers
  absl::flat_hash_map<const Node*, Long> long_;
  absl::flat_hash_map<const Node*, std::vector<const Node*>> stores_;
};

}  // namespace

absl::Status SplitLongIntegers(LoopNest& nest, std::vector<const Node*>& params) {
  return Splitter(nest).Run(nest, params);
}

}  // namespace tensord
