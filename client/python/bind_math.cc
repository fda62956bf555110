// Tensor: operators, elementwise functions, reductions, products.
#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"

namespace tensord::python {
namespace {

// A function of (Expr, Expr), (Expr, Number) and (Number, Expr).
template <typename Function>
Tensor Binary(const Tensor& a, py::handle b, bool reflected, Function function) {
  const std::variant<Tensor, Number> operand = ToOperand(b);
  if (const Number* number = std::get_if<Number>(&operand)) {
    return Checked(Lift(
        [&](const Expr& x) { return reflected ? function(*number, x) : function(x, *number); }, a));
  }
  const Tensor& other = std::get<Tensor>(operand);
  return Checked(Lift(
      [&](const Expr& x, const Expr& y) { return reflected ? function(y, x) : function(x, y); }, a,
      other));
}

// What Python wants of an operator: NotImplemented for operands that are none of ours.
template <typename Function>
auto Operator(Function function, bool reflected = false) {
  return [=](const Tensor& a, py::handle b) -> py::object {
    if (!IsOperand(b)) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    return py::cast(Binary(a, b, reflected, function));
  };
}

// t += x is an assignment: t keeps its dtype, shape and memory.
template <typename Function>
auto InPlace(Function function) {
  return [=](const py::object& self, py::handle b) -> py::object {
    const Tensor target = self.cast<Tensor>();
    const Tensor value = Binary(target, b, false, function);
    if (value.dtype() != target.dtype()) {
      Raise(InvalidArgument("an operator in place would make {} of {}; write t = t + ... instead",
                            Name(value.dtype()), Name(target.dtype())));
    }
    RaiseIfError(target.Assign(value));
    return self;
  };
}

Axes ParseAxes(py::handle dim) {
  return dim.is_none() ? Axes() : Axes(absl::Span<const int64_t>(ParseInts(dim)));
}
Keep ParseKeep(bool keepdim) { return keepdim ? kKeepDims : kDropDims; }

template <typename Function>
auto Reduction(Function function) {
  return [=](const Tensor& x, py::handle dim, bool keepdim) {
    const Axes axes = ParseAxes(dim);
    return Checked(Lift([&](const Expr& e) { return function(e, axes, ParseKeep(keepdim)); }, x));
  };
}

// Over one axis, or over all elements as one row.
template <typename Function>
auto ArgReduction(Function function) {
  return [=](const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
    return Checked(Lift(
        [&](const Expr& e) {
          return dim ? function(e, *dim, ParseKeep(keepdim)) : function(Flatten(e), 0, kDropDims);
        },
        x));
  };
}

template <typename Function>
auto Spread(Function function) {
  return [=](const Tensor& x, py::handle dim, int64_t correction, bool keepdim) {
    const Axes axes = ParseAxes(dim);
    return Checked(
        Lift([&](const Expr& e) { return function(e, axes, correction, ParseKeep(keepdim)); }, x));
  };
}

template <typename Function>
auto AlongAxis(Function function) {
  return [=](const Tensor& x, int64_t dim) {
    return Checked(Lift([&](const Expr& e) { return function(e, dim); }, x));
  };
}

Tensor WhereOf(const Tensor& condition, py::handle yes, py::handle no) {
  const std::variant<Tensor, Number> a = ToOperand(yes);
  const std::variant<Tensor, Number> b = ToOperand(no);
  const Number* a_number = std::get_if<Number>(&a);
  const Number* b_number = std::get_if<Number>(&b);
  if (a_number && b_number) {
    // Two numbers: the kinder of them decides, as in a list of both.
    const DType dtype = Promote(a_number->DefaultDType(), b_number->DefaultDType());
    return Checked(Lift([](const Expr& c, const Expr& x, const Expr& y) { return Where(c, x, y); },
                        condition, ToTensor(yes, dtype), ToTensor(no, dtype)));
  }
  if (a_number) {
    return Checked(Lift([&](const Expr& c, const Expr& y) { return Where(c, *a_number, y); },
                        condition, std::get<Tensor>(b)));
  }
  if (b_number) {
    return Checked(Lift([&](const Expr& c, const Expr& x) { return Where(c, x, *b_number); },
                        condition, std::get<Tensor>(a)));
  }
  return Checked(Lift([](const Expr& c, const Expr& x, const Expr& y) { return Where(c, x, y); },
                      condition, std::get<Tensor>(a), std::get<Tensor>(b)));
}

Tensor Clip(const Tensor& x, py::handle min, py::handle max) {
  auto bound = [](py::handle value) -> std::optional<Number> {
    if (value.is_none()) return std::nullopt;
    std::optional<Number> number = AsNumber(value);
    if (!number) Raise(InvalidArgument("clamp: bounds are numbers; use maximum and minimum"));
    return number;
  };
  const std::optional<Number> low = bound(min), high = bound(max);
  return Checked(Lift([&](const Expr& e) { return Clamp(e, low, high); }, x));
}

}  // namespace

#define TD_FUNCTION(Name) [](const auto& a, const auto& b) { return tensord::Name(a, b); }

void BindMath(py::class_<Tensor>& tensor) {
  // Operators, with what reflects them.
#define TD_OPERATOR(name, Name)                                   \
  tensor.def("__" name "__", Operator(TD_FUNCTION(Name)));        \
  tensor.def("__r" name "__", Operator(TD_FUNCTION(Name), true)); \
  tensor.def("__i" name "__", InPlace(TD_FUNCTION(Name)));
  TD_OPERATOR("add", Add)
  TD_OPERATOR("sub", Sub)
  TD_OPERATOR("mul", Mul)
  TD_OPERATOR("truediv", Div)
  TD_OPERATOR("floordiv", FloorDivide)
  TD_OPERATOR("mod", Mod)
  TD_OPERATOR("pow", Pow)
  TD_OPERATOR("and", BitwiseAnd)
  TD_OPERATOR("or", BitwiseOr)
  TD_OPERATOR("xor", BitwiseXor)
  TD_OPERATOR("lshift", ShiftLeft)
  TD_OPERATOR("rshift", ShiftRight)
#undef TD_OPERATOR
  tensor.def("__eq__", Operator(TD_FUNCTION(Eq)))
      .def("__ne__", Operator(TD_FUNCTION(Ne)))
      .def("__lt__", Operator(TD_FUNCTION(Lt)))
      .def("__le__", Operator(TD_FUNCTION(Le)))
      .def("__gt__", Operator(TD_FUNCTION(Gt)))
      .def("__ge__", Operator(TD_FUNCTION(Ge)))
      .def("__matmul__",
           [](const Tensor& a, py::handle b) { return Checked(MatMul(a, ToTensor(b))); })
      .def("__rmatmul__",
           [](const Tensor& a, py::handle b) { return Checked(MatMul(ToTensor(b), a)); });

  // The same by name, and those that have no symbol.
#define TD_BINARY(name, Name)                                                                     \
  tensor.def(                                                                                     \
      name, [](const Tensor& a, py::handle b) { return Binary(a, b, false, TD_FUNCTION(Name)); }, \
      py::arg("other"));
  TD_BINARY("add", Add)
  TD_BINARY("sub", Sub)
  TD_BINARY("mul", Mul)
  TD_BINARY("div", Div)
  TD_BINARY("floor_divide", FloorDivide)
  TD_BINARY("remainder", Mod)
  TD_BINARY("fmod", Fmod)
  TD_BINARY("pow", Pow)
  TD_BINARY("maximum", Maximum)
  TD_BINARY("minimum", Minimum)
  TD_BINARY("logaddexp", LogAddExp)
  TD_BINARY("copysign", CopySign)
  TD_BINARY("eq", Eq)
  TD_BINARY("ne", Ne)
  TD_BINARY("lt", Lt)
  TD_BINARY("le", Le)
  TD_BINARY("gt", Gt)
  TD_BINARY("ge", Ge)
  TD_BINARY("logical_and", LogicalAnd)
  TD_BINARY("logical_or", LogicalOr)
  TD_BINARY("logical_xor", LogicalXor)
#undef TD_BINARY

#define TD_UNARY(name, Name)                                                 \
  tensor.def(name, [](const Tensor& x) {                                     \
    return Checked(Lift([](const Expr& e) { return tensord::Name(e); }, x)); \
  });
  TD_UNARY("__neg__", Neg)
  TD_UNARY("__abs__", Abs)
  TD_UNARY("__invert__", BitwiseNot)
  TD_UNARY("neg", Neg)
  TD_UNARY("abs", Abs)
  TD_UNARY("sign", Sign)
  TD_UNARY("square", Square)
  TD_UNARY("reciprocal", Reciprocal)
  TD_UNARY("sqrt", Sqrt)
  TD_UNARY("rsqrt", Rsqrt)
  TD_UNARY("exp", Exp)
  TD_UNARY("exp2", Exp2)
  TD_UNARY("expm1", Expm1)
  TD_UNARY("log", Log)
  TD_UNARY("log2", Log2)
  TD_UNARY("log10", Log10)
  TD_UNARY("log1p", Log1p)
  TD_UNARY("erf", Erf)
  TD_UNARY("sin", Sin)
  TD_UNARY("cos", Cos)
  TD_UNARY("tan", Tan)
  TD_UNARY("asin", Asin)
  TD_UNARY("acos", Acos)
  TD_UNARY("atan", Atan)
  TD_UNARY("sinh", Sinh)
  TD_UNARY("cosh", Cosh)
  TD_UNARY("tanh", Tanh)
  TD_UNARY("trunc", Trunc)
  TD_UNARY("floor", Floor)
  TD_UNARY("ceil", Ceil)
  TD_UNARY("round", Round)
  TD_UNARY("isnan", IsNan)
  TD_UNARY("isinf", IsInf)
  TD_UNARY("isfinite", IsFinite)
  TD_UNARY("logical_not", LogicalNot)
  TD_UNARY("bitwise_not", BitwiseNot)
#undef TD_UNARY

#define TD_CAST(name, dtype) \
  tensor.def(name, [](const Tensor& x) { return Checked(Cast(x, DType::dtype)); });
  TD_CAST("bool", kBool)
  TD_CAST("int", kInt32)
  TD_CAST("long", kInt64)
  TD_CAST("half", kFloat16)
  TD_CAST("bfloat16", kBFloat16)
  TD_CAST("float", kFloat32)
  TD_CAST("double", kFloat64)
#undef TD_CAST
  auto cast = [](const Tensor& x, py::handle dtype) { return Checked(Cast(x, ParseDType(dtype))); };
  tensor.def("cast", cast, py::arg("dtype"))
      .def("to", cast, py::arg("dtype"), "The same values in another dtype.")
      .def(
          "bitcast",
          [](const Tensor& x, py::handle dtype) {
            const DType parsed = ParseDType(dtype);
            return Checked(Lift([=](const Expr& e) { return Bitcast(e, parsed); }, x));
          },
          py::arg("dtype"), "The same bits as another dtype of the same size.")

      .def("where", &WhereOf, py::arg("yes"), py::arg("no"),
           "Called on the condition: elements of `yes` where it holds, else of `no`.")
      .def(
          "masked_fill",
          [](const Tensor& x, const Tensor& mask, py::handle value) {
            const std::optional<Number> number = AsNumber(value);
            if (!number) Raise(InvalidArgument("masked_fill: the value is not a number"));
            return Checked(Lift(
                [&](const Expr& e, const Expr& m) { return MaskedFill(e, m, *number); }, x, mask));
          },
          py::arg("mask"), py::arg("value"))
      .def("clamp", &Clip, py::arg("min") = py::none(), py::arg("max") = py::none())
      .def("clip", &Clip, py::arg("min") = py::none(), py::arg("max") = py::none())
      .def(
          "lerp",
          [](const Tensor& x, const Tensor& end, py::handle weight) {
            if (std::optional<Number> number = AsNumber(weight)) {
              return Checked(
                  Lift([&](const Expr& a, const Expr& b) { return Lerp(a, b, *number); }, x, end));
            }
            return Checked(
                Lift([](const Expr& a, const Expr& b, const Expr& w) { return Lerp(a, b, w); }, x,
                     end, ToTensor(weight)));
          },
          py::arg("end"), py::arg("weight"))
      .def(
          "isclose",
          [](const Tensor& x, const Tensor& other, double rtol, double atol, bool equal_nan) {
            const Tolerance tolerance{rtol, atol, equal_nan};
            return Checked(Lift(
                [&](const Expr& a, const Expr& b) { return IsClose(a, b, tolerance); }, x, other));
          },
          py::arg("other"), py::arg("rtol") = 1e-5, py::arg("atol") = 1e-8,
          py::arg("equal_nan") = false);

  auto with_dim = [&tensor](const char* name, auto function, const char* doc) {
    tensor.def(name, function, py::arg("dim") = py::none(), py::arg("keepdim") = false, doc);
  };
#define TD_REDUCE(Name) \
  Reduction([](const Expr& e, const Axes& axes, Keep keep) { return tensord::Name(e, axes, keep); })
  with_dim("sum", TD_REDUCE(Sum), "Narrow integers and bool are summed as int32 or uint32.");
  with_dim("prod", TD_REDUCE(Prod), "");
  with_dim("max", TD_REDUCE(Max), "The values only; argmax has their places.");
  with_dim("min", TD_REDUCE(Min), "The values only; argmin has their places.");
  with_dim("amax", TD_REDUCE(Max), "");
  with_dim("amin", TD_REDUCE(Min), "");
  with_dim("any", TD_REDUCE(Any), "");
  with_dim("all", TD_REDUCE(All), "");
  with_dim("mean", TD_REDUCE(Mean), "Of integers it is a float32.");
  with_dim("logsumexp", TD_REDUCE(LogSumExp), "");
#undef TD_REDUCE
  with_dim("argmax", ArgReduction([](const Expr& e, int64_t axis, Keep keep) {
             return ArgMax(e, axis, keep);
           }),
           "int32, the first of ties.");
  with_dim("argmin", ArgReduction([](const Expr& e, int64_t axis, Keep keep) {
             return ArgMin(e, axis, keep);
           }),
           "int32, the first of ties.");
  auto spread = [&tensor](const char* name, auto function) {
    tensor.def(name, Spread(function), py::arg("dim") = py::none(), py::kw_only(),
               py::arg("correction") = 1, py::arg("keepdim") = false);
  };
  spread("var", [](const Expr& e, const Axes& axes, int64_t correction, Keep keep) {
    return Var(e, axes, correction, keep);
  });
  spread("std", [](const Expr& e, const Axes& axes, int64_t correction, Keep keep) {
    return Std(e, axes, correction, keep);
  });
#define TD_ALONG(name, Name)                                                                    \
  tensor.def(name, AlongAxis([](const Expr& e, int64_t dim) { return tensord::Name(e, dim); }), \
             py::arg("dim"));
  TD_ALONG("cumsum", CumSum)
  TD_ALONG("cumprod", CumProd)
  TD_ALONG("cummax", CumMax)
  TD_ALONG("cummin", CumMin)
#undef TD_ALONG
  tensor
      .def("softmax", AlongAxis([](const Expr& e, int64_t dim) { return Softmax(e, dim); }),
           py::arg("dim") = -1)
      .def("log_softmax", AlongAxis([](const Expr& e, int64_t dim) { return LogSoftmax(e, dim); }),
           py::arg("dim") = -1)
      .def(
          "matmul", [](const Tensor& a, py::handle b) { return Checked(MatMul(a, ToTensor(b))); },
          py::arg("other"))
      .def(
          "dot", [](const Tensor& a, py::handle b) { return Checked(MatMul(a, ToTensor(b))); },
          py::arg("other"));
}

}  // namespace tensord::python
