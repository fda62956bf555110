#include "core/render/llvm_ops.h"

#include <absl/container/inlined_vector.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/eval.h"

namespace tensord::llvm_ir {
namespace {

bool IsSmallFloat(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Ops that are one instruction; null where it isn't defined or takes more.
struct InstructionRow {
  Op op;
  const char* on_float;
  const char* on_signed;
  const char* on_unsigned;
  const char* on_index;
  const char* on_bool;
};
// clang-format off
constexpr InstructionRow kInstructions[] = {
    // op          float        signed      unsigned    index       bool
    {Op::kAdd,     "fadd",      "add",      "add",      "add nsw",  "or"},
    {Op::kSub,     "fsub",      "sub",      "sub",      "sub nsw",  nullptr},
    {Op::kMul,     "fmul",      "mul",      "mul",      "mul nsw",  "and"},
    {Op::kMax,     nullptr,     nullptr,    nullptr,    nullptr,    "or"},
    {Op::kMin,     nullptr,     nullptr,    nullptr,    nullptr,    "and"},
    {Op::kAnd,     nullptr,     "and",      "and",      "and",      "and"},
    {Op::kOr,      nullptr,     "or",       "or",       "or",       "or"},
    {Op::kXor,     nullptr,     "xor",      "xor",      "xor",      "xor"},
    {Op::kCmpLt,   "fcmp olt",  "icmp slt", "icmp ult", "icmp slt", "icmp ult"},
    {Op::kCmpEq,   "fcmp oeq",  "icmp eq",  "icmp eq",  "icmp eq",  "icmp eq"},
    {Op::kCmpNe,   "fcmp une",  "icmp ne",  "icmp ne",  "icmp ne",  "icmp ne"},
};
// clang-format on

const char* InstructionFor(Op op, DType dtype) {
  for (const InstructionRow& row : kInstructions) {
    if (row.op != op) continue;
    if (IsFloat(dtype)) return row.on_float;
    if (dtype == DType::kBool) return row.on_bool;
    if (dtype == DType::kIndex) return row.on_index;
    return IsUnsigned(dtype) ? row.on_unsigned : row.on_signed;
  }
  return nullptr;
}

// The constant that all lanes of a node hold, if it is one.
const Node* ConstantOf(const Node* node) {
  while (node != nullptr && node->op == Op::kBroadcast) node = node->src[0];
  return node != nullptr && node->IsConst() ? node : nullptr;
}

bool IsNotNan(const Node* node) {
  const Node* constant = ConstantOf(node);
  return constant != nullptr && !std::isnan(constant->Float());
}

}  // namespace

// The sources of one op. `nodes` is null where nothing more than the values is known.
struct Ops::Operands {
  Op op;
  DType result;
  DType dtype;  // of the first source that has the op's type: the second of a Where
  absl::Span<const Value> values;
  const Node* const* nodes;

