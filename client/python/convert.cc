// Python objects to tensors and back.

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/size.h"

namespace tensord::python {
namespace {

// NumPy takes longer to import than all of tensord, so it is imported by what first needs it.
struct LoadedNumpy {
  py::module_ module;
  py::object scalar;  // the base class of its numbers
};
const LoadedNumpy* loaded_numpy = nullptr;  // under the interpreter's lock; kept for ever

const LoadedNumpy& LoadNumpy() {
  if (loaded_numpy != nullptr) return *loaded_numpy;
  // pybind11 keeps NumPy's functions in a static. A thread that makes a static and runs Python
  // meanwhile may lose the interpreter's lock to one that then waits for the static for ever. So
  // the module is imported first, which threads can wait for, and then no Python runs.
  py::module_::import("numpy.core.multiarray");
  py::detail::npy_api::get();
  const py::module_ numpy = py::module_::import("numpy");
  loaded_numpy = new LoadedNumpy{numpy, numpy.attr("generic")};
  return *loaded_numpy;
}

// Until somebody imports it, no value is NumPy's.
bool NumpyIsLoaded() {
  return loaded_numpy != nullptr ||
         PyDict_GetItemString(PyImport_GetModuleDict(), "numpy") != nullptr;
}

bool HasNumpyDType(DType dtype) { return dtype != DType::kBFloat16 && !IsFloat8(dtype); }

py::object NumpyDType(DType dtype) {
  const std::string name(Name(dtype));
  return Numpy().attr("dtype")(name == "bool" ? "bool_" : name);
}

// What NumPy has for the bits of a dtype that it lacks.
DType BitsOf(DType dtype) { return ItemSize(dtype) == 1 ? DType::kUint8 : DType::kUint16; }

// Asked of NumPy itself: what pybind11 before 2.12 knows of a dtype's size is not true of NumPy 2.
size_t BytesOf(const py::array& array) { return array.attr("nbytes").cast<size_t>(); }

py::array ArrayOf(py::handle list, py::object dtype) {
  try {
    return Numpy().attr("array")(list, dtype);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    Raise(InvalidArgument("a nested list must have rows of one length and hold numbers only: {}",
                          std::string(py::str(error.value()))));
  }
}

Tensor Upload(const py::array& array, DType dtype, const Ints& shape) {
  const absl::Span<const char> bytes(static_cast<const char*>(array.data()), BytesOf(array));
  Client& client = CurrentClient();
  py::gil_scoped_release release;
  return client.FromHost(bytes, dtype, shape);
}

Tensor MakeConstant(Number number, DType dtype) {
  return CurrentClient().Make([&](Graph& graph) { return Constant(graph, number, dtype); });
}

Tensor FromArray(const py::array& source) {
  const std::string name = py::str(source.dtype().attr("name"));
  const std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype || ItemSize(*dtype) == 0) {
    Raise(InvalidArgument("no tensor holds elements of NumPy's {}", name));
  }
  // Row-major and of this machine's byte order. (ascontiguousarray would give a scalar an axis.)
  const py::array array = Numpy().attr("asarray")(source, source.dtype().attr("newbyteorder")("="),
                                                  py::arg("order") = "C");
  return Upload(array, *dtype, Ints(array.shape(), array.shape() + array.ndim()));
}

// A nested list becomes an array of bool or of a default dtype, as its numbers say, or of `dtype`.
Tensor FromList(py::handle list, std::optional<DType> dtype) {
  const py::array array = ArrayOf(list, py::none());
  const char kind = array.dtype().kind();
  if (kind != 'b' && kind != 'i' && kind != 'u' && kind != 'f' && kind != 'V') {
    Raise(
        InvalidArgument("a nested list must have rows of one length and hold numbers only, not "
                        "{}",
                        std::string(py::str(array.dtype()))));
  }
  const bool is_float = kind == 'f' || kind == 'V' || array.size() == 0;
  const DType target = dtype.value_or(is_float      ? DefaultFloat()
                                      : kind == 'b' ? DType::kBool
                                                    : DefaultInt());
  if (IsInt(target) && kind != 'b' && array.size() > 0) {
    // As for a single number.
    const py::array numbers = kind == 'V' ? py::array(array.attr("astype")("float64")) : array;
    for (const char* extreme : {"min", "max"}) {
      RaiseIfError(CheckFits(*AsNumber(numbers.attr(extreme)()), target));
    }
  }
  if (IsFloat(target) || is_float) {
    // Rounded, or truncated and saturated, by our rules: float64 has what the list has.
    if (target == DType::kFloat32) return FromArray(array.attr("astype")("float32"));
    const Tensor exact = FromArray(array.attr("astype")("float64"));
    return target == DType::kFloat64 ? exact : Cast(exact, target);
  }
  return FromArray(array.attr("astype")(NumpyDType(target)));
}

// Bytes that are an array of `dtype`.
Tensor FromBytes(py::handle buffer, DType dtype) {
  const py::array bytes = Numpy().attr("frombuffer")(buffer, py::arg("dtype") = "uint8");
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t item = ItemSize(dtype);
  if (size % item != 0) {
    Raise(InvalidArgument("{} bytes are no whole number of elements of {}", size, Name(dtype)));
  }
  return Upload(bytes, dtype, {size / item});
}

bool IsOfModule(py::handle value, std::string_view name) {
  const py::object module = py::getattr(py::type::of(value), "__module__", py::none());
  return py::isinstance<py::str>(module) && module.cast<std::string>() == name;
}

// PyTorch's tensors, of which NumPy lacks some dtypes.
Tensor FromTorch(py::handle tensor) {
  const std::string name = std::string(py::str(tensor.attr("dtype"))).substr(6);  // torch.
  const std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype) Raise(InvalidArgument("no tensor holds elements of PyTorch's {}", name));
  py::object data = tensor.attr("detach")().attr("cpu")().attr("contiguous")();
  if (!HasNumpyDType(*dtype)) {
    const char* bits = ItemSize(*dtype) == 1 ? "uint8" : "int16";
    data = data.attr("view")(py::module_::import("torch").attr(bits));
  }
  Numpy();
  const py::array array = data.attr("numpy")();
  return Upload(array, *dtype, Ints(array.shape(), array.shape() + array.ndim()));
}

}  // namespace

