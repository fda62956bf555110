// Where tensors are: device, shard, and the device that new ones are put on.
#include <pybind11/pybind11.h>

#include "client/python/bind.h"
#include "client/python/parts.h"

namespace tensord::python {

std::vector<std::string> ParseDevices(py::handle value) {
  std::vector<std::string> names;
  if (py::isinstance<py::str>(value)) {
    // "cpu" is "CPU", as in PyTorch.
    names.push_back(py::str(value.attr("upper")()));
    return names;
  }
  for (py::handle item : py::iter(value)) names.push_back(py::str(item.attr("upper")()));
  return names;
}

namespace {

py::object DeviceObject(const Tensor& x) {
  const std::vector<std::string> names = x.devices();
  if (names.size() == 1) return py::str(names[0]);
  return py::tuple(py::cast(names));
}

Tensor ShardLike(const Tensor& x, const Tensor& other) {
  return Checked(x.Shard(other.devices(), other.shard_axis()));
}

}  // namespace

void BindPlace(py::module_& module, py::class_<Tensor>& tensor) {
  tensor
      .def_property_readonly("device", &DeviceObject,
                             "Where it is: a name, or a tuple of them if it is on several devices.")
      .def_property_readonly(
          "shard_axis", [](const Tensor& x) { return x.shard_axis(); },
          "The axis along which it is divided among its devices; None if each has all of it. Of "
          "what is still to be computed it is not known, and None.")
      .def(
          "shard",
          [](const Tensor& x, py::handle devices, std::optional<int64_t> axis) {
            return Checked(x.Shard(ParseDevices(devices), axis));
          },
          py::arg("devices"), py::arg("axis") = py::none(),
          "The tensor on several devices: divided along an axis into equal parts, or whole on each "
          "without one.\nWhat is computed from it is computed on these devices, each doing its "
          "part. Gradients go back to\nwhere the tensor was. InvalidArgumentError if the number of "
          "devices does not divide the axis, or if a\ndevice is unknown.")
      .def(
          "shard_",
          [](const py::object& self, py::handle devices, std::optional<int64_t> axis) {
            RaiseIfError(self.cast<const Tensor&>().MoveTo(ParseDevices(devices), axis));
            return self;
          },
          py::arg("devices"), py::arg("axis") = py::none(),
          "Moves the tensor itself, see shard; for parameters.")
      .def("shard_like", &ShardLike, py::arg("other"),
           "The tensor on the devices of another one, divided along the same axis.")
      .def(
          "to_",
          [](const py::object& self, py::handle device) {
            RaiseIfError(self.cast<const Tensor&>().MoveTo(ParseDevices(device), std::nullopt));
            return self;
          },
          py::arg("device"), "Moves the tensor itself to a device, or whole to several.");
  module.def(
      "_set_default_devices",
      [](std::optional<std::vector<std::string>> devices) {
        return ValueOrRaise(CurrentClient().session()->SetDefaultDevices(devices));
      },
      py::arg("devices"));
}

}  // namespace tensord::python
