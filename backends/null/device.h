// A device that compiles and schedules but computes nothing: it accepts every command, keeps the
// order of signals, moves bytes for copies, and skips kernels. Its memory is address space that
// costs nothing until somebody writes to it. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/hcq/host_allocator.h"
#include "backends/hcq/host_queue.h"
#include "backends/hcq/host_timeline.h"
#include "core/device/device.h"

namespace tensord::null {

struct DeviceOptions {
  std::string name = "NULL:0";
  uint64_t memory_bytes = 0;  // capacity
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

  const DeviceOptions options_;
  const Target target_;
  hcq::HostAllocator allocator_;
  hcq::HostTimeline timeline_;
  hcq::HostQueue queue_;  // last: its thread uses all of the above
};

}  // namespace tensord::null
