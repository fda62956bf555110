#include "core/ir/eval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tensord {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

bool IsDouble(DType dtype) { return dtype == DType::kFloat64 || dtype == DType::kWeakFloat; }

uint64_t U(int64_t x) { return static_cast<uint64_t>(x); }
int64_t S(uint64_t x) { return static_cast<int64_t>(x); }

bool LessInt(DType dtype, int64_t a, int64_t b) { return IsUnsigned(dtype) ? U(a) < U(b) : a < b; }

// Quotient and remainder that round to zero; both 0 when dividing by zero.
struct DivMod {
  int64_t quotient, remainder;
};
DivMod Truncating(DType dtype, int64_t a, int64_t b) {
  if (b == 0) return {0, 0};
  if (IsUnsigned(dtype)) return {S(U(a) / U(b)), S(U(a) % U(b))};
  if (b == -1) return {S(0 - U(a)), 0};  // the least integer has no negative: it wraps
  return {a / b, a % b};
}
DivMod Flooring(DType dtype, int64_t a, int64_t b) {
  DivMod d = Truncating(dtype, a, b);
  if (!IsUnsigned(dtype) && d.remainder != 0 && (d.remainder < 0) != (b < 0)) {
    d.quotient -= 1;
    d.remainder += b;
  }
  return d;
}

int64_t ShiftLeft(DType dtype, int64_t a, int64_t count) {
  return U(count) < U(BitSize(dtype)) ? S(U(a) << count) : 0;
}
int64_t ShiftRight(DType dtype, int64_t a, int64_t count) {
  const bool inside = U(count) < U(BitSize(dtype));
  if (IsUnsigned(dtype)) return inside ? S(U(a) >> count) : 0;
  return a >> (inside ? count : 63);
}

std::optional<Scalar> EvalInt(Op op, DType dtype, int64_t a, int64_t b) {
  auto result = [&](int64_t value) { return Scalar::Int(dtype, value); };
  switch (op) {
    case Op::kNeg:
      return result(S(0 - U(a)));
    case Op::kTrunc:
      return result(a);
    case Op::kAdd:
      return result(S(U(a) + U(b)));
    case Op::kSub:
      return result(S(U(a) - U(b)));
    case Op::kMul:
      return result(S(U(a) * U(b)));
    case Op::kMax:
      return result(LessInt(dtype, a, b) ? b : a);
    case Op::kMin:
      return result(LessInt(dtype, b, a) ? b : a);
    case Op::kFloorDiv:
      return result(Flooring(dtype, a, b).quotient);
    case Op::kFloorMod:
      return result(Flooring(dtype, a, b).remainder);
    case Op::kTruncDiv:
      return result(Truncating(dtype, a, b).quotient);
    case Op::kTruncMod:
      return result(Truncating(dtype, a, b).remainder);
    case Op::kAnd:
      return result(a & b);
    case Op::kOr:
      return result(a | b);
    case Op::kXor:
      return result(a ^ b);
    case Op::kShl:
      return result(ShiftLeft(dtype, a, b));
    case Op::kShr:
      return result(ShiftRight(dtype, a, b));
    default:
      return std::nullopt;
  }
}

std::optional<Scalar> EvalBool(Op op, bool a, bool b) {
  auto result = [&](bool value) { return Scalar::Int(DType::kBool, value); };
  switch (op) {
    case Op::kAdd:
    case Op::kMax:
    case Op::kOr:
      return result(a || b);
    case Op::kMul:
    case Op::kMin:
    case Op::kAnd:
      return result(a && b);
    case Op::kXor:
      return result(a != b);
    default:
      return std::nullopt;
  }
}

// The larger, NaN if either is; 0 is larger than -0.
double Maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNaN;
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

// Computing in double and rounding once more gives the correctly rounded result of + - * / and sqrt
// for every narrower type here: double has more than twice their digits, plus two.
std::optional<Scalar> EvalFloat(Op op, DType dtype, double a, double b) {
  auto result = [&](double value) { return Scalar::Float(dtype, value); };
  // In float32 where the dtype is narrower: what overflows there is infinite, also in a dtype that
  // would saturate.
  auto function = [&](double value) {
    return result(IsDouble(dtype) ? value : static_cast<float>(value));
  };
  switch (op) {
    case Op::kNeg:
      return result(-a);
    case Op::kExp:
      return function(std::exp(a));
    case Op::kLog:
      return function(std::log(a));
    case Op::kSin:
      return function(std::sin(a));
    case Op::kSqrt:
      return result(std::sqrt(a));
    case Op::kTrunc:
      return result(std::trunc(a));
    case Op::kAdd:
      return result(a + b);
    case Op::kSub:
      return result(a - b);
    case Op::kMul:
      return result(a * b);
    case Op::kDiv:
      return result(a / b);
    case Op::kMax:
      return result(Maximum(a, b));
    case Op::kMin:
      return result(-Maximum(-a, -b));
    default:
      return std::nullopt;
  }
}

