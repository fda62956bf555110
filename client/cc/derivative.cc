// Session's derivatives. The result of a captured function has data and no expression. When a
// derivative goes through it, its expression is made anew from that of the function, over what the
// call read.
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/status.h"
#include "core/ir/substitute.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/gradient.h"

namespace tensord::client {
namespace {

// What derivatives of `root` can reach.
absl::flat_hash_set<const Node*> Reached(const Node* root) {
  absl::flat_hash_set<const Node*> reached = {root};
  std::vector<const Node*> stack = {root};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (node->op == Op::kDetach) continue;
    for (const Node* source : node->src) {
      if (reached.insert(source).second) stack.push_back(source);
    }
  }
  return reached;
}

}  // namespace

// A value whose captured functions are written out.
struct Session::Unfolded {
  const Node* loss;
  ReplacementMap map;           // results of captured functions to what they are
  std::vector<Value*> closed;   // those that cannot be written out
  std::vector<ValueRef> reads;  // data, and tensors that will have some

  const Node* Of(Graph& graph, const Node* node) const {
    return map.empty() ? node : Substitute(graph, {&node, 1}, map)[0];
  }
};

Session::Unfolded Session::Unfold(Value& loss, absl::Span<const StateRef> targets) {
  Unfolded unfolded{.loss = nullptr, .map = {}, .closed = {}, .reads = {}};
  // Values that have data and a history: by calls of captured functions, or because they were
  // expressions. Those that they are made of first.
  std::vector<Value*> past;
  const auto has_past = [](const Value& value) {
    return value.call || (value.leaf && value.origin && !value.parents.empty());
  };
  absl::flat_hash_map<Value*, bool> finished;
  std::vector<Value*> stack = {&loss};
  while (!stack.empty()) {
    Value* value = stack.back();
    const auto [state, is_new] = finished.try_emplace(value, false);
    if (!is_new) {
      stack.pop_back();
      if (!std::exchange(state->second, true) && has_past(*value)) past.push_back(value);
      continue;
    }
    if (value->leaf) unfolded.reads.push_back(value->shared_from_this());
    const auto visit = [&](const ValueRef& below) {
      if (below && !finished.contains(below.get())) stack.push_back(below.get());
    };
    for (const ValueRef& parent : value->parents) visit(parent);
    if (!value->call) continue;
    for (const CapturedCall::Input& input : value->call->inputs) {
      visit(input.value);
      for (const ValueRef& parent : input.parents) visit(parent);
    }
  }
  for (Value* value : past) {
    if (!value->call) {
      unfolded.map[NodeOf(*value)] = {
          graph_.Cast(unfolded.Of(graph_, value->origin), value->dtype)};
      continue;
    }
    const CapturedCall& call = *value->call;
    if (!call.body) {
      unfolded.closed.push_back(value);
      continue;
    }
    ReplacementMap arguments;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const CapturedCall::Input& input = call.inputs[i];
      const bool is_target = std::any_of(targets.begin(), targets.end(), [&](const StateRef& each) {
        return each->value == input.value;
      });
      const Node* node = input.was_expression && input.value->origin && !is_target
                             ? input.value->origin
                             : NodeOf(*input.value);
      node = graph_.Cast(unfolded.Of(graph_, node), input.value->dtype);
      const Value& parameter = *call.body->parameters[i];
      for (const Node* stands_for : {parameter.node, parameter.origin}) {
        if (stands_for) arguments[stands_for] = {node};
      }
    }
    const Node* result = call.body->results[value->result]->node;
    unfolded.map[NodeOf(*value)] = {
        graph_.Cast(Substitute(graph_, {&result, 1}, arguments)[0], value->dtype)};
  }
  unfolded.loss = unfolded.Of(graph_, NodeOf(loss));
  return unfolded;
}