py::module_ Numpy() { return LoadNumpy().module; }

bool IsArray(py::handle value) {
  if (!NumpyIsLoaded()) return false;
  LoadNumpy();
  return py::isinstance<py::array>(value);
}

bool IsNumpyScalar(py::handle value) {
  return NumpyIsLoaded() && py::isinstance(value, LoadNumpy().scalar);
}

DType ParseDType(py::handle dtype) {
  if (py::isinstance<DType>(dtype) && dtype.cast<DType>() != DType::kVoid) {
    return dtype.cast<DType>();
  }
  std::string name;
  if (py::isinstance<py::str>(dtype) || py::isinstance<DType>(dtype)) {
    name = py::str(dtype);
  } else {
    // NumPy knows what bool, np.float32 and its own dtypes mean.
    if (dtype.is(py::handle(reinterpret_cast<PyObject*>(&PyLong_Type)))) return DefaultInt();
    if (dtype.is(py::handle(reinterpret_cast<PyObject*>(&PyFloat_Type)))) return DefaultFloat();
    if (IsOfModule(dtype, "torch")) {
      name = std::string(py::str(dtype)).substr(6);  // torch.float32
    } else {
      try {
        name = py::str(Numpy().attr("dtype")(dtype).attr("name"));
      } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_TypeError)) throw;
        name = py::repr(dtype);
      }
    }
  }
  const std::optional<DType> parsed = DTypeFromName(name);
  if (!parsed || *parsed == DType::kVoid || *parsed == DType::kIndex) {
    Raise(InvalidArgument("'{}' is no dtype of tensors; see tensord.dtypes", name));
  }
  return *parsed;
}

bool IsSize(py::handle value) {
  return py::isinstance<SymInt>(value) || PyIndex_Check(value.ptr());
}

int64_t ParseSize(py::handle value) {
  if (py::isinstance<SymInt>(value)) return value.cast<SymInt>().code;
  return value.cast<int64_t>();
}

py::object SizeObject(int64_t size) {
  return Varies(size) ? py::cast(SymInt{size}) : py::int_(size);
}

DType ParseStored(py::handle dtype) {
  const DType parsed = ParseDType(dtype);
  if (IsWeak(parsed)) {
    Raise(InvalidArgument("{} is the type of plain numbers and has no storage; say another dtype",
                          Name(parsed)));
  }
  return parsed;
}

Ints ParseInts(py::handle value, const char* what) {
  if (py::isinstance<SymInt>(value)) return {ParseSize(value)};
  if (PyIndex_Check(value.ptr())) return {py::int_(value.attr("__index__")()).cast<int64_t>()};
  const auto wrong = [&] {
    return py::type_error(fmt::format("{} is an int or a sequence of ints, not {}", what,
                                      std::string(py::repr(value))));
  };
  if (py::isinstance<py::str>(value) || !py::hasattr(value, "__iter__")) throw wrong();
  Ints ints;
  for (py::handle item : value) {
    if (!IsSize(item)) throw wrong();
    ints.push_back(ParseSize(item));
  }
  return ints;
}

Ints ParseSizes(const py::args& sizes) {
  if (sizes.size() == 1 && !IsSize(sizes[0])) return ParseInts(sizes[0]);
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
      Raise(Overflow(fmt::format("{} does not fit 64 bits", std::string(py::str(value)))));
    }
    return Number(number);
  }
  if (PyFloat_Check(value.ptr())) return Number(PyFloat_AS_DOUBLE(value.ptr()));
  if (IsNumpyScalar(value)) return AsNumber(value.attr("item")());
  return std::nullopt;
}

