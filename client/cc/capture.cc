// Session's way of capturing a function as one program and running it again.
#include <algorithm>

#include "client/cc/plan.h"
#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"

namespace tensord::client {
namespace {

thread_local Trace* current_trace = nullptr;

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

absl::StatusOr<CapturedProgram> Session::Capture(const std::string& name,
                                                 absl::Span<const StateRef> arguments,
                                                 const Function& function) {
  TD_CHECK(!IsTracing(), "a function called by a captured one is part of its trace");
  TD_RETURN_IF_ERROR(Realize(arguments));
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
      stand_ins.push_back(NewState(std::move(value)));
    }
  }
  TraceScope scope(&trace);
  absl::StatusOr<std::vector<StateRef>> results = function(std::move(stand_ins));

  absl::MutexLock lock(&mu_);
  absl::StatusOr<CapturedProgram> captured = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return results.ok() ? Finish(name, trace, stand_in_values, *results) : results.status();
  }();
  for (auto& [state, before] : trace.assigned) SetValue(*state, std::move(before));
  while (!trace.gradients.empty()) {
    trace.gradients.back().first->grad = std::move(trace.gradients.back().second);
    trace.gradients.pop_back();
  }
  random_drawn_ = 0;
  return captured;
}

absl::StatusOr<CapturedProgram> Session::Finish(const std::string& name, Trace& trace,
                                                absl::Span<const ValueRef> arguments,
                                                absl::Span<const StateRef> results) {
  AdvanceRandom();
  std::vector<ValueRef> roots;
  CapturedProgram captured;
  for (const StateRef& result : results) {
    TD_RETURN_IF_ERROR(result->error);
    if (result->session.get() != this) {
      return InvalidArgument("a captured function returned a tensor of another client");
    }
    captured.results.push_back({result->stored_dtype, result->shape});
    roots.push_back(result->value);
  }
  for (const auto& [state, before] : trace.assigned) roots.push_back(state->value);

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
  captured.placed = !plan.devices.empty();
  if (!captured.placed) plan.devices = HomeDevices();
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
    if (i >= results.size()) {
      Value& before = *trace.assigned[i - results.size()].second;
      output.overwrites = plan.SlotOf(before);
      captured.overwritten.push_back(static_cast<size_t>(output.overwrites) - arguments.size());
    }
    plan.program.outputs.push_back(output);
  }

  std::vector<int64_t> axes;
  for (const Value* value : plan.inputs) axes.push_back(PlacementIn(*value).axis);
  for (size_t slot = arguments.size(); slot < plan.inputs.size(); ++slot) {
    const Value& value = *plan.inputs[slot];
    CapturedProgram::Input input{.owner = nullptr,
                                 .fixed = nullptr,
                                 .dtype = value.dtype,
                                 .shape = value.shape,
                                 .placement = PlacementIn(value)};
    auto assigned = std::find_if(trace.assigned.begin(), trace.assigned.end(),
                                 [&](const auto& entry) { return entry.second.get() == &value; });
    if (assigned != trace.assigned.end()) {
      input.owner = assigned->first;
    } else if (StateRef owner = value.owner.lock(); owner && owner->value.get() == &value) {
      input.owner = std::move(owner);
    } else {
      input.fixed = std::const_pointer_cast<Value>(value.shared_from_this());
    }
    captured.captured.push_back(std::move(input));
  }
  TD_ASSIGN_OR_RETURN(captured.program, Register(plan.program, plan.devices, axes));
  return captured;
}

