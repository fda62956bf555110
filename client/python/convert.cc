// Python objects to tensors and back.

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/create.h"

namespace tensord::python {
namespace {

bool HasNumpyDType(DType dtype) { return dtype != DType::kBFloat16 && !IsFloat8(dtype); }

// bfloat16 and float8 are an addition to NumPy by the package ml_dtypes: none where it isn't
// installed.
py::object NumpyDType(DType dtype) {
  const std::string name(Name(dtype));
  const py::object make = py::module_::import("numpy").attr("dtype");
  if (HasNumpyDType(dtype)) return make(name == "bool" ? "bool_" : name);
  try {
    return make(py::module_::import("ml_dtypes").attr(name.c_str()));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    return py::none();
  }
}

py::handle NumpyScalar() {
  static const py::handle type = py::object(py::module_::import("numpy").attr("generic")).release();
  return type;
}

// Asked of NumPy itself: what pybind11 before 2.12 knows of a dtype's size is not true of NumPy 2.
size_t BytesOf(const py::array& array) { return array.attr("nbytes").cast<size_t>(); }

// A nested list becomes an array of bool, int32 or float32, as its numbers say.
py::array ArrayOfList(py::handle list) {
  py::module_ numpy = py::module_::import("numpy");
  py::array array;
  try {
    array = numpy.attr("array")(list);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError)) throw;
    Raise(InvalidArgument("a nested list must have rows of one length and hold numbers only: {}",
                          std::string(py::str(error.value()))));
  }
  const char kind = array.dtype().kind();
  if (kind == 'f' || array.size() == 0) return array.attr("astype")("float32");
  if (kind == 'i' || kind == 'u') {
    const py::array narrow = array.attr("astype")("int32");
    if (!narrow.attr("__eq__")(array).attr("all")().cast<bool>()) {
      Raise(InvalidArgument("a list with integers beyond int32: say dtype=tensord.int64"));
    }
    return narrow;
  }
  return array;
}

Tensor FromArray(const py::array& source) {
  py::module_ numpy = py::module_::import("numpy");
  const std::string name = py::str(source.dtype().attr("name"));
  const std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype || ItemSize(*dtype) == 0) {
    Raise(InvalidArgument("no tensor holds elements of NumPy's {}", name));
  }
  // Row-major and of this machine's byte order. (ascontiguousarray would give a scalar an axis.)
  py::array array = numpy.attr("asarray")(source, source.dtype().attr("newbyteorder")("="),
                                          py::arg("order") = "C");
  const Ints shape(array.shape(), array.shape() + array.ndim());
  const absl::Span<const char> bytes(static_cast<const char*>(array.data()), BytesOf(array));
  Client& client = CurrentClient();
  py::gil_scoped_release release;
  return client.FromHost(bytes, *dtype, shape);
}

}  // namespace

void InitNumpy() {
  // Statics whose making runs Python: a thread that does it may lose the interpreter's lock to one
  // that then waits for the static for ever.
  py::detail::npy_api::get();
  NumpyScalar();
}

DType ParseDType(py::handle dtype) {
  if (py::isinstance<DType>(dtype)) return dtype.cast<DType>();
  std::string name;
  if (py::isinstance<py::str>(dtype)) {
    name = dtype.cast<std::string>();
  } else {
    // NumPy knows what bool, int, np.float32 and its own dtypes mean; ints are 32 bits here.
    if (dtype.is(py::handle(reinterpret_cast<PyObject*>(&PyLong_Type)))) return DType::kInt32;
    if (dtype.is(py::handle(reinterpret_cast<PyObject*>(&PyFloat_Type)))) return DType::kFloat32;
    name = py::str(py::module_::import("numpy").attr("dtype")(dtype).attr("name"));
  }
  const std::optional<DType> parsed = DTypeFromName(name);
  if (!parsed || *parsed == DType::kVoid || *parsed == DType::kIndex) {
    Raise(InvalidArgument("'{}' is no dtype of tensors; see tensord.dtypes", name));
  }
  return *parsed;
}

