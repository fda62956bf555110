// Tensor: the operator @.
#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/product.h"

namespace tensord::python {
void BindMath(py::class_<Tensor>& tensor) {
  tensor
      .def("__matmul__",
           [](const Tensor& a, py::handle b) { return Checked(MatMul(a, ToTensor(b))); })
      .def("__rmatmul__",
           [](const Tensor& a, py::handle b) { return Checked(MatMul(ToTensor(b), a)); });
}

}  // namespace tensord::python