  const Value& a() const { return values[0]; }
  const Value& b() const { return values[1]; }
  const Value& c() const { return values[2]; }
  const Node* node(int i) const { return nodes == nullptr ? nullptr : nodes[i]; }
  // Intervals of signed operands; the widest where nothing is known.
  int64_t lo(int i) const { return nodes == nullptr ? IntMin(dtype) : nodes[i]->lo; }
  int64_t hi(int i) const { return nodes == nullptr ? IntMax(dtype) : nodes[i]->hi; }
};

enum Kinds : uint8_t { kFloats = 1, kInts = 2, kBools = 4, kAll = 7 };

struct Ops::FunctionRow {
  Op op;
  uint8_t kinds;       // of dtypes that it is defined on
  bool on_small_bits;  // float16 and bfloat16 are given as bits, not widened
  Function function;
};

// clang-format off
const Ops::FunctionRow Ops::kFunctions[] = {
    {Op::kCast,     kAll,            true,  &Ops::Cast},
    {Op::kBitcast,  kAll,            true,  &Ops::Bitcast},
    {Op::kNeg,      kFloats | kInts, true,  &Ops::Negate},
    {Op::kExp,      kFloats,         false, &Ops::Exp},
    {Op::kLog,      kFloats,         false, &Ops::Log},
    {Op::kSin,      kFloats,         false, &Ops::Sin},
    {Op::kSqrt,     kFloats,         false, &Ops::Sqrt},
    {Op::kDiv,      kFloats,         false, &Ops::Quotient},
    {Op::kTrunc,    kFloats,         false, &Ops::Trunc},
    {Op::kTrunc,    kInts,           false, &Ops::Identity},
    {Op::kMax,      kFloats | kInts, false, &Ops::MaxMin},
    {Op::kMin,      kFloats | kInts, false, &Ops::MaxMin},
    {Op::kFloorDiv, kInts,           false, &Ops::Divide},
    {Op::kFloorMod, kInts,           false, &Ops::Divide},
    {Op::kTruncDiv, kInts,           false, &Ops::Divide},
    {Op::kTruncMod, kInts,           false, &Ops::Divide},
    {Op::kShl,      kInts,           false, &Ops::Shift},
    {Op::kShr,      kInts,           false, &Ops::Shift},
    {Op::kFma,      kFloats,         true,  &Ops::Fma},
};
// clang-format on

Scalar RegisterType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return Scalar::kI1;
    case DType::kFloat32:
      return Scalar::kFloat;
    case DType::kFloat64:
      return Scalar::kDouble;
    case DType::kIndex:
      return Scalar::kI64;
    default:
      break;
  }
  switch (BitSize(dtype)) {
    case 8:
      return Scalar::kI8;
    case 16:
      return Scalar::kI16;
    case 32:
      return Scalar::kI32;
    default:
      return Scalar::kI64;
  }
}

Scalar MemoryType(DType dtype) { return dtype == DType::kBool ? Scalar::kI8 : RegisterType(dtype); }

Ops::Ops(Emitter& emitter, const Target& target)
    : e_(emitter),
      half_in_hardware_(target.arch != "x86-64" ||
                        target.features.find("+f16c") != std::string::npos) {}

Value Ops::Constant(DType dtype, int lanes, int64_t attribute) {
  const Type type{RegisterType(dtype), lanes};
  if (!IsFloat(dtype)) return e_.Int(type, attribute);
  double value = std::bit_cast<double>(attribute);
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  if (IsSmallFloat(dtype)) return e_.Int(type, static_cast<int64_t>(EncodeFloat(dtype, value)));
  return e_.Float(type, value);
}

absl::StatusOr<Value> Ops::Elementwise(const Node& node, absl::Span<const Value> src) {
  const int typed = node.op == Op::kWhere ? 1 : 0;
  return Apply({.op = node.op,
                .result = node.dtype,
                .dtype = node.src[typed]->dtype,
                .values = src,
                .nodes = node.src.data()});
}

absl::StatusOr<Value> Ops::Binary(Op op, DType dtype, const Value& a, const Value& b) {
  const std::array<Value, 2> values{a, b};
  return Apply({.op = op, .result = dtype, .dtype = dtype, .values = values, .nodes = nullptr});
}

absl::StatusOr<Value> Ops::Apply(const Operands& x) {
  if (x.op == Op::kWhere) return e_.Select(x.a(), x.b(), x.c());
  const uint8_t kind = IsFloat(x.dtype) ? kFloats : x.dtype == DType::kBool ? kBools : kInts;
  const FunctionRow* function = nullptr;
  for (const FunctionRow& row : kFunctions) {
    if (row.op == x.op && (row.kinds & kind)) function = &row;
  }
  const char* instruction = InstructionFor(x.op, x.dtype);
  if (function == nullptr && instruction == nullptr) {
    return InvalidArgument("{} is not defined on {}", Name(x.op), Name(x.dtype));
  }
  if (IsSmallFloat(x.dtype) && !(function != nullptr && function->on_small_bits)) {
    return ApplyWide(x);
  }
  if (function != nullptr) return (this->*function->function)(x);
  if (x.result == DType::kBool && x.dtype != DType::kBool) {
    return e_.Compare(instruction, x.a(), x.b());
  }
  if (std::string_view(instruction).starts_with("icmp")) {
    return e_.Compare(instruction, x.a(), x.b());
  }
  return e_.Op(instruction, x.a(), x.b());
}

