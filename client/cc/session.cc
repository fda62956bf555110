#include "client/cc/session.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/size.h"
#include "core/tensor/weak.h"

namespace tensord::client {
namespace {

thread_local bool grad_enabled = true;

absl::Mutex recorder_mu;
std::atomic<bool> has_recorder = false;  // relaxed: who sets it has no operations under way
std::shared_ptr<const Recorder> recorder ABSL_GUARDED_BY(recorder_mu);

std::string Recorded() {
  if (!has_recorder.load(std::memory_order_relaxed)) return "";
  std::shared_ptr<const Recorder> record;
  {
    absl::MutexLock lock(&recorder_mu);
    record = recorder;
  }
  return record ? (*record)() : "";
}

// Whether derivatives go to the version, or on through it.
bool WantsGradient(const Value& value) { return value.differentiable || value.target; }

const TensorState& RootOf(const TensorState& state) {
  return state.view ? *state.view->base : state;
}

std::vector<std::string> DevicesOf(const Connection* connection) {
  std::vector<std::string> names;
  if (connection == nullptr) return names;  // a session that holds an error
  for (const v1::DeviceInfo& device : connection->welcome().devices()) {
    names.push_back(device.name());
  }
  return names;
}

}  // namespace

bool GradEnabled() { return grad_enabled; }
bool SetGradEnabled(bool enabled) { return std::exchange(grad_enabled, enabled); }

void SetRecorder(Recorder record) {
  auto next = record ? std::make_shared<const Recorder>(std::move(record)) : nullptr;
  has_recorder.store(next != nullptr, std::memory_order_relaxed);
  absl::MutexLock lock(&recorder_mu);
  recorder.swap(next);
}

Session::Session(std::shared_ptr<Connection> connection, ConnectOptions options)
    : options_(std::move(options)),
      devices_(DevicesOf(connection.get())),
      home_([this]() -> int64_t {
        const auto found = std::ranges::find(devices_, options_.device);
        return found == devices_.end() ? 0 : found - devices_.begin();
      }()),
      connection_(std::move(connection)) {}

absl::Status Session::AwaitRoom() {
  TD_RETURN_IF_ERROR(Connection::CheckFork());
  for (;;) {
    const std::shared_ptr<Connection> present = connection();
    const absl::Status room = present->WaitForRoom(Deadline());
    if (room.ok() || !present->lost()) return room;
    const absl::Status replaced = ReplaceConnection(present);
    if (!replaced.ok()) {
      return MakeStatus(replaced.code(), "{}. There is none: {}", Message(room), Message(replaced));
    }
  }
}

absl::Status Session::ReplaceConnection(const std::shared_ptr<Connection>& lost) {
  TD_ASSIGN_OR_RETURN(std::shared_ptr<Connection> fresh,
                      Connection::Open(lost->address(), options_, lost.get()));
  if (DevicesOf(fresh.get()) != devices_) {
    return FailedPrecondition(
        "the daemon at {} has other devices now: {} instead of {}; connect again", lost->address(),
        fmt::join(DevicesOf(fresh.get()), ", "), fmt::join(devices_, ", "));
  }
  absl::MutexLock lock(&mu_);
  if (connection_ == lost) connection_ = fresh;  // unless another thread was faster
  return absl::OkStatus();
}

absl::Status Session::CheckPresent(const Buffer& buffer) const {
  if (buffer.connection == connection_) {
    if (!buffer.error.ok() || buffer.run == 0 || buffer.overwritten) return buffer.error;
    return connection_->FailureOf(buffer.run);
  }
  const absl::Status status = buffer.connection->status();
  return status.ok() ? FailedPrecondition("a tensor of another session with {}",
                                          buffer.connection->address())
                     : status;
}

bool Session::IsDoubtful(const Buffer& buffer) const {
  return buffer.connection->lost() || !CheckPresent(buffer).ok() ||
         (buffer.run != 0 && !connection_->FailureOf(buffer.run).ok());
}

bool Session::IsTracing() const { return CurrentTrace(*this) != nullptr; }

size_t Session::graph_nodes() {
  absl::MutexLock lock(&mu_);
  return graph_.size();
}

// ---- expressions

StateRef Session::Apply(absl::Span<const StateRef> operands, const Expression& expression) {
  return ApplyMany(operands, 1, [&expression](Graph& graph, absl::Span<const Expr> sources) {
    return std::vector<Expr>{expression(graph, sources)};
  })[0];
}

std::vector<StateRef> Session::ApplyMany(absl::Span<const StateRef> operands, size_t count,
                                         const Expressions& expressions, Reads reads) {
  // Before a lock that no thread of this process may ever give back.
  if (absl::Status here = Connection::CheckFork(); !here.ok()) {
    return std::vector<StateRef>(count, Failed(std::move(here)));
  }
  absl::MutexLock lock(&mu_);
  if (graph_.size() > compact_at_) CompactGraph();
  std::vector<ValueRef> inside;
  if (reads == Reads::kInside) {
    for (const StateRef& operand : operands) {
      if (operand->value) inside.push_back(operand->value);
    }
    AddLeavesBelow(inside);
  }
  return ApplyLocked(operands, count, expressions, inside);
}

std::vector<StateRef> Session::Views(const StateRef& operand, size_t count,
                                     const Expressions& expressions) {
  if (absl::Status here = Connection::CheckFork(); !here.ok()) {
    return std::vector<StateRef>(count, Failed(std::move(here)));
  }
  absl::MutexLock lock(&mu_);
  if (graph_.size() > compact_at_) CompactGraph();
  std::vector<StateRef> states = ApplyLocked({&operand, 1}, count, expressions);
  for (const StateRef& state : states) {
    if (!state->error.ok()) continue;
    std::optional<ViewPath> path =
        ViewPath::Between(NodeOf(*operand->value), NodeOf(*state->value));
    if (!path) continue;
    const bool by_no_grad = !grad_enabled && path->size() > 1;
    BecomeView(state, operand, *std::move(path));
    if (by_no_grad && state->view->detached) state->view->detached->by_no_grad = true;
  }
  return states;
}

void Session::BecomeView(const StateRef& state, const StateRef& of, ViewPath path) {
  ViewOf view = of->view ? *of->view : ViewOf{.base = of, .path = {}, .detached = {}, .within = {}};
  view.path.Append(path);
  if (path.AtDetach()) {
    auto [to, within] = *view.path.AtDetach();
    view.detached = std::make_shared<Detached>();
    if (const Trace* trace = CurrentTrace(*this)) view.detached->trace = trace->id;
    view.detached->path = std::move(to);
    view.within = std::move(within);
  } else if (view.detached) {
    view.within.Append(path);
  }
  state->view = std::move(view);
  std::vector<std::weak_ptr<TensorState>>& views = state->view->base->views;
  // Now and then those that are gone are forgotten: it costs as much as adding them did.
  if (views.size() == views.capacity()) {
    std::erase_if(views, [](const auto& weak) { return weak.expired(); });
    views.reserve(2 * views.size() + 1);
  }
  views.push_back(state);
}

std::vector<StateRef> Session::ApplyLocked(absl::Span<const StateRef> operands, size_t count,
                                           const Expressions& expressions,
                                           absl::Span<const ValueRef> also_read) {
  std::vector<ValueRef> values;
  std::vector<Expr> sources;
  auto failed = [&](absl::Status error) {
    return std::vector<StateRef>(count, Failed(std::move(error)));
  };
  for (const StateRef& operand : operands) {
    absl::StatusOr<ValueRef> value = Use(operand);
    if (!value.ok()) return failed(value.status());
    // A weak tensor stays so when its data is in memory, in a dtype that is not.
    const Node* node = NodeOf(**value);
    if (node->dtype != operand->dtype) node = graph_.Cast(node, operand->dtype);
    sources.emplace_back(&graph_, node);
    values.push_back(*std::move(value));
  }
  std::vector<Expr> results = expressions(graph_, sources);

  // Operands that no input is below are constants: nothing needs to be kept for them, unless
  // derivatives go there, as from an empty tensor to what it is a part of.
  std::vector<ValueRef> parents(also_read.begin(), also_read.end());
  for (const ValueRef& value : values) {
    const bool is_constant = (value->node->below_ops & OpBit(Op::kParam)) == 0;
    if (is_constant && !WantsGradient(*value)) continue;
    if (std::find(parents.begin(), parents.end(), value) == parents.end()) parents.push_back(value);
  }
  std::vector<StateRef> states;
  for (Expr& result : results) {
    if (!result.ok()) return failed(result.status());
    // An operation that changes nothing gives the same version, not a copy of it; but not if
    // derivatives go to other operands as well, such as an empty one that is joined to it.
    auto same = std::find_if(values.begin(), values.end(), [&result](const ValueRef& value) {
      return value->node == result.node();
    });
    const auto is_other = [&](const ValueRef& value) {
      return value != *same && WantsGradient(*value);
    };
    if (same != values.end() && std::none_of(values.begin(), values.end(), is_other)) {
      states.push_back(Alias(*same, result.dtype()));
      continue;
    }
    if (!grad_enabled && IsFloat(result.dtype()) && result.node()->op != Op::kDetach) {
      result = Detach(result);
    }
    absl::StatusOr<std::vector<int64_t>> devices = DevicesFor(result.node(), values);
    if (!devices.ok()) return failed(devices.status());
    states.push_back(NewState(NewExpression(result, parents)));
    if (!devices->empty()) states.back()->value->devices = *std::move(devices);
    states.back()->dtype = result.dtype();
  }
  return states;
}

// A value that is computed forgets its parents, whose leaves must still be found then.
void Session::AddLeavesBelow(std::vector<ValueRef>& values) {
  absl::flat_hash_set<Value*> known;
  for (const ValueRef& value : values) known.insert(value.get());
  for (Value* value : ValuesBelow(values)) {
    if (value->leaf && known.insert(value).second) values.push_back(value->shared_from_this());
  }
}

StateRef Session::Failed(absl::Status error) {
  auto state = std::make_shared<TensorState>();
  state->session = shared_from_this();
  state->error = std::move(error);
  return state;
}

Session::ValueRef Session::NewExpression(const Expr& expression,
                                         absl::Span<const ValueRef> parents) {
  const Shape shape = expression.shape();
  auto value = std::make_shared<Value>(live_, StrongDType(expression.node()),
                                       std::vector<int64_t>(shape.begin(), shape.end()));
  value->node = expression.node();
  const Trace* trace = CurrentTrace(*this);
  value->trace = trace ? trace->id : 0;
  for (const ValueRef& parent : parents) {
    if (value->devices.empty()) value->devices = parent->devices;
    value->differentiable |= WantsGradient(*parent);
  }
  if (!IsFloat(value->dtype) || value->node->op == Op::kDetach) value->differentiable = false;
  if ((value->node->below_ops & OpBit(Op::kParam)) != 0 || value->differentiable) {
    value->parents.assign(parents.begin(), parents.end());
  }
  value->made_at = Recorded();
  const std::vector<int64_t>* devices = parents.empty() ? DefaultDevices() : nullptr;
  if (devices != nullptr) value->devices = *devices;
  return value;
}

// Another tensor of the same version.
StateRef Session::Alias(ValueRef value, DType dtype) {
  auto state = std::make_shared<TensorState>();
  state->session = shared_from_this();
  state->dtype = dtype;
  state->stored_dtype = value->dtype;
  state->shape = value->shape;
  state->value = std::move(value);
  state->mapping = CurrentMapping();
  return state;
}

StateRef Session::NewState(ValueRef value) {
  const DType dtype = value->dtype;
  StateRef state = Alias(std::move(value), dtype);
  state->value->owner = state;
  return state;
}

const Node* ParamOf(Graph& graph, int64_t slot, const Value& value) {
  const absl::StatusOr<Sizes> shape = DimsOfShape(graph, value.shape);
  TD_CHECK(shape.ok(), Message(shape.status()));
  return graph.SizedParam(slot, value.dtype, *shape);
}

const Node* Session::NodeOf(Value& value) {
  if (!value.node) value.node = ParamOf(graph_, next_leaf_++, value);
  return value.node;
}

Session::ValueRef Session::NewLeaf(DType dtype, std::vector<int64_t> shape) {
  auto value = std::make_shared<Value>(live_, dtype, std::move(shape));
  value->leaf = true;
  return value;
}

// The version of an operand that a new expression is built over.
absl::StatusOr<Session::ValueRef> Session::Use(const StateRef& state) {
  TD_RETURN_IF_ERROR(state->error);
  if (state->session.get() != this) {
    return InvalidArgument(
        "operands belong to different clients; bring one over with numpy() or ToHost first");
  }
  const Trace* trace = CurrentTrace(*this);
  // A captured program has the base as its input, so that a view sees what the program assigns.
  Settle(*state);
  if (trace && state->view && !trace->pure) {
    TD_RETURN_IF_ERROR(Use(state->view->base).status());
    if (state->value->leaf && state->value->trace == 0) DeriveView(state);
  }
  const Value& value = *state->value;
  if (trace && trace->pure && value.trace != trace->id) return VersionOf(state);
  if (value.trace != 0 && (!trace || value.trace != trace->id)) return EscapedFromTrace();
  // A captured program sees tensors from outside as they are at each call, hence as its inputs.
  if (trace && value.trace == 0 && !value.leaf && !state->view &&
      (value.variable || (value.node->below_ops & OpBit(Op::kParam)) != 0)) {
    MakeLeafLocked(state, History::kGoesOn);
  }
  return state->value;
}

void Session::CompactGraph() {
  live_->Visit([this](const absl::flat_hash_set<Value*>& values) {
    mu_.AssertHeld();
    std::vector<const Node**> places;
    for (Value* value : values) {
      for (const Node** place : {&value->node, &value->init, &value->origin}) {
        if (*place) places.push_back(place);
      }
    }
    std::sort(places.begin(), places.end(), [](const Node** a, const Node** b) {
      return (*a)->id < (*b)->id;  // the copy's order does not depend on addresses
    });
    std::vector<const Node*> roots;
    for (const Node** place : places) roots.push_back(*place);
    Graph fresh;
    const std::vector<const Node*> copies = CopyTo(fresh, roots);
    for (size_t i = 0; i < places.size(); ++i) *places[i] = copies[i];
    graph_ = std::move(fresh);
  });
  compact_at_ = std::max(size_t{1} << 16, 2 * graph_.size());
}

// ---- tensors as variables

namespace {

// Whether the node is made of what has no data: an example of a batch, or a gradient that comes in;
// of such stand-ins from that slot on.
bool StandsForOther(const Node* root, int64_t since) {
  if ((root->below_ops & OpBit(Op::kParam)) == 0) return false;
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> stack = {root};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (IsStandIn(node) && node->slot() >= since) return true;
    const auto custom = CustomGradient::Of(node);
    // What is sent of it is the value only.
    const size_t count = custom ? 1 : node->src.size();
    for (const Node* source : node->src.first(count)) {
      if ((source->below_ops & OpBit(Op::kParam)) != 0 && seen.insert(source).second) {
        stack.push_back(source);
      }
    }
  }
  return false;
}

}  // namespace

