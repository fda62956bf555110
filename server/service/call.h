// What every call beside the session stream shares: it is counted while it lives, timed, logged at
// debug level, and its status converted.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

#include <string_view>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "server/service/grpc_status.h"

namespace tensord {

// Counts the reactors that live, so that the server can wait for the last of them.
// Thread-safe.
class CallCount {
 public:
  // Counts as long as it lives.
  class Guard {
   public:
    explicit Guard(CallCount& count) : count_(count) {
      absl::MutexLock lock(&count_.mu_);
      ++count_.live_;
    }
    ~Guard() {
      absl::MutexLock lock(&count_.mu_);
      --count_.live_;
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    CallCount& count_;
  };

  void AwaitNone() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](CallCount* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) { return self->live_ == 0; },
        this));
  }

 private:
  absl::Mutex mu_;
  int live_ ABSL_GUARDED_BY(mu_) = 0;
};

inline void LogCall(std::string_view name, absl::Time begin, const absl::Status& status) {
  spdlog::logger& log = Log("service");
  if (!log.should_log(spdlog::level::debug)) return;
  log.debug("{} status={} us={}", name,
            status.ok() ? "OK" : absl::StatusCodeToString(status.code()),
            absl::ToInt64Microseconds(absl::Now() - begin));
}

// A call that is answered at once: `handle` decodes, calls and encodes.
template <typename Handler>
grpc::ServerUnaryReactor* AnswerNow(grpc::CallbackServerContext* context, std::string_view name,
                                    Handler&& handle) {
  const absl::Time begin = absl::Now();
  const absl::Status status = std::forward<Handler>(handle)();
  LogCall(name, begin, status);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace tensord