Ints ParseInts(py::handle value) {
  if (PyIndex_Check(value.ptr())) return {py::int_(value.attr("__index__")()).cast<int64_t>()};
  Ints ints;
  for (py::handle item : value) ints.push_back(item.cast<int64_t>());
  return ints;
}

Ints ParseSizes(const py::args& sizes) {
  if (sizes.size() == 1 && !PyIndex_Check(sizes[0].ptr())) return ParseInts(sizes[0]);
  return ParseInts(sizes);
}

std::optional<Number> AsNumber(py::handle value) {
  if (PyBool_Check(value.ptr())) return Number(value.ptr() == Py_True);
  if (PyLong_Check(value.ptr())) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow > 0) {
      const uint64_t large = PyLong_AsUnsignedLongLong(value.ptr());
      if (!PyErr_Occurred()) return Number(large);
      PyErr_Clear();
    }
    if (overflow != 0) {
      Raise(InvalidArgument("{} does not fit 64 bits", std::string(py::str(value))));
    }
    return Number(number);
  }
  if (PyFloat_Check(value.ptr())) return Number(PyFloat_AS_DOUBLE(value.ptr()));
  if (py::isinstance(value, NumpyScalar())) return AsNumber(value.attr("item")());
  return std::nullopt;
}

Tensor ToTensor(py::handle data, std::optional<DType> dtype) {
  auto typed = [&dtype](Tensor tensor) {
    if (!dtype || !tensor.ok() || tensor.dtype() == *dtype) return Checked(std::move(tensor));
    return Checked(Cast(tensor, *dtype));
  };
  if (py::isinstance<Tensor>(data)) return typed(data.cast<Tensor>());
  if (py::isinstance<py::array>(data)) {
    return typed(FromArray(py::reinterpret_borrow<py::array>(data)));
  }
  if (std::optional<Number> number = AsNumber(data)) {
    const DType scalar = dtype.value_or(number->DefaultDType());
    return Checked(
        CurrentClient().Make([&](Graph& graph) { return Constant(graph, *number, scalar); }));
  }
  if (py::isinstance<py::bytes>(data)) {
    return typed(FromArray(py::module_::import("numpy").attr("frombuffer")(data, "uint8")));
  }
  if (py::isinstance<py::list>(data) || py::isinstance<py::tuple>(data)) {
    if (dtype && HasNumpyDType(*dtype)) {
      return typed(FromArray(py::module_::import("numpy").attr("array")(data, NumpyDType(*dtype))));
    }
    return typed(FromArray(ArrayOfList(data)));
  }
  if (py::hasattr(data, "__array__") || PyObject_CheckBuffer(data.ptr())) {
    return typed(FromArray(py::module_::import("numpy").attr("asarray")(data)));
  }
  Raise(InvalidArgument("a tensor is made of numbers, lists, NumPy arrays or bytes, not of {}",
                        Py_TYPE(data.ptr())->tp_name));
}

bool IsOperand(py::handle value) {
  return py::isinstance<Tensor>(value) || PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr()) ||
         py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value) ||
         py::hasattr(value, "__array__");
}

std::variant<Tensor, Number> ToOperand(py::handle value) {
  if (py::isinstance<Tensor>(value)) return value.cast<Tensor>();
  if (std::optional<Number> number = AsNumber(value)) return *number;
  return ToTensor(value);
}

py::array ToNumpy(const Tensor& tensor) {
  const py::object dtype = NumpyDType(tensor.dtype());
  // float32 holds all values of the types that NumPy lacks.
  if (dtype.is_none()) return ToNumpy(Checked(Cast(tensor, DType::kFloat32)));
  py::array array = py::module_::import("numpy").attr("empty")(py::cast(tensor.shape()), dtype);
  const absl::Span<char> bytes(static_cast<char*>(array.mutable_data()), BytesOf(array));
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = tensor.CopyTo(bytes);
  }
  RaiseIfError(status);
  return array;
}

}  // namespace tensord::python
