// Session: tensors made from bytes that the client sends, inside a command or by an upload call.
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "server/session/session.h"

namespace tensord {
namespace {

// The shape as the compiler counts it, or why it cannot be one.
absl::StatusOr<std::vector<int64_t>> DecodeShape(const v1::UploadCommand& command, DType dtype,
                                                 const WireLimits& limits) {
  if (command.shape_size() > limits.max_rank) {
    return InvalidArgument("rank {} is above the limit of {}", command.shape_size(),
                           limits.max_rank);
  }
  // Sizes of zero count as one here, so that no order of the axes hides an overflow.
  const auto limit = static_cast<uint64_t>(limits.max_tensor_bytes);
  uint64_t bytes = ItemSize(dtype);
  bool empty = false;
  std::vector<int64_t> shape;
  for (uint64_t dim : command.shape()) {
    if (dim > 0 && bytes > limit / dim) {
      return ResourceExhausted("{}[{}] is larger than the limit of {} bytes for one tensor",
                               Name(dtype), fmt::join(command.shape(), ", "), limit);
    }
    empty |= dim == 0;
    bytes *= dim > 0 ? dim : 1;
    shape.push_back(static_cast<int64_t>(dim));
  }
  if (!empty && bytes > limit) {
    return ResourceExhausted("{} is larger than the limit of {} bytes for one tensor", Name(dtype),
                             limit);
  }
  return shape;
}

}  // namespace

Session::Outcome Session::ExecuteUpload(uint64_t sequence, const v1::UploadCommand& command) {
  const absl::Status status = Upload(command);
  if (status.ok()) return Outcome::kDone;
  UploadReady parked;
  {
    absl::MutexLock lock(&mu_);
    Fail(sequence, {command.handle()}, status, /*refused=*/true);
    if (command.transfer_id() == 0) return Outcome::kDone;
    // The call that brings the bytes gets the same error, whether it is here or still comes.
    const auto found = transfers_.find(command.transfer_id());
    if (found == transfers_.end()) {
      if (transfers_.size() < limits().max_transfers) {
        transfers_[command.transfer_id()].error = status;
      }
    } else if (found->second.parked) {
      parked = std::move(found->second.parked);
      transfers_.erase(found);
    }
  }
  if (parked) parked(status);
  return Outcome::kDone;
}

absl::Status Session::Upload(const v1::UploadCommand& command) {
  const uint64_t id = command.transfer_id();
  if (command.dtype() >= kNumDTypes || ItemSize(static_cast<DType>(command.dtype())) == 0) {
    return InvalidArgument("upload: dtype number {} is not one of a tensor's", command.dtype());
  }
  const auto dtype = static_cast<DType>(command.dtype());
  TD_ASSIGN_OR_RETURN(std::vector<int64_t> shape, DecodeShape(command, dtype, limits().graph),
                      "upload");
  const uint64_t bytes = NumElements(shape) * ItemSize(dtype);
  if (id != 0 && !command.inline_data().empty()) {
    return InvalidArgument("upload: it has both inline data and transfer {}", id);
  }
  if (id == 0 && command.inline_data().size() != bytes) {
    return InvalidArgument("upload: {}[{}] has {} bytes, the command brings {}", Name(dtype),
                           fmt::join(shape, ", "), bytes, command.inline_data().size());
  }
  if (id != 0) {
    absl::MutexLock lock(&mu_);
    const auto found = transfers_.find(id);
    if (found != transfers_.end() && !found->second.parked) {
      return AlreadyExists("upload: transfer {} was named by an earlier command", id);
    }
    if (found == transfers_.end() && transfers_.size() >= limits().max_transfers) {
      return ResourceExhausted("upload: {} transfers are open, the limit", transfers_.size());
    }
  }
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<Tensor> tensor,
                      NewTensor(command.handle(), command.device(), dtype, std::move(shape)),
                      "upload");
  if (id == 0) {
    void* to = tensor->buffer->memory->host_address();
    if (bytes > 0 && to != nullptr) std::memcpy(to, command.inline_data().data(), bytes);
    absl::MutexLock lock(&mu_);
    counters_.set_bytes_uploaded(counters_.bytes_uploaded() + bytes);
    Settle(*tensor, absl::OkStatus());
    return absl::OkStatus();
  }
  UploadReady parked;
  absl::StatusOr<UploadTarget> target;
  {
    absl::MutexLock lock(&mu_);
    Transfer& transfer = transfers_[id];
    transfer.tensor = tensor;
    if (transfer.parked) {
      parked = std::move(transfer.parked);
      transfer.parked = nullptr;
      target = Claim(transfer, id, transfer.parked_bytes);
      if (!target.ok()) transfers_.erase(id);
    }
  }
  if (parked) parked(std::move(target));
  return absl::OkStatus();
}

