// Session's way of capturing a function as one program and running it again.
#include <absl/algorithm/container.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>

#include "client/cc/plan.h"
#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/gradient.h"

namespace tensord::client {
namespace {

thread_local Trace* current_trace = nullptr;

// Whether a derivative of the node goes on to an input.
bool FlowsToParam(const Node* root) {
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> stack = {root};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (node->op == Op::kParam) return true;
    for (const Node* source : DerivativesGoTo(node)) {
      if (seen.insert(source).second) stack.push_back(source);
    }
  }
  return false;
}

}  // namespace

Trace* CurrentTrace(const Session& session) {
  return current_trace && current_trace->session == &session ? current_trace : nullptr;
}

TraceScope::TraceScope(Trace* trace) : outer_(current_trace) { current_trace = trace; }
TraceScope::~TraceScope() { current_trace = outer_; }

absl::Status EscapedFromTrace() {
  return FailedPrecondition(
      "this tensor was made inside a captured function and has no data outside of it; return it "
      "from the function, or assign it to a tensor that exists outside");
}

absl::Status MovedInTrace() {
  return FailedPrecondition(
      "a captured function runs on one set of devices: move its tensors there before, by to() or "
      "shard() outside of it");
}

Trace::Gradient& Trace::GradientOf(const StateRef& state, bool read) {
  for (Gradient& gradient : gradients) {
    if (gradient.of == state) return gradient;
  }
  return gradients.emplace_back(Gradient{.of = state, .before = state->grad, .read = read});
}

const StateRef& CapturedProgram::Place::In(absl::Span<const StateRef> arguments) const {
  const StateRef& tensor = argument >= 0 ? arguments[static_cast<size_t>(argument)] : outside;
  return gradient ? tensor->grad : tensor;
}

absl::StatusOr<std::shared_ptr<const CapturedProgram>> Session::Capture(
    const std::string& name, absl::Span<const StateRef> arguments, const Function& function) {
  TD_CHECK(!IsTracing(), "a function called by a captured one is part of its trace");
  const SliceScope slice(slices_, "capture");
  // What was assigned and drawn before; and what must be computed before it is known how it is
  // divided.
  TD_RETURN_IF_ERROR(Realize(DividedAnyhow(arguments)));
  Trace trace{.id = 0, .session = this, .assigned = {}, .gradients = {}};
  std::vector<StateRef> stand_ins;
  std::vector<ValueRef> stand_in_values;
  {
    absl::MutexLock lock(&mu_);
    trace.id = ++last_trace_;
    for (const StateRef& argument : arguments) {
      ValueRef value = NewLeaf(argument->value->dtype, argument->value->shape);
      value->trace = trace.id;
      value->devices = argument->value->devices;
      value->axis = PlacementIn(*argument->value).axis;
      stand_in_values.push_back(value);
      StateRef state = NewState(std::move(value));
      state->dtype = argument->dtype;
      state->grad = argument->grad;
      if (argument->requires_grad) {
        state->requires_grad = true;
        state->value->target = true;
        with_gradient_.push_back(state);
      }
      stand_ins.push_back(std::move(state));
    }
  }
  TraceScope scope(&trace);
  absl::StatusOr<std::vector<StateRef>> results = function(stand_ins);

  absl::MutexLock lock(&mu_);
  absl::StatusOr<std::shared_ptr<const CapturedProgram>> captured =
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
          mu_) -> absl::StatusOr<std::shared_ptr<const CapturedProgram>> {
    if (!results.ok()) return results.status();
    return Finish(name, trace, stand_ins, stand_in_values, *results);
  }();
  for (auto& [state, before] : trace.assigned) SetValue(*state, std::move(before));
  for (Trace::Gradient& gradient : trace.gradients) gradient.of->grad = std::move(gradient.before);
  return captured;
}

