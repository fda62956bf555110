// Session's data: to the daemon from memory and files, and back.
#include <absl/algorithm/container.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "client/cc/session.h"
#include "core/base/status.h"
#include "core/tensor/size.h"

namespace tensord::client {

absl::StatusOr<StateRef> Session::Upload(absl::Span<const char> data, DType dtype,
                                         absl::Span<const int64_t> shape) {
  ValueRef value;
  if (AnyVaries(shape)) {
    return InvalidArgument("data from the host has sizes that are numbers, not {}", TextOf(shape));
  }
  TD_RETURN_IF_ERROR(AwaitRoom());
  {
    absl::MutexLock lock(&mu_);
    value = NewLeaf(dtype, {shape.begin(), shape.end()});
    if (data.size() != value->bytes()) {
      return InvalidArgument("{}{} takes {} bytes, {} are given", Name(dtype), TextOf(value->shape),
                             value->bytes(), data.size());
    }
    if (const std::vector<int64_t>* devices = DefaultDevices()) value->devices = *devices;
    const bool placed = !value->devices.empty();
    value->buffer = NewBuffer(*value, {placed ? value->devices : HomeDevices(), kWhole});
  }
  const Buffer& buffer = *value->buffer;
  const std::vector<int64_t>& devices = buffer.placement.devices;
  const SliceScope scope(slices_, "upload", data.size());
  TD_RETURN_IF_ERROR(buffer.connection->Upload(buffer.handles[0], dtype, shape,
                                               DeviceName(devices[0]), data, Deadline()));
  for (size_t i = 1; i < devices.size(); ++i) {
    SendCopy(*buffer.connection, buffer.handles[i], buffer.handles[0], devices[i]);
  }
  absl::MutexLock lock(&mu_);
  return NewState(std::move(value));
}

absl::StatusOr<StateRef> Session::FromFile(std::shared_ptr<const File> file, uint64_t offset,
                                           DType dtype, absl::Span<const int64_t> shape) {
  // Sizes other than 0 count even if there is a 0, because strides are made of them.
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 0 || (size > 0 && elements > std::numeric_limits<int64_t>::max() / size)) {
      return InvalidArgument("'{}': {} is no shape of data in a file", file->path(), TextOf(shape));
    }
    elements *= std::max<int64_t>(size, 1);
  }
  if (absl::c_linear_search(shape, 0)) elements = 0;
  const auto item = static_cast<uint64_t>(ItemSize(dtype));
  const uint64_t room = offset <= file->size() ? file->size() - offset : 0;
  if (offset > file->size() || item == 0 || static_cast<uint64_t>(elements) > room / item) {
    return InvalidArgument("'{}': {}{} at byte {} does not fit in the file's {} bytes",
                           file->path(), Name(dtype), TextOf(shape), offset, file->size());
  }
  absl::MutexLock lock(&mu_);
  ValueRef value = NewLeaf(dtype, {shape.begin(), shape.end()});
  value->SetFile(std::move(file));
  value->file_offset = offset;
  if (const std::vector<int64_t>* devices = DefaultDevices()) value->devices = *devices;
  return NewState(std::move(value));
}

absl::StatusOr<std::vector<int64_t>> Session::ActualShape(const StateRef& state) {
  TD_RETURN_IF_ERROR(state->error);
  absl::MutexLock lock(&mu_);
  const std::shared_ptr<Buffer>& buffer = state->value->buffer;
  const std::map<std::string, int64_t>& values = buffer ? buffer->variables : variables_;
  std::vector<int64_t> shape;
  for (int64_t size : state->shape) {
    for (const SizeVariable& variable : VariablesOfSize(size)) {
      if (!values.contains(variable.name)) {
        return FailedPrecondition("variable '{}' of size {} has no value; bind one first",
                                  variable.name, SizeText(size));
      }
    }
    shape.push_back(
        SizeIn(size, [&](std::string_view name) { return values.at(std::string(name)); }));
  }
  return shape;
}