// float32 has more than twice the digits of both small types, plus two, so that rounding its result
// once more gives the correctly rounded one for + - * / and sqrt.
absl::StatusOr<Value> Ops::ApplyWide(const Operands& x) {
  absl::InlinedVector<Value, 2> wide;
  for (const Value& value : x.values) wide.push_back(Widen(value, x.dtype));
  const bool narrow = x.result == x.dtype;
  TD_ASSIGN_OR_RETURN(Value result, Apply({.op = x.op,
                                           .result = narrow ? DType::kFloat32 : x.result,
                                           .dtype = DType::kFloat32,
                                           .values = wide,
                                           .nodes = x.nodes}));
  return narrow ? Narrow(result, x.dtype) : result;
}

Value Ops::Identity(const Operands& x) { return x.a(); }
Value Ops::Exp(const Operands& x) { return EmitExp(e_, x.a()); }
Value Ops::Log(const Operands& x) { return EmitLog(e_, x.a()); }
Value Ops::Sin(const Operands& x) { return EmitSin(e_, x.a()); }
Value Ops::Sqrt(const Operands& x) {
  return e_.Intrinsic("sqrt", x.a().type, {x.a()}, {x.a().type});
}
// LLVM 19 takes a lane of zero by zero for zero when it drops masks, so it must not see the
// divisor.
Value Ops::Quotient(const Operands& x) {
  Value divisor = x.b();
  if (divisor.type.lanes > 1 && ConstantOf(x.node(1)) == nullptr) {
    divisor = e_.Intrinsic("arithmetic.fence", divisor.type, {divisor}, {divisor.type});
  }
  return e_.Op("fdiv", x.a(), divisor);
}
Value Ops::Trunc(const Operands& x) {
  return e_.Intrinsic("trunc", x.a().type, {x.a()}, {x.a().type});
}

Value Ops::Negate(const Operands& x) {
  const Type type = x.a().type;
  if (IsSmallFloat(x.dtype)) return e_.Op("xor", x.a(), e_.Int(type, 0x8000));
  if (IsFloat(x.dtype)) return e_.Negate(x.a());
  return e_.Op(x.dtype == DType::kIndex ? "sub nsw" : "sub", e_.Zero(type), x.a());
}

Value Ops::MaxMin(const Operands& x) {
  const bool max = x.op == Op::kMax;
  const Type type = x.a().type;
  if (!IsFloat(x.dtype)) {
    const std::string_view name =
        IsUnsigned(x.dtype) ? (max ? "umax" : "umin") : (max ? "smax" : "smin");
    return e_.Intrinsic(name, type, {x.a(), x.b()}, {type});
  }
  // `a > b ? a : b` is one x86 instruction and gives b where either is NaN, which leaves a NaN in a
  // to repair; a constant is put there, since it needs none. Of two zeros, either may be returned.
  const bool swap = IsNotNan(x.node(1));
  const Value& a = swap ? x.b() : x.a();
  const Value& b = swap ? x.a() : x.b();
  const Value larger = e_.Select(e_.Compare(max ? "fcmp ogt" : "fcmp olt", a, b), a, b);
  if (swap || IsNotNan(x.node(0))) return larger;
  return e_.Select(e_.Compare("fcmp uno", a, a), a, larger);
}