absl::Status Session::MakeLeaf(const StateRef& state) {
  TD_RETURN_IF_ERROR(state->error);
  absl::MutexLock lock(&mu_);
  if (state->view || !state->value->leaf) MakeLeafLocked(state, History::kEnds);
  return absl::OkStatus();
}

absl::Status Session::MakeVariable(const StateRef& state) {
  TD_RETURN_IF_ERROR(state->error);
  absl::MutexLock lock(&mu_);
  // Nothing that stands for something else can become memory.
  const Trace* trace = CurrentTrace(*this);
  const bool stands = (trace && trace->pure) || IsMapping() ||
                      (NodeOf(*state->value)->below_ops & OpBit(Op::kCarry)) != 0;
  if (!stands) state->value->variable = true;
  return absl::OkStatus();
}

void Session::MakeLeafLocked(const StateRef& state, History history) {
  ValueRef before = state->value;
  ValueRef leaf = NewLeaf(before->dtype, before->shape);
  leaf->init = NodeOf(*before);
  leaf->trace = before->trace;
  leaf->devices = before->devices;
  leaf->owner = state;
  if (history == History::kGoesOn) {
    leaf->differentiable = before->differentiable;
    leaf->hooks = before->hooks;
  }
  leaf->parents.push_back(std::move(before));
  state->view.reset();
  SetValue(*state, std::move(leaf));
}

