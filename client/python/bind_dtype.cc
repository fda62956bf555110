// DType, the module's functions about dtypes, and how tensors go from one to another.
#include <functional>

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/ir/eval.h"
#include "core/tensor/size.h"

namespace tensord::python {
namespace {

// The limits of a dtype as Python numbers: of a float its infinities, or what is largest without.
py::object Limit(DType dtype, bool largest) {
  if (dtype == DType::kVoid) Raise(InvalidArgument("void has no values, hence no limits"));
  if (IsFloat(dtype)) {
    return py::float_(ReduceIdentity(largest ? ReduceKind::kMin : ReduceKind::kMax, dtype).f);
  }
  const int64_t value = largest ? IntMax(dtype) : IntMin(dtype);
  if (dtype == DType::kBool) return py::bool_(value != 0);
  return IsUnsigned(dtype) ? py::object(py::int_(static_cast<uint64_t>(value)))
                           : py::object(py::int_(value));
}

// (exponent bits, mantissa bits), and what follows from them.
py::dict FloatInfo(DType dtype) {
  const FloatFormat& f = Format(dtype);
  const double max = DecodeFloat(dtype, f.max_code());
  const uint64_t one = static_cast<uint64_t>(f.bias) << f.mantissa_bits;
  py::dict info;
  info["bits"] = BitSize(dtype);
  info["exponent_bits"] = f.exponent_bits;
  info["mantissa_bits"] = f.mantissa_bits;
  info["max"] = max;
  info["min"] = -max;
  info["eps"] = DecodeFloat(dtype, one + 1) - 1;
  info["smallest_normal"] = DecodeFloat(dtype, uint64_t{1} << f.mantissa_bits);
  info["smallest_subnormal"] = DecodeFloat(dtype, 1);
  return info;
}

DType Of(py::handle value) {
  const std::optional<Number> number = AsNumber(value);
  if (number) return number->dtype();
  if (py::isinstance<Tensor>(value)) return value.cast<Tensor>().dtype();
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    std::optional<DType> common;
    for (py::handle item : value) {
      const DType dtype = Of(item);
      common = common ? Promote(*common, dtype) : dtype;
    }
    return Strong(common.value_or(DType::kWeakFloat));
  }
  Raise(InvalidArgument("from_py: {} is no number, nor a list of numbers",
                        std::string(py::repr(value))));
}

// A default that is set until the end of a `with` block.
class DefaultScope {
 public:
  DefaultScope(py::object default_float, py::object default_int)
      : float_(std::move(default_float)), int_(std::move(default_int)) {
    if (!float_.is_none() && !IsFloat(ParseDType(float_))) {
      Raise(InvalidArgument("default_dtypes: float is {}", Name(ParseDType(float_))));
    }
    if (!int_.is_none() && !IsInt(ParseDType(int_))) {
      Raise(InvalidArgument("default_dtypes: int is {}", Name(ParseDType(int_))));
    }
  }

  static void Set(py::handle dtype) {
    const DType parsed = ParseDType(dtype);
    if (IsWeak(parsed) || (!IsFloat(parsed) && !IsInt(parsed))) {
      Raise(InvalidArgument("{} cannot be a default: it takes a float or an integer dtype",
                            Name(parsed)));
    }
    IsFloat(parsed) ? SetDefaultFloat(parsed) : SetDefaultInt(parsed);
  }
  void Enter() {
    before_float_ = DefaultFloat();
    before_int_ = DefaultInt();
    for (const py::object* dtype : {&float_, &int_}) {
      if (!dtype->is_none()) Set(*dtype);
    }
  }
  void Exit() {
    SetDefaultFloat(before_float_);
    SetDefaultInt(before_int_);
  }

 private:
  py::object float_, int_;
  DType before_float_ = DType::kFloat32, before_int_ = DType::kInt32;
};

// The tensor itself if it is of the dtype, as in PyTorch.
Tensor CastTo(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : Checked(Cast(x, dtype));
}

}  // namespace

