// Exp, Log and Sin as vectorisable instruction sequences. Polynomials are minimax fits (Remez) of
// the function that each comment names; their error is far below the rounding of the last steps.
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/check.h"
#include "core/render/llvm_ops.h"

namespace tensord::llvm_ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The bits of a floating-point format, and what depends on them.
struct Format {
  Scalar bits;
  int mantissa_bits;
  int64_t bias;
  double integer_magic;  // 1.5 * 2^mantissa_bits: adding it rounds to an integer in the low bits
  int64_t integer_magic_bits;
  double ln2_hi, ln2_lo;  // ln2_hi has so few digits that a multiple by an exponent is exact
};
constexpr Format kFloat{Scalar::kI32, 23, 127, 0x1.8p23, 0x4b400000, 0x1.628p-1, 0x1.90bfbep-11};
constexpr Format kDouble{
    Scalar::kI64, 52, 1023, 0x1.8p52, 0x4338000000000000, 0x1.62e42feep-1, 0x1.a39ef35793c76p-33};

const Format& FormatOf(const Value& x) {
  TD_CHECK(x.type.scalar == Scalar::kFloat || x.type.scalar == Scalar::kDouble);
  return x.type.scalar == Scalar::kFloat ? kFloat : kDouble;
}

// 2^n for an integer n whose power is a normal number.
Value PowerOfTwo(Emitter& e, const Value& n, const Format& format, Scalar scalar) {
  const Value biased = e.Op("add", n, e.Int(n.type, format.bias));
  return e.Bitcast(e.Op("shl", biased, e.Int(n.type, format.mantissa_bits)), scalar);
}

// 1/pi in binary: 64 zeros, then the digits behind the point.
constexpr uint64_t kInversePi[] = {
    0,
    0x517cc1b727220a94,
    0xfe13abe8fa9a6ee0,
    0x6db14acc9e21c820,
    0xff28b1d5ef5de2b0,
    0xdb92371d2126e970,
    0x0324977504e8c90e,
    0x7f0ef58e5894d39f,
    0x74411afa975da242,
    0x74ce38135a2fbf20,
    0x9cc8eb1cc1a99cfa,
    0x4e422fc5defc941d,
    0x8ffc4bffef02cc07,
    0xf79788c5ad05368f,
    0xb69b3f6793e584db,
    0xa7a31fb34f2ff516,
    0xba93dd63f5f2f8bd,
    0x9e839cfbc5294975,
    0x35fdafd88fc6ae84,
    0x2b0198237e3db5d5,
    0xf867de104d7a1b0e,
};

// 64 digits of 1/pi in each lane, from bit `position` + 64 * `word` of the table on.
Value InversePiDigits(Emitter& e, const Value& position, int word) {
  if (!e.globals().contains("@td.inverse_pi")) {
    std::string text = "@td.inverse_pi = private unnamed_addr constant [21 x i64] [";
    for (uint64_t digits : kInversePi) {
      if (text.back() != '[') text += ", ";
      text += fmt::format("i64 {}", static_cast<int64_t>(digits));
    }
    e.Global("@td.inverse_pi", text + "]");
  }
  const Type type = position.type;
  const Value index = e.Op("lshr", position, e.Int(type, 6));
  auto at = [&](int offset) {
    const Value i = e.Op("add", index, e.Int(type, word + offset));
    const Value pointer =
        e.Raw(type.With(Scalar::kPtr),
              fmt::format("getelementptr i64, ptr @td.inverse_pi, {}", i.Typed()));
    if (type.lanes == 1) return e.Raw(type, fmt::format("load i64, ptr {}", pointer.text));
    return e.Intrinsic(
        "masked.gather", type,
        {pointer, e.Int({Scalar::kI32}, 8), e.Int(type.With(Scalar::kI1), 1), e.Zero(type)},
        {type, pointer.type});
  };
  const Value shift = e.Op("and", position, e.Int(type, 63));
  return e.Intrinsic("fshl", type, {at(0), at(1), shift}, {type});
}

// x = n * pi + hi + lo with |hi + lo| <= pi / 2, in double; `odd` is -1 where n is odd, else 0.
struct Reduced {
  Value hi, lo;
  Value odd;  // i64
};

// Beyond this, n no longer fits the 20 bits for which its products below are exact.
constexpr double kLargeAngle = 0x1p21;

