// What every call beside the session stream shares: it is counted while it lives, timed, logged at
// debug level, told to whoever measures, and its status converted.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "server/service/grpc_status.h"
#include "server/session/worker_pool.h"

namespace tensord {

// Hears of each call that ends. Called on any thread.
using CallObserver =
    std::function<void(std::string_view method, absl::Duration duration, absl::StatusCode code)>;

// Counts the reactors that live, so that the server can wait for the last of them, and notes how
// calls end.
// Thread-safe.
class CallCount {
 public:
  explicit CallCount(CallObserver observer = nullptr) : observer_(std::move(observer)) {}

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
    void Ended(std::string_view method, absl::Time begin, const absl::Status& status) const {
      count_.Ended(method, begin, status);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    CallCount& count_;
  };

  void AwaitNone(absl::Time deadline = absl::InfiniteFuture()) {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithDeadline(absl::Condition(
                              +[](CallCount* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) {
                                return self->live_ == 0;
                              },
                              this),
                          deadline);
  }

  void Ended(std::string_view method, absl::Time begin, const absl::Status& status) {
    const absl::Duration duration = absl::Now() - begin;
    if (observer_) observer_(method, duration, status.code());
    spdlog::logger& log = Log("service");
    if (!log.should_log(spdlog::level::debug)) return;
    log.debug("{} status={} us={}", method,
              status.ok() ? "OK" : absl::StatusCodeToString(status.code()),
              absl::ToInt64Microseconds(duration));
  }

 private:
  const CallObserver observer_;  // may be null
  absl::Mutex mu_;
  int live_ ABSL_GUARDED_BY(mu_) = 0;
};

class Session;

// The session of a token, for who makes a call.
using FindSession =
    std::function<absl::StatusOr<std::shared_ptr<Session>>(const std::string& token)>;

// A call that is answered at once: `handle` decodes, calls and encodes.
template <typename Handler>
grpc::ServerUnaryReactor* AnswerNow(CallCount& calls, grpc::CallbackServerContext* context,
                                    std::string_view method, Handler&& handle) {
  const absl::Time begin = absl::Now();
  const absl::Status status = std::forward<Handler>(handle)();
  calls.Ended(method, begin, status);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// A call that is answered by a pool, because it may take its time. `handle` lives until then.
inline grpc::ServerUnaryReactor* AnswerLater(CallCount& calls, grpc::CallbackServerContext* context,
                                             WorkerPool& pool, std::string_view method,
                                             std::function<absl::Status()> handle) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  pool.Schedule([guard = std::make_shared<CallCount::Guard>(calls), reactor, method,
                 handle = std::move(handle), begin = absl::Now()] {
    const absl::Status status = handle();
    guard->Ended(method, begin, status);
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

}  // namespace tensord
