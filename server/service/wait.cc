#include "server/service/wait.h"

#include <utility>

#include "core/base/status.h"

namespace tensord {

void CommandWait::Start(const AwaitRequest& request, AwaitDone done) {
  const uint64_t id = session_->Await(
      request, [self = shared_from_this(), done = std::move(done)](absl::StatusOr<Awaited> result) {
        if (!result.ok()) return done(std::move(result));
        self->AwaitDevices(*std::move(result), 0, done);
      });
  bool cancelled;
  {
    absl::MutexLock lock(&mu_);
    id_ = id;
    cancelled = cancelled_;
  }
  if (cancelled && id != 0) session_->CancelAwait(id);
}

void CommandWait::Cancel() {
  uint64_t id;
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    id = id_;
  }
  if (id != 0) session_->CancelAwait(id);
}

void CommandWait::AwaitDevices(Awaited awaited, size_t next, AwaitDone done) {
  if (next == awaited.pending.size()) return done(std::move(awaited));
  const auto [device, value] = awaited.pending[next];
  // Shared because std::function copies what it captures.
  auto rest = std::make_shared<Awaited>(std::move(awaited));
  device->timeline().OnReached(
      value, [self = shared_from_this(), rest, next, done = std::move(done)](absl::Status status) {
        // A read needs its tensor; a wait asks for statuses when all has come to its end.
        if (!status.ok() && rest->pin != nullptr) return done(status);
        self->AwaitDevices(std::move(*rest), next + 1, done);
      });
}

}  // namespace tensord
