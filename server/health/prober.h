// Prober: whether devices compute. It runs a small program on a device, past all queues of
// sessions, and looks whether it comes back in time, with the right result.
//
//   Prober prober(runtime, {.interval = absl::Seconds(10)}, [] { ... });
//   prober.Check(device, [](const absl::Status& status) { ... });   // probes now
//   prober.Last(device);                                            // what the last probe said
//
// A device that still ends runs, or launches of one, is alive, however long its queue: the probe
// waits as long as it makes progress. Of a device that does not, no second probe is queued behind
// the first.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/runtime/runtime.h"

namespace tensord {

struct ProberOptions {
  absl::Duration interval;                      // between probes that nobody asked for; 0: none
  absl::Duration patience = absl::Seconds(10);  // with a device that makes no progress
};

class Prober {
 public:
  using Done = std::function<void(const absl::Status& status)>;

  // `changed` is called after each probe whose answer is another one than the last. The runtime
  // outlives it.
  Prober(Runtime& runtime, ProberOptions options, std::function<void()> changed);
  ~Prober() { Stop(); }

  size_t devices() const { return probes_.size(); }
  // Probes the device; whoever asks meanwhile shares the answer. Cancelled once it is stopped.
  void Check(size_t device, Done done);
  // Nothing before the first probe has ended.
  std::optional<absl::Status> Last(size_t device) const;
  // Does not wait for a device.
  void Stop();

 private:
  struct Probe {
    Device* device;
    // Under the lock.
    std::vector<Done> asked;
    std::optional<absl::Status> last;
    // Of its thread.
    std::shared_ptr<const Executable> executable;
    BufferRef one, result;
    uint64_t pending = 0;  // timeline value of a probe that has not come back
    std::thread thread;
  };

  void Loop(Probe& probe);
  absl::Status Run(Probe& probe);
  absl::Status Submit(Probe& probe);

  Runtime& runtime_;
  const ProberOptions options_;
  const std::function<void()> changed_;
  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Probe>> probes_;
};

}  // namespace tensord
