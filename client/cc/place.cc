// Session's way of having values on several devices, and of bringing them from one to another.
//
// A tensor is on the devices on which it was put, and what is made of it is on these too. One that
// nobody put anywhere goes where it is needed. A Place node in an expression says that a value is
// brought over: it splits what is computed into programs, one for each set of devices.
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "client/cc/plan.h"
#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/join.h"
#include "core/tensor/movement.h"
#include "core/tensor/placement.h"
#include "core/tensor/size.h"

namespace tensord::client {
namespace {

// With room for the largest sizes, as it is in memory.
std::vector<int64_t> ShapeInMemory(const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes;
  for (int64_t size : shape) sizes.push_back(SizeHigh(size));
  return sizes;
}

thread_local std::optional<std::pair<const Session*, std::vector<int64_t>>> default_devices;

// Whether the node is a value that comes from other devices.
bool Crosses(const Node* node) {
  if (node->op != Op::kPlace) return false;
  const Placement from = SourceOf(node), to = TargetOf(node);
  return !from.devices.empty() && !to.devices.empty() && from.devices != to.devices;
}

}  // namespace

// ---- where values are

const std::string& Session::DeviceName(int64_t number) const {
  return static_cast<size_t>(number) < devices_.size() ? devices_[static_cast<size_t>(number)]
                                                       : options_.device;
}

std::string Session::DevicesText(absl::Span<const int64_t> devices) const {
  std::string text;
  for (int64_t device : devices) text += (text.empty() ? "" : ", ") + DeviceName(device);
  return text;
}

absl::StatusOr<Placement> Session::FindPlacement(absl::Span<const std::string> names,
                                                 int64_t axis) const {
  Placement placement{.devices = {}, .axis = names.size() > 1 ? axis : kWhole};
  for (const std::string& name : names) {
    // "CPU" is the first of its kind.
    const auto found = std::ranges::find_if(devices_, [&](const std::string& device) {
      return device == name || device == name + ":0";
    });
    if (found == devices_.end()) {
      return InvalidArgument("there is no device '{}'; the daemon has {}", name,
                             fmt::join(devices_, ", "));
    }
    const int64_t number = found - devices_.begin();
    if (std::ranges::count(placement.devices, number) > 0) {
      return InvalidArgument("device '{}' is named twice", name);
    }
    placement.devices.push_back(number);
    const auto kind = [](const std::string& device) { return device.substr(0, device.find(':')); };
    if (kind(DeviceName(number)) != kind(DeviceName(placement.devices[0]))) {
      return InvalidArgument("{} and {} are devices of two kinds; a tensor is on devices of one",
                             DeviceName(placement.devices[0]), DeviceName(number));
    }
  }
  if (placement.devices.empty()) return InvalidArgument("no devices are named");
  if (static_cast<int64_t>(placement.devices.size()) > kMaxDevices) {
    return InvalidArgument("{} devices, the most is {}", placement.devices.size(), kMaxDevices);
  }
  return placement;
}

absl::StatusOr<std::optional<std::vector<std::string>>> Session::SetDefaultDevices(
    const std::optional<std::vector<std::string>>& names) {
  std::optional<std::vector<std::string>> before;
  if (const std::vector<int64_t>* devices = DefaultDevices()) {
    before.emplace();
    for (int64_t device : *devices) before->push_back(DeviceName(device));
  }
  if (!names) {
    default_devices.reset();
    return before;
  }
  TD_ASSIGN_OR_RETURN(const Placement placement, FindPlacement(*names, kWhole));
  default_devices = {this, placement.devices};
  return before;
}

const std::vector<int64_t>* Session::DefaultDevices() const {
  return default_devices && default_devices->first == this ? &default_devices->second : nullptr;
}

std::string Session::DefaultDevicesText() const {
  const std::vector<int64_t>* devices = DefaultDevices();
  return devices == nullptr ? "" : DevicesText(*devices);
}

// None if nobody said where it is to be.
Placement Session::PlacementIn(const Value& value) {
  if (value.devices.empty()) return {};
  return {value.devices, value.buffer ? value.buffer->placement.axis : value.axis};
}

Placement Session::PlacementOf(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  const Value& value = *state->value;
  if (value.buffer) return value.buffer->placement;
  if (value.devices.empty()) return {HomeDevices(), kWhole};
  return PlacementIn(value);
}

std::string Session::PlacementText(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  const Placement placement = PlacementIn(*state->value);
  if (placement.devices.empty()) return "";
  return fmt::format("@{}/{}", fmt::join(placement.devices, ","), placement.axis);
}

std::vector<StateRef> Session::DividedAnyhow(absl::Span<const StateRef> states) {
  absl::MutexLock lock(&mu_);
  std::vector<StateRef> found;
  for (const StateRef& state : states) {
    const Value& value = *state->value;
    const bool said = value.node != nullptr && value.node->op == Op::kPlace;
    if (!value.buffer && value.devices.size() > 1 && !said) found.push_back(state);
  }
  return found;
}

bool Session::IsPlaced(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  return !state->value->devices.empty();
}

absl::StatusOr<std::vector<int64_t>> Session::DevicesFor(const Node* result,
                                                         absl::Span<const ValueRef> operands) {
  if (result->op == Op::kPlace && !TargetOf(result).devices.empty()) {
    return TargetOf(result).devices;
  }
  std::vector<int64_t> devices;
  bool several = false;
  const auto meets = [&](const std::vector<int64_t>& also) {
    if (also.empty() || also == devices) return true;
    several |= !devices.empty();
    if (devices.empty()) devices = also;
    return !several;
  };
  for (const ValueRef& operand : operands) meets(operand->devices);
  if (!several && (result->below_ops & OpBit(Op::kPlace)) == 0) return devices;

  // Not all of them need to meet: a gradient is where its tensor is, and not where the loss is. And
  // an expression may bring values over inside.
  devices.clear();
  several = false;
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> stack = {result};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    const std::vector<int64_t>* known = nullptr;
    std::vector<int64_t> target;
    if (node->op == Op::kPlace && !TargetOf(node).devices.empty()) {
      target = TargetOf(node).devices;
      known = &target;
    } else if (auto operand = std::ranges::find(operands, node,
                                                [](const ValueRef& value) { return value->node; });
               operand != operands.end()) {
      known = &(*operand)->devices;
    }
    if (known == nullptr) {
      stack.insert(stack.end(), node->src.begin(), node->src.end());
      continue;
    }
    const std::vector<int64_t> before = devices;
    if (!meets(*known)) {
      return InvalidArgument(
          "tensors on {} and on {} meet; bring one over by to() or shard() first",
          DevicesText(before), DevicesText(*known));
    }
  }
  return devices;
}