void BindDType(py::module_& module) {
  py::class_<DType> dtype(module, "DType", "The type of a tensor's elements.");
  dtype
      .def(py::init([](py::handle name) {
             // What no tensor has, but the IR's ops without a value do.
             const bool is_void =
                 py::isinstance<py::str>(name) && name.cast<std::string>() == Name(DType::kVoid);
             return is_void ? DType::kVoid : ParseDType(name);
           }),
           py::arg("name"))
      .def_property_readonly("name", [](DType d) { return std::string(Name(d)); })
      .def_property_readonly(
          "itemsize", [](DType d) { return ItemSize(d); },
          "Bytes per element; 0 for the weak types, which have no storage.")
      .def_property_readonly(
          "bitsize", [](DType d) { return BitSize(d); }, "Bits of a value; 1 for bool.")
      .def_property_readonly(
          "min", [](DType d) { return Limit(d, false); }, "The least value.")
      .def_property_readonly(
          "max", [](DType d) { return Limit(d, true); }, "The largest value.")
      .def_property_readonly("is_floating_point", [](DType d) { return IsFloat(d); })
      .def_property_readonly("is_signed", [](DType d) { return IsFloat(d) || IsSigned(d); })
      .def(
          "const",
          [](DType d, py::handle value) {
            const std::optional<Number> number = AsNumber(value);
            if (!number)
              Raise(InvalidArgument("const: {} is not a number", std::string(py::repr(value))));
            const Scalar scalar = number->kind() == Number::Kind::kFloat
                                      ? Scalar::Of(d, number->AsDouble())
                                  : IsFloat(d) ? Scalar::Float(d, number->AsDouble())
                                               : Scalar::Int(d, number->AsInt());
            if (IsFloat(d)) return py::object(py::float_(scalar.f));
            if (d == DType::kBool) return py::object(py::bool_(scalar.i != 0));
            return IsUnsigned(d) ? py::object(py::int_(static_cast<uint64_t>(scalar.i)))
                                 : py::object(py::int_(scalar.i));
          },
          py::arg("value"), "The number as an element of the dtype: rounded, or wrapped.")
      .def(
          "_to_bits", [](DType d, double value) { return Scalar::Of(d, value).ToBits(); },
          py::arg("value"), "The bits of a number in the dtype, by the rules of casts.")
      .def(
          "_from_bits",
          [](DType d, uint64_t bits) -> py::object {
            const Scalar scalar = Scalar::FromBits(d, bits);
            if (IsFloat(d)) return py::float_(scalar.f);
            return py::int_(scalar.i);
          },
          py::arg("bits"))
      .def("__repr__", [](DType d) { return "tensord." + std::string(Name(d)); })
      .def("__str__", [](DType d) { return std::string(Name(d)); })
      .def("__hash__", [](DType d) { return static_cast<int>(d); })
      .def("__lt__", [](DType a, DType b) { return Priority(a) < Priority(b); })
      .def("__le__", [](DType a, DType b) { return Priority(a) <= Priority(b); })
      .def("__gt__", [](DType a, DType b) { return Priority(a) > Priority(b); })
      .def("__ge__", [](DType a, DType b) { return Priority(a) >= Priority(b); })
      .def("__eq__",
           [](DType d, py::handle other) {
             // A name that is no dtype is another one.
             if (py::isinstance<py::str>(other)) {
               return DTypeFromName(other.cast<std::string>()) == d;
             }
             return py::isinstance<DType>(other) && other.cast<DType>() == d;
           })
      .def("__reduce__", [](py::object self) {
        return py::make_tuple(py::type::of(self), py::make_tuple(self.attr("name")));
      });
  module.def("dtype", &ParseDType, py::arg("name"),
             "The dtype of that name; also takes NumPy's and PyTorch's dtypes and Python's types.");
  module.def(
      "promote_types",
      [](py::handle a, py::handle b) { return Promote(ParseDType(a), ParseDType(b)); },
      py::arg("a"), py::arg("b"), "The least dtype that stands above both in the lattice.");
  module.def(
      "least_upper_float", [](py::handle d) { return LeastUpperFloat(ParseDType(d)); },
      py::arg("dtype"), "Floats as they are; what integers become where a function needs a float.");
  module.def(
      "can_lossless_cast",
      [](py::handle from, py::handle to) {
        return IsLosslessCast(ParseDType(from), ParseDType(to));
      },
      py::arg("from_"), py::arg("to"), "Whether `to` has every value of `from_`.");
  module.def(
      "sum_acc_dtype", [](py::handle d) { return SumAccumulator(ParseDType(d)); }, py::arg("dtype"),
      "The dtype that sums of it are accumulated in.");
  module.def(
      "strong_dtype", [](py::handle d) { return Strong(ParseDType(d)); }, py::arg("dtype"),
      "The default dtype for a weak one, others as they are.");
  module.def("_finfo", [](py::handle d) {
    const DType parsed = ParseDType(d);
    if (!IsFloat(parsed)) {
      Raise(InvalidArgument("finfo: {} is no float; see iinfo", Name(parsed)));
    }
    return FloatInfo(parsed);
  });
  module.def("from_py", &Of, py::arg("value"),
             "The dtype of a Python value: weak for a number, bool, or that of a list.");
  module.def("default_float", &DefaultFloat, "What plain floats become: float32, unless set.");
  module.def("default_int", &DefaultInt, "What plain integers become: int32, unless set.");
  module.def("set_default_dtype", &DefaultScope::Set, py::arg("dtype"),
             "Makes a float or an integer dtype the default of its kind.");
  py::class_<DefaultScope>(module, "default_dtypes",
                           "Defaults for the length of a `with` block, in all threads.")
      .def(py::init<py::object, py::object>(), py::kw_only(), py::arg("float") = py::none(),
           py::arg("int") = py::none())
      .def("__enter__",
           [](py::object self) {
             self.cast<DefaultScope&>().Enter();
             return self;
           })
      .def("__exit__", [](DefaultScope& scope, const py::args&) { scope.Exit(); });
}