absl::StatusOr<std::shared_ptr<const CapturedProgram>> Session::Finish(
    const std::string& name, Trace& trace, absl::Span<const StateRef> stand_ins,
    absl::Span<const ValueRef> arguments, absl::Span<const StateRef> results) {
  using Place = CapturedProgram::Place;
  auto captured = std::make_shared<CapturedProgram>();
  captured->drawn = trace.drawn;
  AdvanceRandom();
  captured->name = name;
  captured->arguments = arguments.size();
  captured->returned = results.size();

  const auto assigned_as = [&](auto is_it) {
    return std::find_if(trace.assigned.begin(), trace.assigned.end(), is_it);
  };
  // Where a call finds a tensor; nothing for one that the function made.
  const auto place_of = [&](const StateRef& state) -> std::optional<Place> {
    for (size_t i = 0; i < stand_ins.size(); ++i) {
      if (stand_ins[i] == state) return Place{.argument = static_cast<int64_t>(i)};
    }
    const bool inside = state->value->trace == trace.id && assigned_as([&](const auto& entry) {
                                                             return entry.first == state;
                                                           }) == trace.assigned.end();
    if (inside) return std::nullopt;
    return Place{.outside = state};
  };
  std::vector<StateRef> left(results.begin(), results.end());
  for (const Trace::Gradient& gradient : trace.gradients) {
    std::optional<Place> of = place_of(gradient.of);
    if (!of) continue;
    CapturedProgram::Gradient& effect = captured->gradients.emplace_back();
    effect.of = *std::move(of);
    effect.read = gradient.read;
    effect.present = gradient.before != nullptr;
    if (gradient.of->grad == gradient.before) continue;
    effect.after = gradient.of->grad ? effect.kSet : effect.kCleared;
    effect.result = left.size();
    if (gradient.of->grad) left.push_back(gradient.of->grad);
  }

  std::vector<ValueRef> roots;
  for (const StateRef& result : left) {
    TD_RETURN_IF_ERROR(result->error);
    if (result->session.get() != this) {
      return InvalidArgument("a captured function returned a tensor of another client");
    }
    if (result->value->trace != 0 && result->value->trace != trace.id) return EscapedFromTrace();
    Settle(*result);
    CapturedProgram::Result& to_return = captured->results.emplace_back();
    to_return.dtype = result->dtype;
    to_return.stored_dtype = result->stored_dtype;
    to_return.shape = result->shape;
    to_return.same = place_of(result);
    // One with a history of its own is computed, for derivatives to know that they would go on.
    const bool has_history =
        result->view && result->view->detached && result->view->detached->history;
    if (!to_return.same && result->view && !has_history) {
      to_return.same = place_of(result->view->base);
      if (to_return.same) to_return.view = result->view->path;
    }
    if (!to_return.same) roots.push_back(result->value);
  }
  const size_t computed = roots.size();
  std::vector<Value*> overwritten;
  for (size_t i = 0; i < stand_ins.size(); ++i) {
    if (stand_ins[i]->value == arguments[i]) continue;
    roots.push_back(stand_ins[i]->value);
    overwritten.push_back(arguments[i].get());
  }
  for (const auto& [state, before] : trace.assigned) {
    roots.push_back(state->value);
    overwritten.push_back(before.get());
  }

  // Captured tensors are inputs, which have buffers.
  std::vector<ValueRef> needed = roots;
  for (const auto& [state, before] : trace.assigned) needed.push_back(before);
  TD_RETURN_IF_ERROR(SendFiles(needed).status());

  Plan plan;
  std::vector<ValueRef> placed = roots;
  placed.insert(placed.end(), arguments.begin(), arguments.end());
  for (const auto& [state, before] : trace.assigned) placed.push_back(before);
  for (const ValueRef& value : placed) {
    if (value->devices.empty() || value->devices == plan.devices) continue;
    if (!plan.devices.empty()) return MovedInTrace();
    plan.devices = value->devices;
  }
  captured->placed = !plan.devices.empty();
  if (!captured->placed) plan.devices = HomeDevices();
  TD_RETURN_IF_ERROR(Gather(roots, &trace, plan));
  for (const auto& [state, before] : trace.assigned) {
    if (!before->buffer) plan.first.push_back(before);
  }
  TD_RETURN_IF_ERROR(RealizeLocked(std::move(plan.first)));
  plan.program.name = name;
  for (const ValueRef& argument : arguments) plan.SlotOf(*argument);
  TD_RETURN_IF_ERROR(Build(roots, plan));
  for (size_t i = 0; i < roots.size(); ++i) {
    Program::Output output{.value = plan.BuiltFor(*roots[i])};
    if (i >= computed) {
      output.overwrites = plan.SlotOf(*overwritten[i - computed]);
      captured->overwritten.push_back(static_cast<size_t>(output.overwrites));
    }
    plan.program.outputs.push_back(output);
  }

  std::vector<int64_t> axes;
  auto reads = std::make_shared<std::vector<std::weak_ptr<TensorState>>>();
  for (size_t slot = 0; slot < plan.inputs.size(); ++slot) {
    const Value& value = *plan.inputs[slot];
    CapturedProgram::Input& input = captured->inputs.emplace_back();
    input.dtype = value.dtype;
    input.shape = value.shape;
    input.placement = PlacementIn(value);
    axes.push_back(input.placement.axis);
    if (slot < arguments.size()) {
      input.place.argument = static_cast<int64_t>(slot);
      input.requires_grad = stand_ins[slot]->requires_grad;
      continue;
    }
    const auto assigned =
        assigned_as([&](const auto& entry) { return entry.second.get() == &value; });
    StateRef owner = value.owner.lock();
    if (assigned != trace.assigned.end()) {
      owner = assigned->first;
    } else if (owner && owner->value.get() != &value) {
      owner = nullptr;
    }
    if (!owner) {
      input.fixed = std::const_pointer_cast<Value>(value.shared_from_this());
      continue;
    }
    input.requires_grad = owner->requires_grad;
    reads->push_back(owner);
    const auto gradient =
        std::find_if(trace.gradients.begin(), trace.gradients.end(), [&](const auto& entry) {
          return entry.read && entry.before == owner && place_of(entry.of);
        });
    if (gradient == trace.gradients.end()) {
      input.place.outside = std::move(owner);
    } else {
      input.place = *place_of(gradient->of);
      input.place.gradient = true;
    }
  }
  captured->reads = std::move(reads);
  for (size_t i = computed; i < roots.size(); ++i) {
    captured->flows.push_back(FlowsToParam(Plan::ExpressionOf(*roots[i])));
  }
  TD_ASSIGN_OR_RETURN(captured->program, Register(plan.program, plan.devices, axes));

  // What the function made in memory of its own is not part of its results' expressions.
  const bool is_expression = std::none_of(
      plan.stands_for.begin(), plan.stands_for.end(),
      [&](const auto& entry) { return entry.second->trace == trace.id && entry.second->init; });
  const bool sets_gradients =
      std::any_of(captured->gradients.begin(), captured->gradients.end(),
                  [](const auto& gradient) { return gradient.after != gradient.kKept; });
  if (!captured->overwritten.empty() || !trace.drawn.empty() || sets_gradients || !is_expression) {
    return captured;
  }
  auto body = std::make_shared<Body>();
  const auto nodes_of = [&](const Value& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ValueRef copy = NewLeaf(value.dtype, value.shape);
    copy->node = value.node;
    copy->origin = value.origin;
    return copy;
  };
  for (const Value* value : plan.inputs) body->parameters.push_back(nodes_of(*value));
  for (const ValueRef& root : roots) body->results.push_back(nodes_of(*root));
  captured->body = std::move(body);
  return captured;
}