// The daemon keeps a tensor with room for the largest sizes; the elements that are there come out
// row by row.
absl::Status Session::DownloadVarying(const StateRef& state, absl::Span<char> out) {
  TD_RETURN_IF_ERROR(Realize({state}));
  TD_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, ActualShape(state));
  const size_t item = static_cast<size_t>(ItemSize(state->dtype));
  const size_t elements = static_cast<size_t>(NumElements(shape));
  if (out.size() != elements * item) {
    return InvalidArgument("{}{} takes {} bytes, room is for {}", Name(state->dtype), TextOf(shape),
                           elements * item, out.size());
  }
  std::vector<char> whole(state->value->bytes());
  TD_RETURN_IF_ERROR(Download(state, [&whole](uint64_t offset, absl::Span<const char> data) {
    std::copy(data.begin(), data.end(), whole.begin() + static_cast<int64_t>(offset));
    return absl::OkStatus();
  }));
  std::vector<int64_t> index(shape.size());
  const size_t row = static_cast<size_t>(shape.back()) * item;
  for (size_t to = 0; to < out.size(); to += row) {
    int64_t from = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      from = from * SizeHigh(state->shape[axis]) + index[axis];
    }
    std::memcpy(&out[to], &whole[static_cast<size_t>(from) * item], row);
    for (size_t axis = shape.size() - 1; axis-- > 0 && ++index[axis] == shape[axis];) {
      index[axis] = 0;
    }
  }
  return absl::OkStatus();
}

absl::Status Session::Download(const StateRef& state, absl::Span<char> out) {
  if (AnyVaries(state->shape)) return DownloadVarying(state, out);
  TD_RETURN_IF_ERROR(state->error);
  const uint64_t bytes = static_cast<uint64_t>(NumElements(state->shape)) *
                         static_cast<uint64_t>(ItemSize(state->stored_dtype));
  if (out.size() != bytes) {
    return InvalidArgument("{}{} takes {} bytes, room is for {}", Name(state->stored_dtype),
                           TextOf(state->shape), bytes, out.size());
  }
  return Download(state, [out](uint64_t offset, absl::Span<const char> data) {
    std::copy(data.begin(), data.end(), out.begin() + static_cast<int64_t>(offset));
    return absl::OkStatus();
  });
}

absl::Status Session::Download(const StateRef& state, const Sink& sink) {
  TD_RETURN_IF_ERROR(Realize({state}));
  uint64_t run = 0;
  const std::shared_ptr<Buffer> buffer = BufferOf(*state, &run);
  const SliceScope scope(slices_, "download", buffer->bytes);
  // The call finds the data ready, or is not made at all.
  if (run != 0) TD_RETURN_IF_ERROR(AwaitBuffer(buffer, run));
  if (buffer->placement.axis != kWhole) {
    return DownloadParts(*buffer, state->value->shape, sink);
  }
  return buffer->connection->Download(buffer->handles[0], buffer->bytes, sink, Deadline());
}

absl::Status Session::Wait(absl::Span<const StateRef> states) {
  TD_RETURN_IF_ERROR(Realize(states));
  const SliceScope scope(slices_, "wait");
  if (states.empty()) return connection()->Wait(0, Deadline());
  for (const StateRef& state : states) {
    uint64_t run = 0;
    const std::shared_ptr<Buffer> buffer = BufferOf(*state, &run);
    TD_RETURN_IF_ERROR(AwaitBuffer(buffer, run));
  }
  return absl::OkStatus();
}

absl::Status Session::AwaitBuffer(const std::shared_ptr<Buffer>& buffer, uint64_t run) {
  Connection& connection = *buffer->connection;
  std::optional<absl::Status> status;
  if (run != 0) {
    const SliceScope scope(slices_, "await run");
    status = connection.AwaitRun(run, Deadline());
  }
  bool overwritten;
  {
    absl::MutexLock lock(&mu_);
    overwritten = buffer->overwritten;
  }
  // What a run was to overwrite may be right though the run failed.
  if (status && (status->ok() || !overwritten)) return *status;
  for (uint64_t handle : buffer->handles) {
    status = connection.Wait(handle, Deadline());
    if (!status->ok()) break;
  }
  if (status->ok() || !connection.status().ok()) return *status;
  absl::MutexLock lock(&mu_);
  buffer->error = overwritten ? Annotate(*status,
                                         "written in place by a run that failed, so its data is "
                                         "lost until it is assigned anew")
                              : *status;
  return buffer->error;
}

std::shared_ptr<Buffer> Session::BufferOf(const TensorState& state, uint64_t* run) {
  absl::MutexLock lock(&mu_);
  *run = state.value->buffer->run;
  return state.value->buffer;
}

bool Session::IsRealized(const StateRef& state) {
  absl::MutexLock lock(&mu_);
  return state->value && state->value->buffer != nullptr;
}

}  // namespace tensord::client
