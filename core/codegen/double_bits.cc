#include "core/codegen/double_bits.h"

#include <limits>

namespace tensord {
namespace {

using enum DType;

constexpr int kMantissaBits = 52, kBias = 1023;
constexpr int64_t kSign = std::numeric_limits<int64_t>::min();
constexpr int64_t kInf = int64_t{0x7ff} << kMantissaBits;
constexpr int64_t kImplicit = int64_t{1} << kMantissaBits;
// float32's, and the way to them.
constexpr int kShift = kMantissaBits - 23;
constexpr int kRebias = kBias - 127;
constexpr int64_t kSmallInf = 0x7f800000, kSmallNan = 0x7fc00000;

Val Magnitude(const Val& bits) { return bits & ~kSign; }
Val IsNegative(const Val& bits) { return Ne(bits & kSign, 0); }
Val Exponent(const Val& bits) { return Magnitude(bits) >> kMantissaBits; }
// The digits as an integer; subnormal numbers have no leading one.
Val Digits(const Val& bits) {
  const Val fraction = bits & (kImplicit - 1);
  return Where(Eq(Exponent(bits), 0), fraction, fraction | kImplicit);
}
Val Min(const Val& a, int64_t b) { return a.Apply(Op::kMin, b); }

// x >> shift (at most 63), and whether that rounds up, ties to even.
struct Rounded {
  Val quotient, up, rest;
};
Rounded ShiftRounding(const Val& x, const Val& shift) {
  const Val quotient = x >> shift;
  const Val rest = x - (quotient << shift);
  const Val half = (shift.Of(1) << shift) >> 1;
  const Val tie_up = Eq(rest, half) & Ne(quotient & 1, 0);
  return {quotient, Ne(shift, 0) & (Lt(half, rest) | tie_up), rest};
}

}  // namespace

Val DoubleToFloat32(const Val& bits, Float32Rounding rounding) {
  const Val exponent = Exponent(bits);
  const Val is_normal = Lt(exponent.Of(kRebias), exponent);
  // How many digits go: more where float32 is subnormal. 63 leave none.
  const Val distance = exponent.Of(kShift + kRebias + 1) - exponent;
  const Val shift = Where(is_normal, exponent.Of(kShift), Min(distance, 63));
  const Rounded digits = ShiftRounding(Digits(bits), shift);
  // The leading one of a normal number adds itself to the exponent.
  const Val base = Where(is_normal, (exponent - (kRebias + 1)) << 23, exponent.Of(0));
  Val code = base + digits.quotient;
  const Val is_infinite = Eq(Magnitude(bits), kInf);
  if (rounding == Float32Rounding::kOdd) {
    code = Min(code | Ne(digits.rest, 0).As(kUint64), kSmallInf - 1);
    code = Where(is_infinite, code.Of(kSmallInf), code);
  } else {
    code = Min(code + digits.up.As(kUint64), kSmallInf);
  }
  code = Where(DoubleIsNan(bits), code.Of(kSmallNan), code);
  return (code | ((bits >> 32) & 0x80000000)).As(kUint32).Bits(kFloat32);
}

Val Float32ToDouble(const Val& x) {
  const Val small = x.Bits(kUint32);
  const Val magnitude = small & 0x7fffffff;
  const auto widen = [](const Val& code) { return code.As(kUint64) << kShift; };
  const Val normal = widen(magnitude) + (int64_t{kRebias} << kMantissaBits);
  const Val special = widen(magnitude) | kInf;
  // A subnormal number is its digits, an integer that float32 has as a normal number, in units of
  // 2^-149.
  const Val digits = magnitude.As(kFloat32).Bits(kUint32);
  const Val subnormal = widen(digits) + (int64_t{kRebias - 149} << kMantissaBits);
  Val result = Where(Lt(magnitude, 0x00800000), subnormal, normal);
  result = Where(Lt(magnitude, kSmallInf), result, special);
  result = Where(Eq(magnitude, 0), result.Of(0), result);
  return result | ((small & 0x80000000).As(kUint64) << 32);
}

Val DoubleToInt(const Val& bits, DType dtype) {
  const Val exponent = Exponent(bits), digits = Digits(bits);
  const Val negative = IsNegative(bits);
  const int64_t point = kBias + kMantissaBits;  // where the digits are an integer
  const Val left = digits << Min(exponent - point, 63);
  const Val right = digits >> Min(exponent.Of(point) - exponent, 63);
  Val size = Where(Lt(exponent, point), right, left);
  size = Where(Lt(exponent, kBias + 64), size, size.Of(-1));
  size = Where(DoubleIsNan(bits), size.Of(0), size);
  if (dtype == kBool) return Ne(Magnitude(bits), 0);
  const DType whole = dtype == kIndex ? kInt64 : dtype;
  const int64_t max = IntMax(whole);
  const Val above = Min(size, max);
  if (IsUnsigned(whole)) return Where(negative, above.Of(0), above).As(dtype);
  const Val below = above.Of(0) - size.Apply(Op::kMin, above.Of(IntMin(whole)) * -1);
  return Where(negative, below, above).As(whole).As(dtype);
}

Val IntToDouble(const Val& x) {
  if (x.dtype() == kBool) {
    const Val one = x.As(kUint64).Of(int64_t{kBias} << kMantissaBits);
    return Where(x, one, one.Of(0));
  }
  const Val whole = x.dtype() == kIndex ? x.As(kInt64) : x;
  const Val wide = whole.As(kUint64);  // signed integers extend their sign
  const Val negative = IsUnsigned(whole.dtype()) ? Ne(wide.Of(0), 0) : Ne(wide & kSign, 0);
  Val size = Where(negative, wide.Of(0) - wide, wide);
  const Val is_zero = Eq(size, 0);
  // The leading one goes to the top.
  Val shift = size.Of(0);
  for (int step : {32, 16, 8, 4, 2, 1}) {
    const Val low = Lt(size, int64_t{1} << (64 - step));
    size = Where(low, size << step, size);
    shift = Where(low, shift + step, shift);
  }
  const Rounded digits = ShiftRounding(size, size.Of(63 - kMantissaBits));
  // The leading one adds itself to the exponent, and so may the rounding.
  const Val code = ((size.Of(kBias + 63 - 1) - shift) << kMantissaBits) + digits.quotient +
                   digits.up.As(kUint64);
  return Where(is_zero, code.Of(0), code | Where(negative, code.Of(kSign), code.Of(0)));
}

Val DoubleTrunc(const Val& bits) {
  const Val exponent = Exponent(bits);
  const int64_t point = kBias + kMantissaBits;
  const Val shift = Min(exponent.Of(point) - exponent, 63);
  const Val whole = (bits >> shift) << shift;
  const Val small = bits & kSign;
  return Where(Lt(exponent, kBias), small, Where(Lt(exponent, point), whole, bits));
}

Val DoubleIsNan(const Val& bits) { return Lt(bits.Of(kInf), Magnitude(bits)); }

Val DoubleLess(const Val& a, const Val& b) {
  // Negative numbers stand in the reverse order of their codes; both zeros are 0.
  const auto key = [](const Val& x) {
    const Val size = Magnitude(x).As(kInt64);
    return Where(IsNegative(x), size.Of(0) - size, size);
  };
  const Val ordered = DoubleIsNan(a) | DoubleIsNan(b);
  return Lt(key(a), key(b)) & Eq(ordered, 0);
}

Val DoubleEqual(const Val& a, const Val& b) {
  const Val zeros = Eq(Magnitude(a) | Magnitude(b), 0);
  return zeros | (Eq(a, b) & Eq(DoubleIsNan(a), 0));
}

}  // namespace tensord