void Session::Settle(TensorState& state) {
  if (state.view && state.view->base.use_count() == 1) state.view.reset();
}

void Session::SetValue(TensorState& state, ValueRef value) {
  state.value = std::move(value);
  DeriveViews(state);
}

void Session::DeriveViews(TensorState& base) {
  for (const auto& weak : base.views) {
    const StateRef state = weak.lock();
    if (state && state->view && state->view->base.get() == &base) DeriveView(state);
  }
}

void Session::DeriveView(const StateRef& state) {
  const ViewOf& view = *state->view;
  const ValueRef& base = view.base->value;
  Expr expression = view.path.Read(Expr(&graph_, NodeOf(*base)));
  TD_CHECK(expression.ok(), "all versions of a tensor have one shape");
  if (expression.node() == base->node) {
    state->value = base;
    return;
  }
  std::vector<ValueRef> parents = {base};
  if (view.detached) {
    parents[0] = SharedBy(*view.detached, base);
    if (const ValueRef& history = view.detached->history) {
      const Expr own = view.within.Read(Expr(&graph_, NodeOf(*history)));
      expression = WithHistory(expression, own);
      parents.push_back(history);
    }
  }
  state->value = NewExpression(expression, parents);
  state->value->owner = state;
  state->value->trace = base->trace;  // it is as old as its base
}

