#include "client/cc/jit.h"

#include <fmt/format.h>

#include "core/base/status.h"

namespace tensord {
namespace {

std::vector<client::StateRef> StatesOf(const std::vector<Tensor>& tensors) {
  std::vector<client::StateRef> states;
  for (const Tensor& tensor : tensors) states.push_back(tensor.state());
  return states;
}

std::vector<Tensor> TensorsOf(std::vector<client::StateRef> states) {
  std::vector<Tensor> tensors;
  for (client::StateRef& state : states) tensors.emplace_back(std::move(state));
  return tensors;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> Jit::operator()(const std::vector<Tensor>& arguments) {
  std::string signature;
  for (const Tensor& argument : arguments) {
    TD_RETURN_IF_ERROR(argument.status());
    if (&argument.session() != session_.get()) {
      return InvalidArgument("{}: an argument belongs to another client", name_);
    }
    signature += fmt::format("{}{}{} ", Name(argument.dtype()), client::TextOf(argument.shape()),
                             session_->PlacementText(argument.state()));
  }
  if (session_->IsTracing()) return function_(arguments);

  const std::vector<client::StateRef> states = StatesOf(arguments);
  std::shared_ptr<const client::CapturedProgram> captured;
  {
    absl::MutexLock lock(&mu_);
    if (auto it = programs_.find(signature); it != programs_.end()) captured = it->second;
  }
  if (captured) {
    absl::StatusOr<std::vector<client::StateRef>> results = session_->Replay(*captured, states);
    if (results.ok()) return TensorsOf(*std::move(results));
    // A tensor that it uses has changed its shape; the function may well take it.
    if (!absl::IsFailedPrecondition(results.status())) return results.status();
  }
  TD_ASSIGN_OR_RETURN(client::CapturedProgram fresh,
                      session_->Capture(name_, states,
                                        [this](std::vector<client::StateRef> stand_ins)
                                            -> absl::StatusOr<std::vector<client::StateRef>> {
                                          TD_ASSIGN_OR_RETURN(
                                              std::vector<Tensor> results,
                                              function_(TensorsOf(std::move(stand_ins))));
                                          return StatesOf(results);
                                        }),
                      "{}", name_);
  captured = std::make_shared<const client::CapturedProgram>(std::move(fresh));
  {
    absl::MutexLock lock(&mu_);
    programs_[signature] = captured;
    ++captures_;
  }
  TD_ASSIGN_OR_RETURN(std::vector<client::StateRef> results, session_->Replay(*captured, states));
  return TensorsOf(std::move(results));
}

int Jit::captures() const {
  absl::MutexLock lock(&mu_);
  return captures_;
}

}  // namespace tensord
