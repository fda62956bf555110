// Session: tensors made from bytes that the client sends, inside a command or by an upload call.
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "core/wire/refusal.h"
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
  const absl::StatusOr<Outcome> outcome = Upload(sequence, command);
  if (outcome.ok() && (*outcome != Outcome::kDone || command.transfer_id() != 0)) return *outcome;
  UploadReady parked;
  {
    absl::MutexLock lock(&mu_);
    if (outcome.ok()) {
      NoteUpload(sequence, command.inline_data().size());
      return Outcome::kDone;
    }
    Fail(sequence, {command.handle()}, outcome.status(), /*refused=*/true);
    if (command.transfer_id() == 0) return Outcome::kDone;
    // The call that brings the bytes gets the same error, whether it is here or still comes.
    const auto found = transfers_.find(command.transfer_id());
    if (found == transfers_.end()) {
      if (transfers_.size() < limits().max_transfers) {
        transfers_[command.transfer_id()].error = outcome.status();
      }
    } else if (found->second.parked || found->second.abandoned) {
      parked = std::exchange(found->second.parked, nullptr);
      transfers_.erase(found);
    }
  }
  if (parked) parked(outcome.status());
  return Outcome::kDone;
}

absl::StatusOr<Session::Outcome> Session::Upload(uint64_t sequence,
                                                 const v1::UploadCommand& command) {
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
    if (found != transfers_.end() && found->second.abandoned) {
      return Cancelled("upload: its client gave transfer {} up before it began", id);
    }
    if (found != transfers_.end() && !found->second.parked) {
      return AlreadyExists("upload: transfer {} was named by an earlier command", id);
    }
    if (found == transfers_.end() && transfers_.size() >= limits().max_transfers) {
      return TooManyTransfers();
    }
  }
  TD_ASSIGN_OR_RETURN(Device * device, engine_.runtime.FindDevice(command.device()), "upload");
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<Tensor> tensor,
                      NewTensor(sequence, command.handle(), device, dtype, std::move(shape)),
                      "upload");
  if (tensor == nullptr) return Outcome::kBlocked;
  if (id == 0) {
    void* to = tensor->buffer->memory->host_address();
    if (bytes > 0 && to != nullptr) std::memcpy(to, command.inline_data().data(), bytes);
    absl::MutexLock lock(&mu_);
    counters_.set_bytes_uploaded(counters_.bytes_uploaded() + bytes);
    Settle(*tensor, absl::OkStatus());
    return Outcome::kDone;
  }
  UploadReady parked;
  absl::StatusOr<UploadTarget> target;
  {
    absl::MutexLock lock(&mu_);
    Transfer& transfer = transfers_[id];
    transfer.tensor = tensor;
    if (transfer.parked) {
      parked = std::exchange(transfer.parked, nullptr);
      target = Claim(transfer);
      if (!target.ok()) transfers_.erase(id);
    }
  }
  if (parked) parked(std::move(target));
  return Outcome::kDone;
}

absl::StatusOr<std::shared_ptr<Tensor>> Session::NewTensor(uint64_t sequence, uint64_t handle,
                                                           Device* device, DType dtype,
                                                           std::vector<int64_t> shape,
                                                           const Tensors& operands) {
  const uint64_t bytes = NumElements(shape) * ItemSize(dtype);
  {
    absl::MutexLock lock(&mu_);
    TD_RETURN_IF_ERROR(tensors_.CheckNew(handle));
  }
  const MemoryLedger::Need needs[] = {{device, bytes}};
  TD_RETURN_IF_ERROR(
      account_.Charge(needs, fmt::format("{}[{}]", Name(dtype), fmt::join(shape, ", "))));
  TakeReserve(sequence).clear();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> memory = device->allocator().Allocate(bytes);
  if (memory.ok() && (*memory)->host_address() == nullptr && device->executes()) {
    memory = Unimplemented("{}: its memory can't be reached from the host", device->name());
  }
  if (!memory.ok()) {
    account_.Release(needs);
    const absl::Status status = engine_.ledger.Explain(memory.status(), needs);
    if (!absl::IsResourceExhausted(status)) return status;
    absl::MutexLock lock(&mu_);
    TD_RETURN_IF_ERROR(AwaitRoom(sequence, operands, {{device, bytes}}, status).status());
    return nullptr;
  }
  auto tensor = std::make_shared<Tensor>();
  tensor->buffer = std::make_shared<Buffer>();
  tensor->buffer->dtype = dtype;
  tensor->buffer->shape = std::move(shape);
  tensor->buffer->memory = *std::move(memory);
  tensor->bytes = bytes;
  tensor->device = device;
  tensor->used = SteadyNow();
  absl::MutexLock lock(&mu_);
  tensors_.Insert(handle, tensor);
  return tensor;
}

