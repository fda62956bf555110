#include "core/tensor/elementwise.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "core/tensor/create.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool IsBoolDType(DType dtype) { return dtype == DType::kBool; }
bool IsIntOrBool(DType dtype) { return IsInt(dtype) || dtype == DType::kBool; }

// Floats as they are, integers as float32.
Expr AsFloat(const Expr& x) { return x.ok() ? Cast(x, LeastUpperFloat(x.dtype())) : x; }

Expr FloatUnary(Op op, const Expr& x) { return Apply(op, {AsFloat(x)}); }

Expr Binary(std::string_view name, Op op, Expr a, Expr b) {
  if (std::optional<Expr> error = Unify(name, {&a, &b})) return *error;
  return Apply(op, {a, b});
}

// Binary, where bool counts as 0 and 1.
Expr Numeric(std::string_view name, Op op, const Expr& a, const Expr& b) {
  const bool both = a.ok() && b.ok() && IsBoolDType(a.dtype()) && IsBoolDType(b.dtype());
  return both ? Binary(name, op, Cast(a, DType::kInt32), b) : Binary(name, op, a, b);
}

Expr Bits(std::string_view name, Op op, const Expr& a, const Expr& b) {
  if (a.ok() && b.ok() && !IsIntOrBool(Promote(a.dtype(), b.dtype()))) {
    return Fail(a, "{}: operands are {} and {}; it needs integers or bool", name, Name(a.dtype()),
                Name(b.dtype()));
  }
  return Binary(name, op, a, b);
}

Expr Shift(std::string_view name, Op op, const Expr& a, const Expr& b) {
  if (a.ok() && b.ok() && !IsInt(Promote(a.dtype(), b.dtype()))) {
    return Fail(a, "{}: operands are {} and {}; it needs integers", name, Name(a.dtype()),
                Name(b.dtype()));
  }
  return Binary(name, op, a, b);
}

// c[0] + x (c[1] + x (c[2] + ...)).
Expr Polynomial(const Expr& x, std::span<const double> c) {
  Expr result = FullLike(x, c.back());
  for (auto it = c.rbegin() + 1; it != c.rend(); ++it) result = result * x + *it;
  return result;
}

// A value with the other sign where `negative`.
Expr NegateWhere(const Expr& negative, const Expr& x) { return Where(negative, -x, x); }

// x^n by squaring, n > 0.
Expr WholePower(const Expr& x, uint64_t n) {
  std::optional<Expr> result;
  for (Expr base = x;; base = base * base) {
    if (n % 2 == 1) result = result ? *result * base : base;
    n /= 2;
    if (n == 0) return *result;
  }
}

// The power of a float by a constant.
Expr FloatPower(const Expr& x, double c) {
  if (c == 0) return FullLike(x, 1);
  const bool whole = c == std::trunc(c);
  if (whole && std::abs(c) <= 64) {
    const Expr power = WholePower(x, static_cast<uint64_t>(std::abs(c)));
    return c < 0 ? Reciprocal(power) : power;
  }
  if (c == 0.5) return Sqrt(x);
  // At 0 the logarithm gives a gradient of NaN. A power that is as large and as steep there stands
  // in, and each formula sees an argument at which it is finite.
  const Expr zero = Eq(x, 0);
  const Expr safe = Where(zero, 1, x);
  const Expr at_zero = Where(zero, x, 1);
  const Expr size = Exp(Log(Abs(safe)) * c);
  Expr result = size;
  if (!whole) {
    result = Where(LogicalAnd(Lt(safe, 0), Gt(safe, -kInf)), kNan, size);
  } else if (std::fmod(c, 2) != 0) {
    result = NegateWhere(Lt(safe, 0), size);
  }
  const Expr limit = c < 0 ? Reciprocal(at_zero) : c < 1 ? Sqrt(at_zero) : Square(at_zero);
  return Where(zero, limit, result);
}

