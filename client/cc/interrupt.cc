#include "client/cc/interrupt.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace tensord {
namespace {

constexpr absl::Duration kBetweenChecks = absl::Milliseconds(50);

std::atomic<InterruptCheck> installed = nullptr;

// Until when to wait before the check is asked.
absl::Time NextCheck(absl::Time deadline) {
  if (installed.load(std::memory_order_relaxed) == nullptr) return deadline;
  return std::min(deadline, absl::Now() + kBetweenChecks);
}

}  // namespace

void SetInterruptCheck(InterruptCheck check) {
  installed.store(check, std::memory_order_relaxed);  // a function: it needs nothing published
}

namespace client {

bool Interrupted() {
  const InterruptCheck check = installed.load(std::memory_order_relaxed);
  return check != nullptr && check();
}

absl::Status InterruptedStatus() {
  return absl::CancelledError("interrupted while waiting for the daemon");
}

absl::Status AwaitInterruptibly(absl::Mutex& mu, const absl::Condition& condition,
                                absl::Time deadline) {
  for (;;) {
    const absl::Time until = NextCheck(deadline);
    if (mu.AwaitWithDeadline(condition, until)) return absl::OkStatus();
    if (until == deadline) return absl::DeadlineExceededError("");
    mu.Unlock();
    const bool interrupted = Interrupted();
    mu.Lock();
    if (interrupted) return InterruptedStatus();
  }
}

CallOperations::~CallOperations() {
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool CallOperations::Await() {
  void* tag;
  bool ok = false;
  for (;;) {
    const bool asks = interruptible_ && !interrupted_;
    const absl::Time until = asks ? NextCheck(absl::InfiniteFuture()) : absl::InfiniteFuture();
    const auto next = until == absl::InfiniteFuture()
                          ? (queue_.Next(&tag, &ok) ? grpc::CompletionQueue::GOT_EVENT
                                                    : grpc::CompletionQueue::SHUTDOWN)
                          : queue_.AsyncNext(&tag, &ok, absl::ToChronoTime(until));
    if (next != grpc::CompletionQueue::TIMEOUT) {
      return next == grpc::CompletionQueue::GOT_EVENT && ok;
    }
    if (!Interrupted()) continue;
    interrupted_ = true;
    context_.TryCancel();
  }
}

grpc::Status CallOperations::Finished(const grpc::Status& status) {
  Await();
  if (!interrupted_ || status.ok()) return status;
  return {grpc::StatusCode::CANCELLED, std::string(InterruptedStatus().message())};
}

}  // namespace client
}  // namespace tensord