StateRef Session::Placed(const StateRef& state, const Placement& to) {
  if (!state->error.ok()) return state;
  absl::MutexLock lock(&mu_);
  const absl::StatusOr<ValueRef> value = Use(state);
  if (!value.ok()) return Failed(value.status());
  const std::vector<int64_t> shape = state->shape;
  const auto count = static_cast<int64_t>(to.devices.size());
  if (to.axis != kWhole) {
    const auto rank = static_cast<int64_t>(shape.size());
    if (to.axis < 0 || to.axis >= rank) {
      return Failed(MakeStatus(absl::StatusCode::kOutOfRange,
                               "shard: axis {} of a tensor of {} axes", to.axis, rank));
    }
    if (Varies(shape[to.axis]) || shape[to.axis] % count != 0) {
      return Failed(InvalidArgument(
          "shard: uneven: axis {} of {} is not divided by {} devices; pad it, or take another axis",
          to.axis, TextOf(shape), count));
    }
  }
  const Placement from = PlacementIn(**value);
  if (from == to) return state;
  const StateRef placed = ApplyLocked({&state, 1}, 1, [&](Graph&, absl::Span<const Expr> sources) {
    return std::vector<Expr>{Place(sources[0], from, to)};
  })[0];
  if (placed->value) placed->value->axis = to.axis;
  return placed;
}