// `value` + `error` as a double whose last bit is set if it isn't exact ("round to odd"): what was
// lost then still breaks ties when the double is rounded to a type with fewer digits.
double StickySum(double value, double error) {
  if (error == 0 || !std::isfinite(value)) return value;
  if (std::bit_cast<uint64_t>(value) & 1) return value;
  return std::nextafter(value, error > 0 ? kInf : -kInf);
}

double FusedMultiplyAdd(DType dtype, double a, double b, double c) {
  if (IsDouble(dtype)) return std::fma(a, b, c);
  const double product = a * b;  // exact: no other type has more than 24 digits
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double shadow = sum - product;  // Knuth's two-sum: `sum` + error is the exact sum
  return StickySum(sum, (product - (sum - shadow)) + (c - shadow));
}

double IntToFloat(DType from, DType to, int64_t value) {
  const bool is_unsigned = IsUnsigned(from);
  const double nearest = is_unsigned ? static_cast<double>(U(value)) : static_cast<double>(value);
  if (IsDouble(to) || std::abs(nearest) < 0x1p53) return nearest;
  // At most 64 digits: the two halves are exact, and so is their error-free sum.
  const double high = is_unsigned ? std::ldexp(static_cast<double>(U(value) >> 32), 32)
                                  : std::ldexp(static_cast<double>(value >> 32), 32);
  const double low = static_cast<double>(U(value) & 0xffffffffu);
  return StickySum(nearest, low - (nearest - high));
}

int64_t FloatToInt(DType to, double value) {
  if (std::isnan(value)) return 0;
  if (IsUnsigned(to)) {
    if (value <= 0) return 0;
    if (value >= std::ldexp(1.0, BitSize(to))) return IntMax(to);
    return S(static_cast<uint64_t>(value));
  }
  const double limit = std::ldexp(1.0, BitSize(to) - 1);
  if (value >= limit) return IntMax(to);
  if (value <= -limit) return IntMin(to);
  return static_cast<int64_t>(value);
}

std::optional<Scalar> EvalCast(DType to, const Scalar& x) {
  if (to == DType::kVoid || x.dtype == DType::kVoid) return std::nullopt;
  if (to == DType::kBool) return Scalar::Int(to, IsFloat(x.dtype) ? x.f != 0 : x.i != 0);
  if (IsFloat(to)) return Scalar::Float(to, IsFloat(x.dtype) ? x.f : IntToFloat(x.dtype, to, x.i));
  return Scalar::Int(to, IsFloat(x.dtype) ? FloatToInt(to, x.f) : x.i);
}

std::optional<Scalar> EvalCompare(Op op, const Scalar& a, const Scalar& b) {
  const bool is_float = IsFloat(a.dtype);
  switch (op) {
    case Op::kCmpLt:
      return Scalar::Int(DType::kBool, is_float ? a.f < b.f : LessInt(a.dtype, a.i, b.i));
    case Op::kCmpEq:
      return Scalar::Int(DType::kBool, is_float ? a.f == b.f : a.i == b.i);
    default:
      return Scalar::Int(DType::kBool, is_float ? a.f != b.f : a.i != b.i);
  }
}

}  // namespace

Scalar Scalar::Int(DType dtype, int64_t value) {
  return {.dtype = dtype, .i = WrapTo(dtype, value)};
}

Scalar Scalar::Float(DType dtype, double value) {
  return {.dtype = dtype, .f = RoundTo(dtype, value)};
}

Scalar Scalar::Of(DType dtype, double value) {
  return EvalCast(dtype, Float(DType::kFloat64, value)).value_or(Scalar{});
}

int64_t Scalar::attribute() const { return IsFloat(dtype) ? std::bit_cast<int64_t>(f) : i; }

Scalar Scalar::FromAttribute(DType dtype, int64_t attribute) {
  if (IsFloat(dtype)) return Float(dtype, std::bit_cast<double>(attribute));
  return Int(dtype, attribute);
}

uint64_t Scalar::ToBits() const {
  if (IsFloat(dtype)) return EncodeFloat(dtype, f);
  const int bits = dtype == DType::kBool ? 8 : BitSize(dtype);
  return bits == 0 ? 0 : U(i) & ~uint64_t{0} >> (64 - bits);
}

Scalar Scalar::FromBits(DType dtype, uint64_t bits) {
  if (IsFloat(dtype)) return Float(dtype, DecodeFloat(dtype, bits));
  return Int(dtype, S(bits));
}

