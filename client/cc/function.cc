#include "client/cc/function.h"

#include <algorithm>

#include "client/cc/signature.h"
#include "core/base/status.h"

namespace tensord {

absl::StatusOr<std::vector<Tensor>> TracedFunction::operator()(const std::vector<Tensor>& arguments,
                                                               int* trace) {
  TD_ASSIGN_OR_RETURN(const client::Signature signature,
                      client::Signature::Of(*session_, name_, arguments));
  Traced traced;
  {
    absl::MutexLock lock(&mu_);
    const auto found = std::find_if(traced_.begin(), traced_.end(), [&](const Traced& entry) {
      return entry.signature == signature.text;
    });
    if (found != traced_.end()) {
      traced_.splice(traced_.begin(), traced_, found);
      traced = *found;
    }
  }
  if (!traced.function) {
    TD_ASSIGN_OR_RETURN(traced.function,
                        session_->Define(name_, signature.states, options_.allow_implicit,
                                         [&](std::vector<client::StateRef> stand_ins)
                                             -> absl::StatusOr<std::vector<client::StateRef>> {
                                           TD_ASSIGN_OR_RETURN(
                                               std::vector<Tensor> results,
                                               function_(signature.Spread(stand_ins)));
                                           return client::StatesOf(results);
                                         }));
    traced.signature = signature.text;
    absl::MutexLock lock(&mu_);
    traced.number = ++traces_;
    traced_.push_front(traced);
    if (traced_.size() > Jit::kMaxPrograms) traced_.pop_back();
  }
  if (trace) *trace = traced.number;
  std::vector<Tensor> results =
      client::TensorsOf(session_->CallDefined(*traced.function, signature.states));
  for (const Tensor& result : results) TD_RETURN_IF_ERROR(result.status());
  return results;
}

int TracedFunction::traces() const {
  absl::MutexLock lock(&mu_);
  return traces_;
}

}  // namespace tensord
