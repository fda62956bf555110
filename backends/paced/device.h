// A simulated accelerator: it computes nothing and takes its time. Each launch and each copy lasts
// as long as the settings say, without using the processor; launches fail or hang on demand.
//
// Its clock follows the machine's while it is idle, and moves by the service times while it works.
// A command ends once the machine's clock has come as far, so that a delay of the machine is not
// carried on. Thread-safe.
#pragma once

#include <absl/time/time.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "backends/hcq/host_allocator.h"
#include "backends/hcq/host_queue.h"
#include "backends/hcq/host_timeline.h"
#include "backends/paced/settings.h"
#include "core/device/device.h"

namespace tensord::paced {

struct DeviceOptions {
  std::string name = "PACED:0";
  uint64_t memory_bytes = 0;  // capacity
  Settings settings;
};

class Device final : public tensord::Device, private hcq::Executor {
 public:
  // Kernels are compiled for `target`, and dropped.
  Device(DeviceOptions options, Target target);

  const std::string& name() const override { return options_.name; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return allocator_; }
  Timeline& timeline() override { return timeline_; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const std::string& binary,
                                                     const std::string& entry) override;
  absl::Status Submit(CommandList list) override { return queue_.Submit(std::move(list)); }
  Progress progress() override { return queue_.progress(); }
  void Abandon(uint64_t value, const absl::Status& why) override { queue_.Abandon(value, why); }
  bool executes() const override { return false; }

 private:
  absl::Status Exec(const ExecCommand& command) override;
  absl::Status Copy(const CopyCommand& command) override;
  // No kernel has said whether.
  bool GoesOn(const LoopCommand& /*command*/) override { return false; }
  uint64_t NowNs() override { return static_cast<uint64_t>(clock_ns_); }
  void Resumed() override;
  void Stop() override;
  void Restart() override;
  // Lets that much of the device's time pass; Cancelled if it is stopped meanwhile.
  absl::Status Serve(double ns);
  // Whether it is stopped within that time.
  bool AwaitStop(absl::Duration time);

  const DeviceOptions options_;
  const Target target_;
  hcq::HostAllocator allocator_;
  hcq::HostTimeline timeline_;
  // Not absl's, whose waits with a timeout end at a date, which somebody may set.
  std::mutex mu_;
  std::condition_variable stop_event_;
  bool stopped_ = false;  // guarded by mu_
  // Of the queue's thread.
  int64_t clock_ns_;
  uint64_t launches_ = 0;
  hcq::HostQueue queue_;  // last: its thread uses all of the above
};

}  // namespace tensord::paced
