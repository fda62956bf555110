// Session's way from values to programs and runs.
#include <absl/container/flat_hash_set.h>
#include <absl/hash/hash.h>

#include <algorithm>
#include <map>

#include "client/cc/interrupt.h"
#include "client/cc/plan.h"
#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/loop.h"
#include "core/tensor/partition.h"
#include "core/tensor/size.h"
#include "core/tensor/weak.h"
#include "core/wire/program.h"

namespace tensord::client {
namespace {

// Programs that the daemon keeps for us although no captured function names them.
constexpr size_t kMaxPrograms = 512;

bool IsArgument(const Value& value) { return value.leaf && !value.buffer && !value.init; }

// Where a tensor that was assigned the result of a loop is read by another loop, the first is in
// the body of the second now: loops are finished anew.
absl::StatusOr<const Node*> CopyOf(Graph& to, const Node* node,
                                   absl::Span<const Node* const> sources) {
  if (node->op == Op::kCarry) return UnfinishedCarry(to, node, sources[0]);
  if (node->op != Op::kLoop) return CopyStrong(to, node, sources);
  std::vector<const Node*> carries, next;
  for (size_t i = 1; i < sources.size(); i += 2) {
    carries.push_back(sources[i]);
    next.push_back(sources[i + 1]);
  }
  return FinishLoop(to, sources[0], carries, next, node->ints[1]);
}

// By the daemon, as far as it told its limits.
absl::Status CheckAdmitted(const Program& program, const Connection& connection) {
  const v1::Limits& told = connection.welcome().limits();
  WireLimits limits;
  if (told.max_graph_nodes() != 0) limits.max_nodes = told.max_graph_nodes();
  if (told.max_tensor_bytes() != 0) {
    limits.max_tensor_bytes = static_cast<int64_t>(told.max_tensor_bytes());
  }
  return CheckLimits(program, limits);
}

}  // namespace

absl::Status Session::Realize(absl::Span<const StateRef> states) {
  if (IsTracing()) {
    return FailedPrecondition(
        "data cannot be read while a function is captured: there is none yet; return the tensor "
        "from the function and read it outside");
  }
  const SliceScope scope(slices_, "realize");
  TD_RETURN_IF_ERROR(AwaitRoom());
  absl::MutexLock lock(&mu_);
  std::vector<ValueRef> roots;
  for (const StateRef& state : states) {
    TD_RETURN_IF_ERROR(state->error);
    Settle(*state);
    roots.push_back(state->value);
  }
  return RealizePending(std::move(roots));
}

absl::StatusOr<Session::Scheduled> Session::Schedule(absl::Span<const StateRef> states) {
  if (IsTracing()) {
    return FailedPrecondition(
        "schedule: while a function is captured there is nothing to run yet; ask outside");
  }
  TD_RETURN_IF_ERROR(AwaitRoom());
  Scheduled result;
  Programs programs;
  {
    absl::MutexLock lock(&mu_);
    std::vector<ValueRef> roots;
    for (const StateRef& state : states) {
      TD_RETURN_IF_ERROR(state->error);
      Settle(*state);
      roots.push_back(state->value);
    }
    TD_RETURN_IF_ERROR(SendFiles(roots).status());
    TD_RETURN_IF_ERROR(RealizeLocked(std::move(roots), &programs));
    for (const auto& program : programs) {
      v1::RunProgram run;
      TD_RETURN_IF_ERROR(BindVariables(*program, run, {}));
      result.variables.insert(run.variables().begin(), run.variables().end());
    }
  }
  for (const auto& program : programs) {
    std::vector<std::string> kernels;
    TD_RETURN_IF_ERROR(program->connection->Wait(program->handle, Deadline(), &kernels));
    result.kernels.insert(result.kernels.end(), kernels.begin(), kernels.end());
  }
  return result;
}

// The roots, and with them whatever was assigned.
absl::Status Session::RealizePending(std::vector<ValueRef> roots) {
  // More than once if others assign while files are sent.
  while (live_->in_files.load(std::memory_order_relaxed) != 0) {
    std::vector<ValueRef> needed = roots;
    for (const auto& weak : assigned_) {
      if (StateRef state = weak.lock()) needed.push_back(state->value);
    }
    TD_ASSIGN_OR_RETURN(const bool sent, SendFiles(needed));
    if (!sent) break;
  }
  AdvanceRandom();
  const size_t asked = roots.size();
  const std::vector<std::weak_ptr<TensorState>> assigned = std::exchange(assigned_, {});
  for (const auto& weak : assigned) {
    if (StateRef state = weak.lock(); state && state->value->dest) roots.push_back(state->value);
  }
  const absl::Status all = RealizeLocked(roots);
  if (all.ok() || roots.size() == asked) return all;
  // An update that can't be computed keeps neither others from it nor what is asked for. It stays
  // what its tensor is made of, and says why when that is read.
  roots.resize(asked);
  const absl::Status status = RealizeLocked(std::move(roots));
  for (const auto& weak : assigned) {
    const StateRef state = weak.lock();
    if (state && state->value->dest) RealizeLocked({state->value}).IgnoreError();
  }
  return status;
}

absl::StatusOr<bool> Session::SendFiles(absl::Span<const ValueRef> roots) {
  std::vector<ValueRef> found;
  absl::flat_hash_set<const Value*> seen;
  std::vector<ValueRef> stack(roots.begin(), roots.end());
  while (!stack.empty()) {
    const ValueRef value = std::move(stack.back());
    stack.pop_back();
    if (!value || value->buffer || !seen.insert(value.get()).second) continue;
    if (value->file) found.push_back(value);
    stack.insert(stack.end(), value->parents.begin(), value->parents.end());
  }
  for (const ValueRef& value : found) TD_RETURN_IF_ERROR(SendFile(*value));
  return !found.empty();
}

absl::Status Session::SendFile(Value& value) {
  auto free = [&value] { return !value.sending; };
  TD_RETURN_IF_ERROR(AwaitInterruptibly(mu_, absl::Condition(&free), absl::InfiniteFuture()));
  if (value.buffer) return absl::OkStatus();
  value.sending = true;
  const Placement place = {value.devices.empty() ? HomeDevices() : value.devices, kWhole};
  const std::shared_ptr<Buffer> buffer = NewBuffer(value, place);
  mu_.Unlock();
  const SliceScope scope(slices_, "upload", value.bytes());
  const absl::Status status = buffer->connection->Upload(
      buffer->handles[0], value.dtype, value.shape, DeviceName(place.devices[0]), value.bytes(),
      [&value](uint64_t offset, absl::Span<char> out) {
        return value.file->Read(value.file_offset + offset, out);
      },
      Deadline());
  mu_.Lock();
  value.sending = false;
  TD_RETURN_IF_ERROR(status);
  for (size_t i = 1; i < place.devices.size(); ++i) {
    SendCopy(*buffer->connection, buffer->handles[i], buffer->handles[0], place.devices[i]);
  }
  value.buffer = buffer;
  value.SetFile(nullptr);
  return absl::OkStatus();
}

absl::Status Session::RealizeLocked(std::vector<ValueRef> roots, Programs* only_sent) {
  absl::flat_hash_set<const Value*> seen;
  std::erase_if(roots, [&seen](const ValueRef& root) {
    return root->buffer || !seen.insert(root.get()).second;
  });
  // By devices. What nobody placed is computed together with what somebody did, if there is one
  // place only.
  std::map<std::vector<int64_t>, std::vector<ValueRef>> places;
  std::vector<ValueRef> moved;
  for (ValueRef& root : roots) {
    if (IsMoved(*root)) {
      moved.push_back(std::move(root));
    } else {
      places[root->devices].push_back(std::move(root));
    }
  }
  if (auto free = places.find({}); free != places.end()) {
    std::vector<ValueRef> values = std::move(free->second);
    places.erase(free);
    std::vector<ValueRef>& with =
        places.size() == 1 ? places.begin()->second : places[HomeDevices()];
    with.insert(with.end(), values.begin(), values.end());
  }
  for (const auto& [devices, values] : places) {
    TD_RETURN_IF_ERROR(RealizeTogether(values, devices, only_sent));
  }
  if (only_sent && !moved.empty()) {
    return Unimplemented(
        "schedule: a tensor is brought to other devices by no kernel; ask for it "
        "where it is computed");
  }
  for (const ValueRef& value : moved) TD_RETURN_IF_ERROR(Move(*value));
  return absl::OkStatus();
}

absl::Status Session::RealizeTogether(const std::vector<ValueRef>& all,
                                      const std::vector<int64_t>& devices, Programs* only_sent) {
  Plan plan;
  plan.devices = devices;
  TD_RETURN_IF_ERROR(Gather(all, nullptr, plan));
  if (!plan.first.empty()) TD_RETURN_IF_ERROR(RealizeLocked(std::move(plan.first)));
  // Some may have been among what had to be computed before.
  std::vector<ValueRef> roots;
  for (const ValueRef& root : all) {
    if (!root->buffer) roots.push_back(root);
  }
  if (roots.empty()) return absl::OkStatus();
  TD_RETURN_IF_ERROR(Build(roots, plan));
  for (const ValueRef& root : roots) {
    Program::Output output{.value = plan.BuiltFor(*root)};
    const Value* dest = root->dest.get();
    // Memory that others read stays as it is; that whose data is lost is replaced, by what does not
    // need the data.
    if (dest && dest->buffer && dest->buffer->placement.devices == devices &&
        !dest->buffer->read_only && (plan.slots.contains(dest) || !IsDoubtful(*dest->buffer))) {
      output.overwrites = plan.SlotOf(*root->dest);
    }
    plan.program.outputs.push_back(output);
  }
  std::vector<std::shared_ptr<Buffer>> inputs;  // alive until the run is sent
  std::vector<int64_t> axes;
  for (Value* input : plan.inputs) {
    TD_RETURN_IF_ERROR(CheckPresent(*input->buffer));
    inputs.push_back(BufferOn(*input, devices));
    axes.push_back(inputs.back()->placement.axis);
  }
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<const SentProgram> program,
                      Register(plan.program, devices, axes));
  if (only_sent) {
    only_sent->push_back(program);
    return absl::OkStatus();
  }