// ---- calls

namespace {

const TensorState& RootOf(const TensorState& state) {
  return state.view ? *state.view->base : state;
}

// What the program overwrites may not be reached by another name.
absl::Status CheckOverwritten(const CapturedProgram& captured, absl::Span<const StateRef> tensors) {
  for (size_t slot : captured.overwritten) {
    if (slot >= captured.arguments) continue;
    for (size_t other = 0; other < tensors.size(); ++other) {
      if (other == slot || !tensors[other]) continue;
      if (&RootOf(*tensors[other]) != &RootOf(*tensors[slot])) continue;
      return InvalidArgument(
          "argument {} of {} is assigned to inside and shares its elements with {}; pass or use "
          "one of them, or a clone()",
          slot, captured.name,
          other < captured.arguments ? fmt::format("argument {}", other)
                                     : "a tensor that the function uses from outside");
    }
  }
  return absl::OkStatus();
}

// What the call reads, as it is before it is computed.
void Note(const CapturedProgram& captured, absl::Span<const StateRef> arguments,
          absl::Span<const StateRef> tensors, bool kept, std::shared_ptr<CapturedCall>& call) {
  if (call == nullptr) {
    call = std::make_shared<CapturedCall>();
    call->name = captured.name;
    call->arguments.assign(arguments.begin(), arguments.end());
    call->reads = captured.reads;
  }
  if (!captured.body || !(kept || call->body)) return;
  call->body = captured.body;
  call->inputs.resize(tensors.size());
  for (size_t slot = 0; slot < tensors.size(); ++slot) {
    const std::shared_ptr<Value>& value =
        tensors[slot] ? tensors[slot]->value : captured.inputs[slot].fixed;
    if (call->inputs[slot].value == value) continue;
    call->inputs[slot] = {
        .value = value, .was_expression = !value->leaf, .parents = value->parents};
  }
}

}  // namespace