// Both operands are known to be >= 0 and the divisor > 0, which LLVM can't see.
Value Ops::NonNegativeDivide(const Operands& x) {
  const bool quotient = x.op == Op::kFloorDiv || x.op == Op::kTruncDiv;
  const std::string_view instruction = quotient ? "udiv" : "urem";
  // Half as wide is faster, much so in vectors: they have no 64-bit high product.
  const bool narrow =
      Bits(x.a().type.scalar) == 64 && x.hi(0) <= 0xffffffff && x.hi(1) <= 0xffffffff;
  if (!narrow) return e_.Op(instruction, x.a(), x.b());
  auto narrowed = [&](int i) {
    const Type type = x.values[i].type.With(Scalar::kI32);
    if (const Node* constant = ConstantOf(x.node(i))) return e_.Int(type, constant->Int());
    return e_.Convert("trunc", x.values[i], Scalar::kI32);
  };
  const Value a = narrowed(0);
  return e_.Convert("zext", e_.Op(instruction, a, narrowed(1)), Scalar::kI64);
}

Value Ops::Divide(const Operands& x) {
  const bool quotient = x.op == Op::kFloorDiv || x.op == Op::kTruncDiv;
  const bool floor = x.op == Op::kFloorDiv || x.op == Op::kFloorMod;
  const Type type = x.a().type;
  const Value zero = e_.Zero(type), one = e_.Int(type, 1);
  const Node* constant = ConstantOf(x.node(1));
  if (constant != nullptr && constant->Int() == 0) return zero;

  if (IsUnsigned(x.dtype)) {
    const bool safe = constant != nullptr || (x.dtype != DType::kUint64 && x.lo(1) > 0);
    if (safe) return e_.Op(quotient ? "udiv" : "urem", x.a(), x.b());
    const Value is_zero = e_.Compare("icmp eq", x.b(), zero);
    const Value divisor = e_.Select(is_zero, one, x.b());
    const Value result = e_.Op(quotient ? "udiv" : "urem", x.a(), divisor);
    return quotient ? e_.Select(is_zero, zero, result) : result;
  }

  if (x.lo(0) >= 0 && x.lo(1) > 0) return NonNegativeDivide(x);
  // Dividing by 0, and the least integer by -1, are traps; both are divided by 1 instead, which
  // leaves the right remainder of 0.
  const bool maybe_zero = x.lo(1) <= 0 && x.hi(1) >= 0 && constant == nullptr;
  const bool maybe_minus_one = x.lo(1) <= -1 && x.hi(1) >= -1;
  Value divisor = x.b(), is_zero, is_minus_one;
  if (maybe_zero) {
    is_zero = e_.Compare("icmp eq", x.b(), zero);
    divisor = e_.Select(is_zero, one, divisor);
  }
  if (maybe_minus_one) {
    is_minus_one = e_.Compare("icmp eq", x.b(), e_.Int(type, -1));
    divisor = e_.Select(is_minus_one, one, divisor);
  }
  Value q = e_.Op("sdiv", x.a(), divisor);
  const Value r = e_.Op("sub", x.a(), e_.Op("mul", q, divisor));
  if (!floor && !quotient) return r;
  Value wrong_side;
  if (floor) {
    wrong_side = e_.Compare("icmp slt", e_.Op("xor", r, x.b()), zero);
    wrong_side = e_.Op("and", wrong_side, e_.Compare("icmp ne", r, zero));
  }
  if (!quotient) return e_.Op("add", r, e_.Select(wrong_side, x.b(), zero));
  if (maybe_minus_one) q = e_.Select(is_minus_one, e_.Op("sub", zero, x.a()), q);
  if (maybe_zero) q = e_.Select(is_zero, zero, q);
  return floor ? e_.Op("sub", q, e_.Select(wrong_side, one, zero)) : q;
}

Value Ops::Shift(const Operands& x) {
  const Type type = x.a().type;
  const int bits = BitSize(x.dtype);
  const bool left = x.op == Op::kShl;
  const std::string_view instruction = left ? "shl" : IsUnsigned(x.dtype) ? "lshr" : "ashr";
  const Node* constant = ConstantOf(x.node(1));
  if (constant != nullptr && constant->Int() >= 0 && constant->Int() < bits) {
    return e_.Op(instruction, x.a(), x.b());
  }
  const Value inside = e_.Compare("icmp ult", x.b(), e_.Int(type, bits));
  if (instruction == "ashr") {
    return e_.Op(instruction, x.a(), e_.Select(inside, x.b(), e_.Int(type, bits - 1)));
  }
  return e_.Select(inside, e_.Op(instruction, x.a(), x.b()), e_.Zero(type));
}