namespace {

bool HasRead(const CapturedCall& call, const StateRef& state) {
  const auto is_it = [&state](const auto& weak) { return weak.lock() == state; };
  return std::any_of(call.arguments.begin(), call.arguments.end(), is_it) ||
         std::any_of(call.reads->begin(), call.reads->end(), is_it);
}

absl::Status NoWayThrough(const CapturedCall& call) {
  return FailedPrecondition(
      "a gradient would have to go through a result of the captured function {0}; that works if "
      "{0} "
      "assigns nothing, draws no random numbers and is called with gradients enabled and a tensor "
      "with requires_grad; else compute the gradient inside of {0}, or detach its result",
      call.name);
}

}  // namespace

absl::StatusOr<std::vector<StateRef>> Session::GradientTargets(const StateRef& loss) {
  absl::MutexLock lock(&mu_);
  if (const Trace* trace = CurrentTrace(*this); trace && trace->pure) {
    return FailedPrecondition(
        "backward: a function that is traced once has no effects, so it leaves no gradients; "
        "return "
        "what gradient() gives");
  }
  const Unfolded unfolded = Unfold(*loss->value, {});
  const absl::flat_hash_set<const Node*> reached = Reached(unfolded.loss);
  absl::flat_hash_set<const Node*> below;
  for (const Node* root : {NodeOf(*loss->value), unfolded.loss}) {
    for (const Node* node : TopologicalOrder({&root, 1})) below.insert(node);
  }
  std::vector<StateRef> targets;
  for (const auto& weak : with_gradient_) {
    StateRef state = weak.lock();
    if (!state || !state->requires_grad) continue;
    for (Value* value : unfolded.closed) {
      if (reached.contains(NodeOf(*value)) && HasRead(*value->call, state)) {
        return NoWayThrough(*value->call);
      }
    }
    if (state->value->node && below.contains(state->value->node) &&
        std::find(targets.begin(), targets.end(), state) == targets.end()) {
      targets.push_back(std::move(state));
    }
  }
  return targets;
}

std::vector<StateRef> Session::Gradients(const StateRef& loss, absl::Span<const StateRef> targets,
                                         const StateRef& seed) {
  std::vector<StateRef> operands = {loss};
  operands.insert(operands.end(), targets.begin(), targets.end());
  if (seed) operands.push_back(seed);

  absl::MutexLock lock(&mu_);
  const auto failed = [&](absl::Status error) {
    return std::vector<StateRef>(targets.size(), Failed(std::move(error)));
  };
  if (graph_.size() > compact_at_) CompactGraph();  // not once there is a map of nodes
  for (const StateRef& operand : operands) {
    if (absl::StatusOr<ValueRef> value = Use(operand); !value.ok()) return failed(value.status());
  }
  const Unfolded unfolded = Unfold(*loss->value, targets);
  if (!unfolded.closed.empty()) {
    const absl::flat_hash_set<const Node*> reached = Reached(unfolded.loss);
    for (Value* value : unfolded.closed) {
      if (!reached.contains(NodeOf(*value))) continue;
      for (const StateRef& target : targets) {
        if (HasRead(*value->call, target)) return failed(NoWayThrough(*value->call));
      }
    }
  }
  // Nobody computes this one. So it keeps what the gradients read, whatever becomes of the loss.
  const ValueRef kept = NewExpression(Expr(&graph_, unfolded.loss), unfolded.reads);
  const std::vector<StateRef> gradients =
      ApplyLocked(operands, targets.size(),
                  [&](Graph& graph, absl::Span<const Expr> sources) {
                    std::vector<Expr> whole;
                    for (const Expr& source : sources.first(1 + targets.size())) {
                      whole.emplace_back(&graph, unfolded.Of(graph, source.node()));
                    }
                    std::optional<Expr> seed_expr;
                    if (seed) seed_expr = sources.back();
                    return tensord::Gradient(whole[0], absl::MakeSpan(whole).subspan(1), seed_expr);
                  },
                  {&kept, 1});
  // One that is computed lets go of what it was made of: a parameter's would keep all of a step.
  for (const StateRef& gradient : gradients) {
    const bool is_new = gradient->value && gradient->value->owner.lock() == gradient;
    if (is_new) gradient->value->differentiable = false;
  }
  return gradients;
}

}  // namespace tensord::client