// The power of a float by a float.
Expr FloatPower(const Expr& x, const Expr& y) {
  const Expr zero = Eq(x, 0);
  const Expr safe = Where(zero, 1, x);
  const Expr size = Exp(y * Log(Abs(safe)));
  const Expr whole = Eq(y, Trunc(y));
  const Expr odd = LogicalAnd(whole, Ne(y * 0.5, Trunc(y * 0.5)));
  const Expr no_root = LogicalAnd(LogicalNot(whole), Gt(safe, -kInf));
  const Expr of_negative = Where(no_root, kNan, NegateWhere(odd, size));
  const Expr nonzero = Where(Lt(safe, 0), of_negative, size);
  const Expr of_zero = Where(Eq(y, 0), 1, Where(Gt(y, 0), FullLike(y, 0), kInf));
  // Powers that are 1 although the product of exponent and logarithm is NaN.
  const Expr one =
      LogicalOr(LogicalAnd(Eq(y, 0), LogicalNot(IsFinite(x))),
                LogicalOr(LogicalAnd(Eq(x, 1), IsNan(y)), LogicalAnd(Eq(Abs(x), 1), IsInf(y))));
  return Where(one, 1, Where(zero, of_zero, nonzero));
}

Expr IntegerPower(const Expr& x, const Expr& y) {
  Expr result = FullLike(x, 1);
  Expr base = x;
  const int bits = BitSize(x.dtype()) - (IsUnsigned(x.dtype()) ? 0 : 1);
  for (int i = 0; i < bits; ++i) {
    if (i > 0) base = base * base;
    const Expr bit = BitwiseAnd(ShiftRight(y, i), 1);
    result = Where(AsBool(bit), result * base, result);
  }
  if (IsUnsigned(x.dtype())) return result;
  // The inverse of an integer is one only for 1 and -1.
  const Expr odd = AsBool(BitwiseAnd(y, 1));
  const Expr inverse = Where(Eq(x, 1), 1, Where(Eq(x, -1), Where(odd, x, 1), FullLike(x, 0)));
  return Where(Lt(y, 0), inverse, result);
}

}  // namespace

Expr Cast(const Expr& x, DType dtype) {
  if (!x.ok() || x.dtype() == dtype) return x;
  const Node* const src[] = {x.node()};
  return Expr(&x.graph(), x.graph().TryMake({.op = Op::kCast, .src = src, .dtype = dtype}));
}

Expr Bitcast(const Expr& x, DType dtype) {
  if (!x.ok() || x.dtype() == dtype) return x;
  if (ItemSize(x.dtype()) != ItemSize(dtype)) {
    return Fail(x, "bitcast: {} has {} bytes, {} has {}", Name(x.dtype()), ItemSize(x.dtype()),
                Name(dtype), ItemSize(dtype));
  }
  const Node* const src[] = {x.node()};
  return Expr(&x.graph(), x.graph().TryMake({.op = Op::kBitcast, .src = src, .dtype = dtype}));
}

Expr Detach(const Expr& x) { return Apply(Op::kDetach, {x}); }
Expr Contiguous(const Expr& x) { return Apply(Op::kContiguous, {x}); }

Expr Neg(const Expr& x) {
  if (x.ok() && IsBoolDType(x.dtype())) {
    return Fail(x, "neg: bool has no negative; use logical_not, or cast to an integer first");
  }
  return Apply(Op::kNeg, {x});
}

Expr Abs(const Expr& x) {
  if (!x.ok() || IsUnsigned(x.dtype()) || IsBoolDType(x.dtype())) return x;
  // The tie at 0 shares the gradients 1 and -1, which makes 0.
  return Maximum(x, Neg(x));
}

Expr Sign(const Expr& x) {
  if (!x.ok() || IsBoolDType(x.dtype())) return x;
  const Expr zero = FullLike(x, 0);
  const Expr positive = Where(Gt(x, 0), 1, zero);
  return IsUnsigned(x.dtype()) ? positive : Where(Lt(x, 0), -1, positive);
}

Expr Square(const Expr& x) { return x * x; }
Expr Reciprocal(const Expr& x) { return 1 / AsFloat(x); }
Expr Sqrt(const Expr& x) { return FloatUnary(Op::kSqrt, x); }
Expr Rsqrt(const Expr& x) { return Reciprocal(Sqrt(x)); }

Expr Exp(const Expr& x) { return FloatUnary(Op::kExp, x); }
Expr Log(const Expr& x) { return FloatUnary(Op::kLog, x); }
Expr Exp2(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return Exp(f * std::numbers::ln2); });
}
Expr Log2(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return Log(f) * std::numbers::log2e; });
}
Expr Log10(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return Log(f) * std::numbers::log10e; });
}

