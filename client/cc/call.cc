#include "client/cc/call.h"

#include <algorithm>
#include <memory>

#include "core/base/check.h"
#include "core/base/status.h"

namespace tensord::client {
namespace {

// The error of a call without operands, which tell the session of others.
StateRef FailedWithoutSession(absl::Status error) {
  static const auto& none =
      *new std::shared_ptr<Session>(std::make_shared<Session>(nullptr, ConnectOptions{}));
  return none->Failed(std::move(error));
}

}  // namespace

void Call::AddOperand(const Tensor& tensor) {
  if (std::find(operands_.begin(), operands_.end(), tensor.state()) == operands_.end()) {
    operands_.push_back(tensor.state());
  }
}

Expr Call::operator()(const Tensor& tensor) const {
  const auto found = std::find(operands_.begin(), operands_.end(), tensor.state());
  TD_CHECK(found != operands_.end() && exprs_.size() == operands_.size(),
           "an operand, while its function is called");
  return exprs_[static_cast<size_t>(found - operands_.begin())];
}

std::vector<StateRef> Call::Apply(size_t count,
                                  absl::FunctionRef<absl::StatusOr<std::vector<Expr>>()> function) {
  if (operands_.empty()) {
    return std::vector<StateRef>(
        count, FailedWithoutSession(InvalidArgument("{}: there are no tensors", name_)));
  }
  Session& session = *operands_[0]->session;
  const auto expressions = [&](Graph& graph, absl::Span<const Expr> sources) {
    exprs_ = sources;
    absl::StatusOr<std::vector<Expr>> made = function();
    exprs_ = {};
    return made.ok() ? *std::move(made) : std::vector<Expr>(count, Expr(&graph, made.status()));
  };
  if (kind_ == kView && operands_.size() == 1) {
    return session.Views(operands_[0], count, expressions);
  }
  return session.ApplyMany(operands_, count, expressions);
}

Tensor Call::One(absl::FunctionRef<Expr()> function) {
  return Tensor(Apply(
      1, [&]() -> absl::StatusOr<std::vector<Expr>> { return std::vector<Expr>{function()}; })[0]);
}

std::vector<Tensor> Call::Many(size_t count, absl::FunctionRef<std::vector<Expr>()> function) {
  std::vector<Tensor> tensors;
  for (StateRef& state :
       Apply(count, [&]() -> absl::StatusOr<std::vector<Expr>> { return function(); })) {
    tensors.emplace_back(std::move(state));
  }
  return tensors;
}

absl::StatusOr<std::vector<Tensor>> Call::Any(
    absl::FunctionRef<absl::StatusOr<std::vector<Expr>>()> function) {
  std::vector<Tensor> tensors;
  for (StateRef& state : Apply(1, function)) {
    TD_RETURN_IF_ERROR(state->error);
    tensors.emplace_back(std::move(state));
  }
  return tensors;
}

}  // namespace tensord::client
