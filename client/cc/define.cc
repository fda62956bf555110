// Session's functions that are used like operations: their expressions are made once, and again
// over other arguments by substitution.
#include <absl/container/flat_hash_map.h>

#include <algorithm>

#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/status.h"
#include "core/ir/substitute.h"

namespace tensord::client {

Session::ValueRef Session::VersionOf(const StateRef& state) {
  Trace* trace = CurrentTrace(*this);
  if (!trace || !trace->pure) return state->value;
  for (const auto& [used, stand_in] : trace->used) {
    if (used == state) return stand_in;
  }
  ValueRef stand_in = NewLeaf(state->value->dtype, state->value->shape);
  stand_in->trace = trace->id;
  stand_in->devices = state->value->devices;
  stand_in->axis = PlacementIn(*state->value).axis;
  trace->used.emplace_back(state, stand_in);
  return stand_in;
}

absl::StatusOr<std::shared_ptr<const DefinedFunction>> Session::Define(
    const std::string& name, absl::Span<const StateRef> arguments, bool allow_outside,
    const Function& function) {
  Trace trace{.id = 0, .session = this, .assigned = {}, .gradients = {}, .pure = true, .used = {}};
  std::vector<StateRef> stand_ins;
  auto defined = std::make_shared<DefinedFunction>();
  {
    absl::MutexLock lock(&mu_);
    trace.id = ++last_trace_;
    for (const StateRef& argument : arguments) {
      ValueRef value = NewLeaf(argument->stored_dtype, argument->shape);
      NodeOf(*value);
      value->trace = trace.id;
      value->devices = argument->value->devices;
      value->axis = PlacementIn(*argument->value).axis;
      defined->body.parameters.push_back(value);
      stand_ins.push_back(NewState(std::move(value)));
      stand_ins.back()->dtype = argument->dtype;
    }
  }
  absl::StatusOr<std::vector<StateRef>> results = [&] {
    TraceScope scope(&trace);
    return function(stand_ins);
  }();

  absl::MutexLock lock(&mu_);
  defined->drawn = trace.drawn;
  for (Trace::Gradient& gradient : trace.gradients) gradient.of->grad = gradient.before;
  TD_RETURN_IF_ERROR(results.status());
  if (!trace.gradients.empty()) {
    return FailedPrecondition(
        "{}: a function that is traced once has no effects, and so leaves no gradients; return "
        "what "
        "gradient() gives",
        name);
  }
  for (size_t i = 0; i < stand_ins.size(); ++i) {
    if (stand_ins[i]->value != defined->body.parameters[i]) {
      return FailedPrecondition(
          "{}: argument {} is assigned to, and a function that is traced once has no effects; "
          "return "
          "the new value",
          name, i);
    }
  }
  const auto of_generator = [&](const StateRef& state) {
    return std::any_of(trace.drawn.begin(), trace.drawn.end(), [&](const auto& drawn) {
      return state == drawn.first->key || state == drawn.first->counter;
    });
  };
  for (auto& [state, stand_in] : trace.used) {
    if (of_generator(state)) continue;
    if (!allow_outside) {
      return FailedPrecondition(
          "{}: it uses a tensor {}{} that is not among its arguments; pass it, or say "
          "allow_implicit=True",
          name, Name(stand_in->dtype), TextOf(stand_in->shape));
    }
    defined->body.parameters.push_back(stand_in);
    defined->outside.push_back(state);
  }
  for (const auto& [generator, count] : trace.drawn) {
    for (const StateRef& state : {generator->key, generator->counter}) {
      const auto used =
          std::find_if(trace.used.begin(), trace.used.end(),
                       [&state = state](const auto& entry) { return entry.first == state; });
      defined->body.parameters.push_back(used->second);
    }
  }
  for (const StateRef& result : *results) {
    TD_RETURN_IF_ERROR(result->error);
    TD_ASSIGN_OR_RETURN(ValueRef value, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      TraceScope scope(&trace);
      return Use(result);
    }());
    if (value->trace != trace.id) return EscapedFromTrace();
    const bool is_parameter =
        std::find(defined->body.parameters.begin(), defined->body.parameters.end(), value) !=
        defined->body.parameters.end();
    if (value->leaf && !is_parameter) {
      return FailedPrecondition(
          "{}: a tensor made inside cannot be a leaf; leave requires_grad out", name);
    }
    ValueRef copy = NewLeaf(value->dtype, value->shape);
    copy->node = NodeOf(*value);
    defined->body.results.push_back(std::move(copy));
    defined->dtypes.push_back(result->dtype);
  }
  return defined;
}

std::vector<StateRef> Session::CallDefined(const DefinedFunction& function,
                                           absl::Span<const StateRef> arguments) {
  std::vector<StateRef> operands(arguments.begin(), arguments.end());
  operands.insert(operands.end(), function.outside.begin(), function.outside.end());
  absl::MutexLock lock(&mu_);
  if (graph_.size() > compact_at_) CompactGraph();
  std::vector<const Node*> generators;
  std::vector<ValueRef> also_read;
  if (!function.drawn.empty()) {
    if (absl::Status status = CheckRandom(); !status.ok()) {
      return std::vector<StateRef>(function.body.results.size(), Failed(std::move(status)));
    }
  }
  for (const auto& [generator, count] : function.drawn) {
    const auto [next, parents] = NextRandom(generator, count);
    generators.insert(generators.end(), {next.key.node(), next.counter.node()});
    also_read.insert(also_read.end(), parents.begin(), parents.end());
  }
  return ApplyLocked(
      operands, function.body.results.size(),
      [&](Graph& graph, absl::Span<const Expr> sources) {
        ReplacementMap map;
        for (size_t i = 0; i < function.body.parameters.size(); ++i) {
          const Value& parameter = *function.body.parameters[i];
          const Node* node =
              i < sources.size() ? sources[i].node() : generators[i - sources.size()];
          map[parameter.node] = {graph.Cast(node, parameter.dtype)};
        }
        std::vector<const Node*> roots;
        for (const ValueRef& result : function.body.results) roots.push_back(result->node);
        std::vector<Expr> results;
        for (const Node* node : Substitute(graph, roots, map)) results.emplace_back(&graph, node);
        return results;
      },
      also_read);
}

}  // namespace tensord::client
