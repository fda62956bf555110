// The extension module: client/cc and core/tensor under Python names. The package tensord/ adds
// what is better said in Python.
#include "client/python/bind.h"
#include "client/python/parts.h"
#include "core/base/version.h"

PYBIND11_MODULE(_tensord, module) {
  using namespace tensord::python;  // NOLINT: the parts are listed once, here
  namespace py = pybind11;
  module.doc() = "The C++ half of the package tensord.";
  module.attr("__version__") = std::string(tensord::kVersion);
  BindDType(module);
  BindClient(module);
  BindLog(module);
  py::class_<tensord::Tensor> tensor(module, "Tensor");
  BindGenerator(module);
  BindSize(module);
  BindTensor(module, tensor);
  BindGradients(tensor);
  BindPlace(module, tensor);
  BindFile(module, tensor);
  BindCasts(tensor);
  BindMovement(tensor);
  BindElementwise(module, tensor);
  BindJoin(tensor);
  BindIndex(tensor);
  BindMath(tensor);
  BindOrder(module, tensor);
  BindIndexOps(tensor);
  BindReduce(tensor);
  BindProduct(tensor, module);
  BindConv(tensor);
  BindResample(tensor);
  BindLinalg(tensor, module);
  BindRandom(tensor);
  BindNn(tensor);
  BindCreation(module);
  BindCreators(tensor);
  BindDTypeArguments(tensor);
  BindGradient(module);
  BindJit(module);
  BindKernel(module);
  BindLoop(module);
  BindSharing(module, tensor);
  BindTrace(module);
  BindSpellings(tensor);
}