  v1::Command command;
  v1::RunProgram& run = *command.mutable_run();
  run.set_program(program->handle);
  AddInputs(run, inputs);
  TD_RETURN_IF_ERROR(BindVariables(*program, run, inputs));
  // The roots are leaves from here on. Once they have let go of what they were built from, the
  // owners of a version that is to be overwritten are those who still want to read it.
  for (const ValueRef& root : roots) {
    if (!root->leaf) {
      root->origin = std::exchange(root->node, nullptr);
      root->leaf = true;
    } else if (root->differentiable && root->init) {
      root->origin = root->init;
    }
    root->init = nullptr;
    root->trace = 0;
    if (!root->differentiable || root->origin == nullptr) root->parents.clear();
  }
  std::vector<std::shared_ptr<Buffer>> outputs;
  for (size_t i = 0; i < roots.size(); ++i) {
    Value& root = *roots[i];
    ValueRef dest = std::exchange(root.dest, nullptr);
    if (plan.program.outputs[i].overwrites == Program::kFresh) {
      root.buffer = NewBuffer(root, {devices, program->axes[i]});
    } else {
      root.buffer = dest->buffer;
      if (dest.use_count() > 1) dest->buffer = CopyAside(*dest);
      root.buffer->overwritten = true;
    }
    outputs.push_back(root.buffer);
  }
  AddOutputs(run, outputs);
  const uint64_t sequence = SendRun(std::move(command));
  for (const ValueRef& root : roots) {
    root->buffer->run = sequence;
    NoteVariables(*root);
  }
  return absl::OkStatus();
}

