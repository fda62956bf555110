// Session: its tensors that leave their device when memory is short, and come back.
#include <absl/algorithm/container.h>

#include <utility>

#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "server/session/session.h"

namespace tensord {
namespace {

// So often a command that was given room may find it taken. Each time others have got on.
constexpr int kTries = 100;

// Whether nobody but the tensor has its memory, so that nobody sees it go.
bool IsAlone(const Tensor& tensor) {
  const int64_t holders = tensor.content != nullptr ? 2 : 1;
  if (tensor.buffer.use_count() > holders || tensor.buffer->memory.use_count() > 1) return false;
  // To take part in the counts orders what others did before they let go before what comes now;
  // to read them does not.
  const BufferRef buffer = tensor.buffer;
  const std::shared_ptr<DeviceMemory> memory = buffer->memory;
  return true;
}

// Whether it is of the kind that may go, now or later.
bool IsMovable(const Tensor& tensor) {
  const bool hidden = tensor.buffer != nullptr && tensor.buffer->memory->host_address() == nullptr;
  return tensor.bytes >= Spiller::kMinBytes && tensor.published == nullptr && !hidden;
}

bool MayGo(const Tensor& tensor) {
  return tensor.state == ObjectState::kValue && IsMovable(tensor) && tensor.readers == 0 &&
         tensor.wanted == 0 && IsAlone(tensor);
}

}  // namespace

absl::Status Session::OthersAreFaster() {
  return ResourceExhausted("the memory of its operands was taken by others {} times", kTries);
}

absl::StatusOr<Session::Outcome> Session::AwaitRoom(uint64_t sequence, const Tensors& tensors,
                                                    std::vector<Spiller::Need> needs,
                                                    const absl::Status& error) {
  if (engine_.spiller == nullptr) return error;
  if (room_.sequence != sequence) room_ = Room{.sequence = sequence};
  if (!room_.refused.ok()) {
    const absl::Status refused = std::move(room_.refused);
    room_ = Room();
    return refused;
  }
  if (!room_.asked) {
    if (++room_.tries > kTries) return error;
    LeaveRoom();
    room_.asked = true;
    engine_.spiller->Ask(weak_from_this(), {.command = sequence,
                                            .tensors = tensors,
                                            .needs = std::move(needs),
                                            .again = room_.tries > 1});
  }
  return Blocked(sequence, v1::ExplainReply::CAUSE_MEMORY);
}

std::vector<std::shared_ptr<DeviceMemory>> Session::TakeReserve(uint64_t sequence) {
  absl::MutexLock lock(&mu_);
  if (room_.sequence != sequence) return {};
  return std::exchange(room_.grant.memory, {});
}

Spiller::Grant Session::LeaveRoom() {
  for (const auto& tensor : room_.tensors) --tensor->wanted;
  room_.tensors.clear();
  return std::move(room_.grant);
}

bool Session::IsThere(const std::shared_ptr<Tensor>& tensor) {
  if (tensor->state != ObjectState::kSpilled) return tensor->state == ObjectState::kValue;
  if (!tensor->asked_for) {
    tensor->asked_for = true;
    engine_.spiller->Ask(weak_from_this(), {.tensors = {tensor}, .needs = {}});
  }
  return false;
}

std::optional<std::vector<Spiller::Operand>> Session::FindOperands(
    const Spiller::Request& request) {
  std::vector<Spiller::Operand> operands;
  absl::flat_hash_set<Tensor*> known;
  absl::MutexLock lock(&mu_);
  const bool wanted = request.command == 0 || (room_.sequence == request.command && room_.asked);
  if (ended_ || !wanted) return std::nullopt;
  for (const auto& tensor : request.tensors) {
    if (tensor->device == nullptr || !known.insert(tensor.get()).second) continue;
    operands.push_back({.tensor = tensor,
                        .device = tensor->device,
                        .bytes = tensor->bytes,
                        .spilled = tensor->state == ObjectState::kSpilled});
  }
  return operands;
}

void Session::Look(absl::Span<Device* const> devices, const Spiller::Request* request,
                   Spiller::Survey& survey) {
  absl::MutexLock lock(&mu_);
  if (ended_) return;
  const bool idle = queue_.empty() && in_flight_ == 0;
  const bool uploads = !transfers_.empty(), works = in_flight_ > 0 || copying_ > 0;
  std::vector<uint64_t> victims;
  tensors_.ForEach([&](uint64_t handle, const Tensor& tensor) {
    if (!IsMovable(tensor) || tensor.state == ObjectState::kSpilled ||
        !absl::c_linear_search(devices, tensor.device)) {
      return;
    }
    const auto is_it = [&tensor](const auto& each) { return each.get() == &tensor; };
    if (request != nullptr && absl::c_any_of(request->tensors, is_it)) return;
    survey.movable.emplace_back(tensor.device, tensor.bytes);
    if (MayGo(tensor)) {
      victims.push_back(handle);
    } else if ((tensor.state == ObjectState::kPending && uploads) ||
               (tensor.wanted == 0 && !works)) {
      // It arrives, is read, or a call that has read it is not over.
      survey.by_clients.emplace_back(tensor.device, tensor.bytes);
    }
  });
  for (uint64_t handle : victims) {
    const std::shared_ptr<Tensor> tensor = tensors_.Share(handle);
    survey.victims.push_back({.holder = shared_from_this(),
                              .tensor = tensor,
                              .device = tensor->device,
                              .bytes = tensor->bytes,
                              .idle = idle,
                              .used = tensor->used});
  }
  survey.runs |= works;
}

absl::StatusOr<uint64_t> Session::Spill(const std::shared_ptr<Tensor>& tensor, SpillStore& store) {
  BufferRef buffer;
  std::shared_ptr<Content> content;
  {
    absl::MutexLock lock(&mu_);
    if (!MayGo(*tensor)) return 0;
    tensor->state = ObjectState::kPending;  // who wants it waits
    buffer = std::move(tensor->buffer);
    content = std::move(tensor->content);
  }
  if (content != nullptr) content->Drop();
  const DeviceMemory& memory = *buffer->memory;
  absl::StatusOr<std::shared_ptr<SpillStore::Spilled>> bytes =
      store.Put({static_cast<const char*>(memory.host_address()), memory.size()});
  std::shared_ptr<const SpilledValue> value;
  if (bytes.ok()) {
    value = std::make_shared<const SpilledValue>(
        SpilledValue{.dtype = buffer->dtype, .shape = buffer->shape, .bytes = *std::move(bytes)});
  }
  absl::MutexLock lock(&mu_);
  if (tensor->state != ObjectState::kPending) return memory.size();  // has an error meanwhile
  if (!value) {
    tensor->state = ObjectState::kValue;
    tensor->buffer = std::move(buffer);
    return bytes.status();
  }
  tensor->state = ObjectState::kSpilled;
  tensor->spilled = std::move(value);
  account_.Move(tensor->device, nullptr, tensor->bytes);
  return memory.size();
}

uint64_t Session::Restore(const std::shared_ptr<Tensor>& tensor,
                          std::shared_ptr<DeviceMemory> memory) {
  std::shared_ptr<const SpilledValue> value;
  {
    absl::MutexLock lock(&mu_);
    if (tensor->state != ObjectState::kSpilled) return 0;
    tensor->state = ObjectState::kPending;
    value = tensor->spilled;
  }
  const absl::Status status =
      value->bytes->Get({static_cast<char*>(memory->host_address()), memory->size()});
  const uint64_t bytes = memory->size();
  auto buffer = std::make_shared<Buffer>();
  buffer->dtype = value->dtype;
  buffer->shape = value->shape;
  buffer->memory = std::move(memory);
  absl::MutexLock lock(&mu_);
  if (tensor->state != ObjectState::kPending) return 0;
  if (!status.ok()) {
    SetError(*tensor, status);
    return 0;
  }
  account_.Move(nullptr, tensor->device, tensor->bytes);
  tensor->spilled = nullptr;
  tensor->state = ObjectState::kValue;
  tensor->buffer = std::move(buffer);
  return bytes;
}

void Session::Granted(const Spiller::Request& request, Spiller::Grant grant) {
  {
    absl::MutexLock lock(&mu_);
    for (const auto& tensor : request.tensors) tensor->asked_for &= request.command != 0;
    if (ended_ || (request.command != 0 && room_.sequence != request.command)) return;
    if (request.command != 0) {
      room_.asked = false;
      std::swap(room_.grant, grant);
      room_.tensors = request.tensors;
      for (const auto& tensor : room_.tensors) ++tensor->wanted;
    }
  }
  // Who reads it takes hold of it here, before anything else can go.
  if (request.command == 0) return NotifyWaiters();
  engine_.work_pool.Schedule([self = shared_from_this()] { self->Drain(); });
}

void Session::Refused(const Spiller::Request& request, const absl::Status& status) {
  std::vector<AwaitDone> failed;
  {
    absl::MutexLock lock(&mu_);
    if (request.command != 0) {
      if (room_.sequence != request.command) return;
      room_.asked = false;
      room_.refused = status;
    } else {
      const std::shared_ptr<Tensor>& tensor = request.tensors[0];
      tensor->asked_for = false;
      std::vector<Waiter> still;
      for (Waiter& waiter : waiters_) {
        const bool reads = waiter.request.pin && executed_ >= waiter.request.sequence &&
                           tensors_.Find(waiter.request.handle).ok() &&
                           tensors_.Share(waiter.request.handle) == tensor;
        if (reads) {
          failed.push_back(std::move(waiter.done));
        } else {
          still.push_back(std::move(waiter));
        }
      }
      waiters_ = std::move(still);
    }
  }
  for (AwaitDone& done : failed) done(Annotate(status, "a tensor that is spilled"));
  engine_.work_pool.Schedule([self = shared_from_this()] { self->Drain(); });
}

void Session::Bill(const Spiller::Moved& moved) {
  absl::MutexLock lock(&mu_);
  counters_.set_bytes_spilled(counters_.bytes_spilled() + moved.spilled);
  counters_.set_bytes_restored(counters_.bytes_restored() + moved.restored);
}

}  // namespace tensord
