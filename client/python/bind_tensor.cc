// Tensor: construction, properties, data, assignment, gradients.

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/create.h"

namespace tensord::python {
namespace {

py::tuple ShapeOf(const Tensor& tensor) {
  py::tuple shape(tensor.shape().size());
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = tensor.shape()[i];
  return shape;
}

std::string Repr(const Tensor& tensor) {
  return fmt::format("Tensor(shape={}, dtype={}, device={}, {})",
                     std::string(py::repr(ShapeOf(tensor))), Name(tensor.dtype()),
                     tensor.session().device(), tensor.is_realized() ? "realized" : "lazy");
}

// Its data, of a dtype whose elements are Python numbers.
py::array PlainNumpy(const Tensor& tensor) {
  const bool is_small = IsFloat(tensor.dtype()) && ItemSize(tensor.dtype()) < 4;
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

py::list Gradient(const Tensor& loss, const py::args& targets, std::optional<Tensor> gradient) {
  return py::cast(ValueOrRaise(loss.Gradient(TensorsOf(targets), std::move(gradient))));
}

}  // namespace

void BindTensor(py::module_& module, py::class_<Tensor>& tensor) {
  tensor.doc() =
      "An array on a device of the daemon, lazy until its data is asked for.\n\n"
      "Made of numbers, nested lists, NumPy arrays or bytes. Lists of ints become int32, of "
      "floats\n"
      "float32; arrays keep their dtype.";
  tensor
      .def(py::init([](py::handle data, py::object dtype, bool requires_grad) {
             std::optional<DType> parsed;
             if (!dtype.is_none()) parsed = ParseDType(dtype);
             Tensor made = ToTensor(data, parsed);
             if (requires_grad) RaiseIfError(made.SetRequiresGrad(true));
             return made;
           }),
           py::arg("data"), py::arg("dtype") = py::none(), py::kw_only(),
           py::arg("requires_grad") = false)
      .def_property_readonly("shape", &ShapeOf)
      .def_property_readonly("dtype", &Tensor::dtype)
      .def_property_readonly("device", [](const Tensor& x) { return x.session().device(); })
      .def_property_readonly("ndim", &Tensor::rank)
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
          py::arg("dim") = py::none())
      .def("numel", &Tensor::num_elements, "The number of elements.")
      .def("element_size", [](const Tensor& x) { return ItemSize(x.dtype()); })
      .def_property_readonly("nbytes",
                             [](const Tensor& x) { return x.num_elements() * ItemSize(x.dtype()); })
      .def_property_readonly("is_realized", &Tensor::is_realized,
                             "Whether it was sent to the device to be computed.")
      .def("__repr__", &Repr)
      .def("__hash__", [](const Tensor& x) { return std::hash<const void*>()(x.state().get()); })
      .def("__len__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw py::type_error("a tensor without axes has no length");
             return x.shape()[0];
           })
      .def(
          "__bool__", [](const Tensor& x) { return Item(x).attr("__bool__")(); },
          "Only for one element, as in PyTorch.")
      .def("__float__", [](const Tensor& x) { return py::float_(Item(x)); })
      .def("__int__", [](const Tensor& x) { return py::int_(Item(x)); })
      .def("__index__",
           [](const Tensor& x) {
             if (IsFloat(x.dtype())) throw py::type_error("a float tensor is no index");
             return py::int_(Item(x));
           })

      .def("numpy", &ToNumpy,
           "Its data. bfloat16 and 8-bit floats come in the dtypes of the package ml_dtypes, or as "
           "float32 where that is not installed.")
      .def(
          "__array__",
          [](const Tensor& x, py::object dtype, py::object) -> py::object {
            py::array array = ToNumpy(x);
            return dtype.is_none() ? py::object(array) : array.attr("astype")(dtype);
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("item", &Item, "The number that a tensor of one element holds.")
      .def("tolist", [](const Tensor& x) { return PlainNumpy(x).attr("tolist")(); })
      .def(
          "realize",
          [](const py::object& self, const py::args& others) {
            std::vector<Tensor> tensors = TensorsOf(others);
            tensors.insert(tensors.begin(), self.cast<Tensor>());
            RealizeAll(tensors);
            return self;
          },
          "Sends what computes these tensors, as one program; does not wait for it.")
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
          py::arg("value"),
          "The tensor becomes `value`, in its own memory. What was made from it before keeps the "
          "old data.")
      .def_property(
          "requires_grad", &Tensor::requires_grad,
          [](const Tensor& x, bool flag) { RaiseIfError(x.SetRequiresGrad(flag)); },
          "Whether backward() leaves a gradient in grad.")
      .def(
          "requires_grad_",
          [](const py::object& self, bool flag) {
            RaiseIfError(self.cast<Tensor>().SetRequiresGrad(flag));
            return self;
          },
          py::arg("requires_grad") = true)
      .def_property("grad", &Tensor::grad, &Tensor::SetGrad)
      .def(
          "backward",
          [](const Tensor& x, std::optional<Tensor> gradient) {
            RaiseIfError(x.Backward(std::move(gradient)));
          },
          py::arg("gradient") = py::none(),
          "Adds d self / d t to t.grad for every tensor with requires_grad that self depends on.")
      .def("gradient", &Gradient, py::kw_only(), py::arg("gradient") = py::none(),
           "d self / d target for each target, zeros where there is no influence.")
      .def("detach", [](const Tensor& x) { return Checked(Detach(x)); })
      .def(
          "contiguous", [](const Tensor& x) { return Checked(Contiguous(x)); },
          "The same values, in memory at this point: a border for fusion.")
      .def(
          "clone",
          [](const Tensor& x) {
            Tensor copy = Checked(Contiguous(x));
            RaiseIfError(copy.MakeLeaf());
            return copy;
          },
          "A tensor of its own with the same values.");
  module.def(
      "realize", [](const py::args& tensors) { RealizeAll(TensorsOf(tensors)); },
      "Computes tensors (or lists of them) by one program.");
}

}  // namespace tensord::python