void BindCasts(py::class_<Tensor>& tensor) {
  struct Row {
    const char* name;
    std::function<DType()> dtype;
  };
  const auto fixed = [](DType dtype) { return [dtype] { return dtype; }; };
  const Row rows[] = {
      {"bool", fixed(DType::kBool)},     {"char", fixed(DType::kInt8)},
      {"byte", fixed(DType::kUint8)},    {"short", fixed(DType::kInt16)},
      {"int", fixed(DType::kInt32)},     {"long", fixed(DType::kInt64)},
      {"half", fixed(DType::kFloat16)},  {"bfloat16", fixed(DType::kBFloat16)},
      {"float", fixed(DType::kFloat32)}, {"double", fixed(DType::kFloat64)},
  };
  for (const Row& row : rows) {
    tensor.def(
        row.name, [dtype = row.dtype](const Tensor& x) { return CastTo(x, dtype()); },
        fmt::format("The same values as {}, by the rules of cast.", Name(row.dtype())).c_str());
  }
  tensor
      .def(
          "cast", [](const Tensor& x, py::handle dtype) { return CastTo(x, ParseStored(dtype)); },
          py::arg("dtype"),
          "The same values in another dtype, in the same shape.\n\n"
          "Floats to integers truncate and saturate, NaN gives 0; integers wrap; to bool is "
          "whether it is not zero; to narrower floats rounds to nearest even.\n"
          "RuntimeError for a weak dtype.")
      .def(
          "type",
          [](const Tensor& x, py::object dtype) -> py::object {
            if (dtype.is_none()) return py::str(std::string(Name(x.dtype())));
            return py::cast(CastTo(x, ParseStored(dtype)));
          },
          py::arg("dtype") = py::none(),
          "The name of the dtype; with an argument, cast to that dtype.")
      .def(
          "type_as",
          [](const Tensor& x, const Tensor& other) { return CastTo(x, other.stored_dtype()); },
          py::arg("other"), "Cast to the dtype of another tensor.")
      .def(
          "bitcast",
          [](const Tensor& x, py::handle dtype) {
            const DType parsed = ParseStored(dtype);
            return Checked(Lift([=](const Expr& e) { return Bitcast(e, parsed); }, x));
          },
          py::arg("dtype"),
          "The same bits as another dtype. If the sizes differ, the last axis grows or shrinks by "
          "their quotient, in little-endian order: uint8 [..., 8] is uint32 [..., 2].\n\n"
          "RuntimeError if the last axis does not divide, for a weak dtype, and between bool and "
          "another size.")
      .def(
          "element_size", [](const Tensor& x) { return ItemSize(x.stored_dtype()); },
          "Bytes per element.")
      .def_property_readonly(
          "itemsize", [](const Tensor& x) { return ItemSize(x.stored_dtype()); },
          "Bytes per element.")
      .def(
          "nbytes",
          [](const Tensor& x) {
            const int64_t sizes[] = {x.num_elements(), ItemSize(x.stored_dtype())};
            return SizeObject(ValueOrRaise(SizeProduct(sizes)));
          },
          "Bytes of the data.")
      .def(
          "is_floating_point", [](const Tensor& x) { return IsFloat(x.dtype()); },
          "Whether the dtype is a float.");
}

// Another form of methods that are bound already: with dtype=, the tensors among the operands are
// cast to it first, and the result has it.
void BindDTypeArguments(py::class_<Tensor>& tensor) {
  for (const char* name : {"sum", "prod", "mean", "cumsum", "cumprod", "softmax", "log_softmax",
                           "matmul", "dot", "linear", "conv1d", "conv2d", "conv3d"}) {
    if (!py::hasattr(tensor, name)) continue;
    tensor.def(
        name,
        [name](const py::object& self, const py::args& arguments, py::handle dtype,
               const py::kwargs& named) -> py::object {
          if (dtype.is_none()) return self.attr(name)(*arguments, **named);
          const DType parsed = ParseStored(dtype);
          const auto cast = [&](py::handle value) -> py::object {
            if (!py::isinstance<Tensor>(value)) return py::reinterpret_borrow<py::object>(value);
            return py::cast(Checked(Cast(value.cast<Tensor>(), parsed)));
          };
          py::list operands;
          for (py::handle argument : arguments) operands.append(cast(argument));
          py::dict others;
          for (const auto& [key, value] : named) others[key] = cast(value);
          return cast(cast(self).attr(name)(*operands, **others));
        },
        py::kw_only(), py::arg("dtype"),
        "With dtype, tensors are cast to it first, and the result has it.");
  }
}

}  // namespace tensord::python