absl::Status Session::MoveTo(const StateRef& state, const Placement& to) {
  if (IsTracing()) return MovedInTrace();
  const StateRef moved = Placed(state, to);
  TD_RETURN_IF_ERROR(moved->error);
  bool in_memory;
  {
    absl::MutexLock lock(&mu_);
    in_memory = state->value->buffer != nullptr || state->value->leaf;
  }
  // An expression stays one, with its history.
  if (in_memory) TD_RETURN_IF_ERROR(Realize({&moved, 1}));
  absl::MutexLock lock(&mu_);
  state->view.reset();
  if (state->requires_grad) {
    moved->value->target = true;
    moved->value->hooks = state->value->hooks;
    if (moved->value->leaf) {  // else it is an expression still, below which it must be found
      moved->value->differentiable = false;
      moved->value->parents.clear();
    }
  }
  SetValue(*state, moved->value);
  state->value->owner = state;
  return absl::OkStatus();
}

// ---- bringing values over

// What nobody put anywhere is computed on the new devices, unless it is in memory elsewhere.
bool Session::IsMoved(const Value& value) {
  if (value.buffer || value.node == nullptr || value.node->op != Op::kPlace) return false;
  if (Crosses(value.node)) return true;
  const Placement to = TargetOf(value.node);
  if (to.devices.empty() || !SourceOf(value.node).devices.empty()) return false;
  const auto source = std::ranges::find(value.parents, value.node->src[0],
                                        [](const ValueRef& parent) { return parent->node; });
  return source != value.parents.end() && (*source)->buffer != nullptr &&
         (*source)->buffer->placement.devices != to.devices;
}

absl::Status Session::GatherMoved(absl::Span<const ValueRef> roots, const Trace* trace,
                                  Plan& plan) {
  absl::flat_hash_set<const Node*> seen;
  for (const ValueRef& root : roots) {
    if (root->buffer) continue;
    std::vector<const Node*> stack = {Plan::ExpressionOf(*root)};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if ((node->below_ops & OpBit(Op::kPlace)) == 0 || !seen.insert(node).second) continue;
      if (auto found = plan.stands_for.find(node); found != plan.stands_for.end()) {
        const Value& value = *found->second;
        if (!value.buffer && value.init != nullptr) stack.push_back(value.init);
        if (value.buffer || value.init != nullptr || IsMoved(value)) continue;
      }
      if (!Crosses(node)) {
        stack.insert(stack.end(), node->src.begin(), node->src.end());
        continue;
      }
      if (trace) return MovedInTrace();
      const ValueRef moved = NewExpression(Expr(&graph_, node), root->parents);
      moved->devices = TargetOf(node).devices;
      plan.stands_for[node] = moved.get();
      plan.first.push_back(moved);
      plan.kept.push_back(moved);
    }
  }
  return absl::OkStatus();
}

absl::Status Session::Move(Value& value) {
  if (value.buffer) return absl::OkStatus();
  const Node* node = value.node;
  auto found = std::ranges::find(value.parents, node->src[0],
                                 [](const ValueRef& parent) { return parent->node; });
  ValueRef source;
  if (found != value.parents.end()) {
    source = *found;
  } else {
    source = NewExpression(Expr(&graph_, node->src[0]), value.parents);
    source->devices = SourceOf(node).devices;
  }
  TD_RETURN_IF_ERROR(RealizeLocked({source}));
  TD_RETURN_IF_ERROR(CheckPresent(*source->buffer));
  const Placement to = TargetOf(node);
  std::shared_ptr<Buffer> from = source->buffer;
  if (from->placement.axis != kWhole) {
    TD_ASSIGN_OR_RETURN(from, Joined(value, *from, to.devices[0]));
  }
  if (to.axis != kWhole) {
    TD_ASSIGN_OR_RETURN(value.buffer, Split(value, *from, to));
  } else {
    value.buffer = from->placement == to ? from : Copied(*from, value.bytes(), to);
  }
  value.buffer->variables = source->buffer->variables;
  value.origin = std::exchange(value.node, nullptr);
  value.leaf = true;
  if (!value.differentiable) value.parents.clear();
  return absl::OkStatus();
}