uint64_t Session::SendRun(v1::Command command) {
  SliceScope scope(slices_, "run");
  const uint64_t sequence = connection_->Send(std::move(command));
  scope.set_sequence(sequence);
  return sequence;
}

// Finds what the roots are built from, and what has to be computed before them.
absl::Status Session::Gather(absl::Span<const ValueRef> roots, const Trace* trace, Plan& plan) {
  absl::flat_hash_set<Value*> seen;
  std::vector<Value*> stack;
  for (const ValueRef& root : roots) {
    if (seen.insert(root.get()).second) stack.push_back(root.get());
  }
  const absl::flat_hash_set<Value*> is_root = seen;
  std::reverse(stack.begin(), stack.end());
  while (!stack.empty()) {
    Value* value = stack.back();
    stack.pop_back();
    NodeOf(*value);
    if (value->leaf) plan.stands_for[value->node] = value;
    if (value->origin) plan.stands_for[value->origin] = value;
    if (value->buffer) continue;
    if (value->trace != 0 && (!trace || trace->id != value->trace)) return EscapedFromTrace();

    // A parameter is computed once, by a program of its own, so that the program that uses it is
    // the same the first time as ever after. Steps between two assignments are part of the program,
    // as is all that a captured function makes.
    const bool inside = trace ? value->trace == trace->id : is_root.contains(value);
    if (value->init && !value->assigned && !inside) {
      plan.first.push_back(value->shared_from_this());
      continue;
    }
    if (IsMoved(*value)) {
      if (value->trace != 0) return MovedInTrace();
      plan.stands_for[value->node] = value;
      plan.first.push_back(value->shared_from_this());
      continue;
    }
    for (const ValueRef& parent : value->parents) {
      if (seen.insert(parent.get()).second) stack.push_back(parent.get());
    }
  }
  return GatherMoved(roots, trace, plan);
}