// Of inputs that are made of others: of which, so that a derivative by these is known to be lost.
void Session::NoteBelow(absl::Span<const StateRef> tensors, CapturedCall& call) {
  std::vector<ValueRef> made;
  for (const StateRef& tensor : tensors) {
    if (tensor && tensor->value->differentiable) made.push_back(tensor->value);
  }
  call.below.clear();
  const auto add = [&call](absl::Span<const std::weak_ptr<TensorState>> states) {
    for (const auto& weak : states) {
      const StateRef state = weak.lock();
      // Each once: calls that overwrite one tensor again and again hand them on.
      const bool is_new =
          std::none_of(call.below.begin(), call.below.end(),
                       [&state](const auto& other) { return other.lock() == state; });
      if (state && state->requires_grad && is_new) call.below.push_back(weak);
    }
  };
  for (Value* value : ValuesBelow(made, true)) {
    if (value->target) call.below.push_back(value->owner);
    if (!value->call || value->call->body) continue;
    // What others of these calls have lost.
    add(value->call->arguments);
    add(*value->call->reads);
    add(value->call->below);
  }
}

void Session::Overwrite(const StateRef& owner) {
  ReleaseViews(*owner);
  if (owner->value.use_count() > 1) {
    ValueRef after = NewLeaf(owner->value->dtype, owner->value->shape);
    after->owner = owner;
    after->devices = owner->value->devices;
    after->buffer = owner->value->buffer;
    after->target = owner->value->target;
    if (owner->requires_grad) after->hooks = owner->value->hooks;
    owner->value->buffer = CopyAside(*owner->value);
    owner->value = std::move(after);
  } else {
    // Nobody else knows this version, so it can become the next one. Under another node, because
    // expressions over the old one may be nodes of other values by now.
    owner->value->node = nullptr;
    owner->value->origin = nullptr;
    owner->value->call = nullptr;
    owner->value->differentiable = false;
    owner->value->parents.clear();
    owner->value->copies.clear();
  }
  DeriveViews(*owner);
}

StateRef Session::ResultOf(const CapturedProgram::Result& result,
                           absl::Span<const StateRef> arguments) {
  if (!result.same) {
    StateRef state = NewState(NewLeaf(result.stored_dtype, result.shape));
    state->dtype = result.dtype;
    return state;
  }
  const StateRef& tensor = result.same->In(arguments);
  if (!result.view) return tensor;
  StateRef state = Alias(tensor->value, result.dtype);
  state->shape = result.shape;
  BecomeView(state, tensor, *result.view);
  return state;  // has its value by DeriveViews
}

