#include "core/tensor/elementwise.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/tensor/create.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

bool IsBoolDType(DType dtype) { return dtype == DType::kBool; }
bool IsIntOrBool(DType dtype) { return IsInt(dtype) || dtype == DType::kBool; }

// A formula of two floats of one dtype and shape, computed in ComputeDType.
template <typename Formula>
Expr OfFloats(std::string_view name, const Expr& a, const Expr& b, Formula formula) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Unify(name, {&x, &y})) return *error;
  const DType dtype = LeastUpperFloat(x.dtype()), compute = ComputeDType(dtype);
  return Cast(formula(Cast(x, compute), Cast(y, compute)), dtype);
}

// Brings integer operands together.
std::optional<Expr> Integers(std::string_view name, Expr& x, Expr& y) {
  if (std::optional<Expr> error = Unify(name, {&x, &y})) return error;
  if (IsInt(x.dtype())) return std::nullopt;
  return Fail(x, "{}: operands are {}; it needs integers", name, Name(x.dtype()));
}

// Floats as they are, integers as float32.
Expr AsFloat(const Expr& x) { return x.ok() ? Cast(x, LeastUpperFloat(x.dtype())) : x; }

Expr FloatUnary(Op op, const Expr& x) { return Apply(op, {AsFloat(x)}); }

// Where one of the operands comes out.
Expr Picked(std::string_view name, Op op, Expr a, Expr b) {
  if (std::optional<Expr> error = UnifyValues(name, {&a, &b})) return *error;
  return Apply(op, {a, b});
}

// A number that the other's integer dtype lacks counts as what it is.
Expr Compared(std::string_view name, Op op, Expr a, Expr b) {
  const auto compare_to = [](const Expr& other, Expr& x) {
    const std::optional<Number> number = KnownNumber(x);
    if (number && other.ok() && IsInt(other.dtype()) && x.rank() == 0) {
      x = NumberComparedTo(other, *number);
    }
  };
  compare_to(a, b);
  compare_to(b, a);
  if (std::optional<Expr> error = Unify(name, {&a, &b})) return *error;
  return Apply(op, {a, b});
}

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

// a = whole * b + rest, with a rest smaller than b that has the sign of a.
struct Quotient {
  Expr whole, rest;
};
Quotient Divided(const Expr& a, const Expr& b) {
  const Expr whole = Trunc(a / b);
  const Expr rest = a - whole * b;
  // A quotient that was rounded up to a whole number leaves a rest of the other sign.
  const Expr over = LogicalAnd(Ne(rest, 0), Ne(Lt(rest, 0), Lt(a, 0)));
  const Expr one = Where(Eq(Lt(a, 0), Lt(b, 0)), FullLike(a, 1), -1);
  const Expr exact = LogicalAnd(Eq(Abs(b), kInf), IsFinite(a));
  return {Where(over, whole - one, whole), Where(exact, a, Where(over, rest + one * b, rest))};
}

bool IsFloatPair(const Expr& a, const Expr& b) {
  return a.ok() && b.ok() && IsFloat(Promote(a.dtype(), b.dtype()));
}

}  // namespace

