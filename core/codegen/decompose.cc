#include "core/codegen/decompose.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cmath>

#include "core/base/status.h"
#include "core/codegen/double_bits.h"
#include "core/codegen/long_integers.h"
#include "core/codegen/value.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

using enum DType;

// Of float32.
constexpr int kMantissaBits = 23, kBias = 127;
constexpr int64_t kInfBits = 0x7f800000, kNanBits = 0x7fc00000;

bool IsSmallFloat(DType dtype) { return IsFloat(dtype) && BitSize(dtype) < 32; }
DType StorageOf(DType dtype) {
  return dtype == kFloat64 ? kUint64 : ItemSize(dtype) == 1 ? kUint8 : kUint16;
}

Val Decode(DType dtype, const Val& bits) {
  const FloatFormat& f = Format(dtype);
  const int shift = kMantissaBits - f.mantissa_bits;
  const Val wide = bits.As(kUint32);
  const Val magnitude = wide & static_cast<int64_t>(f.sign_bit() - 1);
  const Val shifted = magnitude << shift;
  Val result = shifted;
  if (f.bias != kBias) {
    // Shifted into place the exponent is too small by the difference of the biases, also in
    // subnormal numbers, which float32 has as normal ones.
    const Val number = shifted.Bits(kFloat32);
    result = (number * number.OfFloat(std::ldexp(1.0, kBias - f.bias))).Bits(kUint32);
    const Val special = f.has_inf ? shifted | kInfBits : shifted.Of(kNanBits);
    const Val is_finite = f.negative_zero ? Lt(magnitude, static_cast<int64_t>(f.max_code() + 1))
                                          : Ne(wide, static_cast<int64_t>(f.nan_code()));
    result = Where(is_finite, result, special);
  }
  const Val sign = wide & static_cast<int64_t>(f.sign_bit());
  return (result | sign << (31 - f.exponent_bits - f.mantissa_bits)).Bits(kFloat32);
}

Val Encode(DType dtype, const Val& x) {
  const FloatFormat& f = Format(dtype);
  const int shift = kMantissaBits - f.mantissa_bits;
  const auto code_of = [](uint64_t code) { return static_cast<int64_t>(code); };
  const Val bits = x.Bits(kUint32);
  const Val magnitude = bits & 0x7fffffff;
  const Val odd = (magnitude >> shift) & 1;
  // Half a unit, less one if the digit before is even: ties go to the even neighbour. A carry into
  // the exponent is as it should be.
  const int64_t half = (int64_t{1} << (shift - 1)) - 1;
  const int64_t rebias = int64_t{kBias - f.bias} << kMantissaBits;
  Val code = (magnitude + (half - rebias) + odd) >> shift;
  if (f.bias != kBias) {
    // Subnormal: added to a number with the same unit, the number is rounded by the addition.
    const Val absolute = magnitude.Bits(kFloat32);
    const Val unit = absolute.OfFloat(std::ldexp(1.0, 1 - f.bias + shift));
    const Val subnormal = (absolute + unit).Bits(kUint32) - unit.Bits(kUint32);
    code = Where(Lt(absolute, absolute.OfFloat(std::ldexp(1.0, 1 - f.bias))), subnormal, code);
  }
  Val beyond = code.Of(code_of(f.saturates ? f.max_code() : f.inf_code()));
  if (f.saturates) {
    const uint64_t infinite = f.has_inf ? f.inf_code() : f.nan_code();
    beyond = Where(Lt(magnitude, kInfBits), beyond, code_of(infinite));
  }
  code = Where(Lt(code, code_of(f.max_code() + 1)), code, beyond);
  code = Where(Lt(magnitude, kInfBits + 1), code, code_of(f.nan_code()));
  const Val sign =
      (bits >> (31 - f.exponent_bits - f.mantissa_bits)) & static_cast<int64_t>(f.sign_bit());
  const Val with_sign = code | sign;
  return (f.negative_zero ? with_sign : Where(Eq(code, 0), code, with_sign)).As(StorageOf(dtype));
}

// `nearest` is x, a float64 or an integer, in float32, and `back` that number in the dtype of x.
// The result's last bit tells whether digits were lost ("round to odd"), so that a second rounding
// to fewer digits gives what one rounding would have given.
Val StickyFloat32(const Val& x) {
  const Val nearest = x.As(kFloat32);
  const Val back = nearest.As(x.dtype());
  const Val above = Lt(x, back), below = Lt(back, x);
  const Val beyond = IsUnsigned(x.dtype()) ? above : Where(Lt(x, 0), below, above);
  const Val bits = nearest.Bits(kUint32);
  const Val odd = (bits - beyond.As(kUint32)) | 1;
  return Where(above | below, odd, bits).Bits(kFloat32);
}

