// A command queue in software: one thread that runs command lists in the order of submission. What
// a launch or a copy does is the device's business.
//
// A list whose launch or copy fails does nothing more but wait and signal, so that its timeline
// value ends, failed, and the lists behind it run. So does a list that is abandoned. Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>

#include "backends/hcq/event_count.h"
#include "backends/hcq/host_timeline.h"
#include "core/device/device.h"

namespace tensord::hcq {

// Called on the queue's thread only.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual absl::Status Exec(const ExecCommand& command) = 0;
  virtual absl::Status Copy(const CopyCommand& command) = 0;
  // Whether a loop goes on. By default the byte is read where it lies, in memory of the host.
  virtual bool GoesOn(const LoopCommand& command) {
    return *static_cast<const volatile uint8_t*>(command.condition) != 0;
  }
  // What a Timestamp writes: the device's clock.
  virtual uint64_t NowNs() { return MonotonicNs(); }
  // The queue goes on after it had nothing to do, or waited for a signal.
  virtual void Resumed() {}
  // Exec and Copy, also one that runs now, are to fail soon, whatever they say. On any thread,
  // under a lock of the queue. By default they are too short for that.
  virtual void Stop() {}
  // No longer so.
  virtual void Restart() {}
};

struct HostQueueOptions {
  std::string device_name;
  size_t max_lists = 4096;  // submitted and not begun
};

class HostQueue {
 public:
  // Timeline and executor outlive the queue.
  HostQueue(HostQueueOptions options, HostTimeline& timeline, Executor& executor);
  // Stops the command that runs now: a wait is cancelled, and so are the lists behind it.
  ~HostQueue();
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  // ResourceExhausted when max_lists are waiting. The timeline value of a refused list fails with
  // that status in its turn, so that later ones are reached all the same.
  absl::Status Submit(CommandList list);
  // As Device's.
  Progress progress() const;
  void Abandon(uint64_t value, const absl::Status& why);

 private:
  struct Item {
    CommandList list;
    uint64_t value = 0;    // that the list signals at its end
    uint64_t refused = 0;  // not 0: there is no list, only this timeline value to signal
  };

  void Refuse(const CommandList& list, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  void RunList(const Item& item);
  // `status` is that of the list so far: the first thing that went wrong.
  void RunCommands(const CommandList& list, absl::Status& status);
  void RunLoop(const LoopCommand& loop, absl::Status& status);
  // Whether there is to be computed more.
  bool MayWork(absl::Status& status);
  // Does a launch or a copy.
  template <typename Command>
  void Work(const Command& command, absl::Status (Executor::*verb)(const Command&),
            absl::Status& status);
  // The list that runs, if nobody wants it any more.
  absl::Status WhyAbandoned();
  // Waits unless the queue is told to end.
  absl::Status Wait(const WaitCommand& wait);

  const HostQueueOptions options_;
  HostTimeline& timeline_;
  Executor& executor_;

  absl::Mutex mu_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mu_);
  size_t lists_ ABSL_GUARDED_BY(mu_) = 0;              // in items_, without refused values
  uint64_t submitted_value_ ABSL_GUARDED_BY(mu_) = 0;  // of the last list
  std::map<uint64_t, absl::Status> abandoned_ ABSL_GUARDED_BY(mu_);  // and not ended
  bool executor_stopped_ ABSL_GUARDED_BY(mu_) = false;
  // Of the list that runs, 0 if none does; written under mu_ by the queue's thread.
  std::atomic<uint64_t> running_{0};
  // Whether abandoned_ has it. A hint to look there, mu_ publishes the reason.
  std::atomic<bool> running_abandoned_{false};
  // Odd while a launch or a copy is under way. Relaxed: whoever looks compares it with an earlier
  // look.
  std::atomic<uint64_t> steps_{0};
  // Size of items_, for the thread to look at without the lock; a hint, mu_ publishes the items.
  std::atomic<size_t> queued_{0};
  std::atomic<bool> stop_{false};
  EventCount submitted_;
  std::thread thread_;  // last, so that it starts when all else is there
};

}  // namespace tensord::hcq