// pi in parts of 33 bits (the last of 53), so that their products by an n of 20 bits are exact.
Reduced ReduceSmall(Emitter& e, const Value& x, bool single) {
  const Value shifted =
      e.MulAdd(x, e.Float(x.type, 0x1.45f306dc9c883p-2), e.Float(x.type, kDouble.integer_magic));
  const Value n = e.Op("fsub", shifted, e.Float(x.type, kDouble.integer_magic));
  const Value bits = e.Bitcast(shifted, Scalar::kI64);
  const Value one = e.Int(bits.type, 1);
  Reduced r{.odd = e.Op("sub", e.Zero(bits.type), e.Op("and", bits, one))};
  const Value r0 = e.NegMulAdd(n, e.Float(x.type, 0x1.921fb544p+1), x);
  if (single) {
    // 86 bits of pi: no float below the limit is nearer to a multiple of it than 2^-32, which
    // leaves more digits than a float has.
    r.hi = e.NegMulAdd(n, e.Float(x.type, 0x1.0b4611a626331p-33), r0);
    r.lo = e.Zero(x.type);
    return r;
  }
  const Value w1 = e.Op("fmul", n, e.Float(x.type, 0x1.0b4611a6p-33));
  const Value r1 = e.Op("fsub", r0, w1);
  const Value e1 = e.Op("fsub", e.Op("fsub", r0, r1), w1);
  const Value w2 = e.Op("fmul", n, e.Float(x.type, 0x1.3198a2ep-68));
  const Value r2 = e.Op("fsub", r1, w2);
  const Value e2 = e.Op("fsub", e.Op("fsub", r1, r2), w2);
  const Value tail = e.NegMulAdd(n, e.Float(x.type, 0x1.b839a252049c1p-103), e.Op("fadd", e1, e2));
  r.hi = e.Op("fadd", r2, tail);
  r.lo = e.Op("fsub", tail, e.Op("fsub", r.hi, r2));
  return r;
}

// |x| / pi modulo 2 as a fixed-point number, by the digits of 1/pi that matter at x's exponent
// (Payne and Hanek): the distance to the nearest integer, and -1 in `odd` where that integer is
// odd.
struct Turns {
  Value high, low;  // the distance: signed, in units of 2^-64; unsigned, in units of 2^-128
  Value odd;
};

// `mantissa` * 2^(exponent - 1075) is |x|.
Turns TurnsOf(Emitter& e, const Value& exponent, const Value& mantissa) {
  const Type i64 = mantissa.type, i128 = i64.With(Scalar::kI128);
  // The product with 128 digits from here on, modulo 2^128, has weight 1 at its top bit; 64 digits
  // more contribute their upper half. The minimum keeps infinity's reads inside the table.
  Value position = e.Op("sub", exponent, e.Int(i64, 1076 - 64));
  position = e.Intrinsic("umin", i64, {position, e.Int(i64, 2046 - 1076 + 64)}, {i64});
  auto wide = [&](const Value& v) { return e.Convert("zext", v, Scalar::kI128); };
  const Value sixty_four = e.Int(i128, 64);
  const Value digits = e.Op("or", e.Op("shl", wide(InversePiDigits(e, position, 0)), sixty_four),
                            wide(InversePiDigits(e, position, 1)));
  const Value m = wide(mantissa);
  const Value rest =
      e.Op("lshr", e.Op("mul", m, wide(InversePiDigits(e, position, 2))), sixty_four);
  const Value turns = e.Op("add", e.Op("mul", m, digits), rest);
  // Without the top bit, and read as signed, this is the distance to the nearest integer.
  const Value fraction = e.Op("shl", turns, e.Int(i128, 1));
  const Value high = e.Convert("trunc", e.Op("lshr", fraction, sixty_four), Scalar::kI64);
  const Value low = e.Convert("trunc", fraction, Scalar::kI64);
  const Value top = e.Convert("trunc", e.Op("lshr", turns, sixty_four), Scalar::kI64);
  return {high, low, e.Op("ashr", e.Op("xor", top, high), e.Int(i64, 63))};
}

// The same for the 24 digits of a float, where half as many digits of 1/pi are enough: no float is
// nearer to a multiple of pi than 2^-32. `low` stays empty.
Turns TurnsOfSingle(Emitter& e, const Value& exponent, const Value& mantissa) {
  const Type i64 = mantissa.type;
  const Value m = e.Op("lshr", mantissa, e.Int(i64, 29));
  Value position = e.Op("sub", exponent, e.Int(i64, 1076 - 64 - 29));
  position = e.Intrinsic("umin", i64, {position, e.Int(i64, 1150 - 1076 + 64 + 29)}, {i64});
  const Value thirty_two = e.Int(i64, 32);
  const Value rest =
      e.Op("lshr", e.Op("mul", m, e.Op("lshr", InversePiDigits(e, position, 1), thirty_two)),
           thirty_two);
  const Value turns = e.Op("add", e.Op("mul", m, InversePiDigits(e, position, 0)), rest);
  const Value high = e.Op("shl", turns, e.Int(i64, 1));
  return {.high = high, .odd = e.Op("ashr", e.Op("xor", turns, high), e.Int(i64, 63))};
}

