// Tensor: construction, properties, data, assignment, gradients.

#include <fmt/ranges.h>

#include <algorithm>

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "client/python/parts.h"
#include "core/base/status.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/size.h"

namespace tensord::python {
namespace {

py::tuple ShapeOf(const Tensor& tensor) {
  py::tuple shape(tensor.shape().size());
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = SizeObject(tensor.shape()[i]);
  return shape;
}

std::string Repr(const Tensor& tensor) {
  return fmt::format("Tensor(shape={}, dtype={}, device={}, {})",
                     std::string(py::repr(ShapeOf(tensor))), Name(tensor.dtype()),
                     tensor.PlaceText(), tensor.is_realized() ? "realized" : "lazy");
}

// Its data, of a dtype whose elements are Python numbers.
py::array PlainNumpy(const Tensor& tensor) {
  const DType dtype = tensor.stored_dtype();
  const bool is_small = IsFloat(dtype) && ItemSize(dtype) < 4;
  return ToNumpy(is_small ? Checked(Cast(tensor, DType::kFloat32)) : tensor);
}

py::object Item(const Tensor& tensor) {
  if (tensor.num_elements() != 1) {
    Raise(InvalidArgument("item: only a tensor of one element is a number, this has shape {}",
                          std::string(py::repr(ShapeOf(tensor)))));
  }
  return PlainNumpy(tensor).attr("item")();
}

// Computes tensors without the interpreter's lock.
void RealizeAll(const std::vector<Tensor>& tensors) {
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = Realize(tensors);
  }
  RaiseIfError(status);
}

Tensor Assign(const Tensor& target, py::handle source) {
  std::variant<Tensor, Number> operand = ToOperand(source);
  const DType dtype = target.dtype();
  if (const Number* number = std::get_if<Number>(&operand);
      number && number->DTypeBeside(dtype) == dtype) {
    operand = Checked(Lift([&](const Expr& x) { return FullLike(x, *number); }, target));
  } else if (number) {
    operand = ToTensor(source);
  }
  Tensor value = std::get<Tensor>(operand);
  if (IsWeak(value.dtype()) && Promote(dtype, value.dtype()) == dtype) {
    value = Checked(Lift([dtype](const Expr& x) { return AsValueOf(x, dtype); }, value));
  }
  if (value.dtype() != dtype) {
    Raise(InvalidArgument("assign: the tensor is {}, the new value {}; cast it first", Name(dtype),
                          Name(value.dtype())));
  }
  const std::vector<int64_t>& shape = target.shape();
  if (value.shape() != shape) {
    value = Checked(Lift([&shape](const Expr& x) { return BroadcastTo(x, shape); }, value));
  }
  RaiseIfError(target.Assign(value));
  return target;
}

// Another tensor with the same values, through which gradients go. What is assigned to it has no
// history, unless something that requires a gradient is below.
Tensor Clone(const Tensor& x) {
  Tensor copy = Checked(Contiguous(Cast(x, x.stored_dtype())));
  // What nobody differentiates is better off without a history.
  if (!x.requires_grad()) RaiseIfError(copy.MakeVariable());
  return copy;
}

// The memory of NumPy arrays is the only one that other libraries can look at.
py::array ForExport(const Tensor& tensor) {
  if (tensor.dtype() == DType::kBFloat16 || IsFloat8(tensor.dtype())) {
    Raise(InvalidArgument("__dlpack__: {} is not exported; cast to float32 first",
                          Name(tensor.dtype())));
  }
  return ToNumpy(tensor);
}

py::object DeepCopy(const Tensor& x) {
  Tensor copy = Checked(Contiguous(Detach(x)));
  RaiseIfError(copy.MakeLeaf());
  if (x.requires_grad() && x.is_leaf()) RaiseIfError(copy.SetRequiresGrad(true));
  if (const std::optional<Tensor> grad = x.grad()) {
    Tensor of_grad = Checked(Contiguous(Detach(*grad)));
    RaiseIfError(of_grad.MakeLeaf());
    copy.SetGrad(of_grad);
  }
  return py::cast(copy);
}

// Data, dtype and whether it requires a gradient; where it comes back is the reader's device. A
// plain number comes back as one; a larger weak tensor has a dtype then, as in memory.
py::tuple Reduced(const Tensor& x) {
  const py::module_ interop = py::module_::import("tensord.interop");
  if (IsWeak(x.dtype()) && x.rank() == 0) {
    const DType wide = x.dtype() == DType::kWeakInt ? DType::kInt64 : DType::kFloat64;
    return py::make_tuple(interop.attr("rebuild_number"), py::make_tuple(Item(Cast(x, wide))));
  }
  const Tensor stored = Checked(Cast(x, x.stored_dtype()));
  return py::make_tuple(interop.attr("rebuild"),
                        py::make_tuple(ToNumpyBits(stored), std::string(Name(stored.dtype())),
                                       x.requires_grad() && x.is_leaf()));
}

std::string Printed(const Tensor& x) {
  // While a function is captured there is no data.
  if (x.session().IsTracing()) return Repr(x);
  py::module_ numpy = Numpy();
  const py::dict options(py::module_::import("tensord.printing").attr("_numpy_options")());
  const py::object text = numpy.attr("array2string")(ToNumpy(x), py::arg("separator") = ", ",
                                                     py::arg("prefix") = "Tensor(", **options);
  return fmt::format("Tensor({}, dtype={})", std::string(py::str(text)), Name(x.dtype()));
}

py::tuple Strides(const Tensor& x) {
  py::tuple strides(x.shape().size());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(x.shape()[i], 1);
  }
  return strides;
}