void Session::SendCopy(Connection& connection, uint64_t to, uint64_t from, int64_t device) const {
  v1::Command command;
  command.mutable_copy()->set_handle(to);
  command.mutable_copy()->set_source(from);
  command.mutable_copy()->set_device(DeviceName(device));
  connection.Send(std::move(command));
}

std::shared_ptr<Buffer> Session::Copied(const Buffer& source, uint64_t bytes, const Placement& to) {
  auto copy = std::make_shared<Buffer>(connection_, bytes, to);
  for (size_t i = 0; i < to.devices.size(); ++i) {
    // From the same device, if it is there.
    const auto same = std::ranges::find(source.placement.devices, to.devices[i]);
    const size_t at = same == source.placement.devices.end()
                          ? 0
                          : static_cast<size_t>(same - source.placement.devices.begin());
    SendCopy(*connection_, copy->handles[i], source.handles[at], to.devices[i]);
  }
  copy->variables = source.variables;
  return copy;
}

// The parts are cut out where the whole is, and each goes its way.
absl::StatusOr<std::shared_ptr<Buffer>> Session::Split(const Value& value, const Buffer& whole,
                                                       const Placement& to) {
  const std::vector<int64_t> shape = ShapeInMemory(value.shape);
  const auto count = static_cast<int64_t>(to.devices.size());
  const int64_t length = shape[to.axis] / count, home = whole.placement.devices[0];
  Program program;
  program.name = "shard";
  program.inputs = {program.graph.Param(0, value.dtype, shape)};
  const Expr x(&program.graph, program.inputs[0]);
  for (int64_t i = 0; i < count; ++i) {
    program.outputs.push_back({Shrink(x, to.axis, i * length, (i + 1) * length).node()});
  }
  TD_ASSIGN_OR_RETURN(const auto sent, Register(program, {home}, {kWhole}));
  auto parts = std::make_shared<Buffer>(connection_, value.bytes(), to);
  v1::Command command;
  v1::RunProgram& run = *command.mutable_run();
  run.set_program(sent->handle);
  run.add_inputs(whole.handles[0]);
  std::vector<uint64_t> made = parts->handles;
  for (int64_t i = 0; i < count; ++i) {
    if (to.devices[i] != home) made[i] = connection_->NewHandle(Handle::kTensor);
    run.add_outputs(made[i]);
  }
  connection_->Send(std::move(command));
  for (int64_t i = 0; i < count; ++i) {
    if (made[i] == parts->handles[i]) continue;
    SendCopy(*connection_, parts->handles[i], made[i], to.devices[i]);
    connection_->Release(made[i], parts->bytes);
  }
  return parts;
}

