// Structured loops; tensord/loops.py calls the user's functions between the steps.
#include "client/python/bind.h"
#include "core/tensor/loop.h"

namespace tensord::python {
namespace {

std::vector<Tensor> Many(const std::vector<Tensor>& operands, size_t count,
                         const client::Session::Expressions& function) {
  if (operands.empty()) return {};
  std::vector<client::StateRef> states;
  for (const Tensor& operand : operands) states.push_back(operand.state());
  std::vector<Tensor> results;
  for (client::StateRef& state : operands[0].session().ApplyMany(states, count, function)) {
    results.push_back(Checked(Tensor(std::move(state))));
  }
  return results;
}

std::vector<Tensor> Joined(std::vector<Tensor> first, const std::vector<Tensor>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

void BindLoop(py::module_& module) {
  module.def("_begin_loop", [](const std::vector<Tensor>& initial) {
    return Many(initial, initial.size(),
                [](Graph&, absl::Span<const Expr> states) { return BeginLoop(states); });
  });
  module.def("_add_states",
             [](const std::vector<Tensor>& stand_ins, const std::vector<Tensor>& initial) {
               const size_t begun = stand_ins.size();
               return Many(Joined(stand_ins, initial), initial.size(),
                           [begun](Graph&, absl::Span<const Expr> states) {
                             return AddStates(states.first(begun), states.subspan(begun));
                           });
             });
  module.def("_end_loop", [](const std::vector<Tensor>& stand_ins, const Tensor& condition,
                             const std::vector<Tensor>& next, std::optional<int64_t> most) {
    const size_t count = stand_ins.size();
    std::vector<Tensor> operands = Joined(stand_ins, next);
    operands.push_back(condition);
    return Many(operands, count, [count, most](Graph&, absl::Span<const Expr> all) {
      return EndLoop(all.first(count), all.back(), all.subspan(count, all.size() - count - 1),
                     most.value_or(kUnlimited));
    });
  });
  module.def("_row", [](const Tensor& x, const Tensor& i) { return Checked(Lift(&Row, x, i)); });
  module.def("_with_row", [](const Tensor& x, const Tensor& i, const Tensor& value) {
    return Checked(Lift(&WithRow, x, i, value));
  });
}

}  // namespace tensord::python