// to(dtype), to(device), to(device, dtype), to(tensor)
py::object To(const py::object& self, const py::args& targets, py::object device, py::object dtype,
              bool, bool copy) {
  const Tensor x = self.cast<Tensor>();
  std::optional<DType> cast;
  std::vector<std::string> devices;
  std::optional<int64_t> axis;
  const auto visit = [&](py::handle target) {
    if (target.is_none()) return;
    if (py::isinstance<Tensor>(target)) {
      const Tensor& other = target.cast<const Tensor&>();
      cast = other.stored_dtype();
      devices = other.devices();
      axis = other.shard_axis();
    } else if (py::isinstance<py::tuple>(target) || py::isinstance<py::list>(target) ||
               (py::isinstance<py::str>(target) &&
                !DTypeFromName(target.cast<std::string>()).has_value())) {
      devices = ParseDevices(target);
    } else {
      cast = ParseStored(target);
    }
  };
  for (py::handle target : targets) {
    if (!PyBool_Check(target.ptr())) visit(target);  // non_blocking, copy
  }
  visit(device);
  visit(dtype);
  Tensor result = x;
  if (cast && *cast != x.dtype()) result = Checked(Cast(x, *cast));
  if (!devices.empty()) {
    const Placement to = ValueOrRaise(x.session().FindPlacement(devices, axis.value_or(kWhole)));
    if (x.session().PlacementOf(x.state()) != to) result = Checked(result.Shard(devices, axis));
  }
  if (result.state() != x.state()) return py::cast(result);
  return copy ? py::cast(Clone(x)) : self;
}

// The NVIDIA device of that number, by whichever of the daemon's drivers offers it.
std::string CudaDevice(int64_t number) {
  const std::vector<std::string> devices = CurrentClient().devices();
  for (const char* kind : {"CUDA", "NV"}) {
    const std::string name = fmt::format("{}:{}", kind, number);
    if (std::find(devices.begin(), devices.end(), name) != devices.end()) return name;
  }
  Raise(
      InvalidArgument("cuda: the daemon has no CUDA:{} or NV:{}; its devices are {}; to(\"NAME\") "
                      "takes those names",
                      number, number, fmt::join(devices, ", ")));
}

}  // namespace

std::vector<Tensor> TensorsOf(const py::args& arguments) {
  std::vector<Tensor> tensors;
  for (py::handle argument : arguments) {
    if (py::isinstance<Tensor>(argument)) {
      tensors.push_back(argument.cast<Tensor>());
    } else {
      for (py::handle item : argument) tensors.push_back(item.cast<Tensor>());
    }
  }
  return tensors;
}

