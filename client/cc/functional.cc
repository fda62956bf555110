#include "client/cc/functional.h"

#include <limits>

#include "client/cc/call.h"
#include "client/cc/ops.h"
#include "core/base/status.h"
#include "core/tensor/create.h"

namespace tensord {
namespace {

using TensorsOrError = absl::StatusOr<std::vector<Tensor>>;

Tensor ZerosBeside(const Tensor& like, Shape shape, DType dtype) {
  return Tensor(like.session().Apply(
      {}, [&](Graph& graph, absl::Span<const Expr>) { return Zeros(graph, shape, dtype); }));
}

std::vector<Tensor> Joined(absl::Span<const Tensor> first, absl::Span<const Tensor> second) {
  std::vector<Tensor> all(first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

absl::Status CheckCount(std::string_view name, int64_t count) {
  if (count >= 0 && count <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return InvalidArgument("{}: {} iterations, must be within [0, 2^31)", name, count);
}

}  // namespace

TensorsOrError WhileLoop(absl::Span<const Tensor> initial, const tensors::LoopCondition& condition,
                         const tensors::LoopBody& body, int64_t most) {
  TD_ASSIGN_OR_RETURN(const std::vector<Tensor> states, BeginLoop(initial));
  return EndLoop(states, condition(states), body(states), most);
}

TensorsOrError ForLoop(int64_t count, absl::Span<const Tensor> initial,
                       const tensors::CountedBody& body) {
  TD_RETURN_IF_ERROR(CheckCount("loop", count));
  TD_ASSIGN_OR_RETURN(tensors::Scanned result,
                      ScanLoop(count, initial, {},
                               [&body](const Tensor& i, absl::Span<const Tensor> states,
                                       absl::Span<const Tensor>) -> tensors::ScanStep {
                                 return {.next = body(i, states), .out = {}};
                               }));
  return std::move(result.states);
}

// As in core/tensor/loop.cc, where functions are of Expr and called while the graph is locked.
absl::StatusOr<tensors::Scanned> ScanLoop(int64_t count, absl::Span<const Tensor> initial,
                                          absl::Span<const Tensor> xs,
                                          const tensors::ScanBody& body, bool reverse) {
  if (initial.empty() && xs.empty()) return tensors::Scanned{};
  const Tensor& any = initial.empty() ? xs[0] : initial[0];
  TD_RETURN_IF_ERROR(CheckCount("scan", count));
  const Tensor zero = ZerosBeside(any, {}, DType::kInt32);
  TD_ASSIGN_OR_RETURN(std::vector<Tensor> stand_ins, BeginLoop(Joined({zero}, initial)));
  const Tensor number = stand_ins[0];
  const Tensor i = reverse ? count - 1 - number : number;
  std::vector<Tensor> rows;
  for (const Tensor& x : xs) {
    if (x.ok() && (x.rank() == 0 || x.shape()[0] != count)) {
      return InvalidArgument("scan: {} iterations over a tensor of shape {}", count,
                             client::TextOf(x.shape()));
    }
    rows.push_back(Row(x, i));
    TD_RETURN_IF_ERROR(rows.back().status());
  }
  const tensors::ScanStep step = body(i, absl::MakeSpan(stand_ins).subspan(1), rows);
  std::vector<Tensor> stacks;
  for (const Tensor& out : step.out) {
    TD_RETURN_IF_ERROR(out.status());
    std::vector<int64_t> shape = {count};
    shape.insert(shape.end(), out.shape().begin(), out.shape().end());
    stacks.push_back(ZerosBeside(any, shape, out.dtype()));
  }
  std::vector<Tensor> stacking;
  if (!stacks.empty()) {
    TD_ASSIGN_OR_RETURN(stacking, AddStates(stand_ins, stacks));
  }
  std::vector<Tensor> next = Joined({number + 1}, step.next);
  for (size_t k = 0; k < stacking.size(); ++k) {
    next.push_back(WithRow(stacking[k], i, step.out[k]));
  }
  TD_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                      EndLoop(Joined(stand_ins, stacking), number < count, next, count));
  const auto middle = results.begin() + 1 + static_cast<int64_t>(initial.size());
  return tensors::Scanned{.states = {results.begin() + 1, middle},
                          .stacked = {middle, results.end()}};
}

Tensor WithGradient(const Tensor& value, absl::Span<const Tensor> inputs,
                    const tensors::GradientRule& rule) {
  const Tensor stand_in = StandIn(value);
  if (!stand_in.ok()) return stand_in;
  return WithGradient(value, inputs, stand_in, rule(stand_in));
}

Tensor WithGradient(const Tensor& value, absl::Span<const Tensor> inputs, const Tensor& stand_in,
                    absl::Span<const Tensor> gradients) {
  client::Call call("WithGradient", client::Call::kCopy);
  Add(call, value);
  Add(call, inputs);
  Add(call, stand_in);
  Add(call, gradients);
  return call.One(
      [&] { return WithGradient(call(value), call(inputs), call(stand_in), call(gradients)); });
}

TensorsOrError WithGradients(absl::Span<const Tensor> values, absl::Span<const Tensor> inputs,
                             const tensors::GradientsRule& rule) {
  if (values.empty()) return std::vector<Tensor>{};
  for (const Tensor& value : values) TD_RETURN_IF_ERROR(value.status());
  if (values.size() == 1) {
    return std::vector<Tensor>{WithGradient(values[0], inputs, [&rule](const Tensor& g) {
      return rule({&g, 1});
    })};
  }
  // All in a row are one value.
  std::vector<Tensor> flat;
  for (const Tensor& value : values) flat.push_back(Reshape(value, {-1}));
  const auto apart = [&values](const Tensor& row) {
    std::vector<Tensor> parts;
    int64_t begin = 0;
    for (const Tensor& value : values) {
      const int64_t end = begin + value.num_elements();
      parts.push_back(Cast(Reshape(Shrink(row, 0, begin, end), value.shape()), value.dtype()));
      begin = end;
    }
    return parts;
  };
  std::vector<Tensor> results =
      apart(WithGradient(Cat(flat, 0), inputs, [&](const Tensor& g) { return rule(apart(g)); }));
  for (const Tensor& result : results) TD_RETURN_IF_ERROR(result.status());
  return results;
}

}  // namespace tensord