absl::StatusOr<UploadTarget> Session::Claim(Transfer& transfer) {
  if (transfer.tensor->state == ObjectState::kError) return transfer.tensor->error;
  const BufferRef& buffer = transfer.tensor->buffer;
  const uint64_t bytes = transfer.call.total_bytes;
  if (bytes != buffer->memory->size()) {
    const absl::Status status = InvalidArgument(
        "transfer {} brings {} bytes: {}[{}] has {}", transfer.call.transfer_id, bytes,
        Name(buffer->dtype), fmt::join(buffer->shape, ", "), buffer->memory->size());
    SetError(*transfer.tensor, status);
    return status;
  }
  return UploadTarget{.buffer = buffer,
                      .data = static_cast<char*>(buffer->memory->host_address()),
                      .bytes = bytes,
                      .stored = transfer.stored};
}

std::optional<absl::StatusOr<UploadTarget>> Session::Complete(const UploadRequest& request) {
  if (request.handle == 0 || tensors_.CheckNew(request.handle).ok()) return std::nullopt;
  absl::StatusOr<Tensor*> tensor = tensors_.Find(request.handle);
  if (!tensor.ok()) {
    // Its slot may have an earlier tensor yet, whose release waits in the queue like the upload.
    const Handle wanted = Handle::Unpack(request.handle);
    bool has_earlier = false;
    tensors_.ForEach([&](uint64_t bits, const Tensor& /*tensor*/) {
      const Handle each = Handle::Unpack(bits);
      has_earlier |= each.slot == wanted.slot && each.generation < wanted.generation;
    });
    if (has_earlier) return std::nullopt;
    return tensor.status();
  }
  if ((*tensor)->state == ObjectState::kError) return (*tensor)->error;
  return UploadTarget{.bytes = request.total_bytes, .stored = request.total_bytes};
}

absl::Status Session::TooManyTransfers() const {
  return Refuse({.reason = "TRANSFERS_OF_SESSION",
                 .subject = "session:" + identity_.id,
                 .limit = limits().max_transfers,
                 .used = transfers_.size(),
                 .needed = 1,
                 .retry_after = absl::ZeroDuration()},
                fmt::format("{} transfers are open, the limit", transfers_.size()));
}

uint64_t Session::NewTicket() {
  absl::MutexLock lock(&mu_);
  return ++last_ticket_;
}

void Session::BeginUpload(const UploadRequest& request, UploadReady ready) {
  const uint64_t id = request.transfer_id;
  UploadReady replaced;
  std::optional<absl::StatusOr<UploadTarget>> target;
  {
    absl::MutexLock lock(&mu_);
    const auto found = transfers_.find(id);
    if (ended_) {
      target = SessionEnded();
    } else if (id == 0) {
      target = InvalidArgument("a transfer id is not 0");
    } else if (found == transfers_.end()) {
      target = Complete(request);
      if (!target && transfers_.size() >= limits().max_transfers) {
        target = TooManyTransfers();
      }
      if (!target) {
        Transfer& transfer = transfers_[id];
        transfer.abandoned = request.abandon;
        if (request.abandon) {
          target = UploadTarget{};
        } else {
          transfer.call = request;
          transfer.parked = std::move(ready);
        }
      }
    } else if (found->second.call.ticket != 0 && !resumable()) {
      target = AlreadyExists("transfer {}: another call brings its bytes", id);
    } else if (!found->second.error.ok()) {
      target = found->second.error;
      transfers_.erase(found);
    } else {
      Transfer& transfer = found->second;
      transfer.call = request;
      replaced = std::exchange(transfer.parked, nullptr);
      if (!transfer.tensor && request.abandon) {
        transfer.call = {};
        transfer.abandoned = true;
        target = UploadTarget{};
      } else if (!transfer.tensor || transfer.copying) {
        transfer.parked = std::move(ready);
      } else {
        target = Claim(transfer);
        if (!target->ok()) transfers_.erase(found);
      }
    }
  }
  if (replaced) replaced(absl::AbortedError("another call goes on with the transfer"));
  if (!target) return;
  const bool failed = !target->ok();
  ready(*std::move(target));
  if (failed) Poke();  // a run may wait for the tensor, which has an error now
}

