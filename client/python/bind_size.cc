// SymInt: a size that varies from run to run.
#include <pybind11/operators.h>

#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/build.h"
#include "core/tensor/size.h"

namespace tensord::python {
namespace {

// Arithmetic with a SymInt or an int; for other objects Python asks them.
template <Op op, bool reflected = false>
py::object Arithmetic(const SymInt& self, py::handle other) {
  if (!IsSize(other) || py::isinstance<Tensor>(other)) {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }
  int64_t a = self.code, b = ParseSize(other);
  if (reflected) std::swap(a, b);
  return SizeObject(ValueOrRaise(SizeArithmetic(op, a, b)));
}

// a <= b, if that is so (or not) for every value.
bool Compare(int64_t a, int64_t b, int64_t margin) {
  const int64_t next = ValueOrRaise(SizePlus(b, -margin));
  if (SizeAtMost(a, next)) return true;
  if (SizeAtMost(ValueOrRaise(SizePlus(next, 1)), a)) return false;
  throw py::type_error(SizeText(a) + (margin == 0 ? " <= " : " < ") + SizeText(b) +
                       " depends on the values of the variables");
}

}  // namespace

void BindSize(py::module_& module) {
  module.def("_broadcast_shapes", [](const std::vector<Ints>& shapes) {
    Ints common;
    for (const Ints& shape : shapes) {
      const std::optional<Dims> both = BroadcastShapes(common, shape);
      if (!both) {
        Raise(InvalidArgument("broadcast_shapes: {} and {} do not broadcast", ShapeText(common),
                              ShapeText(shape)));
      }
      common.assign(both->begin(), both->end());
    }
    return py::tuple(py::cast(common));
  });
  py::class_<SymInt>(module, "SymInt",
                     "A size that varies from run to run: an expression over variables.")
      .def(py::init([](const std::string& name, int64_t min, int64_t max) {
             return SymInt{ValueOrRaise(VariableSize(name, min, max))};
           }),
           py::arg("name"), py::arg("min"), py::arg("max"))
      .def("__repr__", [](const SymInt& x) { return SizeText(x.code); })
      .def("__hash__", [](const SymInt& x) { return std::hash<int64_t>()(x.code); })
      .def("__eq__",
           [](const SymInt& x, py::handle y) {
             return (py::isinstance<SymInt>(y) || PyLong_Check(y.ptr())) && x.code == ParseSize(y);
           })
      .def_property_readonly(
          "low", [](const SymInt& x) { return SizeLow(x.code); }, "The least value.")
      .def_property_readonly(
          "high", [](const SymInt& x) { return SizeHigh(x.code); },
          "The largest value: what memory has room for.")
      .def("__add__", &Arithmetic<Op::kAdd>)
      .def("__radd__", &Arithmetic<Op::kAdd>)
      .def("__sub__", &Arithmetic<Op::kSub>)
      .def("__rsub__", &Arithmetic<Op::kSub, true>)
      .def("__mul__", &Arithmetic<Op::kMul>)
      .def("__rmul__", &Arithmetic<Op::kMul>)
      .def("__floordiv__", &Arithmetic<Op::kFloorDiv>)
      .def("__mod__", &Arithmetic<Op::kFloorMod>)
      .def("__lt__", [](const SymInt& x, py::handle y) { return Compare(x.code, ParseSize(y), 1); })
      .def("__le__", [](const SymInt& x, py::handle y) { return Compare(x.code, ParseSize(y), 0); })
      .def("__gt__", [](const SymInt& x, py::handle y) { return Compare(ParseSize(y), x.code, 1); })
      .def("__ge__",
           [](const SymInt& x, py::handle y) { return Compare(ParseSize(y), x.code, 0); });
}

}  // namespace tensord::python