absl::StatusOr<std::shared_ptr<Buffer>> Session::Joined(const Value& value, const Buffer& parts,
                                                        int64_t device) {
  const auto count = static_cast<int64_t>(parts.handles.size());
  std::vector<int64_t> shape = ShapeInMemory(value.shape);
  shape[parts.placement.axis] /= count;
  Program program;
  program.name = "gather";
  std::vector<Expr> pieces;
  for (int64_t i = 0; i < count; ++i) {
    program.inputs.push_back(program.graph.Param(i, value.dtype, shape));
    pieces.emplace_back(&program.graph, program.inputs.back());
  }
  program.outputs.push_back({Cat(pieces, parts.placement.axis).node()});
  const std::vector<int64_t> axes(program.inputs.size(), kWhole);
  TD_ASSIGN_OR_RETURN(const auto sent, Register(program, {device}, axes));
  auto whole = std::make_shared<Buffer>(connection_, value.bytes(), Placement{{device}, kWhole});
  v1::Command command;
  v1::RunProgram& run = *command.mutable_run();
  run.set_program(sent->handle);
  std::vector<uint64_t> brought;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t piece = parts.handles[i];
    if (parts.placement.devices[i] != device) {
      piece = connection_->NewHandle(Handle::kTensor);
      SendCopy(*connection_, piece, parts.handles[i], device);
      brought.push_back(piece);
    }
    run.add_inputs(piece);
  }
  run.add_outputs(whole->handles[0]);
  connection_->Send(std::move(command));
  for (uint64_t piece : brought) connection_->Release(piece, parts.bytes);
  return whole;
}

std::shared_ptr<Buffer> Session::BufferOn(Value& value, const std::vector<int64_t>& devices) {
  if (value.buffer->placement.devices == devices) return value.buffer;
  TD_CHECK(value.devices.empty(), "a value is read where it is not");
  for (const std::shared_ptr<Buffer>& copy : value.copies) {
    if (copy->placement.devices == devices) return copy;
  }
  value.copies.push_back(Copied(*value.buffer, value.bytes(), {devices, kWhole}));
  return value.copies.back();
}

// All inputs on the first device, then those on the second, and so on.
void Session::AddInputs(v1::RunProgram& run, absl::Span<const std::shared_ptr<Buffer>> inputs) {
  if (inputs.empty()) return;
  for (size_t device = 0; device < inputs[0]->handles.size(); ++device) {
    for (const auto& input : inputs) run.add_inputs(input->handles[device]);
  }
}

void Session::AddOutputs(v1::RunProgram& run, absl::Span<const std::shared_ptr<Buffer>> outputs) {
  if (outputs.empty()) return;
  for (size_t device = 0; device < outputs[0]->handles.size(); ++device) {
    for (const auto& output : outputs) run.add_outputs(output->handles[device]);
  }
}

absl::Status Session::DownloadParts(const Buffer& buffer, const std::vector<int64_t>& shape,
                                    const Sink& sink) {
  const std::vector<int64_t> sizes = ShapeInMemory(shape);
  const auto axis = static_cast<size_t>(buffer.placement.axis);
  const size_t count = buffer.handles.size();
  size_t outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= static_cast<size_t>(sizes[i]);
  // Bytes that lie together.
  const size_t run = static_cast<size_t>(buffer.bytes) / std::max<size_t>(outer, 1);
  if (outer == 1) {  // one part after the other
    for (size_t i = 0; i < count; ++i) {
      TD_RETURN_IF_ERROR(buffer.connection->Download(
          buffer.handles[i], buffer.bytes,
          [&](uint64_t offset, absl::Span<const char> data) {
            return sink(i * buffer.bytes + offset, data);
          },
          Deadline()));
    }
    return absl::OkStatus();
  }
  std::vector<char> whole(static_cast<size_t>(buffer.bytes) * count), part(buffer.bytes);
  for (size_t i = 0; i < count; ++i) {
    TD_RETURN_IF_ERROR(buffer.connection->Download(
        buffer.handles[i], buffer.bytes,
        [&part](uint64_t offset, absl::Span<const char> data) {
          std::copy(data.begin(), data.end(), part.begin() + static_cast<int64_t>(offset));
          return absl::OkStatus();
        },
        Deadline()));
    for (size_t row = 0; row < outer && run > 0; ++row) {
      std::memcpy(&whole[(row * count + i) * run], &part[row * run], run);
    }
  }
  return sink(0, whole);
}

}  // namespace tensord::client
