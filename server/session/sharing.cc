// Session: tensors that it shares with others, published or attached.
#include <utility>

#include "core/base/status.h"
#include "server/session/session.h"

namespace tensord {

Session::Outcome Session::ExecuteAttach(uint64_t sequence, const v1::AttachTensor& command) {
  const auto find = [&]() -> absl::StatusOr<PublishedBufferRef> {
    TD_ASSIGN_OR_RETURN(const PublicationRef publication,
                        engine_.publications.Find(identity_.user, command.owner(), command.name()));
    if (publication->version != command.version()) {
      return NotFound("'{}' was published anew meanwhile: attach it again", publication->name);
    }
    if (command.tensor() >= publication->tensors.size()) {
      return InvalidArgument("'{}' has {} tensors, and no tensor {}", publication->name,
                             publication->tensors.size(), command.tensor());
    }
    return publication->tensors[command.tensor()].buffer;
  };
  const absl::StatusOr<PublishedBufferRef> found = find();
  absl::MutexLock lock(&mu_);
  absl::Status status = found.status();
  if (status.ok()) status = tensors_.CheckNew(command.handle());
  if (!status.ok()) {
    Fail(sequence, {command.handle()}, Annotate(status, "attach"), /*refused=*/true);
    return Outcome::kDone;
  }
  auto tensor = std::make_shared<Tensor>();
  tensor->state = ObjectState::kValue;
  tensor->buffer = (*found)->buffer();
  tensor->published = (*found)->Hold();
  tensors_.Insert(command.handle(), std::move(tensor));
  return Outcome::kDone;
}

void Session::SetPublished(uint64_t handle, const PublishedBuffer& published) {
  absl::MutexLock lock(&mu_);
  const absl::StatusOr<Tensor*> found = tensors_.Find(handle);
  if (!found.ok() || (*found)->buffer != published.buffer()) return;
  Tensor& tensor = **found;
  tensor.published = published.Hold();
  Uncharge(tensor);
}

}  // namespace tensord