absl::StatusOr<std::optional<std::vector<StateRef>>> Session::Replay(
    const std::shared_ptr<const CapturedProgram>& program, absl::Span<const StateRef> arguments) {
  const CapturedProgram& captured = *program;
  const SliceScope scope(slices_, "call");
  TD_RETURN_IF_ERROR(AwaitRoom());
  absl::MutexLock lock(&mu_);
  // A new session does not know the program.
  if (captured.program->connection != connection_) return std::nullopt;
  // By slot; null for what is fixed.
  std::vector<StateRef> tensors;
  std::shared_ptr<CapturedCall> call;
  bool wanted = false;  // whether a derivative through the call may be asked for
  // More than once if others assign while files are sent.
  while (true) {
    for (const StateRef& argument : arguments) {
      TD_RETURN_IF_ERROR(argument->error);
      Settle(*argument);
    }
    for (const CapturedProgram::Gradient& gradient : captured.gradients) {
      if (gradient.read && gradient.present != (gradient.of.In(arguments)->grad != nullptr)) {
        return std::nullopt;
      }
    }
    tensors.clear();
    std::vector<ValueRef> waiting;
    bool kept =
        false;  // what the call reads: a derivative by an expression may be asked for as well
    for (const CapturedProgram::Input& input : captured.inputs) {
      if (input.fixed) {
        tensors.push_back(nullptr);
        continue;
      }
      const StateRef& tensor = input.place.In(arguments);
      if (!tensor) return std::nullopt;
      const Value& value = *tensor->value;
      if (value.dtype != input.dtype || value.shape != input.shape ||
          tensor->requires_grad != input.requires_grad ||
          value.devices != input.placement.devices) {
        return std::nullopt;
      }
      if (!value.buffer) waiting.push_back(tensor->value);
      wanted |= GradEnabled() && IsFloat(value.dtype) &&
                (tensor->requires_grad || value.differentiable || value.target);
      // Not by what is made of a call's results: a loop would keep all that it has been through.
      kept |= IsFloat(value.dtype) && !value.leaf &&
              absl::c_none_of(ValuesBelow({&tensor->value, 1}),
                              [](const Value* below) { return below->call != nullptr; });
      tensors.push_back(tensor);
    }
    TD_RETURN_IF_ERROR(CheckOverwritten(captured, tensors));
    if (GradEnabled()) Note(captured, arguments, tensors, wanted || kept, call);
    if (wanted && !captured.body) NoteBelow(tensors, *call);
    if (waiting.empty() && assigned_.empty() && !HasDrawn()) break;
    TD_RETURN_IF_ERROR(RealizePending(std::move(waiting)));
  }
  for (size_t slot = 0; slot < tensors.size(); ++slot) {
    const Placement& placement = captured.inputs[slot].placement;
    if (tensors[slot] && PlacementIn(*tensors[slot]->value) != placement) return std::nullopt;
  }
  for (const StateRef& tensor : tensors) {
    if (tensor) TD_RETURN_IF_ERROR(CheckPresent(*tensor->value->buffer));
  }
  const std::vector<int64_t>& devices = captured.program->devices;
  for (size_t slot : captured.overwritten) {
    Value& value = *tensors[slot]->value;
    value.buffer = BufferOn(value, devices);
    if (value.buffer->read_only) value.buffer = CopyAside(value);
    value.copies.clear();
  }

  v1::Command command;
  v1::RunProgram& run = *command.mutable_run();
  run.set_program(captured.program->handle);
  std::vector<std::shared_ptr<Buffer>> inputs;  // alive until the run is sent
  for (size_t slot = 0; slot < tensors.size(); ++slot) {
    inputs.push_back(
        BufferOn(*(tensors[slot] ? tensors[slot]->value : captured.inputs[slot].fixed), devices));
  }
  TD_RETURN_IF_ERROR(BindVariables(*captured.program, run, inputs));
  // An input that the program overwrites may not be another input as well. A view has its elements
  // in its base, so what is overwritten is a copy, from which they go there.
  std::vector<StateRef> targets;
  for (size_t slot : captured.overwritten) {
    const StateRef& tensor = tensors[slot];
    const std::shared_ptr<Buffer> buffer = inputs[slot];
    for (size_t other = 0; other < inputs.size(); ++other) {
      if (other != slot && inputs[other] == buffer) inputs[other] = CopyAside(*tensor->value);
    }
    if (!tensor->view) {
      targets.push_back(tensor);
      continue;
    }
    StateRef copy = NewState(NewLeaf(tensor->value->dtype, tensor->value->shape));
    copy->value->devices = tensor->value->devices;
    copy->value->buffer = inputs[slot] = CopyAside(*tensor->value);
    targets.push_back(std::move(copy));
  }
  AddInputs(run, inputs);

  std::vector<ValueRef> computed;
  std::vector<std::shared_ptr<Buffer>> outputs;
  std::vector<StateRef> results;
  for (const CapturedProgram::Result& result : captured.results) {
    results.push_back(ResultOf(result, arguments));
    if (result.same) continue;
    const ValueRef& value = results.back()->value;
    if (captured.placed) value->devices = devices;
    value->buffer = NewBuffer(*value, {devices, captured.program->axes[computed.size()]});
    if (call && IsFloat(value->dtype)) {
      value->call = call;
      value->differentiable = wanted;
      value->result = computed.size();
    }
    outputs.push_back(value->buffer);
    computed.push_back(value);
  }
  for (const StateRef& target : targets) {
    outputs.push_back(target->value->buffer);
    target->value->buffer->overwritten = true;
    Overwrite(target);
    // What the function has written can't be differentiated: it is not kept what it was made of.
    const size_t number = static_cast<size_t>(&target - targets.data());
    if (wanted && captured.flows[number] && !target->requires_grad && IsFloat(target->dtype)) {
      target->value->call = call;
      target->value->differentiable = true;
    }
    computed.push_back(target->value);
  }
  AddOutputs(run, outputs);
  const uint64_t sequence = SendRun(std::move(command));
  for (const auto& [generator, count] : captured.drawn) generator->drawn += count;
  for (const ValueRef& value : computed) {
    value->buffer->run = sequence;
    NoteVariables(*value);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    const StateRef& tensor = tensors[captured.overwritten[i]];
    if (tensor->view) TD_RETURN_IF_ERROR(AssignView(tensor, targets[i], targets[i]->value));
  }
  for (const CapturedProgram::Result& result : captured.results) {
    if (result.view)
      DeriveViews(*results[static_cast<size_t>(&result - captured.results.data())]->view->base);
  }
  for (const CapturedProgram::Gradient& gradient : captured.gradients) {
    if (gradient.after == gradient.kKept) continue;
    gradient.of.In(arguments)->grad =
        gradient.after == gradient.kSet ? results[gradient.result] : nullptr;
  }
  results.resize(captured.returned);
  return results;
}

}  // namespace tensord::client