// Any finite |x| >= kLargeAngle; infinity and NaN give NaN.
Reduced ReduceLarge(Emitter& e, const Value& x, bool single) {
  const Value bits = e.Bitcast(x, Scalar::kI64);
  const Type i64 = bits.type;
  const Value exponent = e.Op("and", e.Op("lshr", bits, e.Int(i64, 52)), e.Int(i64, 0x7ff));
  const Value mantissa = e.Op("or", e.Op("and", bits, e.Int(i64, (int64_t{1} << 52) - 1)),
                              e.Int(i64, int64_t{1} << 52));
  // The sign of x, and NaN for infinity.
  const Value sign = e.Op("and", bits, e.Int(i64, std::numeric_limits<int64_t>::min()));
  auto signed_as_x = [&](const Value& v) {
    return e.Bitcast(e.Op("xor", e.Bitcast(v, Scalar::kI64), sign), Scalar::kDouble);
  };
  const Value nan_or_zero = e.Op("fsub", x, x);
  const Value pi = e.Float(x.type, 0x1.921fb54442d18p-63);  // / 2^64
  if (single) {
    const Turns turns = TurnsOfSingle(e, exponent, mantissa);
    const Value r = e.Op("fmul", e.Convert("sitofp", turns.high, Scalar::kDouble), pi);
    return {
        .hi = e.Op("fadd", signed_as_x(r), nan_or_zero), .lo = e.Zero(x.type), .odd = turns.odd};
  }
  // Its top 53 bits and what is below, times pi, in twice the precision.
  const Turns turns = TurnsOf(e, exponent, mantissa);
  const Value f_hi =
      e.Convert("sitofp", e.Op("and", turns.high, e.Int(i64, -2048)), Scalar::kDouble);
  const Value below =
      e.Convert("sitofp", e.Op("and", turns.high, e.Int(i64, 2047)), Scalar::kDouble);
  const Value f_lo =
      e.Op("fadd", below,
           e.Op("fmul", e.Convert("uitofp", turns.low, Scalar::kDouble), e.Float(x.type, 0x1p-64)));
  const Value pi_lo = e.Float(x.type, 0x1.1a62633145c07p-117);
  const Value p = e.Op("fmul", f_hi, pi);
  Value error = e.Intrinsic("fma", x.type, {f_hi, pi, e.Negate(p)}, {x.type});
  error = e.Op("fadd", error, e.Op("fadd", e.Op("fmul", f_hi, pi_lo), e.Op("fmul", f_lo, pi)));
  const Value sum = e.Op("fadd", p, error);
  const Value rest = e.Op("fsub", error, e.Op("fsub", sum, p));
  return {
      .hi = e.Op("fadd", signed_as_x(sum), nan_or_zero), .lo = signed_as_x(rest), .odd = turns.odd};
}

Reduced ReduceAngle(Emitter& e, const Value& x, bool single) {
  const Reduced small = ReduceSmall(e, x, single);
  const Value absolute = e.Intrinsic("fabs", x.type, {x}, {x.type});
  const Value is_large = e.Compare("fcmp oge", absolute, e.Float(x.type, kLargeAngle));
  const Value any = x.type.lanes == 1 ? is_large
                                      : e.Intrinsic("vector.reduce.or", {Scalar::kI1}, {is_large},
                                                    {is_large.type});
  const std::string large_label = e.NewLabel("large"), join_label = e.NewLabel("join");
  const std::string from = e.block();
  e.Global("!0", "!0 = !{!\"branch_weights\", i32 1, i32 2000}");
  e.Line("br {}, label %{}, label %{}, !prof !0", any.Typed(), large_label, join_label);
  e.StartBlock(large_label);
  Reduced large = ReduceLarge(e, x, single);
  large = {.hi = e.Select(is_large, large.hi, small.hi),
           .lo = e.Select(is_large, large.lo, small.lo),
           .odd = e.Select(is_large, large.odd, small.odd)};
  const std::string large_end = e.block();
  e.FallInto(join_label);
  auto phi = [&](const Value& s, const Value& l) {
    return e.Raw(s.type, fmt::format("phi {} [ {}, %{} ], [ {}, %{} ]", Text(s.type), s.text, from,
                                     l.text, large_end));
  };
  return {.hi = phi(small.hi, large.hi),
          .lo = phi(small.lo, large.lo),
          .odd = phi(small.odd, large.odd)};
}

}  // namespace