// Copies the roots' expressions into the program; buffers become its inputs.
absl::Status Session::Build(absl::Span<const ValueRef> roots, Plan& plan) {
  plan.program.fast_math = fast_math();
  std::vector<const Node*> stack;
  std::vector<const Node*> sources;
  for (size_t i = roots.size(); i-- > 0;) {
    NodeOf(*roots[i]);
    stack.push_back(Plan::ExpressionOf(*roots[i]));
  }
  while (!stack.empty()) {
    const Node* node = stack.back();
    if (plan.built.contains(node)) {
      stack.pop_back();
      continue;
    }
    if (auto it = plan.stands_for.find(node); it != plan.stands_for.end()) {
      Value& value = *it->second;
      if (value.buffer || IsArgument(value)) {
        plan.built[node] = plan.ParamOf(value);
      } else if (auto init = plan.built.find(value.init); init != plan.built.end()) {
        plan.built[node] = plan.program.graph.Cast(init->second, value.dtype);
      } else {
        stack.push_back(value.init);
      }
      continue;
    }
    // What is sent is the value; how it is differentiated was our business.
    if (const auto custom = CustomGradient::Of(node)) {
      if (auto value = plan.built.find(custom->value); value != plan.built.end()) {
        plan.built[node] = value->second;
      } else {
        stack.push_back(custom->value);
      }
      continue;
    }
    if (IsStandIn(node)) {
      return FailedPrecondition(
          "this tensor is made of one that has no data yet: an example of the batch that vmap maps "
          "over, or the gradient that comes in to a custom gradient. Compute with tensors only, "
          "choose with where()");
    }
    if ((Info(node->op).levels & (kTensorLevel | kKernelLevel)) == kKernelLevel) {
      return FailedPrecondition(
          "this value was made in the function of a kernel and has no data outside of it; store it "
          "to an output");
    }
    if (node->op == Op::kParam) {
      return Internal("an expression reads input {}, of which nothing is known", node->slot());
    }
    if (node->op == Op::kCarry && node->ints[0] < 0) {
      return FailedPrecondition(
          "this tensor was made in the body of a loop and has no data outside of it; return it "
          "from "
          "the body as a state or as an output");
    }
    const bool stays = node->op == Op::kPlace && plan.devices.size() == 1;
    if (node->op == Op::kWithSlope || stays) {
      // A slope is for derivatives, which are made on this side: it is not sent.
      if (auto value = plan.built.find(node->src[0]); value != plan.built.end()) {
        plan.built[node] = value->second;
      } else {
        stack.push_back(node->src[0]);
      }
      continue;
    }
    const size_t depth = stack.size();
    sources.clear();
    for (size_t i = node->src.size(); i-- > 0;) {
      if (!plan.built.contains(node->src[i])) stack.push_back(node->src[i]);
    }
    if (stack.size() > depth) continue;
    for (const Node* source : node->src) sources.push_back(plan.built.at(source));
    TD_ASSIGN_OR_RETURN(const Node* copy, CopyOf(plan.program.graph, node, sources));
    if (copy->op == Op::kVariable) plan.AddVariable(copy);
    plan.built[node] = copy;
    stack.pop_back();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const SentProgram>> Session::Register(
    const Program& program, const std::vector<int64_t>& devices, absl::Span<const int64_t> axes) {
  const uint64_t hash = absl::HashOf(StructuralHash(program), devices, axes);
  if (auto it = program_of_.find(hash); it != program_of_.end()) {
    const SentProgram& known = **it->second;
    if (known.connection == connection_ && !connection_->WasRefused(known.sequence)) {
      programs_.splice(programs_.begin(), programs_, it->second);
      return programs_.front();
    }
    programs_.erase(it->second);
    program_of_.erase(it);
  }
  v1::Command command;
  v1::RegisterProgram& registration = *command.mutable_register_program();
  std::vector<int64_t> divided(program.outputs.size(), kWhole);
  if (devices.size() == 1) {
    TD_RETURN_IF_ERROR(CheckAdmitted(program, *connection_));
    *registration.mutable_program() = Encode(program);
    registration.set_device(DeviceName(devices[0]));
  } else {
    TD_ASSIGN_OR_RETURN(Partitioned parts,
                        Partition(program, static_cast<int64_t>(devices.size()), axes));
    TD_RETURN_IF_ERROR(CheckAdmitted(parts.program, *connection_));
    divided = std::move(parts.axes);
    *registration.mutable_program() = Encode(parts.program);
    for (int64_t device : devices) registration.add_devices(DeviceName(device));
  }
  auto sent = std::make_shared<SentProgram>();
  sent->connection = connection_;
  sent->hash = hash;
  sent->devices = devices;
  sent->axes = std::move(divided);
  sent->handle = connection_->NewHandle(Handle::kProgram);
  registration.set_handle(sent->handle);
  for (const Node* variable : program.variables) sent->variables.emplace_back(variable->text);
  {
    const SliceScope scope(slices_, "send program");
    sent->sequence = connection_->Send(std::move(command));
  }

  programs_.push_front(std::move(sent));
  program_of_[hash] = programs_.begin();
  if (programs_.size() > kMaxPrograms) {
    program_of_.erase(programs_.back()->hash);
    programs_.pop_back();
  }
  return programs_.front();
}

absl::Status Session::BindVariables(const SentProgram& program, v1::RunProgram& run,
                                    absl::Span<const std::shared_ptr<Buffer>> inputs) {
  for (const std::string& name : program.variables) {
    auto it = variables_.find(name);
    if (it == variables_.end()) {
      return FailedPrecondition("variable '{}' has no value; bind one before what uses it runs",
                                name);
    }
    (*run.mutable_variables())[name] = it->second;
    for (const std::shared_ptr<Buffer>& input : inputs) {
      auto then = input->variables.find(name);
      if (then == input->variables.end() || then->second == it->second) continue;
      return FailedPrecondition(
          "a tensor whose shape has '{0}' was computed with {0} = {1}, and now it is {2}; compute "
          "it anew, or bind {1}",
          name, then->second, it->second);
    }
  }
  return absl::OkStatus();
}

// With which values of the variables in its shape it is being computed.
void Session::NoteVariables(const Value& value) {
  value.buffer->variables.clear();
  for (int64_t size : value.shape) {
    for (const SizeVariable& variable : VariablesOfSize(size)) {
      value.buffer->variables[variable.name] = variables_.at(variable.name);
    }
  }
}

std::shared_ptr<Buffer> Session::NewBuffer(const Value& value, Placement placement) {
  return std::make_shared<Buffer>(connection_, value.bytes(), std::move(placement));
}

std::shared_ptr<Buffer> Session::CopyAside(const Value& value) {
  const Buffer& source = *value.buffer;
  auto copy = NewBuffer(value, source.placement);
  for (size_t i = 0; i < copy->handles.size(); ++i) {
    SendCopy(*connection_, copy->handles[i], source.handles[i], source.placement.devices[i]);
  }
  return copy;
}

}  // namespace tensord::client