void BindTensor(py::module_& module, py::class_<Tensor>& tensor) {
  module.def(
      "_from_bits",
      [](const py::array& bits, py::handle dtype) {
        return Checked(FromNumpyBits(bits, ParseStored(dtype)));
      },
      py::arg("bits"), py::arg("dtype"), "A tensor of the dtype, made of its elements' bits.");
  tensor.doc() =
      "An array on a device of the daemon, lazy until its data is asked for.\n\n"
      "Made of numbers, nested lists, NumPy arrays or bytes. Lists of ints become int32, of "
      "floats\n"
      "float32; arrays keep their dtype.";
  tensor
      .def(py::init([](py::handle data, py::object dtype, bool requires_grad, py::object device) {
             std::optional<DType> parsed;
             if (!dtype.is_none()) parsed = ParseStored(dtype);
             Tensor made = ToTensor(data, parsed);
             if (!device.is_none()) made = Checked(made.Shard(ParseDevices(device), std::nullopt));
             if (requires_grad) RaiseIfError(made.SetRequiresGrad(true));
             return made;
           }),
           py::arg("data"), py::arg("dtype") = py::none(), py::kw_only(),
           py::arg("requires_grad") = false, py::arg("device") = py::none())
      .def_property_readonly("shape", &ShapeOf,
                             "The sizes of the axes: ints, and SymInts for those that vary.")
      .def_property_readonly("dtype", &Tensor::dtype,
                             "The type of its elements; a weak one of what a plain number made.")
      .def_property_readonly("ndim", &Tensor::rank, "The number of axes.")
      .def(
          "size",
          [](const Tensor& x, std::optional<int64_t> dim) -> py::object {
            py::tuple shape = ShapeOf(x);
            if (!dim) return shape;
            const int64_t axis = *dim < 0 ? *dim + x.rank() : *dim;
            if (axis < 0 || axis >= x.rank()) {
              Raise(MakeStatus(absl::StatusCode::kOutOfRange,
                               "size: a tensor of {} axes has no axis {}", x.rank(), *dim));
            }
            return shape[static_cast<size_t>(axis)];
          },
          py::arg("dim") = py::none(),
          "The shape, or the size of one axis. IndexError if there is no such axis.")
      .def(
          "numel", [](const Tensor& x) { return SizeObject(x.num_elements()); },
          "The number of elements.")
      .def(
          "nelement", [](const Tensor& x) { return SizeObject(x.num_elements()); },
          "The number of elements.")
      .def("dim", &Tensor::rank, "The number of axes.")
      .def(
          "stride",
          [](const Tensor& x, std::optional<int64_t> dim) -> py::object {
            py::tuple strides = Strides(x);
            if (!dim) return strides;
            const std::optional<int64_t> axis = ResolveAxis(*dim, x.rank());
            if (!axis) {
              Raise(MakeStatus(absl::StatusCode::kOutOfRange,
                               "stride: a tensor of {} axes has no axis {}", x.rank(), *dim));
            }
            return strides[static_cast<size_t>(*axis)];
          },
          py::arg("dim") = py::none(), "In elements: every tensor is row-major to its reader.")
      .def(
          "is_contiguous", [](const Tensor&) { return true; }, "Every tensor is.")
      .def(
          "storage_offset", [](const Tensor&) { return 0; }, "0: a tensor starts where it starts.")
      .def_property_readonly("is_realized", &Tensor::is_realized,
                             "Whether it was sent to the device to be computed.")
      .def("__repr__", &Repr)
      .def("__hash__", [](const Tensor& x) { return std::hash<const void*>()(x.state().get()); })
      .def("__len__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw py::type_error("a tensor without axes has no length");
             if (Varies(x.shape()[0])) {
               throw py::type_error("the length " + SizeText(x.shape()[0]) +
                                    " varies; use shape[0]");
             }
             return x.shape()[0];
           })
      .def(
          "__bool__",
          [](const Tensor&) -> bool {
            throw py::type_error(
                "a tensor is neither true nor false; read one element by item(), or use any() or "
                "all() and then item()");
          },
          "TypeError: to know it would mean to compute and wait.")
      .def("__str__", &Printed, "With the data, which is computed if need be.")
      .def("__format__",
           [](const Tensor& x, const py::str& spec) -> py::str {
             if (py::len(spec) == 0) return Printed(x);
             return Item(x).attr("__format__")(spec);
           })
      .def("__float__", [](const Tensor& x) { return py::float_(Item(x)); })
      .def("__int__", [](const Tensor& x) { return py::int_(Item(x)); })
      .def("__index__",
           [](const Tensor& x) {
             if (IsFloat(x.dtype())) throw py::type_error("a float tensor is no index");
             return py::int_(Item(x));
           })

      .def("numpy", &ToNumpy,
           "Its data. bfloat16 and 8-bit floats, which NumPy lacks, come as float32.")
      .def(
          "__array__",
          [](const Tensor& x, py::object dtype, py::object) -> py::object {
            py::array array = ToNumpy(x);
            return dtype.is_none() ? py::object(array) : array.attr("astype")(dtype);
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("item", &Item, "The number that a tensor of one element holds; ValueError for more.")
      .def(
          "tolist", [](const Tensor& x) { return PlainNumpy(x).attr("tolist")(); },
          "Nested lists of numbers; one number if there are no axes.")
      .def(
          "_memoryview", [](const Tensor& x) { return py::object(ToNumpy(x).attr("data")); },
          "Its data as a memoryview; bfloat16 and 8-bit floats as float32.")
      .def("__dlpack__",
           [](const Tensor& x, const py::kwargs&) {
             return py::object(ForExport(x).attr("__dlpack__")());
           })
      .def("__dlpack_device__", [](const Tensor&) { return py::make_tuple(1, 0); })
      .def("__reduce__", &Reduced)
      .def("__copy__", [](const Tensor& x) { return x; })
      .def(
          "__deepcopy__", [](const Tensor& x, py::handle) { return DeepCopy(x); }, py::arg("memo"))
      .def(
          "realize",
          [](const py::object& self, const py::args& others, bool) {
            std::vector<Tensor> tensors = TensorsOf(others);
            tensors.insert(tensors.begin(), self.cast<Tensor>());
            RealizeAll(tensors);
            return self;
          },
          py::kw_only(), py::arg("do_update_stats") = true,
          "Sends what computes these tensors, as one program; does not wait for it. "
          "`do_update_stats`, tinygrad's, changes nothing: the daemon counts all that it runs.")
      .def(
          "wait",
          [](const py::object& self) {
            absl::Status status;
            const Tensor x = self.cast<Tensor>();
            {
              py::gil_scoped_release release;
              status = x.Wait();
            }
            RaiseIfError(status);
            return self;
          },
          "Waits until it is computed.")

      .def(
          "assign",
          [](const py::object& self, py::handle value) {
            Assign(self.cast<Tensor>(), value);
            return self;
          },
          py::arg("x"),
          "The tensor becomes `x`, in its own memory. What was made from it before keeps the "
          "old data.")
      .def(
          "replace",
          [](const py::object& self, const Tensor& other) {
            RaiseIfError(self.cast<Tensor>().Rebind(other));
            return self;
          },
          py::arg("x"),
          "The tensor becomes another name of `x`, of the same shape and dtype: nothing is copied.")
      .def(
          "detach",
          [](const Tensor& x) {
            return Checked(LiftView([](const Expr& e) { return Detach(e); }, x));
          },
          "The same values, where gradients end. A view.")
      .def(
          "to", &To, py::arg("device") = py::none(), py::arg("dtype") = py::none(),
          py::arg("non_blocking") = false, py::arg("copy") = false,
          "As another dtype, on another device or whole on several, or both as another tensor. The "
          "tensor itself if\nnothing changes.")
      .def(
          "cpu",
          [](const py::object& self) {
            return To(self, py::make_tuple("CPU"), py::none(), py::none(), false, false);
          },
          "The tensor on the first CPU device.")
      .def(
          "cuda",
          [](const py::object& self, py::handle device, bool non_blocking) {
            py::object name = py::reinterpret_borrow<py::object>(device);
            if (device.is_none() || PyIndex_Check(device.ptr())) {
              name = py::str(CudaDevice(device.is_none() ? 0 : device.cast<int64_t>()));
            }
            return To(self, py::make_tuple(name), py::none(), py::none(), non_blocking, false);
          },
          py::arg("device") = py::none(), py::arg("non_blocking") = false,
          "The tensor on an NVIDIA device: the first, or that of a number or name. ValueError with "
          "the names of the\ndaemon's devices if there is none.")
      .def(
          "pin_memory", [](const py::object& self) { return self; }, "The tensor.")
      .def(
          "contiguous", [](const Tensor& x) { return Checked(Contiguous(x)); },
          "The same values, in memory at this point: a border for fusion.")
      .def(
          "contiguous_backward",
          [](const Tensor& x) {
            if (!IsFloat(x.dtype())) return x;
            return Checked(Lift(
                [](const Expr& e) {
                  return WithGradient(
                      e, {e}, [](const Expr& g) { return std::vector<Expr>{Contiguous(g)}; });
                },
                x));
          },
          "The same values, whose gradient is in memory at this point.")
      .def(
          "clone",
          [](const Tensor& x, py::handle device) {
            const Tensor copy = Clone(x);
            if (device.is_none()) return copy;
            return Checked(copy.Shard(ParseDevices(device), std::nullopt));
          },
          py::arg("device") = py::none(),
          "A tensor of its own with the same values, on a device if one is named; gradients flow "
          "to "
          "the source.");
  // NumPy leaves operators with an array on the left to us.
  tensor.attr("__array_priority__") = 1000;
  module.def(
      "_schedule",
      [](const std::vector<Tensor>& tensors) {
        std::vector<client::StateRef> states;
        for (const Tensor& tensor : tensors) states.push_back(tensor.state());
        absl::StatusOr<client::Session::Scheduled> scheduled;
        {
          py::gil_scoped_release release;
          scheduled = tensors[0].session().Schedule(states);
        }
        const client::Session::Scheduled made = ValueOrRaise(std::move(scheduled));
        return std::pair(made.kernels, made.variables);
      },
      py::arg("tensors"));
  module.def("_into", &Into, py::arg("out"), py::arg("results"), py::arg("name"));
  module.def(
      "realize", [](const py::args& tensors) { RealizeAll(TensorsOf(tensors)); },
      "Computes tensors (or lists of them) by one program.");
}

}  // namespace tensord::python