void Session::ReleaseViews(TensorState& base) {
  for (const auto& weak : base.views) {
    const StateRef state = weak.lock();
    if (state && state->view && state->view->base.get() == &base) state->value = nullptr;
  }
}

Expr Session::WithHistory(const Expr& data, const Expr& history) {
  const Expr stand_in = StandIn(history);
  return WithGradient(data, {&history, 1}, stand_in, {&stand_in, 1});
}

Session::ValueRef Session::SharedBy(const Detached& detached, const ValueRef& base) {
  return NewExpression(detached.path.Read(Expr(&graph_, NodeOf(*base))), {&base, 1});
}

absl::Status Session::Assign(const StateRef& target, const StateRef& source) {
  absl::MutexLock lock(&mu_);
  return AssignLocked(target, source, /*in_place=*/false);
}

absl::Status Session::WriteInPlace(const StateRef& target, const StateRef& source) {
  absl::MutexLock lock(&mu_);
  return AssignLocked(target, source, /*in_place=*/true);
}

absl::Status Session::AssignLocked(const StateRef& target, const StateRef& source, bool in_place) {
  TD_RETURN_IF_ERROR(target->error);
  const Trace* trace = CurrentTrace(*this);
  if (trace && trace->pure && RootOf(*target).value->trace != trace->id) {
    return FailedPrecondition(
        "assign: a function that is traced once has no effects; return the new value");
  }
  if (target->value->trace != 0 && (!trace || target->value->trace != trace->id)) {
    return EscapedFromTrace();
  }
  if (IsWeak(target->dtype)) {
    return InvalidArgument("assign: a {} has no storage; make it a tensor by clone() or cast first",
                           Name(target->dtype));
  }
  TD_ASSIGN_OR_RETURN(ValueRef value, Use(source));
  if (in_place) TD_RETURN_IF_ERROR(CheckInPlace(*target, *source));
  const Value& before = *target->value;
  if (!before.devices.empty() && !value->devices.empty() && value->devices != before.devices) {
    return InvalidArgument("assign: the tensor is on {}, the new value on {}; move it there first",
                           DevicesText(before.devices), DevicesText(value->devices));
  }
  if (value->dtype != before.dtype || value->shape != before.shape) {
    return InvalidArgument("assign: the tensor is {}{}, the new value {}{}", Name(before.dtype),
                           TextOf(before.shape), Name(value->dtype), TextOf(value->shape));
  }
  Settle(*target);
  TD_RETURN_IF_ERROR(CheckMapped(RootOf(*target), *value));
  if (target->view) return AssignView(target, source, std::move(value));
  if (in_place && GradEnabled() && before.differentiable && !WantsGradient(*value)) {
    const ValueRef parents[] = {target->value, value};
    value = NewExpression(Expr(&graph_, NodeOf(*value)), parents);
  }
  if (target->value != value) Replace(target, std::move(value));
  return absl::OkStatus();
}