bool ExactInFloat32(const Node* x) {
  if (IsLosslessCast(x->dtype, kFloat32)) return true;
  const int64_t limit = int64_t{1} << (kMantissaBits + 1);
  return x->dtype != kUint64 && x->lo >= -limit && x->hi <= limit;
}

class Decomposer {
 public:
  Decomposer(Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  absl::Status Run(LoopNest& nest, std::vector<const Node*>& params) {
    std::vector<const Node*> roots = {nest.sink};
    roots.insert(roots.end(), params.begin(), params.end());
    const std::vector<const Node*> order = TopologicalOrder(roots);
    if (std::none_of(order.begin(), order.end(), [&](const Node* n) { return Lacks(n->dtype); })) {
      return absl::OkStatus();
    }
    for (const Node* node : order) {
      TD_ASSIGN_OR_RETURN(forms_[node], FormOf(node));
    }
    nest.sink = forms_.at(nest.sink);
    for (const Node*& param : params) param = forms_.at(param);
    return absl::OkStatus();
  }

 private:
  using Function = Val (Decomposer::*)(const Node*);
  struct Row {
    OpSet ops;
    Function function;
  };
  static const Row kSmallFloatRows[], kDoubleRows[];

  // Integers are split after floats have become integers.
  bool Lacks(DType dtype) const { return IsFloat(dtype) && target_.lacks.contains(dtype); }

  absl::StatusOr<const Node*> FormOf(const Node* node) {
    const Node* lacking = Lacks(node->dtype) ? node : nullptr;
    for (const Node* src : node->src) {
      if (lacking == nullptr && Lacks(src->dtype)) lacking = src;
    }
    if (lacking == nullptr) return Copy(node).node();
    // What is combined in memory would have to be decoded there; the tensor language scatters small
    // floats as float32.
    const bool combines = node->op == Op::kModify && node->scatter_kind() != ScatterKind::kSet;
    const Row* row = IsSmallFloat(lacking->dtype) ? kSmallFloatRows : kDoubleRows;
    for (; row->function != nullptr && !combines; ++row) {
      if (In(node->op, row->ops)) return (this->*row->function)(node).node();
    }
    return Unimplemented("{} of {}, which the target lacks", Name(node->op), Name(lacking->dtype));
  }

  // The form of a node: for a float that lacks its bits.
  Val Form(const Node* node) { return {graph_, forms_.at(node)}; }
  // The number itself, in float32 if its dtype lacks.
  Val Number(const Node* node) {
    if (!Lacks(node->dtype)) return Form(node);
    const auto [found, is_new] = numbers_.try_emplace(node);
    if (is_new) found->second = Decode(node->dtype, Form(node)).node();
    return {graph_, found->second};
  }

  Val Copy(const Node* node) {
    std::vector<const Node*> src;
    for (const Node* old : node->src) src.push_back(forms_.at(old));
    if (std::ranges::equal(src, node->src)) return {graph_, node};
    return {graph_, graph_.WithSources(node, src)};
  }

  // ---- small floats

  Val Constant(const Node* node) {
    const uint64_t bits = EncodeFloat(node->dtype, node->Float());
    return {graph_, graph_.Int(StorageOf(node->dtype), static_cast<int64_t>(bits))};
  }
  Val Param(const Node* node) {
    return {graph_, graph_.Param(node->slot(), StorageOf(node->dtype), node->ints.subspan(1))};
  }
  Val Negate(const Node* node) {
    const FloatFormat& f = Format(node->dtype);
    const Val bits = Form(node->src[0]);
    const Val negated = bits ^ static_cast<int64_t>(f.sign_bit());
    if (f.negative_zero) return negated;
    // Neither zero nor the NaN in its place have a sign.
    return Where(Eq(bits & static_cast<int64_t>(f.sign_bit() - 1), 0), bits, negated);
  }
  Val Bitcast(const Node* node) {
    const Val bits = Form(node->src[0]);
    if (!Lacks(node->dtype)) return bits.Bits(node->dtype);
    return bits.Bits(StorageOf(node->dtype));
  }
  Val Cast(const Node* node) {
    const DType from = node->src[0]->dtype, to = node->dtype;
    if (from == kFloat64 && Lacks(from)) return CastDouble(Form(node->src[0]), to);
    Val x = Number(node->src[0]);
    if (!Lacks(to)) return x.As(to);
    if (to == kFloat64) return IsFloat(from) ? Float32ToDouble(x.As(kFloat32)) : IntToDouble(x);
    if (x.dtype() == kIndex) x = x.As(kInt64);
    // An integer that float32 rounds is beyond the largest number of the dtypes with fewer
    // exponents; bfloat16 has it, and a float64 can be near a tie of any.
    const bool rounds = x.dtype() == kFloat64 || (to == kBFloat16 && !ExactInFloat32(x.node()));
    return Encode(to, rounds ? StickyFloat32(x) : x.As(kFloat32));
  }
  Val CastDouble(const Val& bits, DType to) {
    if (!IsFloat(to)) return DoubleToInt(bits, to);
    if (to == kFloat32) return DoubleToFloat32(bits, Float32Rounding::kNearest);
    const Val sticky = DoubleToFloat32(bits, Float32Rounding::kOdd);
    return Lacks(to) ? Encode(to, sticky) : sticky.As(to);
  }
  Val Trunc(const Node* node) { return DoubleTrunc(Form(node->src[0])); }
  Val CompareDouble(const Node* node) {
    const Val a = Form(node->src[0]), b = Form(node->src[1]);
    if (node->op == Op::kCmpLt) return DoubleLess(a, b);
    const Val equal = DoubleEqual(a, b);
    return node->op == Op::kCmpEq ? equal : Eq(equal, 0);
  }
  Val ExtremeDouble(const Node* node) {
    const Val a = Form(node->src[0]), b = Form(node->src[1]);
    const Val takes_a = node->op == Op::kMax ? DoubleLess(b, a) : DoubleLess(a, b);
    return Where(DoubleIsNan(a), a, Where(takes_a, a, b));
  }
  // In float32; a result of the dtype is rounded.
  Val Compute(const Node* node) {
    std::vector<const Node*> src;
    for (const Node* old : node->src) src.push_back(Number(old).node());
    Val result = {graph_, graph_.Make(node->op, src, node->ints)};
    if (!Lacks(node->dtype)) return result;
    // Before its first element a running extreme is the number that all others are better than, which
    // is an infinity only where there is one.
    const FloatFormat& format = Format(node->dtype);
    if (node->op == Op::kRunning && !format.has_inf) {
      const Scalar identity = ScanIdentity(node->scan_kind(), node->dtype);
      const Node* limit = graph_.Float(result.node()->dtype, identity.f);
      if (node->scan_kind() == ScanKind::kMin) {
        result = {graph_, graph_.Make(Op::kMin, {result.node(), limit})};
      } else if (node->scan_kind() == ScanKind::kMax || node->scan_kind() == ScanKind::kLogAdd) {
        result = {graph_, graph_.Make(Op::kMax, {result.node(), limit})};
      }
    }
    return Encode(node->dtype, result);
  }

  Graph& graph_;
  const Target& target_;
  absl::flat_hash_map<const Node*, const Node*> forms_, numbers_;
};

constexpr OpSet Ops(std::initializer_list<Op> ops) {
  OpSet bits;
  for (Op op : ops) bits |= OpBit(op);
  return bits;
}

// clang-format off
const Decomposer::Row Decomposer::kSmallFloatRows[] = {
    {Ops({Op::kConst}),                         &Decomposer::Constant},
    {Ops({Op::kParam}),                         &Decomposer::Param},
    {Ops({Op::kLoad, Op::kStore, Op::kWhere, Op::kModify}),
                                                &Decomposer::Copy},
    {Ops({Op::kNeg}),                           &Decomposer::Negate},
    {Ops({Op::kBitcast}),                       &Decomposer::Bitcast},
    {Ops({Op::kCast}),                          &Decomposer::Cast},
    {Ops({Op::kExp, Op::kLog, Op::kSin, Op::kSqrt, Op::kTrunc, Op::kAdd, Op::kSub, Op::kMul,
          Op::kDiv, Op::kMax, Op::kMin, Op::kCmpLt, Op::kCmpEq, Op::kCmpNe, Op::kFold, Op::kRunning}),
                                                &Decomposer::Compute},
    {{}, nullptr},
};
const Decomposer::Row Decomposer::kDoubleRows[] = {
    {Ops({Op::kConst}),                         &Decomposer::Constant},
    {Ops({Op::kParam}),                         &Decomposer::Param},
    {Ops({Op::kLoad, Op::kStore, Op::kWhere}),  &Decomposer::Copy},
    {Ops({Op::kNeg}),                           &Decomposer::Negate},
    {Ops({Op::kBitcast}),                       &Decomposer::Bitcast},
    {Ops({Op::kCast}),                          &Decomposer::Cast},
    {Ops({Op::kTrunc}),                         &Decomposer::Trunc},
    {Ops({Op::kMax, Op::kMin}),                 &Decomposer::ExtremeDouble},
    {Ops({Op::kCmpLt, Op::kCmpEq, Op::kCmpNe}), &Decomposer::CompareDouble},
    {{}, nullptr},
};
// clang-format on

}  // namespace

absl::Status Decompose(LoopNest& nest, std::vector<const Node*>& params, const Target& target) {
  if (target.lacks.empty()) return absl::OkStatus();
  TD_RETURN_IF_ERROR(Decomposer(nest.graph, target).Run(nest, params));
  if (target.lacks.contains(kInt64) || target.lacks.contains(kUint64)) {
    TD_RETURN_IF_ERROR(SplitLongIntegers(nest, params));
  }
  return absl::OkStatus();
}

}  // namespace tensord
