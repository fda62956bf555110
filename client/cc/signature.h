// What decides whether a function that was traced before serves the arguments of a call. Internal
// to client/cc.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "client/cc/tensor.h"

namespace tensord::client {

struct Signature {
  // InvalidArgument for tensors of another client, or the error of one that could not be made.
  static absl::StatusOr<Signature> Of(const Session& session, const std::string& name,
                                      absl::Span<const Tensor> arguments);

  // Which arguments are the same tensor, dtypes, shapes, requires_grad, and what else a function
  // may ask of its surroundings: whether there are gradients, default dtypes, the float mode.
  std::string text;
  std::vector<StateRef> states;  // the arguments, each tensor once
  std::vector<size_t> places;    // of the arguments in `states`

  // `states`, or what stands for them, as the function gets them.
  std::vector<Tensor> Spread(absl::Span<const StateRef> stand_ins) const;
};

std::vector<StateRef> StatesOf(absl::Span<const Tensor> tensors);
std::vector<Tensor> TensorsOf(std::vector<StateRef> states);

}  // namespace tensord::client
