// Tensor: operators and elementwise functions. Those that look alike are rows of tables, which the
// tests iterate over too (_tensord._tables).
#include "client/python/bind.h"
#include "client/python/lift.h"
#include "core/base/status.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/polynomials.h"
#include "core/tensor/special.h"

namespace tensord::python {
namespace {

struct UnaryRow {
  const char* name;
  Expr (*function)(const Expr&);
  const char* doc;
};

constexpr UnaryRow kUnary[] = {
    // clang-format off
    {"neg",         Neg,        "-x. bool has no negative."},
    {"positive",    [](const Expr& x) { return x; }, "x itself."},
    {"abs",         Abs,        "The size of x; its derivative at 0 is 0."},
    {"sign",        Sign,       "-1, 0 or 1; 0 for NaN."},
    {"sgn",         Sign,       "The same as sign."},
    {"square",      Square,     "x * x."},
    {"reciprocal",  Reciprocal, "1 / x. Integers become float32."},
    {"sqrt",        Sqrt,       "The square root; NaN below 0. Integers become float32."},
    {"rsqrt",       Rsqrt,      "1 / sqrt(x). Integers become float32."},
    {"exp",         Exp,        "e^x. Integers become float32, here and in all functions that need floats."},
    {"exp2",        Exp2,       "2^x, exact for whole numbers."},
    {"expm1",       Expm1,      "e^x - 1, accurate near 0."},
    {"log",         Log,        "The natural logarithm: -inf at 0, NaN below."},
    {"log2",        Log2,       "The logarithm to base 2, exact for powers of two."},
    {"log10",       Log10,      "The logarithm to base 10."},
    {"log1p",       Log1p,      "log(1 + x), accurate near 0."},
    {"sin",         Sin,        "The sine, with all digits for any finite angle."},
    {"cos",         Cos,        "The cosine, with all digits for any finite angle."},
    {"tan",         Tan,        "The tangent."},
    {"asin",        Asin,       "The inverse sine; NaN outside of [-1, 1]."},
    {"acos",        Acos,       "The inverse cosine; NaN outside of [-1, 1]."},
    {"atan",        Atan,       "The inverse tangent."},
    {"sinh",        Sinh,       "The hyperbolic sine."},
    {"cosh",        Cosh,       "The hyperbolic cosine."},
    {"tanh",        Tanh,       "The hyperbolic tangent."},
    {"asinh",       Asinh,      "The inverse hyperbolic sine."},
    {"acosh",       Acosh,      "The inverse hyperbolic cosine; NaN below 1."},
    {"atanh",       Atanh,      "The inverse hyperbolic tangent; NaN outside of [-1, 1]."},
    {"erf",         Erf,        "The error function."},
    {"erfc",        Erfc,       "1 - erf(x), without cancellation."},
    {"erfinv",      Erfinv,     "The inverse of erf; NaN outside of [-1, 1]."},
    {"lgamma",      Lgamma,     "The logarithm of the size of the gamma function."},
    {"digamma",     Digamma,    "The derivative of lgamma; NaN at negative whole numbers."},
    {"i0",          I0,         "The modified Bessel function of order 0."},
    {"i0e",         I0e,        "i0(x) * exp(-|x|)."},
    {"i1",          I1,         "The modified Bessel function of order 1."},
    {"i1e",         I1e,        "i1(x) * exp(-|x|)."},
    {"modified_bessel_k0", K0,  "The modified Bessel function of the second kind of order 0, for x > 0."},
    {"modified_bessel_k1", K1,  "The modified Bessel function of the second kind of order 1, for x > 0."},
    {"scaled_modified_bessel_k0", K0e, "modified_bessel_k0(x) * exp(x)."},
    {"scaled_modified_bessel_k1", K1e, "modified_bessel_k1(x) * exp(x)."},
    {"bessel_j0",   BesselJ0,   "The Bessel function of the first kind of order 0."},
    {"bessel_j1",   BesselJ1,   "The Bessel function of the first kind of order 1."},
    {"bessel_y0",   BesselY0,   "The Bessel function of the second kind of order 0, for x > 0."},
    {"bessel_y1",   BesselY1,   "The Bessel function of the second kind of order 1, for x > 0."},
    {"spherical_bessel_j0", SphericalBesselJ0, "sin(x) / x, 1 at 0."},
    {"airy_ai",     AiryAi,     "Airy's function, the solution of y'' = x y that vanishes at infinity."},
    {"sinc",        Sinc,       "sin(pi x) / (pi x), 1 at 0."},
    {"entr",        Entr,       "-x log(x): 0 at 0, -inf below."},
    {"ndtr",        Ndtr,       "The share of a normal distribution that is below x."},
    {"ndtri",       Ndtri,      "The inverse of ndtr."},
    {"log_ndtr",    LogNdtr,    "log(ndtr(x)), without underflow."},
    {"erfcx",       Erfcx,      "exp(x^2) * erfc(x), without underflow."},
    {"deg2rad",     Deg2Rad,    "Degrees to radians."},
    {"rad2deg",     Rad2Deg,    "Radians to degrees."},
    {"angle",       Angle,      "0, or pi for negative numbers; NaN stays. Its derivative is 0."},
    {"trunc",       Trunc,      "Without the fraction; its derivative is 0. Integers stay, here and in the next."},
    {"floor",       Floor,      "The next whole number below."},
    {"ceil",        Ceil,       "The next whole number above."},
    {"frac",        Frac,       "What trunc drops."},
    {"isnan",       IsNan,      "bool: whether it is NaN."},
    {"isfinite",    IsFinite,   "bool: whether it is neither NaN nor infinite."},
    {"isposinf",    [](const Expr& x) { return IsInf(x, {.negative = false}); }, "bool: whether it is +inf."},
    {"isneginf",    [](const Expr& x) { return IsInf(x, {.positive = false}); }, "bool: whether it is -inf."},
    {"isreal",      [](const Expr& x) { return Eq(LogicalXor(x, x), false); }, "bool: true, as no tensor is complex."},
    {"signbit",     SignBit,    "bool: whether the sign is set, that of -0 and NaN included."},
    {"logical_not", LogicalNot, "bool: whether it is 0, for any dtype."},
    {"bitwise_not", BitwiseNot, "All bits flipped; logical not for bool. Floats are an error."},
    // clang-format on
};

// Each takes a tensor or a number on either side, and `reverse` swaps them.
struct BinaryRow {
  const char* name;
  Expr (*tensors)(const Expr&, const Expr&);
  Expr (*number_right)(const Expr&, Number);
  Expr (*number_left)(Number, const Expr&);
  const char* doc;
};

#define TD_BINARY(name, Function, doc) \
  { name, Function, Function, Function, doc }
constexpr BinaryRow kBinary[] = {
    // clang-format off
    TD_BINARY("true_divide",   Div,         "self / other; integers give float32."),
    TD_BINARY("floor_divide",  FloorDivide, "self // other, rounded to minus infinity; integers by 0 give 0."),
    TD_BINARY("remainder",     Mod,         "self % other, with the sign of the divisor; integers by 0 give 0."),
    TD_BINARY("fmod",          Fmod,        "The remainder with the sign of the dividend."),
    TD_BINARY("pow",           Pow,         "self ** other. 0 ** 0 is 1. Integers to a negative number are an error."),
    TD_BINARY("float_power",   FloatPower,  "pow in float64."),
    TD_BINARY("maximum",       Maximum,     "The larger one; NaN if one is NaN. A tie shares the derivative."),
    TD_BINARY("minimum",       Minimum,     "The smaller one; NaN if one is NaN. A tie shares the derivative."),
    TD_BINARY("fmax",          FMax,        "The larger one; the other one if one is NaN."),
    TD_BINARY("fmin",          FMin,        "The smaller one; the other one if one is NaN."),
    TD_BINARY("hypot",         Hypot,       "sqrt(self^2 + other^2), without overflow on the way."),
    TD_BINARY("atan2",         Atan2,       "The angle of the point (x = other, y = self), in [-pi, pi]."),
    TD_BINARY("logaddexp",     LogAddExp,   "log(exp(self) + exp(other)), without overflow on the way."),
    TD_BINARY("logaddexp2",    LogAddExp2,  "log2(2^self + 2^other), without overflow on the way."),
    TD_BINARY("copysign",      CopySign,    "The size of self with the sign of other, that of -0 included."),
    TD_BINARY("nextafter",     NextAfter,   "The next float on the way from self to other."),
    TD_BINARY("ldexp",         Ldexp,       "self * 2^other."),
    TD_BINARY("heaviside",     Heaviside,   "0 below 0, 1 above, other at 0."),
    TD_BINARY("xlogy",         XLogY,       "self * log(other), 0 where self is 0 and other is no NaN."),
    TD_BINARY("xlog1py",       XLog1Py,     "self * log(1 + other), 0 where self is 0 and other is no NaN."),
    TD_BINARY("igamma",        Igamma,      "The lower incomplete gamma function P(self, other)."),
    TD_BINARY("igammac",       Igammac,     "The upper incomplete gamma function Q(self, other)."),
    TD_BINARY("zeta",          Zeta,        "Hurwitz's zeta: the sum of (k + other)^-self over k = 0, 1, ..."),
    TD_BINARY("chebyshev_polynomial_t", ChebyshevT, "Chebyshev's polynomial of the first kind, of degree `other`: whole numbers to 2^20, 0 below 0."),
    TD_BINARY("chebyshev_polynomial_u", ChebyshevU, "Chebyshev's polynomial of the second kind, of degree `other`."),
    TD_BINARY("chebyshev_polynomial_v", ChebyshevV, "Chebyshev's polynomial of the third kind, of degree `other`."),
    TD_BINARY("chebyshev_polynomial_w", ChebyshevW, "Chebyshev's polynomial of the fourth kind, of degree `other`."),
    TD_BINARY("shifted_chebyshev_polynomial_t", ShiftedChebyshevT, "chebyshev_polynomial_t(2 * self - 1, other)."),
    TD_BINARY("shifted_chebyshev_polynomial_u", ShiftedChebyshevU, "chebyshev_polynomial_u(2 * self - 1, other)."),
    TD_BINARY("shifted_chebyshev_polynomial_v", ShiftedChebyshevV, "chebyshev_polynomial_v(2 * self - 1, other)."),
    TD_BINARY("shifted_chebyshev_polynomial_w", ShiftedChebyshevW, "chebyshev_polynomial_w(2 * self - 1, other)."),
    TD_BINARY("hermite_polynomial_h", HermiteH, "Hermite's polynomial of degree `other`, orthogonal by exp(-x^2)."),
    TD_BINARY("hermite_polynomial_he", HermiteHe, "Hermite's polynomial of degree `other`, orthogonal by exp(-x^2 / 2)."),
    TD_BINARY("laguerre_polynomial_l", LaguerreL, "Laguerre's polynomial of degree `other`."),
    TD_BINARY("legendre_polynomial_p", LegendreP, "Legendre's polynomial of degree `other`."),
    TD_BINARY("gcd",           Gcd,         "The greatest common divisor of integers, never negative."),
    TD_BINARY("lcm",           Lcm,         "The least common multiple of integers, never negative."),
    TD_BINARY("bitwise_and",   BitwiseAnd,  "Bits that both have. Floats are an error, here and in the next four."),
    TD_BINARY("bitwise_or",    BitwiseOr,   "Bits that one has."),
    TD_BINARY("bitwise_xor",   BitwiseXor,  "Bits that differ."),
    TD_BINARY("bitwise_left_shift",  ShiftLeft,  "self << other; by the width of the dtype or more gives 0."),
    TD_BINARY("bitwise_right_shift", ShiftRight, "self >> other, which keeps the sign."),
    TD_BINARY("logical_and",   LogicalAnd,  "bool: whether both are not 0."),
    TD_BINARY("logical_or",    LogicalOr,   "bool: whether one is not 0."),
    TD_BINARY("logical_xor",   LogicalXor,  "bool: whether just one is not 0."),
    TD_BINARY("eq",            Eq,          "bool: equal. NaN equals nothing."),
    TD_BINARY("ne",            Ne,          "bool: not equal."),
    TD_BINARY("lt",            Lt,          "bool: less. False where one is NaN, here and in the next three."),
    TD_BINARY("le",            Le,          "bool: less or equal."),
    TD_BINARY("gt",            Gt,          "bool: greater."),
    TD_BINARY("ge",            Ge,          "bool: greater or equal."),
    // clang-format on
};

constexpr BinaryRow kAdd = TD_BINARY("add", Add, "self + alpha * other; or for bool.");
constexpr BinaryRow kSub = TD_BINARY("sub", Sub, "self - alpha * other. bool has no difference.");
constexpr BinaryRow kMul = TD_BINARY("mul", Mul, "self * other; and for bool.");
constexpr BinaryRow kMod = TD_BINARY("mod", Mod, "");

struct OperatorRow {
  const char* name;  // without underscores
  BinaryRow function;
};
constexpr OperatorRow kOperators[] = {
    {"add", kAdd},
    {"sub", kSub},
    {"mul", kMul},
    {"mod", kMod},
    {"truediv", TD_BINARY("", Div, "")},
    {"floordiv", TD_BINARY("", FloorDivide, "")},
    {"pow", TD_BINARY("", Pow, "")},
    {"and", TD_BINARY("", BitwiseAnd, "")},
    {"or", TD_BINARY("", BitwiseOr, "")},
    {"xor", TD_BINARY("", BitwiseXor, "")},
    {"lshift", TD_BINARY("", ShiftLeft, "")},
    {"rshift", TD_BINARY("", ShiftRight, "")},
};
// Without a reflected form of their own: Python swaps them.
constexpr OperatorRow kComparisons[] = {
    {"eq", TD_BINARY("", Eq, "")}, {"ne", TD_BINARY("", Ne, "")}, {"lt", TD_BINARY("", Lt, "")},
    {"le", TD_BINARY("", Le, "")}, {"gt", TD_BINARY("", Gt, "")}, {"ge", TD_BINARY("", Ge, "")},
};
#undef TD_BINARY

Tensor Binary(const BinaryRow& row, const Tensor& a, py::handle b, bool reverse) {
  const std::variant<Tensor, Number> operand = ToOperand(b);
  if (const Number* number = std::get_if<Number>(&operand)) {
    return Checked(Lift(
        [&](const Expr& x) {
          return reverse ? row.number_left(*number, x) : row.number_right(x, *number);
        },
        a));
  }
  return Checked(Lift(
      [&](const Expr& x, const Expr& y) { return reverse ? row.tensors(y, x) : row.tensors(x, y); },
      a, std::get<Tensor>(operand)));
}

// add and sub: the other operand times alpha.
Tensor Scaled(const BinaryRow& row, const Tensor& a, py::handle b, py::handle alpha, bool reverse) {
  if (PyLong_Check(alpha.ptr()) && PyLong_AsLong(alpha.ptr()) == 1)
    return Binary(row, a, b, reverse);
  if (reverse) return Binary(row, Binary(kMul, a, alpha, false), b, true);
  const std::variant<Tensor, Number> operand = ToOperand(b);
  const Tensor other =
      std::holds_alternative<Tensor>(operand)
          ? std::get<Tensor>(operand)
          : Checked(
                Lift([&](const Expr& x) { return NumberBeside(x, std::get<Number>(operand)); }, a));
  return Binary(row, a, py::cast(Binary(kMul, other, alpha, false)), false);
}

Tensor DivBy(const Tensor& a, py::handle b, bool reverse, std::optional<std::string> mode) {
  constexpr BinaryRow kTrue = {"", Div, Div, Div, ""};
  constexpr BinaryRow kFloor = {"", FloorDivide, FloorDivide, FloorDivide, ""};
  constexpr BinaryRow kTrunc = {"", TruncDivide, TruncDivide, TruncDivide, ""};
  if (!mode) return Binary(kTrue, a, b, reverse);
  if (*mode == "floor") return Binary(kFloor, a, b, reverse);
  if (*mode == "trunc") return Binary(kTrunc, a, b, reverse);
  Raise(InvalidArgument("div: rounding_mode is None, 'trunc' or 'floor', not '{}'", *mode));
}

void BindOperators(py::class_<Tensor>& tensor) {
  // What Python wants of an operator: NotImplemented for operands that are none of ours.
  const auto define = [&tensor](const std::string& name, const BinaryRow& row, bool reverse) {
    tensor.def(name.c_str(), [row, reverse](const Tensor& a, py::handle b) -> py::object {
      if (!IsOperand(b)) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
      return py::cast(Binary(row, a, b, reverse));
    });
  };
  for (const OperatorRow& row : kOperators) {
    const std::string name = row.name;
    define("__" + name + "__", row.function, false);
    define("__r" + name + "__", row.function, true);
    // t += x is an assignment: t keeps its dtype, shape and memory.
    tensor.def(("__i" + name + "__").c_str(),
               [function = row.function, name](const py::object& self, py::handle b) -> py::object {
                 if (!IsOperand(b)) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
                 const Tensor target = self.cast<Tensor>();
                 AssignInPlace(target, Binary(function, target, b, false),
                               "the operator " + name + " in place");
                 return self;
               });
  }
  for (const OperatorRow& row : kComparisons) {
    define("__" + std::string(row.name) + "__", row.function, false);
  }
  const auto alike = [&tensor](const char* name, Expr (*function)(const Expr&)) {
    tensor.def(name, Lifted(function));
  };
  alike("__neg__", Neg);
  alike("__pos__", [](const Expr& x) { return x; });
  alike("__abs__", Abs);
  alike("__invert__", BitwiseNot);
}

// Of a condition, where either choice may be a number.
Tensor WhereOf(const Tensor& condition, py::handle yes, py::handle no) {
  std::variant<Tensor, Number> a = ToOperand(yes), b = ToOperand(no);
  const Number* a_number = std::get_if<Number>(&a);
  const Number* b_number = std::get_if<Number>(&b);
  if (a_number && b_number) {
    // Two numbers: the kinder of them decides, as in a list of both.
    const DType dtype = Promote(a_number->DefaultDType(), b_number->DefaultDType());
    a = ToTensor(yes, dtype);
    b = ToTensor(no, dtype);
  } else if (a_number) {
    return Checked(Lift([&](const Expr& c, const Expr& y) { return Where(c, *a_number, y); },
                        condition, std::get<Tensor>(b)));
  } else if (b_number) {
    return Checked(Lift([&](const Expr& c, const Expr& x) { return Where(c, x, *b_number); },
                        condition, std::get<Tensor>(a)));
  }
  return Checked(Lift([](const Expr& c, const Expr& x, const Expr& y) { return Where(c, x, y); },
                      condition, std::get<Tensor>(a), std::get<Tensor>(b)));
}

// Numbers as bounds keep the dtype of x if they can; tensors broadcast.
Tensor ClampOf(const Tensor& x, py::handle min, py::handle max) {
  const auto number = [](py::handle value) -> std::optional<Number> {
    return value.is_none() ? std::nullopt : AsNumber(value);
  };
  const std::optional<Number> low = number(min), high = number(max);
  if ((low || min.is_none()) && (high || max.is_none())) {
    return Checked(Lift([&](const Expr& e) { return Clamp(e, low, high); }, x));
  }
  if (low || high) return ClampOf(ClampOf(x, min, py::none()), py::none(), max);
  return Lifted([](const Expr& e, const MaybeBeside& a, const MaybeBeside& b) {
    const auto bound = [](const MaybeBeside& given) {
      return given ? std::optional<Expr>(given->expr) : std::nullopt;
    };
    return ClampTo(e, bound(a), bound(b));
  })(x, min, max);
}

// Whether shape and all elements are the same, as a bool of Python: it computes them.
bool EqualTo(const Tensor& x, const Tensor& other) {
  if (x.shape() != other.shape()) return false;
  const Tensor same =
      Checked(Lift([](const Expr& a, const Expr& b) { return All(Eq(a, b)); }, x, other));
  return ToNumpy(same).attr("item")().cast<bool>();
}

void BindOthers(py::class_<Tensor>& tensor) {
  tensor
      .def(
          "add",
          [](const Tensor& a, py::handle b, bool reverse, py::handle alpha) {
            return Scaled(kAdd, a, b, alpha, reverse);
          },
          py::arg("other"), py::arg("reverse") = false, py::kw_only(), py::arg("alpha") = 1,
          kAdd.doc)
      .def(
          "sub",
          [](const Tensor& a, py::handle b, bool reverse, py::handle alpha) {
            return Scaled(kSub, a, b, alpha, reverse);
          },
          py::arg("other"), py::arg("reverse") = false, py::kw_only(), py::arg("alpha") = 1,
          kSub.doc)
      .def(
          "mul",
          [](const Tensor& a, py::handle b, bool reverse) { return Binary(kMul, a, b, reverse); },
          py::arg("other"), py::arg("reverse") = false, kMul.doc)
      .def("div", &DivBy, py::arg("other"), py::arg("reverse") = false,
           py::arg("rounding_mode") = py::none(),
           "self / other, where integers give float32; or rounded, 'trunc' to zero and 'floor' to "
           "minus infinity, where they stay integers.")
      .def("where", &WhereOf, py::arg("yes"), py::arg("no"),
           "Called on the condition, which is bool: elements of `yes` where it holds, else of "
           "`no`. Without them\nnonzero(as_tuple=True).")
      .def("where",
           [](const py::object& self) -> py::tuple {
             return self.attr("nonzero")(py::arg("as_tuple") = true);
           })
      .def("clamp", &ClampOf, py::arg("min") = py::none(), py::arg("max") = py::none(),
           "x, but at least min and at most max; max if they cross. Bounds are numbers or tensors. "
           "The derivative on a bound is 1.")
      .def("equal", &EqualTo, py::arg("other"),
           "Whether shape and all elements are the same: a Python bool, so it computes them.");

  tensor
      .def(
          "clamp_min", [](const Tensor& x, py::handle min) { return ClampOf(x, min, py::none()); },
          py::arg("min"), "x, but at least min.")
      .def(
          "clamp_max", [](const Tensor& x, py::handle max) { return ClampOf(x, py::none(), max); },
          py::arg("max"), "x, but at most max.");
  Method(
      tensor, "round", [](const Expr& x, int64_t decimals) { return Round(x, decimals); },
      "The nearest whole number, or number of that many decimals; ties to even. Its derivative is "
      "0.",
      py::arg("decimals") = 0);
  Method(
      tensor, "isinf",
      [](const Expr& x, bool positive, bool negative) {
        return IsInf(x, {positive, negative});
      },
      "bool: whether it is infinite.", py::arg("detect_positive") = true,
      py::arg("detect_negative") = true);
  Method(
      tensor, "nan_to_num",
      [](const Expr& x, std::optional<double> nan, std::optional<double> posinf,
         std::optional<double> neginf) {
        return NanToNum(x, {nan.value_or(0), posinf, neginf});
      },
      "NaN and infinities replaced, infinities by the largest finite numbers unless others are "
      "given.",
      py::arg("nan") = 0.0, py::arg("posinf") = py::none(), py::arg("neginf") = py::none());
  Method(
      tensor, "frexp",
      [](const Expr& x) {
        const FloatParts parts = Frexp(x);
        return std::pair<Expr, Expr>(parts.mantissa, parts.exponent);
      },
      "(mantissa, exponent): x = mantissa * 2^exponent, the mantissa in [0.5, 1), the exponent "
      "int32.");
  Method(
      tensor, "polygamma", [](const Expr& x, int64_t n) { return Polygamma(n, x); },
      "The n-th derivative of digamma.", py::arg("n"));
  Method(
      tensor, "mvlgamma", [](const Expr& x, int64_t p) { return MvLgamma(x, p); },
      "The logarithm of the multivariate gamma function of dimension p.", py::arg("p"));
  Method(
      tensor, "logit", [](const Expr& x, std::optional<double> eps) { return Logit(x, eps); },
      "log(x / (1 - x)); with eps, x is brought into [eps, 1 - eps] first.",
      py::arg("eps") = py::none());
  Method(
      tensor, "masked_fill",
      [](const Expr& x, const Expr& mask, const Beside& value) {
        return MaskedFill(x, mask, value);
      },
      "`value`, a number or a tensor of one, where the bool mask holds, else x.", py::arg("mask"),
      py::arg("value"));
  Method(
      tensor, "lerp",
      [](const Expr& x, const Expr& end, const Beside& weight) { return Lerp(x, end, weight); },
      "x + weight * (end - x), exactly `end` at weight 1.", py::arg("end"), py::arg("weight"));
  Method(
      tensor, "_fma",
      [](const Expr& x, const Beside& factor, const Beside& term) { return Fma(x, factor, term); },
      "x * factor + term, rounded once.", py::arg("factor"), py::arg("term"));
  Method(
      tensor, "addcmul",
      [](const Expr& x, const Expr& a, const Expr& b, Number value) {
        return AddCMul(x, a, b, value);
      },
      "x + value * tensor1 * tensor2.", py::arg("tensor1"), py::arg("tensor2"), py::kw_only(),
      py::arg("value") = 1);
  Method(
      tensor, "addcdiv",
      [](const Expr& x, const Expr& a, const Expr& b, Number value) {
        return AddCDiv(x, a, b, value);
      },
      "x + value * tensor1 / tensor2.", py::arg("tensor1"), py::arg("tensor2"), py::kw_only(),
      py::arg("value") = 1);
  const auto is_close = [](const Expr& x, const Beside& other, double rtol, double atol,
                           bool equal_nan) {
    return IsClose(x, other, {rtol, atol, equal_nan});
  };
  Method(tensor, "isclose", is_close,
         "bool: |self - other| <= atol + rtol * |other|; infinities are close to themselves.",
         py::arg("other"), py::arg("rtol") = 1e-5, py::arg("atol") = 1e-8,
         py::arg("equal_nan") = false);
  Method(
      tensor, "allclose",
      [is_close](const Expr& x, const Beside& other, double rtol, double atol, bool equal_nan) {
        return All(is_close(x, other, rtol, atol, equal_nan));
      },
      "A bool tensor without axes: whether all elements are close.", py::arg("other"),
      py::arg("rtol") = 1e-5, py::arg("atol") = 1e-8, py::arg("equal_nan") = false);

  const auto fill = [](const py::object& self, py::handle value) {
    const Tensor x = self.cast<Tensor>();
    const Tensor given = ToTensor(value, x.dtype());
    AssignInPlace(x, Checked(Lift([&](const Expr& e) { return BroadcastTo(e, x.shape()); }, given)),
                  "fill_");
    return x;
  };
  tensor
      .def(
          "fill_",
          [fill](const py::object& self, py::handle value) {
            fill(self, value);
            return self;
          },
          py::arg("value"), "All elements become `value`.")
      .def(
          "zero_",
          [fill](const py::object& self) {
            fill(self, py::int_(0));
            return self;
          },
          "All elements become 0.")
      .def(
          "copy_",
          [fill](const py::object& self, py::handle src) {
            fill(self, src);
            return self;
          },
          py::arg("src"),
          "The elements of src, which broadcasts, cast to the dtype of self; a number is one.");
}

}  // namespace

void BindElementwise(py::module_& module, py::class_<Tensor>& tensor) {
  BindOperators(tensor);
  py::list unary, binary;
  for (const UnaryRow& row : kUnary) {
    Method(tensor, row.name, row.function, row.doc);
    unary.append(row.name);
  }
  for (const BinaryRow& row : kBinary) {
    tensor.def(
        row.name,
        [&row](const Tensor& a, py::handle b, bool reverse) { return Binary(row, a, b, reverse); },
        py::arg("other"), py::arg("reverse") = false, row.doc);
    binary.append(row.name);
  }
  BindOthers(tensor);
  for (const char* name : {"add", "sub", "mul", "div"}) binary.append(name);
  module.attr("_unary_methods") = py::tuple(unary);
  module.attr("_binary_methods") = py::tuple(binary);
}

}  // namespace tensord::python
