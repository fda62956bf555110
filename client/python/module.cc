// The extension module: client/cc and core/tensor under Python names. The package tensord/ adds
// what is better said in Python.
#include "client/python/bind.h"

PYBIND11_MODULE(_tensord, module) {
  using namespace tensord::python;  // NOLINT: the parts are listed once, here
  namespace py = pybind11;
  module.doc() = "The C++ half of the package tensord.";
  InitNumpy();
  BindDType(module);
  BindClient(module);
  py::class_<tensord::Tensor> tensor(module, "Tensor");
  BindTensor(module, tensor);
  BindMovement(tensor);
  BindMath(tensor);
  BindNn(tensor);
  BindCreation(module);
  BindJit(module);
}