absl::Status Session::BeginChunk(const UploadRequest& request) {
  absl::MutexLock lock(&mu_);
  if (ended_) return SessionEnded();
  const auto found = transfers_.find(request.transfer_id);
  if (found == transfers_.end() || found->second.call.ticket != request.ticket) {
    return absl::AbortedError("another call goes on with the transfer");
  }
  found->second.copying = true;
  return absl::OkStatus();
}

void Session::EndChunk(const UploadRequest& request, uint64_t bytes, bool by_segment) {
  UploadReady parked;
  absl::StatusOr<UploadTarget> target;
  {
    absl::MutexLock lock(&mu_);
    counters_.set_bytes_uploaded(counters_.bytes_uploaded() + bytes);
    if (by_segment) {
      counters_.set_segment_bytes_uploaded(counters_.segment_bytes_uploaded() + bytes);
    }
    const auto found = transfers_.find(request.transfer_id);
    if (found == transfers_.end()) return;  // the session has ended
    Transfer& transfer = found->second;
    transfer.copying = false;
    transfer.stored += bytes;
    if (!transfer.parked) return;
    parked = std::exchange(transfer.parked, nullptr);
    target = Claim(transfer);
    if (!target.ok()) transfers_.erase(found);
  }
  parked(std::move(target));
}

size_t Session::Candidates(uint64_t bytes) {
  const auto found = engine_.contents.Find(Owner(), bytes);
  // While the client hashes what it has.
  for (const auto& content : found) {
    engine_.compile_pool.Schedule([content] { content->Prepare(); });
  }
  return found.size();
}

void Session::Adopt(const UploadRequest& request, const UploadTarget& target, std::string sha256,
                    std::function<void(absl::StatusOr<bool>)> done) {
  engine_.compile_pool.Schedule([self = shared_from_this(), request, target,
                                 sha256 = std::move(sha256), done = std::move(done)] {
    if (absl::Status claimed = self->BeginChunk(request); !claimed.ok()) {
      return done(std::move(claimed));
    }
    bool found = false;
    for (const auto& content : self->engine_.contents.Find(self->Owner(), target.bytes)) {
      found = target.data != nullptr && content->CopyIfEqual(sha256, target.data);
      if (found) break;
    }
    self->EndChunk(request, 0, /*by_segment=*/false);
    if (found) {
      absl::MutexLock lock(&self->mu_);
      self->counters_.set_bytes_not_sent(self->counters_.bytes_not_sent() + target.bytes);
    }
    done(found);
  });
}

void Session::EndUpload(const UploadRequest& request, const absl::Status& status) {
  Transfer ended;  // dies without the lock
  {
    absl::MutexLock lock(&mu_);
    const auto found = transfers_.find(request.transfer_id);
    if (found == transfers_.end() || found->second.call.ticket != request.ticket) return;
    ended = std::move(found->second);
    transfers_.erase(found);
    if (ended.tensor) {
      Settle(*ended.tensor, Annotate(status, "upload, transfer {}", request.transfer_id));
      if (ended.tensor->state == ObjectState::kValue) {
        ended.tensor->content = engine_.contents.Add(Owner(), ended.tensor->buffer);
      }
    }
  }
  Poke();
}

absl::Status Session::SetSegment(uint64_t number, std::shared_ptr<Segment> segment) {
  absl::MutexLock lock(&mu_);
  if (ended_) return SessionEnded();
  if (!segments_.contains(number) && segments_.size() >= limits().max_segments) {
    return ResourceExhausted("the session has {} segments, the limit", segments_.size());
  }
  segments_[number].swap(segment);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Segment>> Session::FindSegment(uint64_t number) {
  absl::MutexLock lock(&mu_);
  const auto found = segments_.find(number);
  if (found == segments_.end()) return NotFound("the session has no segment {}", number);
  return found->second;
}

void Session::PauseUpload(const UploadRequest& request) {
  UploadReady parked;  // dies without the lock
  absl::MutexLock lock(&mu_);
  const auto found = transfers_.find(request.transfer_id);
  if (found == transfers_.end() || found->second.call.ticket != request.ticket) return;
  found->second.call = {};
  parked = std::exchange(found->second.parked, nullptr);
  if (!found->second.tensor) transfers_.erase(found);
}

}  // namespace tensord