Expr Expm1(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // Near 0 the difference would cancel. The series sees only arguments where it is meant.
    static constexpr std::array kSeries = {1.0,          1.0 / 2,       1.0 / 6,       1.0 / 24,
                                           1.0 / 120,    1.0 / 720,     1.0 / 5040,    1.0 / 40320,
                                           1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800};
    const Expr near = Lt(Abs(f), 0.35);
    const Expr small = Where(near, f, 0);
    return Where(near, small * Polynomial(small, kSeries), Exp(f) - 1);
  });
}

Expr Log1p(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // 1 + x loses the low bits of a small x; what was lost, to first order, is added again.
    const Expr sum = f + 1;
    const Expr small = Lt(Abs(f), 0.5);
    const Expr lost = Where(small, f - (sum - 1), 0) / Where(small, sum, 1);
    return Log(sum) + Detach(lost);
  });
}

Expr Erf(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // Abramowitz and Stegun, 7.1.26.
    static constexpr std::array kTerms = {0.254829592, -0.284496736, 1.421413741, -1.453152027,
                                          1.061405429};
    const Expr negative = Lt(f, 0);
    const Expr size = NegateWhere(negative, f);
    const Expr t = Reciprocal(size * 0.3275911 + 1);
    return NegateWhere(negative, 1 - t * Polynomial(t, kTerms) * Exp(-(f * f)));
  });
}

Expr Sin(const Expr& x) { return FloatUnary(Op::kSin, x); }
Expr Cos(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return Sin(f + std::numbers::pi / 2); });
}
Expr Tan(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return Sin(f) / Cos(f); });
}

Expr Asin(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // Abramowitz and Stegun, 4.4.46.
    static constexpr std::array kTerms = {1.5707963050, -0.2145988016, 0.0889789874, -0.0501743046,
                                          0.0308918810, -0.0170881256, 0.0066700901, -0.0012624911};
    const Expr negative = Lt(f, 0);
    const Expr size = NegateWhere(negative, f);
    return NegateWhere(negative, std::numbers::pi / 2 - Sqrt(1 - size) * Polynomial(size, kTerms));
  });
}

Expr Acos(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return std::numbers::pi / 2 - Asin(f); });
}

Expr Atan(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // Abramowitz and Stegun, 4.4.49, for sizes up to 1; the others by their inverse.
    static constexpr std::array kTerms = {1.0,           -0.3333314528, 0.1999355085,
                                          -0.1420889944, 0.1065626393,  -0.0752896400,
                                          0.0429096138,  -0.0161657367, 0.0028662257};
    const Expr negative = Lt(f, 0);
    const Expr size = NegateWhere(negative, f);
    const Expr steep = Gt(size, 1);
    const Expr small = Where(steep, Reciprocal(Where(steep, size, 1)), size);
    const Expr angle = small * Polynomial(small * small, kTerms);
    return NegateWhere(negative, Where(steep, std::numbers::pi / 2 - angle, angle));
  });
}

Expr Sinh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return (Exp(f) - Exp(-f)) * 0.5; });
}
Expr Cosh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return (Exp(f) + Exp(-f)) * 0.5; });
}

Expr Tanh(const Expr& x) {
  return InFloat32(x, [](const Expr& f) {
    // Of -|x|, so that the exponential never overflows.
    const Expr negative = Lt(f, 0);
    const Expr e = Exp(NegateWhere(negative, f) * -2);
    return NegateWhere(negative, (1 - e) / (1 + e));
  });
}

Expr Trunc(const Expr& x) { return x.ok() && !IsFloat(x.dtype()) ? x : Apply(Op::kTrunc, {x}); }

Expr Floor(const Expr& x) {
  const Expr whole = Trunc(x);
  return x.ok() && !IsFloat(x.dtype()) ? x : Where(Lt(x, whole), whole - 1, whole);
}

Expr Ceil(const Expr& x) {
  const Expr whole = Trunc(x);
  return x.ok() && !IsFloat(x.dtype()) ? x : Where(Gt(x, whole), whole + 1, whole);
}

Expr Round(const Expr& x) {
  if (!x.ok() || !IsFloat(x.dtype())) return x;
  const Expr whole = Trunc(x);
  const Expr rest = Abs(x - whole);  // exact
  const Expr odd = Ne(whole * 0.5, Trunc(whole * 0.5));
  const Expr away = LogicalOr(Gt(rest, 0.5), LogicalAnd(Eq(rest, 0.5), odd));
  return Where(away, whole + Sign(x), whole);
}

