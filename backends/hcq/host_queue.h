// A command queue in software: one thread that runs command lists in the order of submission. What
// a launch or a copy does is the device's business.
//
// A list whose launch or copy fails does nothing more but wait and signal, so that its timeline
// value ends, failed, and the lists behind it run. Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
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
};

struct HostQueueOptions {
  std::string device_name;
  size_t max_lists = 4096;  // submitted and not begun
};

class HostQueue {
 public:
  // Timeline and executor outlive the queue.
  HostQueue(HostQueueOptions options, HostTimeline& timeline, Executor& executor);
  // Ends after the command that runs now: a wait is cancelled, and so are the lists behind it.
  ~HostQueue();
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  // ResourceExhausted when max_lists are waiting. The timeline value of a refused list fails with
  // that status in its turn, so that later ones are reached all the same.
  absl::Status Submit(CommandList list);

 private:
  struct Item {
    CommandList list;
    uint64_t refused = 0;  // not 0: there is no list, only this timeline value to signal
  };

  void Refuse(const CommandList& list, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  void RunList(const CommandList& list);
  // `status` is that of the list so far: the first thing that went wrong.
  void RunCommands(const CommandList& list, absl::Status& status);
  void RunLoop(const LoopCommand& loop, absl::Status& status);
  // Whether there is to be computed more.
  bool MayWork(absl::Status& status) const;
  // Waits unless the queue is told to end.
  absl::Status Wait(const WaitCommand& wait);

  const HostQueueOptions options_;
  HostTimeline& timeline_;
  Executor& executor_;

  absl::Mutex mu_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mu_);
  size_t lists_ ABSL_GUARDED_BY(mu_) = 0;  // in items_, without refused values
  // Size of items_, for the thread to look at without the lock; a hint, mu_ publishes the items.
  std::atomic<size_t> queued_{0};
  std::atomic<bool> stop_{false};
  EventCount submitted_;
  std::thread thread_;  // last, so that it starts when all else is there
};

}  // namespace tensord::hcq
