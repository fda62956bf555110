#include "client/cc/kernel.h"

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/elementwise.h"

namespace tensord {
namespace {

std::vector<UserKernelBody::Operand> Describe(const std::vector<Tensor>& inputs,
                                              const std::vector<std::string>& names) {
  std::vector<UserKernelBody::Operand> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name = i < names.size() ? names[i] : fmt::format("input{}", i);
    if (!inputs[i].ok()) {
      operands.push_back({DType::kFloat32, {}, std::move(name)});
      continue;
    }
    operands.push_back({inputs[i].stored_dtype(), inputs[i].shape(), std::move(name)});
  }
  return operands;
}

}  // namespace

KernelCall::KernelCall(std::shared_ptr<client::Session> session, std::string name,
                       std::vector<Operand> outputs, std::vector<Tensor> inputs,
                       std::vector<std::string> input_names)
    : session_(std::move(session)),
      body_(std::move(name), std::move(outputs), Describe(inputs, input_names)),
      inputs_(std::move(inputs)) {}

Tensor KernelCall::Apply(const std::vector<Tensor>& operands,
                         const client::Session::Expression& make) {
  std::vector<client::StateRef> states;
  for (const Tensor& operand : operands) states.push_back(operand.state());
  return Tensor(session_->Apply(states, make));
}

Tensor KernelCall::Range(int64_t size) {
  return Apply({}, [&](Graph& graph, absl::Span<const Expr>) { return body_.Range(graph, size); });
}

Tensor KernelCall::ReduceRange(int64_t size) {
  return Apply(
      {}, [&](Graph& graph, absl::Span<const Expr>) { return body_.ReduceRange(graph, size); });
}

Tensor KernelCall::Load(size_t input, const std::vector<Tensor>& index,
                        const std::optional<Tensor>& gate) {
  TD_CHECK(input < inputs_.size(), "a kernel reads an input that it does not have");
  std::vector<Tensor> operands = index;
  if (gate) operands.push_back(*gate);
  return Apply(operands, [&](Graph& graph, absl::Span<const Expr> sources) {
    std::optional<Expr> open;
    if (gate) open = sources.back();
    return body_.Load(graph, input, sources.first(index.size()), open);
  });
}

Tensor KernelCall::Reduce(ReduceKind kind, const Tensor& value, const std::vector<Tensor>& ranges) {
  std::vector<Tensor> operands = {value};
  operands.insert(operands.end(), ranges.begin(), ranges.end());
  return Apply(operands, [&](Graph& graph, absl::Span<const Expr> sources) {
    return body_.Reduce(graph, kind, sources[0], sources.subspan(1));
  });
}

absl::Status KernelCall::Store(size_t output, const std::vector<Tensor>& index,
                               const Tensor& value) {
  TD_CHECK(output < body_.outputs().size(), "a kernel stores an output that it does not have");
  std::vector<Tensor> operands = {value};
  operands.insert(operands.end(), index.begin(), index.end());
  const Tensor store = Apply(operands, [&](Graph& graph, absl::Span<const Expr> sources) {
    return body_.Store(graph, output, sources.subspan(1), sources[0]);
  });
  if (!store.ok() && error_.ok()) error_ = store.status();
  if (store.ok()) stores_.push_back(store);
  return store.status();
}

std::vector<Tensor> KernelCall::Finish() {
  std::vector<client::StateRef> states;
  for (const Tensor& input : inputs_) states.push_back(input.state());
  for (const Tensor& store : stores_) states.push_back(store.state());
  std::vector<Tensor> results;
  for (client::StateRef& state : session_->ApplyMany(
           states, body_.outputs().size(), [&](Graph&graph, absl::Span<const Expr> sources) {
             if (!error_.ok()) {
               return std::vector<Expr>(body_.outputs().size(), Expr(&graph, error_));
             }
             return body_.Call(graph, sources.first(inputs_.size()),
                               sources.subspan(inputs_.size()));
           })) {
    results.emplace_back(std::move(state));
  }
  return results;
}

std::vector<Tensor> CallKernel(const std::string& name, const std::vector<KernelOutput>& outputs,
                               const std::vector<Tensor>& inputs,
                               const std::function<void(KernelCall& kernel)>& function) {
  TD_CHECK(!inputs.empty(), "a kernel needs an input");
  std::vector<KernelCall::Operand> operands;
  for (const KernelOutput& output : outputs) {
    operands.push_back({output.dtype, output.shape, fmt::format("output{}", operands.size())});
  }
  KernelCall call(inputs[0].state()->session, name, std::move(operands), inputs);
  if (!call.IsEmpty()) function(call);
  return call.Finish();
}

}  // namespace tensord
