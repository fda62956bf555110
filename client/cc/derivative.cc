// Session's derivatives. The result of a captured function has data and no expression. When a
// derivative goes through it, its expression is made anew from that of the function, over what the
// call read. So it is for values that were computed, and for what was written to memory in place.
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/status.h"
#include "core/ir/substitute.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
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

std::vector<Value*> Session::ValuesBelow(absl::Span<const ValueRef> values,
                                         bool only_differentiable) {
  std::vector<Value*> order;
  absl::flat_hash_map<Value*, bool> finished;
  std::vector<Value*> stack;
  for (const ValueRef& value : values) stack.push_back(value.get());
  while (!stack.empty()) {
    Value* value = stack.back();
    const auto [state, is_new] = finished.try_emplace(value, false);
    if (!is_new) {
      stack.pop_back();
      if (!std::exchange(state->second, true)) order.push_back(value);
      continue;
    }
    if (only_differentiable && !value->differentiable) continue;
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
  return order;
}

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
  const ValueRef root = loss.shared_from_this();
  // Values that have data and a history: by calls of captured functions, or because they were
  // expressions, or will have data. Those that they are made of come first.
  std::vector<Value*> past;
  for (Value* value : ValuesBelow({&root, 1})) {
    if (value->leaf) unfolded.reads.push_back(value->shared_from_this());
    const bool was_expression =
        value->leaf && value->differentiable && (value->init || value->origin);
    if (value->call || was_expression) past.push_back(value);
  }
  for (Value* value : past) {
    if (!value->call) {
      const Node* history = value->init ? value->init : value->origin;
      unfolded.map[NodeOf(*value)] = {graph_.Cast(unfolded.Of(graph_, history), value->dtype)};
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
         std::any_of(call.below.begin(), call.below.end(), is_it) ||
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

absl::StatusOr<std::vector<Session::GradientTarget>> Session::GradientTargets(
    const StateRef& loss) {
  absl::MutexLock lock(&mu_);
  if (const Trace* trace = CurrentTrace(*this); trace && trace->pure) {
    return FailedPrecondition(
        "backward: a function that is traced once has no effects, so it leaves no gradients; "
        "return "
        "what gradient() gives");
  }
  const std::vector<Value*> order = ValuesBelow({&loss->value, 1}, true);
  const absl::flat_hash_set<const Value*> below(order.begin(), order.end());
  std::vector<GradientTarget> targets;
  for (const auto& weak : with_gradient_) {
    StateRef state = weak.lock();
    if (!state || !(state->requires_grad || state->retains_grad)) continue;
    for (const Value* value : order) {
      if (value->call && !value->call->body && HasRead(*value->call, state)) {
        return NoWayThrough(*value->call);
      }
    }
    const bool is_new =
        std::none_of(targets.begin(), targets.end(),
                     [&state](const GradientTarget& target) { return target.state == state; });
    if (is_new && below.contains(state->value.get())) targets.push_back({state, state});
  }
  // Of one that was assigned to since, the version from before; and those that are gone.
  for (Value* value : order) {
    if (!value->target || value->differentiable) continue;
    const bool is_known = std::any_of(
        targets.begin(), targets.end(),
        [value](const GradientTarget& target) { return target.at->value.get() == value; });
    const StateRef owner = value->owner.lock();
    if (is_known || (owner && !owner->requires_grad)) continue;
    targets.push_back(
        {owner, Alias(value->shared_from_this(), owner ? owner->dtype : value->dtype)});
  }
  return targets;
}

std::vector<StateRef> Session::Gradients(const StateRef& loss, absl::Span<const StateRef> targets,
                                         const StateRef& seed,
                                         absl::Span<const std::pair<StateRef, StateRef>> given) {
  std::vector<StateRef> operands = {loss};
  operands.insert(operands.end(), targets.begin(), targets.end());
  for (const auto& [at, gradient] : given) operands.insert(operands.end(), {at, gradient});
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
  return ApplyLocked(
      operands, targets.size(),
      [&](Graph& graph, absl::Span<const Expr> sources) {
        std::vector<Expr> whole;
        for (const Expr& source : sources.first(1 + targets.size())) {
          whole.emplace_back(&graph, unfolded.Of(graph, source.node()));
        }
        std::vector<std::pair<Expr, Expr>> said;
        for (size_t i = 0; i < given.size(); ++i) {
          const size_t at = 1 + targets.size() + 2 * i;
          said.emplace_back(Expr(&graph, unfolded.Of(graph, sources[at].node())), sources[at + 1]);
        }
        std::optional<Expr> seed_expr;
        if (seed) seed_expr = sources.back();
        return tensord::Gradient(whole[0], absl::MakeSpan(whole).subspan(1), seed_expr, said);
      },
      {&kept, 1});
}

namespace {

// Equal expressions are one node, which has the derivatives by all of them. Whoever asks for that
// by this tensor gets a node that is no other's, if nothing is made of the tensor yet.
void SetApart(Session& session, const StateRef& state) {
  const bool is_free = !state->view && !session.IsRealized(state) && !session.IsLeaf(state);
  if (!is_free || !GradEnabled() || state->value.use_count() > 1) return;
  const StateRef apart = session.Independent(state);
  // Shapes and dtypes are the same, so it can't fail but for what failed before.
  if (apart->error.ok()) (void)session.Rebind(state, apart);
}

}  // namespace

std::vector<StateRef> Session::ValuesOnTheWay(const StateRef& loss, bool with_hooks) {
  absl::MutexLock lock(&mu_);
  std::vector<StateRef> states;
  const std::vector<Value*> order = ValuesBelow({&loss->value, 1}, true);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!IsFloat((*it)->dtype) || !((*it)->differentiable || (*it)->target)) continue;
    if (with_hooks && !(*it)->hooks) continue;
    states.push_back(Alias((*it)->shared_from_this(), (*it)->dtype));
  }
  return states;
}

std::shared_ptr<void> Session::Hooks(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  return state->value->hooks;
}

void Session::SetHooks(const StateRef& state, std::shared_ptr<void> hooks) {
  SetApart(*this, state);
  absl::MutexLock lock(&mu_);
  has_hooks_.store(true, std::memory_order_relaxed);
  state->value->hooks.swap(hooks);  // the old ones end when the lock is gone
}

std::string Session::MadeAt(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  return state->value->made_at;
}

std::string Session::OpName(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  const Value& value = *state->value;
  if (value.call) return value.call->name;
  const Node* node = value.leaf ? (value.init ? value.init : value.origin) : value.node;
  return node ? std::string(Name(node->op)) : "";
}

// ---- requires_grad

absl::Status Session::SetRequiresGrad(const StateRef& state, bool requires_grad) {
  absl::MutexLock lock(&mu_);
  Value& value = *state->value;
  if (!requires_grad) {
    if (value.differentiable) {
      return FailedPrecondition(
          "requires_grad: this tensor is made of one that requires a gradient, so it does too; "
          "detach() gives one that does not");
    }
    value.target = false;
    state->requires_grad = false;
    return absl::OkStatus();
  }
  if (state->requires_grad || value.differentiable || value.target) return absl::OkStatus();
  if (IsMapping() && !value.leaf) {
    return FailedPrecondition(
        "requires_grad: not of what a function makes that is mapped over a batch; take derivatives "
        "by func.grad inside of it");
  }
  // What was made of it before is made of a version that requires none.
  if (state->view || !value.leaf || state->value.use_count() > 1) {
    MakeLeafLocked(state, History::kEnds);
  }
  state->value->target = true;
  state->value->owner = state;
  std::erase_if(with_gradient_, [](const auto& weak) { return weak.expired(); });
  with_gradient_.push_back(state);
  state->requires_grad = true;
  return absl::OkStatus();
}

bool Session::RequiresGrad(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  return state->requires_grad || state->value->differentiable || state->value->target;
}

bool Session::IsLeaf(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  return !state->value->differentiable;
}

absl::Status Session::RetainGrad(const StateRef& state) {
  if (RequiresGrad(state)) SetApart(*this, state);
  absl::MutexLock lock(&mu_);
  if (state->requires_grad) return absl::OkStatus();  // it has one anyway
  if (!state->value->differentiable && !state->value->target) {
    return FailedPrecondition("retain_grad: this tensor does not require a gradient");
  }
  if (!state->retains_grad) with_gradient_.push_back(state);
  state->retains_grad = true;
  return absl::OkStatus();
}

absl::Status Session::CheckInPlace(const TensorState& target, const TensorState& source) {
  if (!GradEnabled()) return absl::OkStatus();
  if (target.requires_grad) {
    return FailedPrecondition(
        "in place: the tensor is a leaf that requires a gradient; change it in `with no_grad()`, "
        "or by assign(), which replaces its data");
  }
  if (!target.view) return absl::OkStatus();
  const Detached* detached = target.view->detached.get();
  const TensorState& base = *target.view->base;
  if (base.requires_grad && !detached) {
    return FailedPrecondition(
        "in place: the tensor is a view of a leaf that requires a gradient; change it in `with "
        "no_grad()`");
  }
  const auto wants = [](const TensorState& state) {
    return state.requires_grad || state.value->differentiable || state.value->target;
  };
  if (detached && detached->by_no_grad && (wants(base) || wants(source))) {
    return FailedPrecondition(
        "in place: the tensor is a view that was made without gradients, so it is not clear where "
        "derivatives go; write to it in `with no_grad()`, or make the view outside of that");
  }
  return absl::OkStatus();
}

// What an assignment without gradients leaves: the derivative by `before` passes unchanged, and
// that of what is assigned ends.
Session::ValueRef Session::WithoutGrad(const ValueRef& before, ValueRef after) {
  if (GradEnabled() || !IsFloat(before->dtype)) return after;
  if (after->differentiable || after->target) {
    const Expr value(&graph_, graph_.Cast(NodeOf(*after), after->dtype));
    const ValueRef parents[] = {std::move(after)};
    after = NewExpression(Detach(value), parents);
  }
  if (!before->differentiable) return after;
  const Expr value(&graph_, graph_.Cast(NodeOf(*after), after->dtype));
  const Expr passing = WithHistory(value, Expr(&graph_, NodeOf(*before)));
  if (!passing.ok()) return after;  // both have one dtype and shape, so it is
  const ValueRef parents[] = {before, std::move(after)};
  return NewExpression(passing, parents);
}

}  // namespace tensord::client