Value EmitExp(Emitter& e, const Value& x) {
  const Format& format = FormatOf(x);
  const bool single = &format == &kFloat;
  const Type type = x.type;
  // Beyond these limits the result is infinity or zero anyway, and the exponent would overflow its
  // bits. A NaN passes: it is neither below nor above.
  const Value low = e.Float(type, single ? -104 : -746), high = e.Float(type, single ? 89 : 710);
  Value clamped = e.Select(e.Compare("fcmp ogt", low, x), low, x);
  clamped = e.Select(e.Compare("fcmp olt", high, clamped), high, clamped);

  // x = n * ln2 + r
  const Value magic = e.Float(type, format.integer_magic);
  const Value log2e = e.Float(type, single ? 0x1.715476p+0 : 0x1.71547652b82fep+0);
  const Value shifted = e.MulAdd(clamped, log2e, magic);
  const Value n = e.Op("fsub", shifted, magic);
  Value r = e.NegMulAdd(n, e.Float(type, format.ln2_hi), clamped);
  r = e.NegMulAdd(n, e.Float(type, format.ln2_lo), r);

  // exp(r) = 1 + r + r^2 P(r) on |r| <= ln2 / 2
  const Value p =
      single ? e.Polynomial(
                   r, {0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.1239e2p-7, 0x1.6a2434p-10})
             : e.Polynomial(r, {0x1.000000000000ap-1, 0x1.55555555554fap-3, 0x1.555555555087cp-5,
                                0x1.1111111127be7p-7, 0x1.6c16c1842a146p-10, 0x1.a01a012a56eaep-13,
                                0x1.a0199a0c60530p-16, 0x1.71df255414f8bp-19, 0x1.28ad72d2aa81bp-22,
                                0x1.ad7f6bf642582p-26});
  const Value y = e.Op("fadd", e.MulAdd(e.Op("fmul", r, r), p, r), e.Float(type, 1));

  // 2^n by two normal factors, so that a subnormal result is rounded once, in the last product.
  const Value exponent = e.Op("sub", e.Bitcast(shifted, format.bits),
                              e.Int(type.With(format.bits), format.integer_magic_bits));
  const Value half = e.Op("ashr", exponent, e.Int(exponent.type, 1));
  const Value rest = e.Op("sub", exponent, half);
  return e.Op("fmul", e.Op("fmul", y, PowerOfTwo(e, half, format, type.scalar)),
              PowerOfTwo(e, rest, format, type.scalar));
}

