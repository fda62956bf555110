#include "client/cc/signature.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/status.h"

namespace tensord::client {

absl::StatusOr<Signature> Signature::Of(const Session& session, const std::string& name,
                                        absl::Span<const Tensor> arguments) {
  Signature signature;
  signature.text =
      fmt::format("{}{} {} {} {} ", GradEnabled(), session.fast_math(), Name(DefaultFloat()),
                  Name(DefaultInt()), session.DefaultDevicesText());
  for (const Tensor& argument : arguments) {
    TD_RETURN_IF_ERROR(argument.status());
    if (&argument.session() != &session) {
      return InvalidArgument("{}: an argument belongs to another client", name);
    }
    std::vector<StateRef>& states = signature.states;
    const auto same = std::find(states.begin(), states.end(), argument.state());
    const size_t place = static_cast<size_t>(same - states.begin());
    if (same == states.end()) states.push_back(argument.state());
    signature.places.push_back(place);
    signature.text +=
        fmt::format("{}{}{}{}{} ", place, Name(argument.dtype()), TextOf(argument.shape()),
                    argument.state()->requires_grad ? "'" : "",
                    argument.session().PlacementText(argument.state()));
  }
  return signature;
}

std::vector<Tensor> Signature::Spread(absl::Span<const StateRef> stand_ins) const {
  std::vector<Tensor> tensors;
  for (size_t place : places) tensors.emplace_back(stand_ins[place]);
  return tensors;
}

std::vector<StateRef> StatesOf(absl::Span<const Tensor> tensors) {
  std::vector<StateRef> states;
  for (const Tensor& tensor : tensors) states.push_back(tensor.state());
  return states;
}

std::vector<Tensor> TensorsOf(std::vector<StateRef> states) {
  std::vector<Tensor> tensors;
  for (StateRef& state : states) tensors.emplace_back(std::move(state));
  return tensors;
}

}  // namespace tensord::client
