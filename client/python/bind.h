// What the parts of the extension module share. Internal to client/python.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "client/cc/client.h"
#include "client/cc/tensor.h"
#include "core/tensor/number.h"

namespace tensord::python {

namespace py = pybind11;

// ---- errors: Python exceptions of tensord/errors.py, one class per status code

[[noreturn]] void Raise(const absl::Status& status);
inline void RaiseIfError(const absl::Status& status) {
  if (!status.ok()) [[unlikely]]
    Raise(status);
}
template <typename T>
T ValueOrRaise(absl::StatusOr<T> value) {
  RaiseIfError(value.status());
  return *std::move(value);
}
// A tensor that could not be made is an exception at the line that tried.
inline Tensor Checked(Tensor tensor) {
  RaiseIfError(tensor.status());
  return tensor;
}

// ---- the client that creation functions use; connects if there is none yet

Client& CurrentClient();

// ---- arguments

using Ints = std::vector<int64_t>;

// Before anything else, while the module is imported.
void InitNumpy();

DType ParseDType(py::handle dtype);
// An int or a sequence of ints.
Ints ParseInts(py::handle value);
// *sizes or one sequence of them.
Ints ParseSizes(const py::args& sizes);

// bool, int or float, NumPy's scalars included; nothing for other objects.
std::optional<Number> AsNumber(py::handle value);
// Whatever Tensor(...) takes.
Tensor ToTensor(py::handle data, std::optional<DType> dtype = std::nullopt);
// The other operand of an operator: a tensor, a weak number, or data for a tensor.
std::variant<Tensor, Number> ToOperand(py::handle value);
// Whether an operator takes it as an operand at all.
bool IsOperand(py::handle value);

py::array ToNumpy(const Tensor& tensor);

// ---- the parts

void BindDType(py::module_& module);
void BindClient(py::module_& module);
void BindTensor(py::module_& module, py::class_<Tensor>& tensor);
void BindMovement(py::class_<Tensor>& tensor);
void BindMath(py::class_<Tensor>& tensor);
void BindNn(py::class_<Tensor>& tensor);
void BindCreation(py::module_& module);
void BindJit(py::module_& module);

}  // namespace tensord::python