Expr Cast(const Expr& x, DType dtype) {
  if (!x.ok() || x.dtype() == dtype) return x;
  const Node* const src[] = {x.node()};
  return Expr(&x.graph(), x.graph().TryMake({.op = Op::kCast, .src = src, .dtype = dtype}));
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
  if (IsInt(x.dtype())) return Maximum(x, Neg(x));
  // Without the sign bit: of two zeros Max may take either, and 1 / abs(-0) must not be -inf.
  return WithSlope(WithoutSign(x), x, Sign(x));
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

Expr Deg2Rad(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return f * (std::numbers::pi / 180); });
}
Expr Rad2Deg(const Expr& x) {
  return InFloat32(x, [](const Expr& f) { return f * (180 / std::numbers::pi); });
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

Expr Round(const Expr& x, int64_t decimals) {
  if (!x.ok() || !IsFloat(x.dtype()) || decimals == 0) return Round(x);
  return InFloat32(x, [decimals](const Expr& f) {
    const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
    return decimals > 0 ? Round(f * scale) / scale : Round(f / scale) * scale;
  });
}

Expr Frac(const Expr& x) { return x.ok() && !IsFloat(x.dtype()) ? FullLike(x, 0) : x - Trunc(x); }

Expr IsNan(const Expr& x) { return Ne(x, x); }
Expr IsInf(const Expr& x, const InfinitySigns& signs) {
  if (!x.ok()) return x;
  if (!IsFloat(x.dtype()) || (!signs.positive && !signs.negative)) {
    return Full(x.graph(), x.shape(), false, DType::kBool);
  }
  if (signs.positive && signs.negative) return Eq(Abs(x), kInf);
  return Eq(x, signs.positive ? kInf : -kInf);
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

namespace {

// Whether a number is less, or more, than all of an integer dtype.
bool IsBelow(Number number, DType dtype) {
  return number.kind() != Number::Kind::kFloat && number.AsDouble() < 0 &&
         !CheckFits(number, dtype).ok();
}
bool IsAbove(Number number, DType dtype) {
  return number.kind() != Number::Kind::kFloat && number.AsDouble() > 0 &&
         !CheckFits(number, dtype).ok();
}

}  // namespace

Expr Clamp(const Expr& x, std::optional<Number> min, std::optional<Number> max) {
  if (!x.ok()) return x;
  if (!min && !max) return Fail(x, "clamp: needs a minimum or a maximum");
  // By Where rather than Max and Min, which would halve the gradient on a bound.
  // A bound that is beyond all numbers of the dtype is none; if it is so on the other side, no
  // number of the dtype is within, which Where says.
  Expr result = x;
  if (min && !IsBelow(*min, x.dtype())) result = Where(Lt(result, *min), *min, result);
  if (max && !IsAbove(*max, x.dtype())) result = Where(Gt(result, *max), *max, result);
  return result;
}

Expr ClampTo(const Expr& x, const std::optional<Expr>& min, const std::optional<Expr>& max) {
  if (!x.ok()) return x;
  if (!min && !max) return Fail(x, "clamp: needs a minimum or a maximum");
  const auto integer = [](const std::optional<Expr>& bound) {
    const std::optional<Number> number = bound ? KnownNumber(*bound) : std::nullopt;
    const bool is_one = number && bound->rank() == 0 && number->kind() != Number::Kind::kFloat;
    return is_one ? number : std::nullopt;
  };
  const std::optional<Number> low = integer(min), high = integer(max);
  if (low.has_value() == min.has_value() && high.has_value() == max.has_value()) {
    return Clamp(x, low, high);
  }
  Expr result = x;
  if (min) result = Where(LogicalOr(Lt(result, *min), IsNan(*min)), *min, result);
  if (max) result = Where(LogicalOr(Gt(result, *max), IsNan(*max)), *max, result);
  return result;
}

Expr NanToNum(const Expr& x, const NanReplacements& replacements) {
  if (!x.ok() || !IsFloat(x.dtype())) return x;
  const Expr zero = FullLike(x, 0);
  // The largest number of the dtype is the one before infinity.
  const Expr most = NextAfter(FullLike(x, kInf), zero), least = -most;
  const auto& [nan, above, below] = replacements;
  const Expr high = above ? FullLike(x, *above) : most;
  const Expr low = below ? FullLike(x, *below) : least;
  return Where(IsNan(x), nan, Where(Eq(x, kInf), high, Where(Eq(x, -kInf), low, x)));
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
  if (!IsFloatPair(a, b)) return Numeric("floor_divide", Op::kFloorDiv, a, b);
  return InFloat64("floor_divide", a, b, [](const Expr& x, const Expr& y) {
    const Quotient q = Divided(x, y);
    const Expr below = LogicalAnd(Ne(q.rest, 0), Ne(Lt(q.rest, 0), Lt(y, 0)));
    return Detach(Where(Eq(y, 0), x / y, Where(below, q.whole - 1, q.whole)));
  });
}

Expr TruncDivide(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (IsFloatPair(a, b)) return Trunc(Div(a, b));
  return Numeric("trunc_divide", Op::kTruncDiv, a, b);
}

Expr Mod(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (!IsFloatPair(a, b)) return Numeric("mod", Op::kFloorMod, a, b);
  return InFloat64("mod", a, b, [](const Expr& x, const Expr& y) {
    const Expr rest = Divided(x, y).rest;
    const Expr below = LogicalAnd(Ne(rest, 0), Ne(Lt(rest, 0), Lt(y, 0)));
    return Where(below, rest + y, rest);
  });
}

Expr Fmod(const Expr& a, const Expr& b) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  if (!IsFloatPair(a, b)) return Numeric("fmod", Op::kTruncMod, a, b);
  return InFloat64("fmod", a, b, [](const Expr& x, const Expr& y) { return Divided(x, y).rest; });
}

Expr Maximum(const Expr& a, const Expr& b) { return Picked("maximum", Op::kMax, a, b); }
Expr Minimum(const Expr& a, const Expr& b) { return Picked("minimum", Op::kMin, a, b); }

Expr FMax(const Expr& a, const Expr& b) {
  return Where(IsNan(a), b, Where(IsNan(b), a, Maximum(a, b)));
}
Expr FMin(const Expr& a, const Expr& b) {
  return Where(IsNan(a), b, Where(IsNan(b), a, Minimum(a, b)));
}

Expr Hypot(const Expr& a, const Expr& b) {
  return OfFloats("hypot", a, b, [](const Expr& x, const Expr& y) {
    const Expr largest = Maximum(Abs(x), Abs(y)), smallest = Minimum(Abs(x), Abs(y));
    const Expr some = LogicalAnd(Gt(largest, 0), Lt(largest, kInf));
    const Expr ratio = Where(some, smallest, 0) / Where(some, largest, 1);
    const Expr infinite = LogicalOr(IsInf(x), IsInf(y));
    const Expr value = Where(infinite, kInf, largest * Sqrt(ratio * ratio + 1));
    // Not by the value, which may be infinite where x and y are not.
    const Expr longer = Sqrt(ratio * ratio + 1);
    return WithSlopes(value, x, x / largest / longer, y, y / largest / longer);
  });
}

Expr LogAddExp(const Expr& a, const Expr& b) {
  return OfFloats("logaddexp", a, b, [](const Expr& x, const Expr& y) {
    // Equal operands, both infinite among them, have no difference; their gradient is that of the
    // tie.
    const Expr distance = Abs(Where(Eq(x, y), 0, x - y));
    return Maximum(x, y) + Log1p(Exp(-distance));
  });
}

Expr LogAddExp2(const Expr& a, const Expr& b) {
  return OfFloats("logaddexp2", a, b, [](const Expr& x, const Expr& y) {
    const Expr distance = Abs(Where(Eq(x, y), 0, x - y));
    return Maximum(x, y) + Log1p(Exp2(-distance)) * std::numbers::log2e;
  });
}

Expr Heaviside(const Expr& a, const Expr& b) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = UnifyValues("heaviside", {&x, &y})) return *error;
  const Expr step = Cast(Gt(x, 0), x.dtype());
  return Where(Eq(x, 0), Detach(y), Where(IsNan(x), x, step));
}

