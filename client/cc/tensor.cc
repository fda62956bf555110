#include "client/cc/tensor.h"

#include "core/base/status.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/placement.h"
#include "core/tensor/size.h"

namespace tensord {

DType Tensor::dtype() const { return state_->dtype; }
DType Tensor::stored_dtype() const { return state_->stored_dtype; }
const std::vector<int64_t>& Tensor::shape() const { return state_->shape; }
int64_t Tensor::num_elements() const { return *SizeProduct(shape()); }

absl::StatusOr<std::vector<int64_t>> Tensor::ActualShape() const {
  if (!ok() || !AnyVaries(shape())) return shape();
  TD_RETURN_IF_ERROR(Realize());
  return state_->session->ActualShape(state_);
}

std::vector<std::string> Tensor::devices() const {
  std::vector<std::string> names;
  for (int64_t device : session().PlacementOf(state_).devices) {
    names.push_back(session().DeviceName(device));
  }
  return names;
}

std::optional<int64_t> Tensor::shard_axis() const {
  const int64_t axis = session().PlacementOf(state_).axis;
  return axis == kWhole ? std::nullopt : std::optional(axis);
}

std::string Tensor::PlaceText() const {
  const Placement place = session().PlacementOf(state_);
  std::string text = session().DevicesText(place.devices);
  if (place.axis != kWhole) text += fmt::format(" along axis {}", place.axis);
  return text;
}

Tensor Tensor::To(const std::string& device) const { return Shard({&device, 1}, std::nullopt); }

namespace {

absl::StatusOr<Placement> PlacementFor(const Tensor& x, absl::Span<const std::string> devices,
                                       std::optional<int64_t> axis) {
  TD_RETURN_IF_ERROR(x.status());
  if (axis && (*axis < -x.rank() || *axis >= x.rank())) {
    return MakeStatus(absl::StatusCode::kOutOfRange, "shard: axis {} of a tensor of {} axes", *axis,
                      x.rank());
  }
  if (axis && *axis < 0) *axis += x.rank();
  return x.session().FindPlacement(devices, axis.value_or(kWhole));
}

}  // namespace

Tensor Tensor::Shard(absl::Span<const std::string> devices, std::optional<int64_t> axis) const {
  const absl::StatusOr<Placement> to = PlacementFor(*this, devices, axis);
  if (!to.ok()) return Tensor(session().Failed(to.status()));
  return Tensor(session().Placed(state_, *to));
}

absl::Status Tensor::MoveTo(absl::Span<const std::string> devices,
                            std::optional<int64_t> axis) const {
  TD_ASSIGN_OR_RETURN(const Placement to, PlacementFor(*this, devices, axis));
  return session().MoveTo(state_, to);
}

absl::Status Tensor::CopyTo(absl::Span<char> out) const {
  TD_RETURN_IF_ERROR(status());
  return state_->session->Download(state_, out);
}

absl::Status Tensor::CopyTo(const client::Sink& sink) const {
  TD_RETURN_IF_ERROR(status());
  if (AnyVaries(shape())) {
    return InvalidArgument("copy: {} varies; read the whole of it, or take a slice of one size",
                           client::TextOf(shape()));
  }
  return state_->session->Download(state_, sink);
}

absl::Status Tensor::SetRequiresGrad(bool requires_grad) const {
  TD_RETURN_IF_ERROR(status());
  if (requires_grad) {
    if (IsWeak(dtype())) {
      return InvalidArgument("requires_grad: a {} has no storage; cast it first", Name(dtype()));
    }
    if (!IsFloat(dtype())) {
      return InvalidArgument("requires_grad: only float tensors have gradients, this is {}",
                             Name(dtype()));
    }
  }
  return session().SetRequiresGrad(state_, requires_grad);
}

absl::Status Tensor::RetainGrad() const {
  TD_RETURN_IF_ERROR(status());
  return session().RetainGrad(state_);
}

std::optional<Tensor> Tensor::grad() const {
  client::StateRef gradient = session().Gradient(state_);
  if (!gradient) return std::nullopt;
  return Tensor(std::move(gradient));
}

void Tensor::SetGrad(std::optional<Tensor> gradient) const {
  session().SetGradient(state_, gradient ? gradient->state() : nullptr);
}

absl::Status Tensor::Backward(std::optional<Tensor> seed, std::optional<std::vector<Tensor>> only,
                              bool create_graph) const {
  TD_RETURN_IF_ERROR(status());
  std::vector<Tensor> targets, versions;
  if (only) {
    targets = versions = *std::move(only);
  } else {
    TD_ASSIGN_OR_RETURN(std::vector<client::Session::GradientTarget> found,
                        session().GradientTargets(state_));
    for (client::Session::GradientTarget& target : found) {
      if (!target.state) continue;
      targets.emplace_back(std::move(target.state));
      versions.emplace_back(std::move(target.at));
    }
  }
  if (targets.empty() && (only || !requires_grad())) {
    return FailedPrecondition(
        "backward: the tensor does not require a gradient: it is made of no tensor with "
        "requires_grad, or only of detached ones");
  }
  TD_ASSIGN_OR_RETURN(std::vector<Tensor> gradients, Gradient(versions, std::move(seed)));
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!create_graph) {
      gradients[i] = Lift([](const Expr& x) { return Detach(x); }, gradients[i]);
    }
    std::optional<Tensor> before = targets[i].grad();
    targets[i].SetGrad(
        before ? Lift([](const Expr& a, const Expr& b) { return Add(a, b); }, *before, gradients[i])
               : gradients[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Tensor::Gradient(absl::Span<const Tensor> targets,
                                                     std::optional<Tensor> seed) const {
  std::vector<client::StateRef> states;
  for (const Tensor& target : targets) states.push_back(target.state());
  const std::vector<client::StateRef> gradients =
      session().Gradients(state_, states, seed ? seed->state() : nullptr);
  std::vector<Tensor> tensors;
  for (const client::StateRef& gradient : gradients) {
    TD_RETURN_IF_ERROR(gradient->error);
    tensors.emplace_back(gradient);
  }
  return tensors;
}

std::string Tensor::ToString() const {
  if (!ok()) return fmt::format("Tensor({})", Message(status()));
  return fmt::format("Tensor(shape={}, dtype={}, device={}, {})", client::TextOf(shape()),
                     Name(dtype()), PlaceText(), is_realized() ? "realized" : "lazy");
}

std::vector<Tensor> Checkpoint(absl::Span<const Tensor> results,
                               absl::Span<const Tensor> arguments) {
  if (results.empty()) return {};
  std::vector<client::StateRef> operands;
  for (const Tensor& result : results) operands.push_back(result.state());
  for (const Tensor& argument : arguments) operands.push_back(argument.state());
  std::vector<Tensor> tensors;
  for (client::StateRef& state : results[0].session().ApplyMany(
           operands, results.size(),
           [&](Graph&, absl::Span<const Expr> sources) {
             return Checkpoint(sources.first(results.size()), sources.subspan(results.size()));
           },
           client::Session::Reads::kInside)) {
    tensors.emplace_back(std::move(state));
  }
  return tensors;
}

absl::Status Realize(absl::Span<const Tensor> tensors) {
  if (tensors.empty()) return absl::OkStatus();
  std::vector<client::StateRef> states;
  for (const Tensor& tensor : tensors) {
    TD_RETURN_IF_ERROR(tensor.status());
    states.push_back(tensor.state());
  }
  return tensors[0].session().Realize(states);
}

}  // namespace tensord
