// Kernels written by hand; tensord/kernels.py calls the user's functions between the steps.
#include "client/cc/kernel.h"
#include "client/python/bind.h"

namespace tensord::python {

void BindKernel(py::module_& module) {
  using Output = std::tuple<std::string, py::object, Ints>;
  py::class_<KernelCall>(module, "_KernelCall")
      .def(py::init([](const std::string& name, const std::vector<Output>& outputs,
                       const std::vector<Tensor>& inputs,
                       const std::vector<std::string>& input_names) {
             std::vector<KernelCall::Operand> operands;
             for (const auto& [output, dtype, shape] : outputs) {
               operands.push_back({ParseStored(dtype), shape, output});
             }
             const auto session =
                 inputs.empty() ? CurrentClient().session() : inputs[0].state()->session;
             return std::make_unique<KernelCall>(session, name, std::move(operands), inputs,
                                                 input_names);
           }),
           py::arg("name"), py::arg("outputs"), py::arg("inputs"), py::arg("input_names"))
      .def_property_readonly("is_empty", &KernelCall::IsEmpty)
      .def(
          "range", [](KernelCall& call, int64_t size) { return Checked(call.Range(size)); },
          py::arg("size"))
      .def(
          "reduce_range",
          [](KernelCall& call, int64_t size) { return Checked(call.ReduceRange(size)); },
          py::arg("size"))
      .def(
          "load",
          [](KernelCall& call, size_t input, const std::vector<Tensor>& index,
             const std::optional<Tensor>& gate) {
            if (input >= call.inputs().size()) throw py::index_error("no such input");
            return Checked(call.Load(input, index, gate));
          },
          py::arg("input"), py::arg("index"), py::arg("gate") = py::none())
      .def(
          "reduce",
          [](KernelCall& call, const std::string& kind, const Tensor& value,
             const std::vector<Tensor>& ranges) {
            for (const ReduceKind known :
                 {ReduceKind::kAdd, ReduceKind::kMul, ReduceKind::kMax, ReduceKind::kMin}) {
              if (Name(known) == kind) return Checked(call.Reduce(known, value, ranges));
            }
            throw py::value_error("no such reduction: " + kind);
          },
          py::arg("kind"), py::arg("value"), py::arg("ranges"))
      .def(
          "store",
          [](KernelCall& call, size_t output, const std::vector<Tensor>& index,
             const Tensor& value) {
            if (output >= call.outputs().size()) throw py::index_error("no such output");
            RaiseIfError(call.Store(output, index, value));
          },
          py::arg("output"), py::arg("index"), py::arg("value"))
      .def("finish", [](KernelCall& call) {
        std::vector<Tensor> results;
        for (Tensor& result : call.Finish()) results.push_back(Checked(std::move(result)));
        return results;
      });
}

}  // namespace tensord::python