absl::StatusOr<std::vector<StateRef>> Session::Replay(const CapturedProgram& captured,
                                                      absl::Span<const StateRef> arguments) {
  TD_RETURN_IF_ERROR(connection_->WaitForRoom(Deadline()));
  absl::MutexLock lock(&mu_);
  // More than once if others assign while files are sent.
  while (true) {
    std::vector<ValueRef> waiting;
    for (const StateRef& argument : arguments) {
      TD_RETURN_IF_ERROR(argument->error);
      if (!argument->value->buffer) waiting.push_back(argument->value);
    }
    for (const CapturedProgram::Input& input : captured.captured) {
      if (!input.owner) continue;
      const Value& value = *input.owner->value;
      if (value.dtype != input.dtype || value.shape != input.shape) {
        return FailedPrecondition("a captured tensor was {}{} and is now {}{}", Name(input.dtype),
                                  TextOf(input.shape), Name(value.dtype), TextOf(value.shape));
      }
      if (!value.buffer) waiting.push_back(input.owner->value);
      if (value.devices != input.placement.devices) {
        return FailedPrecondition("a captured tensor has moved to {}", DevicesText(value.devices));
      }
    }
    if (waiting.empty() && assigned_.empty()) break;
    TD_RETURN_IF_ERROR(RealizePending(std::move(waiting)));
  }
  for (const CapturedProgram::Input& input : captured.captured) {
    if (input.owner && PlacementIn(*input.owner->value) != input.placement) {
      return FailedPrecondition("a captured tensor is divided along another axis now");
    }
  }
  const std::vector<int64_t>& devices = captured.program->devices;
  for (size_t overwritten : captured.overwritten) {
    Value& value = *captured.captured[overwritten].owner->value;
    value.buffer = BufferOn(value, devices);
    value.copies.clear();
  }

  v1::Command command;
  v1::RunProgram& run = *command.mutable_run();
  run.set_program(captured.program->handle);
  std::vector<std::shared_ptr<Buffer>> inputs;  // alive until the run is sent
  for (const StateRef& argument : arguments) inputs.push_back(BufferOn(*argument->value, devices));
  for (const CapturedProgram::Input& input : captured.captured) {
    inputs.push_back(BufferOn(*(input.owner ? input.owner->value : input.fixed), devices));
  }
  TD_RETURN_IF_ERROR(BindVariables(*captured.program, run, inputs));
  // An input that the program overwrites may not be another input as well.
  for (size_t overwritten : captured.overwritten) {
    const size_t slot = arguments.size() + overwritten;
    const std::shared_ptr<Buffer> buffer = inputs[slot];
    for (size_t other = 0; other < inputs.size(); ++other) {
      if (other != slot && inputs[other] == buffer) {
        inputs[other] = CopyAside(*captured.captured[overwritten].owner->value);
      }
    }
  }
  AddInputs(run, inputs);

  std::vector<StateRef> results;
  std::vector<std::shared_ptr<Buffer>> outputs;
  for (const CapturedProgram::Output& output : captured.results) {
    ValueRef value = NewLeaf(output.dtype, output.shape);
    if (captured.placed) value->devices = devices;
    value->buffer = NewBuffer(*value, {devices, captured.program->axes[results.size()]});
    outputs.push_back(value->buffer);
    results.push_back(NewState(std::move(value)));
  }
  for (size_t overwritten : captured.overwritten) {
    const StateRef& owner = captured.captured[overwritten].owner;
    outputs.push_back(owner->value->buffer);
    ReleaseViews(*owner);
    if (owner->value.use_count() > 1) {
      ValueRef after = NewLeaf(owner->value->dtype, owner->value->shape);
      after->owner = owner;
      after->devices = owner->value->devices;
      after->buffer = owner->value->buffer;
      owner->value->buffer = CopyAside(*owner->value);
      owner->value = std::move(after);
    } else {
      // Nobody else knows this version, so it can become the next one. Under another node, because
      // expressions over the old one may be nodes of other values by now.
      owner->value->node = nullptr;
      owner->value->origin = nullptr;
    }
    DeriveViews(*owner);
  }
  AddOutputs(run, outputs);
  const uint64_t sequence = connection_->Send(std::move(command));
  for (const StateRef& result : results) {
    result->value->buffer->run = sequence;
    NoteVariables(*result->value);
  }
  for (size_t overwritten : captured.overwritten) {
    const Value& value = *captured.captured[overwritten].owner->value;
    value.buffer->run = sequence;
    NoteVariables(value);
  }
  return results;
}

}  // namespace tensord::client