Expr IsNan(const Expr& x) { return Ne(x, x); }
Expr IsInf(const Expr& x) {
  if (x.ok() && !IsFloat(x.dtype())) return Full(x.graph(), x.shape(), false, DType::kBool);
  return Eq(Abs(x), kInf);
}
Expr IsFinite(const Expr& x) {
  if (x.ok() && !IsFloat(x.dtype())) return Full(x.graph(), x.shape(), true, DType::kBool);
  return Lt(Abs(x), kInf);
}

Expr LogicalNot(const Expr& x) {
  if (x.ok() && IsBoolDType(x.dtype())) return BitwiseXor(x, true);
  return Eq(x, 0);
}
Expr BitwiseNot(const Expr& x) {
  return x.ok() && IsBoolDType(x.dtype()) ? LogicalNot(x) : BitwiseXor(x, -1);
}
Expr AsBool(const Expr& x) { return x.ok() && IsBoolDType(x.dtype()) ? x : Ne(x, 0); }

Expr Clamp(const Expr& x, std::optional<Number> min, std::optional<Number> max) {
  if (!x.ok()) return x;
  if (!min && !max) return Fail(x, "clamp: needs a minimum or a maximum");
  // By Where rather than Max and Min, which would halve the gradient on a bound.
  Expr result = x;
  if (min) result = Where(Lt(result, *min), *min, result);
  if (max) result = Where(Gt(result, *max), *max, result);
  return result;
}

Expr Add(const Expr& a, const Expr& b) { return Binary("add", Op::kAdd, a, b); }
Expr Mul(const Expr& a, const Expr& b) { return Binary("mul", Op::kMul, a, b); }
Expr Sub(const Expr& a, const Expr& b) {
  if (a.ok() && b.ok() && IsBoolDType(a.dtype()) && IsBoolDType(b.dtype())) {
    return Fail(a, "sub: bool has no difference; use logical_xor, or cast to an integer first");
  }
  return Binary("sub", Op::kSub, a, b);
}

Expr Div(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  const DType dtype = LeastUpperFloat(Promote(a.dtype(), b.dtype()));
  return Binary("div", Op::kDiv, Cast(a, dtype), Cast(b, dtype));
}

Expr FloorDivide(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (IsFloat(Promote(a.dtype(), b.dtype()))) return Floor(Div(a, b));
  return Numeric("floor_divide", Op::kFloorDiv, a, b);
}

Expr TruncDivide(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (IsFloat(Promote(a.dtype(), b.dtype()))) return Trunc(Div(a, b));
  return Numeric("trunc_divide", Op::kTruncDiv, a, b);
}

Expr Mod(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (IsFloat(Promote(a.dtype(), b.dtype()))) return a - FloorDivide(a, b) * b;
  return Numeric("mod", Op::kFloorMod, a, b);
}

Expr Fmod(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (IsFloat(Promote(a.dtype(), b.dtype()))) return a - TruncDivide(a, b) * b;
  return Numeric("fmod", Op::kTruncMod, a, b);
}

Expr Pow(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  const DType dtype = Promote(a.dtype(), b.dtype());
  if (!IsFloat(dtype)) {
    const DType whole = dtype == DType::kBool ? DType::kInt32 : dtype;
    if (b.node()->IsConst()) {
      if (b.node()->Int() < 0 && !IsUnsigned(dtype)) {
        return Fail(a, "pow: integers to the power {}; cast to a float first", b.node()->Int());
      }
      const uint64_t n = static_cast<uint64_t>(b.node()->Int());
      return n == 0 ? Cast(FullLike(a, 1), whole) : WholePower(Cast(a, whole), n);
    }
    Expr x = Cast(a, whole), y = b;
    if (std::optional<Expr> error = Unify("pow", {&x, &y})) return *error;
    return IntegerPower(x, y);
  }
  const DType compute = ComputeDType(dtype);
  Expr x = Cast(a, compute), y = Cast(b, compute);
  if (y.ok() && y.node()->IsConst()) return Cast(FloatPower(x, y.node()->Float()), dtype);
  if (x.ok() && x.node()->IsConst() && x.node()->Float() > 0) {
    const double base = x.node()->Float();
    return Cast(base == 1 ? FullLike(y, 1) : Exp(y * std::log(base)), dtype);
  }
  if (std::optional<Expr> error = Unify("pow", {&x, &y})) return *error;
  return Cast(FloatPower(x, y), dtype);
}