// A pending tensor under a fresh handle, with its memory.
absl::StatusOr<std::shared_ptr<Tensor>> Session::NewTensor(uint64_t handle,
                                                           std::string_view device_name,
                                                           DType dtype,
                                                           std::vector<int64_t> shape) {
  TD_ASSIGN_OR_RETURN(Device * device, engine_.runtime.FindDevice(device_name));
  const uint64_t bytes = NumElements(shape) * ItemSize(dtype);
  {
    absl::MutexLock lock(&mu_);
    TD_RETURN_IF_ERROR(tensors_.CheckNew(handle));
    TD_RETURN_IF_ERROR(Charge(bytes, fmt::format("{}[{}]", Name(dtype), fmt::join(shape, ", "))));
  }
  TD_ASSIGN_OR_RETURN(auto memory, device->allocator().Allocate(bytes));
  if (memory->host_address() == nullptr && device->executes()) {
    return Unimplemented("{}: its memory can't be reached from the host", device->name());
  }
  auto tensor = std::make_shared<Tensor>();
  tensor->buffer = std::make_shared<Buffer>();
  tensor->buffer->dtype = dtype;
  tensor->buffer->shape = std::move(shape);
  tensor->buffer->memory = std::move(memory);
  tensor->bytes = bytes;
  absl::MutexLock lock(&mu_);
  tensors_.Insert(handle, tensor);
  live_bytes_ += bytes;
  return tensor;
}

absl::StatusOr<UploadTarget> Session::Claim(Transfer& transfer, uint64_t id, uint64_t total_bytes) {
  if (transfer.tensor->state == ObjectState::kError) return transfer.tensor->error;
  const BufferRef& buffer = transfer.tensor->buffer;
  if (total_bytes != buffer->memory->size()) {
    const absl::Status status = InvalidArgument(
        "transfer {} brings {} bytes: {}[{}] has {}", id, total_bytes, Name(buffer->dtype),
        fmt::join(buffer->shape, ", "), buffer->memory->size());
    SetError(*transfer.tensor, status);
    return status;
  }
  transfer.claimed = true;
  return UploadTarget{.buffer = buffer,
                      .data = static_cast<char*>(buffer->memory->host_address()),
                      .bytes = total_bytes};
}

void Session::BeginUpload(uint64_t transfer_id, uint64_t total_bytes, UploadReady ready) {
  absl::StatusOr<UploadTarget> target;
  {
    absl::MutexLock lock(&mu_);
    const auto found = transfers_.find(transfer_id);
    if (ended_) {
      target = Cancelled("the session has ended");
    } else if (transfer_id == 0) {
      target = InvalidArgument("a transfer id is not 0");
    } else if (found == transfers_.end()) {
      if (transfers_.size() < limits().max_transfers) {
        Transfer& transfer = transfers_[transfer_id];
        transfer.parked = std::move(ready);
        transfer.parked_bytes = total_bytes;
        return;
      }
      target = ResourceExhausted("{} transfers are open, the limit", transfers_.size());
    } else if (found->second.claimed || found->second.parked) {
      target = AlreadyExists("transfer {}: another call brings its bytes", transfer_id);
    } else {
      target = found->second.error.ok() ? Claim(found->second, transfer_id, total_bytes)
                                        : found->second.error;
      if (!target.ok()) transfers_.erase(found);
    }
  }
  const bool failed = !target.ok();
  ready(std::move(target));
  if (failed) Poke();  // a run may wait for the tensor, which has an error now
}

void Session::EndUpload(uint64_t transfer_id, const absl::Status& status) {
  Transfer ended;  // dies without the lock
  {
    absl::MutexLock lock(&mu_);
    const auto found = transfers_.find(transfer_id);
    if (found == transfers_.end()) return;
    ended = std::move(found->second);
    transfers_.erase(found);
    if (ended.tensor) {
      Settle(*ended.tensor, Annotate(status, "upload, transfer {}", transfer_id));
    }
  }
  Poke();
}

}  // namespace tensord