Value Ops::Fma(const Operands& x) {
  if (!IsSmallFloat(x.dtype)) return e_.MulAdd(x.a(), x.b(), x.c());
  auto wide = [&](const Value& v) {
    return e_.Convert("fpext", Widen(v, x.dtype), Scalar::kDouble);
  };
  // The product is exact in float64; what the sum loses is kept in its last bit.
  const Value product = e_.Op("fmul", wide(x.a()), wide(x.b()));
  const Value c = wide(x.c());
  const Value sum = e_.Op("fadd", product, c);
  const Value shadow = e_.Op("fsub", sum, product);
  const Value error =
      e_.Op("fadd", e_.Op("fsub", product, e_.Op("fsub", sum, shadow)), e_.Op("fsub", c, shadow));
  return Narrow(StickySum(sum, error), x.dtype);
}

Value Ops::Bitcast(const Operands& x) {
  if (x.result == x.dtype) return x.a();
  if (x.dtype == DType::kBool) return e_.Convert("zext", x.a(), Scalar::kI8);
  if (x.result == DType::kBool) return e_.Compare("icmp ne", x.a(), e_.Zero(x.a().type));
  return e_.Bitcast(x.a(), RegisterType(x.result));
}

Value Ops::Cast(const Operands& x) {
  const DType from = x.dtype, to = x.result;
  const Type type = x.a().type;
  if (from == to) return x.a();
  if (IsFloat(from)) {
    if (IsSmallFloat(from)) {
      if (to == DType::kBool) {
        return e_.Compare("icmp ne", e_.Op("and", x.a(), e_.Int(type, 0x7fff)), e_.Zero(type));
      }
      const Value wide = Widen(x.a(), from);
      const std::array<Value, 1> values{wide};
      return Cast(
          {.op = x.op, .result = to, .dtype = DType::kFloat32, .values = values, .nodes = nullptr});
    }
    if (to == DType::kBool) return e_.Compare("fcmp une", x.a(), e_.Zero(type));
    if (to == DType::kFloat64) return e_.Convert("fpext", x.a(), Scalar::kDouble);
    if (to == DType::kFloat32) return e_.Convert("fptrunc", x.a(), Scalar::kFloat);
    if (IsSmallFloat(to)) return Narrow(x.a(), to);
    return FloatToInt(x.a(), to);
  }
  if (to == DType::kBool) return e_.Compare("icmp ne", x.a(), e_.Zero(type));
  if (IsFloat(to)) return IntToFloat(x.a(), from, to);
  const Scalar target = RegisterType(to);
  if (Bits(target) == Bits(type.scalar)) return x.a();
  if (Bits(target) < Bits(type.scalar)) return e_.Convert("trunc", x.a(), target);
  return e_.Convert(IsSigned(from) ? "sext" : "zext", x.a(), target);
}

// llvm.fpto*.sat would say this in one word, but LLVM 19 takes its vectors apart on x86. The
// conversion's poison outside the limits stays in the select's other arm.
Value Ops::FloatToInt(const Value& x, DType to) {
  const Scalar scalar = RegisterType(to);
  const Type type = x.type.With(scalar);
  const bool is_unsigned = IsUnsigned(to);
  const int value_bits = BitSize(to) - (is_unsigned ? 0 : 1);
  const Value limit = e_.Float(x.type, std::ldexp(1.0, value_bits));
  Value result = e_.Convert(is_unsigned ? "fptoui" : "fptosi", x, scalar);
  result = e_.Select(e_.Compare("fcmp oge", x, limit), e_.Int(type, IntMax(to)), result);
  if (is_unsigned) {  // NaN as well
    return e_.Select(e_.Compare("fcmp ogt", x, e_.Zero(x.type)), result, e_.Zero(type));
  }
  const Value lowest = e_.Float(x.type, -std::ldexp(1.0, value_bits));
  result = e_.Select(e_.Compare("fcmp ole", x, lowest), e_.Int(type, IntMin(to)), result);
  return e_.Select(e_.Compare("fcmp uno", x, x), e_.Zero(type), result);
}