bool operator==(const Scalar& a, const Scalar& b) {
  if (a.dtype != b.dtype) return false;
  if (!IsFloat(a.dtype)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

std::optional<Scalar> EvalOp(Op op, DType result, std::span<const Scalar> src) {
  if (!In(op, ElementwiseOps()) || src.size() != static_cast<size_t>(Info(op).num_src)) {
    return std::nullopt;
  }
  const Scalar& a = src[0];
  switch (op) {
    case Op::kCast:
      return EvalCast(result, a);
    case Op::kBitcast:
      if (ItemSize(a.dtype) != ItemSize(result) || ItemSize(result) == 0) return std::nullopt;
      return Scalar::FromBits(result, a.ToBits());
    case Op::kWhere:
      return a.i != 0 ? src[1] : src[2];
    case Op::kFma:
      if (!IsFloat(a.dtype)) return std::nullopt;
      return Scalar::Float(a.dtype, FusedMultiplyAdd(a.dtype, a.f, src[1].f, src[2].f));
    case Op::kCmpLt:
    case Op::kCmpEq:
    case Op::kCmpNe:
      return EvalCompare(op, a, src[1]);
    default:
      break;
  }
  const Scalar& b = src.back();  // for unary ops the source itself, unused
  if (IsFloat(a.dtype)) return EvalFloat(op, a.dtype, a.f, b.f);
  if (a.dtype == DType::kBool) return EvalBool(op, a.i != 0, b.i != 0);
  return EvalInt(op, a.dtype, a.i, b.i);
}

Scalar ReduceIdentity(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::kAdd:
      return Scalar::Of(dtype, 0);
    case ReduceKind::kMul:
      return Scalar::Of(dtype, 1);
    case ReduceKind::kMax:
    case ReduceKind::kMin:
      break;
  }
  const bool is_max = kind == ReduceKind::kMax;
  if (!IsFloat(dtype)) return Scalar::Int(dtype, is_max ? IntMin(dtype) : IntMax(dtype));
  const FloatFormat& format = Format(dtype);
  const double top = format.has_inf ? kInf : DecodeFloat(dtype, format.max_code());
  return Scalar::Float(dtype, is_max ? -top : top);
}

Scalar ScanIdentity(ScanKind kind, DType dtype) {
  const bool logs = kind == ScanKind::kLogAdd;
  return ReduceIdentity(logs ? ReduceKind::kMax : static_cast<ReduceKind>(kind), dtype);
}

Scalar EvalScan(ScanKind kind, const Scalar& total, const Scalar& value) {
  const auto make = [&](Op op, std::initializer_list<Scalar> src) {
    const DType dtype = op == Op::kCmpEq ? DType::kBool : value.dtype;
    return *EvalOp(op, dtype, {src.begin(), src.size()});
  };
  if (kind != ScanKind::kLogAdd) {
    return make(CombineOp(static_cast<ReduceKind>(kind)), {total, value});
  }
  return LogAdd(total, value, make,
                [&](double number) { return Scalar::Float(value.dtype, number); });
}

double RoundTo(DType dtype, double value) {
  if (std::isnan(value)) return kNaN;
  if (IsDouble(dtype)) return value;
  if (dtype == DType::kFloat32) return static_cast<float>(value);
  return DecodeFloat(dtype, EncodeFloat(dtype, value));
}

int64_t WrapTo(DType dtype, int64_t value) {
  if (dtype == DType::kBool) return value != 0;
  const int bits = BitSize(dtype);
  if (bits == 0) return 0;
  const int unused = 64 - bits;
  if (IsUnsigned(dtype)) return S(U(value) << unused >> unused);
  return S(U(value) << unused) >> unused;
}

uint64_t EncodeFloat(DType dtype, double value) {
  if (IsDouble(dtype)) return std::bit_cast<uint64_t>(value);
  if (dtype == DType::kFloat32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const FloatFormat& format = Format(dtype);
  if (std::isnan(value)) return format.nan_code();
  const uint64_t sign = std::signbit(value) ? format.sign_bit() : 0;
  if (std::isinf(value)) return format.has_inf ? sign | format.inf_code() : format.nan_code();
  const double magnitude = std::abs(value);
  const int lowest = 1 - format.bias;  // exponent of subnormals
  const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  uint64_t code = format.sign_bit();  // beyond all others
  if (exponent <= format.bias + 1) {
    // The number in units of its last digit; scaling is exact, so this rounds once, ties to even.
    // A carry into the next power of two carries into the exponent's bits, as it should.
    const double digits = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    code = (static_cast<uint64_t>(exponent - lowest) << format.mantissa_bits) +
           static_cast<uint64_t>(digits);
  }
  if (code > format.max_code()) code = format.saturates ? format.max_code() : format.inf_code();
  if (code == 0 && !format.negative_zero) return 0;
  return sign | code;
}

double DecodeFloat(DType dtype, uint64_t bits) {
  if (IsDouble(dtype)) return std::bit_cast<double>(bits);
  if (dtype == DType::kFloat32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const FloatFormat& format = Format(dtype);
  const uint64_t code = bits & (format.sign_bit() - 1);
  const bool negative = (bits & format.sign_bit()) != 0;
  if (!format.negative_zero && negative && code == 0) return kNaN;
  if (code > format.max_code())
    return format.has_inf && code == format.inf_code() ? (negative ? -kInf : kInf) : kNaN;
  const uint64_t exponent = code >> format.mantissa_bits;
  uint64_t digits = code & ((uint64_t{1} << format.mantissa_bits) - 1);
  if (exponent != 0) digits |= uint64_t{1} << format.mantissa_bits;
  const int scale =
      static_cast<int>(std::max<uint64_t>(exponent, 1)) - format.bias - format.mantissa_bits;
  const double magnitude = std::ldexp(static_cast<double>(digits), scale);
  return negative ? -magnitude : magnitude;
}

}  // namespace tensord
