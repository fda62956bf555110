// Lets who waits for a daemon give up: a language whose signal handlers run between its own
// instructions, such as Python, would otherwise hear of Ctrl-C only when the wait is over.
//
//   SetInterruptCheck([] { return user_wants_to_stop(); });
//   tensor.Wait();  // Cancelled soon after the check says true; the session goes on
//
// What was sent to the daemon stays sent: its runs go on, and later calls find their results.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

namespace tensord {

// Whether the calling thread is to stop waiting. It is asked every 50 ms by each thread that waits,
// while that holds no lock of the client. Null, as at the start: nobody is asked.
using InterruptCheck = bool (*)();
void SetInterruptCheck(InterruptCheck check);

namespace client {

bool Interrupted();
// What a wait says that was given up.
absl::Status InterruptedStatus();

// As mu.AwaitWithDeadline, with `mu` held: OK once the condition is true. DeadlineExceeded has no
// message yet: the caller knows what did not happen. `mu` is let go while the check is asked.
absl::Status AwaitInterruptibly(absl::Mutex& mu, const absl::Condition& condition,
                                absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

// The operations of one gRPC call, of which one is under way at a time: the calling thread drives
// them, as in a call of the synchronous kind, and cancels the call when it is interrupted. Further
// operations then fail soon, as they do after any end of a call.
//
//   CallOperations operations(context);
//   auto reader = stub.PrepareAsyncDownload(&context, request, operations.queue());
//   reader->StartCall(operations.tag());
//   while (operations.Await()) reader->Read(&chunk, operations.tag());
//   reader->Finish(&status, operations.tag());
//   return operations.Finished(status);
class CallOperations {
 public:
  // One that makes up for a call which was interrupted isn't.
  explicit CallOperations(grpc::ClientContext& context, bool interruptible = true)
      : context_(context), interruptible_(interruptible) {}
  ~CallOperations();
  CallOperations(const CallOperations&) = delete;
  CallOperations& operator=(const CallOperations&) = delete;

  grpc::CompletionQueue* queue() { return &queue_; }
  void* tag() { return this; }
  // Waits for the operation that was started; whether it did what it was to do.
  bool Await();
  // Waits for Finish, which says how the call ended; Cancelled if it was interrupted.
  grpc::Status Finished(const grpc::Status& status);

 private:
  grpc::ClientContext& context_;
  const bool interruptible_;
  bool interrupted_ = false;
  grpc::CompletionQueue queue_;
};

}  // namespace client
}  // namespace tensord