Value Ops::IntToFloat(const Value& x, DType from, DType to) {
  const std::string_view instruction = IsSigned(from) ? "sitofp" : "uitofp";
  if (!IsSmallFloat(to)) return e_.Convert(instruction, x, RegisterType(to));
  // Exact in float32 up to 2^24, beyond which float16 has infinity only.
  if (to == DType::kFloat16 || BitSize(from) <= 16) {
    return Narrow(e_.Convert(instruction, x, Scalar::kFloat), to);
  }
  if (BitSize(from) <= 32) return Narrow(e_.Convert(instruction, x, Scalar::kDouble), to);
  // 64 bits: beyond 2^53 the lowest 11 bits become one that says whether they were all zero.
  const Type type = x.type;
  const Value low = e_.Op("and", x, e_.Int(type, 2047));
  const Value sticky =
      e_.Select(e_.Compare("icmp eq", low, e_.Zero(type)), e_.Zero(type), e_.Int(type, 2048));
  const Value rounded = e_.Op("or", e_.Op("and", x, e_.Int(type, -2048)), sticky);
  const int64_t exact = int64_t{1} << 53;
  const Value inside = IsSigned(from) ? e_.Compare("icmp ult", e_.Op("add", x, e_.Int(type, exact)),
                                                   e_.Int(type, 2 * exact))
                                      : e_.Compare("icmp ult", x, e_.Int(type, exact));
  return Narrow(e_.Convert(instruction, e_.Select(inside, x, rounded), Scalar::kDouble), to);
}

Value Ops::Widen(const Value& bits, DType from) {
  if (from == DType::kFloat16 && half_in_hardware_) {
    return e_.Convert("fpext", e_.Bitcast(bits, Scalar::kHalf), Scalar::kFloat);
  }
  const Value wide = e_.Convert("zext", bits, Scalar::kI32);
  const Type type = wide.type;
  if (from == DType::kBFloat16) {
    return e_.Bitcast(e_.Op("shl", wide, e_.Int(type, 16)), Scalar::kFloat);
  }
  // Shifted into place the exponent is 112 too small, also for subnormals, which float32 has as
  // normal numbers; infinity and NaN get all its bits.
  const Value magnitude = e_.Op("shl", e_.Op("and", wide, e_.Int(type, 0x7fff)), e_.Int(type, 13));
  const Value as_float = e_.Bitcast(magnitude, Scalar::kFloat);
  const Value finite =
      e_.Bitcast(e_.Op("fmul", as_float, e_.Float(as_float.type, 0x1p112)), Scalar::kI32);
  const Value special = e_.Op("or", magnitude, e_.Int(type, 0x7f800000));
  const Value is_special = e_.Compare("icmp uge", magnitude, e_.Int(type, 0x7c00 << 13));
  const Value sign = e_.Op("shl", e_.Op("and", wide, e_.Int(type, 0x8000)), e_.Int(type, 16));
  return e_.Bitcast(e_.Op("or", e_.Select(is_special, special, finite), sign), Scalar::kFloat);
}