Value EmitLog(Emitter& e, const Value& x) {
  const Format& format = FormatOf(x);
  const bool single = &format == &kFloat;
  const Type type = x.type, bits_type = type.With(format.bits);
  auto number = [&](double value) { return e.Float(type, value); };
  const Value zero = e.Zero(type);

  // x = m * 2^k with m in [sqrt(1/2), sqrt(2)); subnormals are scaled up first.
  const double scale = std::ldexp(1.0, format.mantissa_bits);
  const Value tiny = e.Compare("fcmp olt", x, number(std::ldexp(1.0, 1 - format.bias)));
  const Value normal = e.Select(tiny, e.Op("fmul", x, number(scale)), x);
  const Value bits = e.Bitcast(normal, format.bits);
  const int64_t sqrt_half = single ? std::bit_cast<int32_t>(0x1.6a09e6p-1f)
                                   : std::bit_cast<int64_t>(0x1.6a09e667f3bcdp-1);
  const Value mantissa_bits = e.Int(bits_type, format.mantissa_bits);
  const Value k = e.Op("ashr", e.Op("sub", bits, e.Int(bits_type, sqrt_half)), mantissa_bits);
  const Value m = e.Bitcast(e.Op("sub", bits, e.Op("shl", k, mantissa_bits)), type.scalar);
  const Value k_adjusted = e.Op("sub", k, e.Select(tiny, mantissa_bits, e.Zero(bits_type)));
  const Value kf = e.Convert("sitofp", k_adjusted, type.scalar);
  const Value f = e.Op("fsub", m, number(1));

  // log(1 + f) = f - correction
  Value correction;
  const Value half_f2 = e.Op("fmul", e.Op("fmul", f, number(0.5)), f);
  if (single) {
    // = f - f^2/2 + f^3 T(f)
    const Value t = e.Polynomial(
        f, {0x1.555548p-2, -0x1.000006p-2, 0x1.99a4b6p-3, -0x1.555c4ep-3, 0x1.233768p-3,
            -0x1.fc2206p-4, 0x1.e6f06ap-4, -0x1.de3c16p-4, 0x1.1457acp-4});
    const Value f3 = e.Op("fmul", e.Op("fmul", f, f), f);
    correction = e.NegMulAdd(f3, t, half_f2);
    correction = e.NegMulAdd(kf, number(format.ln2_lo), correction);
  } else {
    // = 2s + s^3 R(s^2) with s = f / (2 + f), and 2s = f - f^2/2 + s * f^2/2
    const Value s = e.Op("fdiv", f, e.Op("fadd", f, number(2)));
    const Value z = e.Op("fmul", s, s);
    const Value r =
        e.Op("fmul", z,
             e.Polynomial(z, {0x1.5555555555592p-1, 0x1.999999997fe68p-2, 0x1.24924941e86d3p-2,
                              0x1.c71c520fa3ca9p-3, 0x1.74663dc6b5c78p-3, 0x1.39a1d41fdd06fp-3,
                              0x1.2f0487a4a24d2p-3}));
    const Value small =
        e.MulAdd(kf, number(format.ln2_lo), e.Op("fmul", s, e.Op("fadd", half_f2, r)));
    correction = e.Op("fsub", half_f2, small);
  }
  Value y = e.MulAdd(kf, number(format.ln2_hi), e.Op("fsub", f, correction));

  const Value infinity = number(kInf);
  y = e.Select(e.Compare("fcmp oeq", x, infinity), infinity, y);
  y = e.Select(e.Compare("fcmp oeq", x, zero), number(-kInf), y);
  return e.Select(e.Compare("fcmp ult", x, zero), number(kNaN), y);
}

Value EmitSin(Emitter& e, const Value& x) {
  const bool single = &FormatOf(x) == &kFloat;
  const Type type = x.type;
  // sin(n * pi + r) = (-1)^n sin(r). A float's angle is reduced in double.
  const Value angle = single ? e.Convert("fpext", x, Scalar::kDouble) : x;
  const Reduced reduced = ReduceAngle(e, angle, single);
  const Value sign =
      e.Op("and", reduced.odd, e.Int(reduced.odd.type, std::numeric_limits<int64_t>::min()));
  const Value r =
      e.Bitcast(e.Op("xor", e.Bitcast(reduced.hi, Scalar::kI64), sign), Scalar::kDouble);

  // sin(r) = r + r^3 Q(r^2) on |r| <= pi / 2. Near pi / 2 both terms have more digits before the
  // point than their sum, so a float's are added in double as well.
  const Value z = e.Op("fmul", r, r);
  const Value rz = e.Op("fmul", r, z);
  Value y;
  if (single) {
    const Value q =
        e.Polynomial(z, {-0x1.5555554765c07p-3, 0x1.11110c4901f79p-7, -0x1.a017d94a68dc4p-13,
                         0x1.717074d5e2e41p-19, -0x1.9a6782aaeaad6p-26});
    y = e.Convert("fptrunc", e.MulAdd(rz, q, r), Scalar::kFloat);
  } else {
    const Value q =
        e.Polynomial(z, {-0x1.5555555555555p-3, 0x1.11111111110c1p-7, -0x1.a01a01a0148a1p-13,
                         0x1.71de3a5287075p-19, -0x1.ae6454cafd140p-26, 0x1.6123cb11ca008p-33,
                         -0x1.ae43176a5145ap-41, 0x1.8828f8d3bf892p-49});
    // sin(r + lo) = sin(r) + lo * cos(r); few digits of the cosine are enough.
    const Value lo =
        e.Bitcast(e.Op("xor", e.Bitcast(reduced.lo, Scalar::kI64), sign), Scalar::kDouble);
    const Value cosine = e.Polynomial(z, {1, -0.5, 0x1.5555p-5});
    y = e.Op("fadd", r, e.MulAdd(lo, cosine, e.Op("fmul", rz, q)));
  }
  // The sums turn -0 into 0.
  return e.Select(e.Compare("fcmp oeq", x, e.Zero(type)), x, y);
}

}  // namespace tensord::llvm_ir