bool Session::IsOwnOfTrace(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  const Trace* trace = CurrentTrace(*this);
  if (!trace || !state->error.ok()) return false;
  const Value& value = *RootOf(*state).value;
  return value.trace == trace->id && !value.leaf;
}

absl::Status Session::Rebind(const StateRef& target, const StateRef& source) {
  TD_RETURN_IF_ERROR(target->error);
  absl::MutexLock lock(&mu_);
  TD_ASSIGN_OR_RETURN(ValueRef value, Use(source));
  if (IsTracing()) {
    return FailedPrecondition(
        "replace: a captured function runs again with data only; use assign in it");
  }
  if (value->dtype != target->dtype || value->shape != target->shape) {
    return InvalidArgument("replace: the tensor is {}{}, the other {}{}", Name(target->dtype),
                           TextOf(target->shape), Name(value->dtype), TextOf(value->shape));
  }
  target->view.reset();
  if (target->requires_grad) value->target = true;
  SetValue(*target, std::move(value));
  return absl::OkStatus();
}

absl::Status Session::CheckMapped(const TensorState& target, Value& source) {
  // One with memory is from outside of all functions, whoever named it last.
  const bool has_memory = target.value->leaf || target.value->variable;
  const std::optional<int64_t> since = StandInsSince(has_memory ? 0 : target.mapping);
  if (!since || !StandsForOther(NodeOf(source), *since)) return absl::OkStatus();
  return FailedPrecondition(
      "vmap: a tensor from outside of the function can't take what is made of an example: there "
      "are many; return it, or write to a clone() made inside");
}