Value Ops::Narrow(const Value& x, DType to) {
  if (x.type.scalar == Scalar::kDouble) return Narrow(RoundToOdd(x), to);
  if (to == DType::kFloat16 && half_in_hardware_) {
    return e_.Bitcast(e_.Convert("fptrunc", x, Scalar::kHalf), Scalar::kI16);
  }
  const Value bits = e_.Bitcast(x, Scalar::kI32);
  const Type type = bits.type;
  auto number = [&](int64_t value) { return e_.Int(type, value); };
  if (to == DType::kBFloat16) {
    // Not AVX512-BF16's instruction: it flushes subnormals.
    const Value high = e_.Op("lshr", bits, number(16));
    const Value odd = e_.Op("and", high, number(1));
    const Value bias = e_.Op("add", odd, number(0x7fff));
    const Value rounded = e_.Op("lshr", e_.Op("add", bits, bias), number(16));
    const Value quiet = e_.Op("or", high, number(0x40));
    const Value is_nan = e_.Compare("fcmp uno", x, x);
    return e_.Convert("trunc", e_.Select(is_nan, quiet, rounded), Scalar::kI16);
  }
  const Value sign = e_.Op("and", bits, number(0x80000000));
  const Value magnitude = e_.Op("xor", bits, sign);
  const Value absolute = e_.Bitcast(magnitude, Scalar::kFloat);
  // Subnormal: adding 0.5 lets the addition round to the unit of float16's subnormals.
  const Value shifted = e_.Op("fadd", absolute, e_.Float(absolute.type, 0.5));
  const Value subnormal = e_.Op("sub", e_.Bitcast(shifted, Scalar::kI32), number(0x3f000000));
  const Value odd = e_.Op("and", e_.Op("lshr", magnitude, number(13)), number(1));
  const Value rebiased = e_.Op("add", magnitude, number(0xfff - (int64_t{112} << 23)));
  const Value normal = e_.Op("lshr", e_.Op("add", rebiased, odd), number(13));
  Value result = e_.Select(e_.Compare("fcmp olt", absolute, e_.Float(absolute.type, 0x1p-14)),
                           subnormal, normal);
  result = e_.Select(e_.Compare("fcmp oge", absolute, e_.Float(absolute.type, 65520)),
                     number(0x7c00), result);
  result = e_.Select(e_.Compare("fcmp uno", x, x), number(0x7e00), result);
  return e_.Convert("trunc", e_.Op("or", result, e_.Op("lshr", sign, number(16))), Scalar::kI16);
}

// Rounding to odd keeps, in the last bit, that digits were lost, so that a second rounding to fewer
// digits gives what one rounding would have given.
Value Ops::RoundToOdd(const Value& x) {
  const Value nearest = e_.Convert("fptrunc", x, Scalar::kFloat);
  const Value back = e_.Convert("fpext", nearest, Scalar::kDouble);
  const Value inexact = e_.Compare("fcmp one", back, x);
  const Value beyond = e_.Compare("fcmp ogt", e_.Intrinsic("fabs", x.type, {back}, {x.type}),
                                  e_.Intrinsic("fabs", x.type, {x}, {x.type}));
  const Value bits = e_.Bitcast(nearest, Scalar::kI32);
  const Value toward_zero = e_.Op("sub", bits, e_.Convert("zext", beyond, Scalar::kI32));
  const Value odd = e_.Op("or", toward_zero, e_.Int(bits.type, 1));
  return e_.Bitcast(e_.Select(inexact, odd, bits), Scalar::kFloat);
}

// `sum` + `error` in float64, rounded to odd; `error` is below half a unit of `sum`, or NaN if that
// isn't finite.
Value Ops::StickySum(const Value& sum, const Value& error) {
  const Value bits = e_.Bitcast(sum, Scalar::kI64);
  const Type type = bits.type;
  const Value zero = e_.Zero(sum.type);
  const Value inexact = e_.Compare("fcmp one", error, zero);
  const Value beyond = e_.Op("xor", e_.Compare("icmp slt", bits, e_.Zero(type)),
                             e_.Compare("fcmp olt", error, zero));
  const Value toward_zero = e_.Op("sub", bits, e_.Convert("zext", beyond, Scalar::kI64));
  const Value odd = e_.Op("or", toward_zero, e_.Int(type, 1));
  return e_.Bitcast(e_.Select(inexact, odd, bits), Scalar::kDouble);
}

}  // namespace tensord::llvm_ir
