// What the parts of the extension module share. Internal to client/python.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
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

// ---- random numbers

// Where they come from: a generator of its own, or without one that of the current client.
struct Generator {
  client::GeneratorRef own;
};
inline client::GeneratorRef Own(const std::optional<Generator>& generator) {
  return generator ? generator->own : nullptr;
}

// ---- arguments

using Ints = std::vector<int64_t>;

// NumPy, imported when it is first asked for. Before that there is no py::array: ask IsArray, not
// py::isinstance.
py::module_ Numpy();
bool IsArray(py::handle value);
bool IsNumpyScalar(py::handle value);

DType ParseDType(py::handle dtype);
// A size that varies (core/tensor/size.h), as Python sees it.
struct SymInt {
  int64_t code;
};
bool IsSize(py::handle value);  // an int or a SymInt
int64_t ParseSize(py::handle value);
py::object SizeObject(int64_t size);

// One that tensors have data of, hence not a weak one.
DType ParseStored(py::handle dtype);
// An int or a sequence of ints; a TypeError otherwise, which says what was asked for.
Ints ParseInts(py::handle value, const char* what = "it");
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

// Its data; as float32 if NumPy lacks the dtype.
py::array ToNumpy(const Tensor& tensor);
// The same, but then as bits in unsigned integers.
py::array ToNumpyBits(const Tensor& tensor);
// A tensor of bits that ToNumpyBits gave.
Tensor FromNumpyBits(const py::array& array, DType dtype);

// Results as the named tuple that tensord/return_types.py has by this name; as they are if it has
// none.
py::tuple Named(const char* name, py::tuple results);
// Several results of functions of the tensor language.
std::vector<Tensor> LiftMany(
    const std::vector<Tensor>& operands, size_t count,
    const std::function<std::vector<Expr>(absl::Span<const Expr>)>& function);
// An integer that the daemon computes, on which a shape depends. Waits.
int64_t CountOf(const Tensor& count);
// The tensors of `out`, one or as many as there are results, become those of the results.
py::object Into(const py::object& out, const py::object& results, const std::string& name);
// The target takes the value, for the method called `name`; dtype and shape must be its own.
void AssignInPlace(const Tensor& target, Tensor value, const std::string& name);

// ---- the parts

void BindDType(py::module_& module);
void BindCasts(py::class_<Tensor>& tensor);
void BindDTypeArguments(py::class_<Tensor>& tensor);
void BindClient(py::module_& module);
void BindGenerator(py::module_& module);
void BindLog(py::module_& module);
void BindFile(py::module_& module, py::class_<Tensor>& tensor);
void BindTensor(py::module_& module, py::class_<Tensor>& tensor);
void BindMovement(py::class_<Tensor>& tensor);
void BindElementwise(py::module_& module, py::class_<Tensor>& tensor);
void BindJoin(py::class_<Tensor>& tensor);
void BindIndex(py::class_<Tensor>& tensor);
void BindMath(py::class_<Tensor>& tensor);
void BindOrder(py::module_& module, py::class_<Tensor>& tensor);
void BindIndexOps(py::class_<Tensor>& tensor);
void BindReduce(py::class_<Tensor>& tensor);
void BindConv(py::class_<Tensor>& tensor);
void BindProduct(py::class_<Tensor>& tensor, py::module_& module);
void BindNn(py::class_<Tensor>& tensor);
void BindLosses(py::class_<Tensor>& tensor);  // part of BindNn
void BindCreation(py::module_& module);
void BindSize(py::module_& module);
void BindSharing(py::module_& module, py::class_<Tensor>& tensor);
void BindCreators(py::class_<Tensor>& tensor);
void BindGradient(py::module_& module);
void BindJit(py::module_& module);
void BindKernel(py::module_& module);
void BindLoop(py::module_& module);
void BindSpellings(py::class_<Tensor>& tensor);  // after all that binds methods

}  // namespace tensord::python
