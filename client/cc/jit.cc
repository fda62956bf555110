#include "client/cc/jit.h"

#include <optional>

#include "client/cc/signature.h"
#include "client/cc/trace.h"
#include "core/base/status.h"

namespace tensord {

absl::StatusOr<std::vector<Tensor>> Jit::operator()(const std::vector<Tensor>& arguments,
                                                    int* capture) {
  if (capture) *capture = 0;
  TD_ASSIGN_OR_RETURN(const client::Signature signature,
                      client::Signature::Of(*session_, name_, arguments));
  if (session_->IsTracing() || client::IsMapping()) return function_(arguments);

  std::vector<Captured> known;
  {
    absl::MutexLock lock(&mu_);
    for (const Captured& captured : programs_) {
      if (captured.signature == signature.text) known.push_back(captured);
    }
  }
  for (const Captured& captured : known) {
    TD_ASSIGN_OR_RETURN(std::optional<std::vector<client::StateRef>> results,
                        session_->Replay(captured.program, signature.states));
    if (!results) continue;
    if (capture) *capture = captured.number;
    absl::MutexLock lock(&mu_);
    Use(captured.number);
    return client::TensorsOf(*std::move(results));
  }
  Captured fresh{.signature = signature.text, .number = 0, .program = nullptr};
  TD_ASSIGN_OR_RETURN(fresh.program,
                      session_->Capture(name_, signature.states,
                                        [&](std::vector<client::StateRef> stand_ins)
                                            -> absl::StatusOr<std::vector<client::StateRef>> {
                                          TD_ASSIGN_OR_RETURN(
                                              std::vector<Tensor> results,
                                              function_(signature.Spread(stand_ins)));
                                          return client::StatesOf(results);
                                        }),
                      "{}", name_);
  {
    absl::MutexLock lock(&mu_);
    fresh.number = ++captures_;
    programs_.push_front(fresh);
    if (programs_.size() > kMaxPrograms) programs_.pop_back();
  }
  if (capture) *capture = fresh.number;
  TD_ASSIGN_OR_RETURN(std::optional<std::vector<client::StateRef>> results,
                      session_->Replay(fresh.program, signature.states));
  if (!results) {
    return FailedPrecondition(
        "{}: another thread changed a tensor that it uses while it was captured; call it again",
        name_);
  }
  return client::TensorsOf(*std::move(results));
}

void Jit::Use(int number) {
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    if (it->number == number) return programs_.splice(programs_.begin(), programs_, it);
  }
}

int Jit::captures() const {
  absl::MutexLock lock(&mu_);
  return captures_;
}

}  // namespace tensord
