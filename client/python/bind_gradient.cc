// Gradients that are said by hand. The package gives these functions their signatures.
#include "client/cc/tensor.h"
#include "client/python/bind.h"
#include "client/python/operands.h"
#include "core/base/status.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/statistics.h"

namespace tensord::python {
namespace {

std::vector<client::StateRef> StatesOf(const std::vector<Tensor>& tensors) {
  std::vector<client::StateRef> states;
  for (const Tensor& tensor : tensors) states.push_back(tensor.state());
  return states;
}

std::vector<Tensor> CheckpointOf(const std::vector<Tensor>& results,
                                 const std::vector<Tensor>& arguments) {
  std::vector<Tensor> kept;
  for (Tensor& tensor : Checkpoint(results, arguments)) kept.push_back(Checked(std::move(tensor)));
  return kept;
}

// Values in a row, whose gradient is a function of one stand-in.
Tensor CustomGradientOf(const Tensor& value, const std::vector<Tensor>& inputs,
                        const Tensor& stand_in, const std::vector<Tensor>& gradients) {
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), gradients.begin(), gradients.end());
  all.push_back(value);
  all.push_back(stand_in);
  return Checked(
      Tensor(value.session().Apply(StatesOf(all), [&](Graph&, absl::Span<const Expr> sources) {
        const size_t n = inputs.size();
        return WithGradient(sources[2 * n], sources.first(n), sources[2 * n + 1],
                            sources.subspan(n, n));
      })));
}

}  // namespace

void BindGradient(py::module_& module) {
  module.def("_checkpoint", &CheckpointOf, py::arg("results"), py::arg("arguments"));
  module.def(
      "_stand_in", [](const Tensor& like) { return Checked(Lift(StandIn, like)); },
      py::arg("like"));
  module.def("_custom_gradient", &CustomGradientOf, py::arg("value"), py::arg("inputs"),
             py::arg("stand_in"), py::arg("gradients"));
  module.def(
      "_numerical_gradient",
      [](const Tensor& x, int64_t dim, double spacing, const std::optional<Tensor>& points,
         int64_t edge_order) {
        return WithOptional(x, {points}, [&](const Expr& e, const auto& given) {
          return NumericalGradient(
              e, dim, {.spacing = spacing, .points = given[0], .edge_order = edge_order});
        });
      },
      py::arg("x"), py::arg("dim"), py::arg("spacing"), py::arg("points"), py::arg("edge_order"));
  module.def("_set_grad_enabled", &client::SetGradEnabled, py::arg("enabled"),
             "Whether what is computed from now on has gradients; returns what was set before.");
  module.def("is_grad_enabled", &client::GradEnabled, "Whether what is computed has gradients.");
}

}  // namespace tensord::python
