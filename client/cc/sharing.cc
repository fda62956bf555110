// Session's tensors that others share: published for them, or attached from them. Their buffers are
// read-only; what is assigned to such a tensor goes into a buffer of its own.
#include <utility>

#include "client/cc/session.h"
#include "core/base/status.h"
#include "core/tensor/size.h"

namespace tensord::client {

absl::StatusOr<v1::PublishReply> Session::Publish(const std::string& name, const Tensors& tensors,
                                                  absl::Span<const std::string> readers) {
  std::vector<StateRef> states;
  for (const auto& [key, state] : tensors) {
    if (state->session.get() != this) {
      return InvalidArgument("publish '{}': tensor '{}' belongs to a different client", name, key);
    }
    states.push_back(state);
  }
  TD_RETURN_IF_ERROR(Realize(states));
  v1::PublishRequest request;
  request.set_name(name);
  request.mutable_readers()->Add(readers.begin(), readers.end());
  std::vector<std::shared_ptr<Buffer>> buffers;  // alive until the daemon has them by name
  std::shared_ptr<Connection> connection;
  {
    absl::MutexLock lock(&mu_);
    connection = connection_;
    for (const auto& [key, state] : tensors) {
      if (AnyVaries(state->shape)) {
        return InvalidArgument(
            "publish '{}': tensor '{}' is {}; what is published has sizes that are numbers", name,
            key, TextOf(state->shape));
      }
      const std::shared_ptr<Buffer>& buffer = state->value->buffer;
      TD_RETURN_IF_ERROR(CheckPresent(*buffer));
      if (buffer->placement.axis != kWhole) {
        return InvalidArgument(
            "publish '{}': tensor '{}' is divided among {}; bring it to one device with to() first",
            name, key, DevicesText(buffer->placement.devices));
      }
      buffers.push_back(buffer);
    }
    // Before it is asked for, so that no thread writes meanwhile what others will see.
    for (size_t i = 0; i < tensors.size(); ++i) {
      buffers[i]->read_only = true;
      v1::PublishRequest::Tensor& out = *request.add_tensors();
      out.set_key(tensors[i].first);
      out.set_handle(buffers[i]->handles[0]);
    }
  }
  return connection->Publish(std::move(request), Deadline());
}

absl::StatusOr<Session::Tensors> Session::Attach(const std::string& name,
                                                 const std::string& owner) {
  TD_RETURN_IF_ERROR(AwaitRoom());
  const std::shared_ptr<Connection> connection = this->connection();
  TD_ASSIGN_OR_RETURN(const v1::Publication found,
                      connection->FindPublished(name, owner, Deadline()));
  std::vector<Placement> placements;
  for (const v1::Publication::Tensor& tensor : found.tensors()) {
    if (tensor.dtype() >= kNumDTypes || ItemSize(static_cast<DType>(tensor.dtype())) == 0) {
      return Unimplemented("attach '{}': tensor '{}' has dtype number {}, which this client lacks",
                           name, tensor.key(), tensor.dtype());
    }
    const std::string device[] = {tensor.device()};
    TD_ASSIGN_OR_RETURN(placements.emplace_back(), FindPlacement(device, kWhole));
  }
  Tensors tensors;
  absl::MutexLock lock(&mu_);
  for (int i = 0; i < found.tensors_size(); ++i) {
    const v1::Publication::Tensor& tensor = found.tensors(i);
    const Placement& placement = placements[static_cast<size_t>(i)];
    ValueRef value =
        NewLeaf(static_cast<DType>(tensor.dtype()), {tensor.shape().begin(), tensor.shape().end()});
    if (placement.devices != HomeDevices()) value->devices = placement.devices;
    value->buffer = std::make_shared<Buffer>(connection, value->bytes(), placement);
    value->buffer->read_only = true;
    v1::Command command;
    v1::AttachTensor& attach = *command.mutable_attach();
    attach.set_handle(value->buffer->handles[0]);
    attach.set_owner(found.owner());
    attach.set_name(found.name());
    attach.set_version(found.version());
    attach.set_tensor(static_cast<uint32_t>(i));
    connection->Send(std::move(command));
    tensors.emplace_back(tensor.key(), NewState(std::move(value)));
  }
  return tensors;
}

}  // namespace tensord::client