Tensor ToTensor(py::handle data, std::optional<DType> dtype) {
  auto typed = [&dtype](Tensor tensor) {
    if (!dtype || !tensor.ok() || tensor.dtype() == *dtype) return Checked(std::move(tensor));
    return Checked(Cast(tensor, *dtype));
  };
  if (py::isinstance<Tensor>(data)) return typed(data.cast<Tensor>());
  if (IsArray(data)) {
    return typed(FromArray(py::reinterpret_borrow<py::array>(data)));
  }
  if (IsNumpyScalar(data)) {
    return typed(FromArray(Numpy().attr("asarray")(data)));
  }
  if (py::isinstance<SymInt>(data)) {
    return typed(CurrentClient().Make(
        [&](Graph& graph) { return SizeValue(graph, ParseSize(data), DType::kInt32); }));
  }
  if (data.is_none()) return Checked(MakeConstant(0.0, dtype.value_or(DType::kWeakFloat)));
  if (std::optional<Number> number = AsNumber(data)) {
    // Beyond int64 there is one dtype only.
    const bool large = number->is_large() && !dtype;
    return Checked(MakeConstant(*number, large ? DType::kUint64 : dtype.value_or(number->dtype())));
  }
  if (py::isinstance<py::bytes>(data) || py::isinstance<py::bytearray>(data)) {
    return Checked(FromBytes(data, dtype.value_or(DType::kUint8)));
  }
  if (py::isinstance<py::list>(data) || py::isinstance<py::tuple>(data)) {
    return Checked(FromList(data, dtype));
  }
  if (py::isinstance(data, py::module_::import("pathlib").attr("Path"))) {
    return Checked(FromBytes(data.attr("read_bytes")(), dtype.value_or(DType::kUint8)));
  }
  if (IsOfModule(data, "torch") && py::hasattr(data, "detach")) return typed(FromTorch(data));
  if (py::hasattr(data, "__array__") || PyObject_CheckBuffer(data.ptr())) {
    return typed(FromArray(Numpy().attr("asarray")(data)));
  }
  Raise(InvalidArgument("a tensor is made of numbers, lists, NumPy arrays or bytes, not of {}",
                        Py_TYPE(data.ptr())->tp_name));
}

bool IsOperand(py::handle value) {
  return py::isinstance<Tensor>(value) || py::isinstance<SymInt>(value) ||
         PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr()) ||
         py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value) ||
         py::hasattr(value, "__array__");
}

std::variant<Tensor, Number> ToOperand(py::handle value) {
  if (py::isinstance<Tensor>(value)) return value.cast<Tensor>();
  if (std::optional<Number> number = AsNumber(value)) return *number;
  return ToTensor(value);
}

py::array ToNumpy(const Tensor& tensor) {
  // A weak number stays one, with all its digits, when it has been read.
  if (IsWeak(tensor.dtype())) return ToNumpy(Checked(Cast(tensor, tensor.stored_dtype())));
  // float32 holds all values of the types that NumPy lacks.
  if (!HasNumpyDType(tensor.dtype())) return ToNumpy(Checked(Cast(tensor, DType::kFloat32)));
  const py::object dtype = NumpyDType(tensor.dtype());
  std::vector<int64_t> shape = tensor.shape();
  if (AnyVaries(shape)) {
    absl::StatusOr<std::vector<int64_t>> actual = [&] {
      py::gil_scoped_release release;
      return tensor.ActualShape();
    }();
    shape = ValueOrRaise(std::move(actual));
  }
  py::array array = Numpy().attr("empty")(py::cast(shape), dtype);
  const absl::Span<char> bytes(static_cast<char*>(array.mutable_data()), BytesOf(array));
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = tensor.CopyTo(bytes);
  }
  RaiseIfError(status);
  return array;
}

py::array ToNumpyBits(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (HasNumpyDType(dtype)) return ToNumpy(tensor);
  return ToNumpy(
      Checked(Lift([dtype](const Expr& x) { return Bitcast(x, BitsOf(dtype)); }, tensor)));
}

Tensor FromNumpyBits(const py::array& array, DType dtype) {
  return Upload(array, dtype, Ints(array.shape(), array.shape() + array.ndim()));
}

std::vector<Tensor> LiftMany(
    const std::vector<Tensor>& operands, size_t count,
    const std::function<std::vector<Expr>(absl::Span<const Expr>)>& function) {
  std::vector<client::StateRef> states;
  for (const Tensor& operand : operands) states.push_back(operand.state());
  std::vector<Tensor> results;
  for (client::StateRef& state : operands[0].session().ApplyMany(
           states, count,
           [&](Graph&, absl::Span<const Expr> sources) { return function(sources); })) {
    results.push_back(Checked(Tensor(std::move(state))));
  }
  return results;
}

py::tuple Named(const char* name, py::tuple results) {
  const py::module_ types = py::module_::import("tensord.return_types");
  return py::hasattr(types, name) ? py::tuple(types.attr(name)(*results)) : results;
}

int64_t CountOf(const Tensor& count) {
  const Tensor wide = Checked(Cast(count, DType::kInt64));
  int64_t value = 0;
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = wide.CopyTo({reinterpret_cast<char*>(&value), sizeof(value)});
  }
  RaiseIfError(status);
  return value;
}

}  // namespace tensord::python