absl::Status Session::AssignView(const StateRef& target, const StateRef& source, ValueRef value) {
  const ViewOf view = *target->view;
  // `t[i] += x` changes a view of t and then stores it where it stands already.
  if (source->view && source->view->base == view.base && source->view->path == view.path &&
      source->view->detached == view.detached) {
    return absl::OkStatus();
  }
  TD_ASSIGN_OR_RETURN(ValueRef before, Use(view.base));
  const Expr given(&graph_, graph_.Cast(NodeOf(*value), value->dtype));
  const Expr written = view.path.Write(Expr(&graph_, NodeOf(*before)), given);
  TD_RETURN_IF_ERROR(written.status());
  const bool ends = view.detached != nullptr;
  if (ends && GradEnabled() && (view.detached->history || WantsGradient(*value))) {
    const Trace* trace = CurrentTrace(*this);
    if (trace && view.detached->trace != trace->id) {
      return FailedPrecondition(
          "in place: a captured function runs again with data only, so it can't give a history to "
          "a "
          "detached tensor from outside; detach inside of the function, or write in `with "
          "no_grad()`");
    }
    std::vector<ValueRef> parents = {SharedBy(*view.detached, before), value};
    Expr whole(&graph_, parents[0]->node);
    if (const ValueRef& history = view.detached->history) {
      whole = WithHistory(whole, Expr(&graph_, NodeOf(*history)));
      parents.push_back(history);
    }
    view.detached->history = NewExpression(view.within.Write(whole, given), parents);
  }
  // Through a view at which derivatives end, data is written and no history, as without gradients.
  const ValueRef parents[] = {std::move(before), std::move(value)};
  const ValueRef made = NewExpression(written, parents);
  const bool enabled = SetGradEnabled(GradEnabled() && !ends);
  Replace(view.base, made);
  SetGradEnabled(enabled);
  return absl::OkStatus();
}

void Session::Replace(const StateRef& target, ValueRef source) {
  Trace* trace = CurrentTrace(*this);
  if (trace && target->value->trace == 0) {
    // What exists outside is changed by the program, hence an input of it.
    if (!target->value->leaf) MakeLeafLocked(target, History::kGoesOn);
    auto seen = std::find_if(trace->assigned.begin(), trace->assigned.end(),
                             [&](const auto& entry) { return entry.first == target; });
    if (seen == trace->assigned.end()) trace->assigned.emplace_back(target, target->value);
  }
  if (target->value->variable && !target->value->leaf) {
    MakeLeafLocked(target, History::kGoesOn);
  }
  const bool ends = target->requires_grad;
  if (!ends) source = WithoutGrad(target->value, std::move(source));
  if (!target->value->leaf) {
    SetValue(*target, std::move(source));  // nothing is stored yet, so nothing is overwritten
    return;
  }
  ValueRef before = target->value;
  ValueRef after = NewLeaf(before->dtype, before->shape);
  after->init = NodeOf(*source);
  after->parents.push_back(std::move(source));
  after->owner = target;
  after->devices = after->parents[0]->devices;
  if (after->devices.empty()) after->devices = before->devices;
  after->trace = trace ? trace->id : 0;
  after->assigned = true;
  if (ends) {
    after->target = before->target;
    after->hooks = before->hooks;
  } else {
    after->differentiable =
        IsFloat(after->dtype) && (after->parents[0]->differentiable || after->parents[0]->target);
  }
  after->made_at = after->parents[0]->made_at;
  // Of several assignments before a run only the last is stored; the others are steps to it.
  const bool computed = before->buffer != nullptr || !before->dest;
  after->dest = computed ? before : std::move(before->dest);
  SetValue(*target, std::move(after));
  if (!trace) assigned_.push_back(target);
}

StateRef Session::Gradient(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  if (Trace* trace = CurrentTrace(*this)) trace->GradientOf(state, /*read=*/true);
  return state->grad;
}

void Session::SetGradient(const StateRef& state, StateRef gradient) {
  absl::MutexLock lock(&mu_);
  if (Trace* trace = CurrentTrace(*this)) trace->GradientOf(state, /*read=*/false);
  state->grad = std::move(gradient);
}

void Session::BindVariable(const std::string& name, int64_t value) {
  absl::MutexLock lock(&mu_);
  variables_[name] = value;
}

}  // namespace tensord::client
