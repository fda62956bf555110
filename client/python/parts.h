// The parts of the extension that were added by subject. Internal to client/python.
#pragma once

#include "client/python/bind.h"

namespace tensord::python {

// A name or several.
std::vector<std::string> ParseDevices(py::handle value);

// Tensors and sequences of them.
std::vector<Tensor> TensorsOf(const py::args& arguments);

void BindGradients(py::class_<Tensor>& tensor);
void BindLinalg(py::class_<Tensor>& tensor, py::module_& module);
void BindPlace(py::module_& module, py::class_<Tensor>& tensor);
void BindRandom(py::class_<Tensor>& tensor);
void BindResample(py::class_<Tensor>& tensor);
void BindTrace(py::module_& module);

}  // namespace tensord::python