Expr Maximum(const Expr& a, const Expr& b) { return Binary("maximum", Op::kMax, a, b); }
Expr Minimum(const Expr& a, const Expr& b) { return Binary("minimum", Op::kMin, a, b); }

Expr LogAddExp(const Expr& a, const Expr& b) {
  Expr x = AsFloat(a), y = AsFloat(b);
  if (std::optional<Expr> error = Unify("logaddexp", {&x, &y})) return *error;
  // Equal operands, both infinite among them, have no difference; their gradient is that of the
  // tie.
  const Expr distance = Abs(Where(Eq(x, y), 0, x - y));
  return Maximum(x, y) + Log(Exp(-distance) + 1);
}

Expr CopySign(const Expr& a, const Expr& b) {
  Expr x = AsFloat(a), y = AsFloat(b);
  if (std::optional<Expr> error = Unify("copysign", {&x, &y})) return *error;
  const Expr negative_zero = LogicalAnd(Eq(y, 0), Lt(Reciprocal(y), 0));
  return NegateWhere(LogicalOr(Lt(y, 0), negative_zero), Abs(x));
}

Expr Eq(const Expr& a, const Expr& b) { return Binary("eq", Op::kCmpEq, a, b); }
Expr Ne(const Expr& a, const Expr& b) { return Binary("ne", Op::kCmpNe, a, b); }
Expr Lt(const Expr& a, const Expr& b) { return Binary("lt", Op::kCmpLt, a, b); }
Expr Gt(const Expr& a, const Expr& b) { return Lt(b, a); }
Expr Le(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  // The negation of the opposite would be true for NaN.
  if (IsFloat(Promote(a.dtype(), b.dtype()))) return LogicalOr(Lt(a, b), Eq(a, b));
  return LogicalNot(Lt(b, a));
}
Expr Ge(const Expr& a, const Expr& b) { return Le(b, a); }

Expr BitwiseAnd(const Expr& a, const Expr& b) { return Bits("bitwise_and", Op::kAnd, a, b); }
Expr BitwiseOr(const Expr& a, const Expr& b) { return Bits("bitwise_or", Op::kOr, a, b); }
Expr BitwiseXor(const Expr& a, const Expr& b) { return Bits("bitwise_xor", Op::kXor, a, b); }
Expr ShiftLeft(const Expr& a, const Expr& b) { return Shift("shift_left", Op::kShl, a, b); }
Expr ShiftRight(const Expr& a, const Expr& b) { return Shift("shift_right", Op::kShr, a, b); }

Expr LogicalAnd(const Expr& a, const Expr& b) { return BitwiseAnd(AsBool(a), AsBool(b)); }
Expr LogicalOr(const Expr& a, const Expr& b) { return BitwiseOr(AsBool(a), AsBool(b)); }
Expr LogicalXor(const Expr& a, const Expr& b) { return BitwiseXor(AsBool(a), AsBool(b)); }

Expr IsClose(const Expr& a, const Expr& b, const Tolerance& tolerance) {
  Expr x = AsFloat(a), y = AsFloat(b);
  if (std::optional<Expr> error = Unify("isclose", {&x, &y})) return *error;
  const Expr bound = Abs(y) * tolerance.relative + tolerance.absolute;
  const Expr near = LogicalAnd(IsFinite(y), Le(Abs(x - y), bound));
  const Expr close = LogicalOr(Eq(x, y), near);
  return tolerance.equal_nan ? LogicalOr(close, LogicalAnd(IsNan(x), IsNan(y))) : close;
}

Expr Where(const Expr& condition, const Expr& yes, const Expr& no) {
  if (condition.ok() && condition.dtype() != DType::kBool) {
    return Fail(condition, "where: the condition is {}, it must be bool; compare it with something",
                Name(condition.dtype()));
  }
  if (!yes.ok()) return yes;
  if (!no.ok()) return no;
  const DType dtype = Promote(yes.dtype(), no.dtype());
  Expr c = condition, a = Cast(yes, dtype), b = Cast(no, dtype);
  if (std::optional<Expr> error = UnifyShapes("where", {&c, &a, &b})) return *error;
  return Apply(Op::kWhere, {c, a, b});
}

Expr MaskedFill(const Expr& x, const Expr& mask, Number value) { return Where(mask, value, x); }

Expr Lerp(const Expr& from, const Expr& to, const Expr& weight) {
  return from + (to - from) * weight;
}

}  // namespace tensord