Expr Gcd(const Expr& a, const Expr& b) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Integers("gcd", x, y)) return *error;
  x = Abs(x);
  y = Abs(y);
  // Euclid's steps at most: by then the smaller number would be a Fibonacci number beyond the type.
  const int steps = static_cast<int>(BitSize(x.dtype()) * 1.45) + 2;
  for (int i = 0; i < steps; ++i) {
    const Expr rest = Apply(Op::kTruncMod, {x, y});  // by zero gives 0
    x = Where(Eq(y, 0), x, y);
    y = rest;
  }
  return Abs(x);  // the least integer has no size: its rests are negative
}

Expr Lcm(const Expr& a, const Expr& b) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Integers("lcm", x, y)) return *error;
  return Abs(Apply(Op::kTruncDiv, {x, Gcd(x, y)}) * y);  // 0 / 0 is 0
}

Expr Eq(const Expr& a, const Expr& b) { return Compared("eq", Op::kCmpEq, a, b); }
Expr Ne(const Expr& a, const Expr& b) { return Compared("ne", Op::kCmpNe, a, b); }
Expr Lt(const Expr& a, const Expr& b) { return Compared("lt", Op::kCmpLt, a, b); }
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
  Expr c = condition, a = AsValueOf(yes, dtype), b = AsValueOf(no, dtype);
  if (std::optional<Expr> error = UnifyShapes("where", {&c, &a, &b})) return *error;
  return Apply(Op::kWhere, {c, a, b});
}

Expr MaskedFill(const Expr& x, const Expr& mask, const Expr& value) {
  if (!x.ok() || !value.ok()) return x.ok() ? value : x;
  if (value.rank() != 0) {
    return Fail(x, "masked_fill: the value has shape {}; it must be one number, else use where",
                ShapeText(value.shape()));
  }
  return Where(mask, AsValueOf(value, x.dtype()), x);
}

Expr AddCMul(const Expr& x, const Expr& a, const Expr& b, Number scale) {
  const Expr product = a * b;
  const bool one = scale.kind() != Number::Kind::kFloat && scale.AsInt() == 1;
  return x + (one ? product : product * scale);
}

Expr AddCDiv(const Expr& x, const Expr& a, const Expr& b, Number scale) {
  const bool one = scale.kind() != Number::Kind::kFloat && scale.AsInt() == 1;
  return x + (one ? a : a * scale) / b;
}

Expr Lerp(const Expr& from, const Expr& to, const Expr& weight) {
  Expr x = from, y = to, w = weight;
  if (std::optional<Expr> error = AsFloats({&x, &y, &w})) return *error;
  const Expr way = y - x;
  return Where(Lt(Abs(w), 0.5), x + w * way, y - way * (1 - w));
}

}  // namespace tensord
