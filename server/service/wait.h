// A call that waits for a session's commands and handles, and can be cancelled while it does.
//
// Thread-safe. Held by shared_ptr: the call and what will answer it.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "server/session/session.h"

namespace tensord {

class CommandWait : public std::enable_shared_from_this<CommandWait> {
 public:
  explicit CommandWait(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  // Calls `done` once, when the request is met and the devices have come that far; or with the
  // error. Maybe before it returns, maybe on a thread of a device.
  void Start(const AwaitRequest& request, AwaitDone done);
  // Ends the wait for the session's commands; one for the device goes on, it is bounded by what
  // was submitted.
  void Cancel();

  Session& session() const { return *session_; }

 private:
  void AwaitDevices(Awaited awaited, size_t next, AwaitDone done);

  const std::shared_ptr<Session> session_;
  absl::Mutex mu_;
  uint64_t id_ ABSL_GUARDED_BY(mu_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tensord
