// A device that interprets linear programs on the host and checks what they do (interpreter.h): the
// oracle for compilers, slow by design. A fault fails its command list, and the message names the
// kernel, the node and what it computes. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "backends/hcq/host_queue.h"
#include "backends/hcq/host_timeline.h"
#include "backends/interp/memory.h"
#include "core/device/device.h"

namespace tensord::interp {

struct DeviceOptions {
  std::string name = "INTERP:0";
  uint64_t memory_bytes = 0;  // capacity
};

class Device final : public tensord::Device, private hcq::Executor {
 public:
  // Kernels may use all memory that is in `map`.
  Device(DeviceOptions options, Target target, std::shared_ptr<MemoryMap> map);

  const std::string& name() const override { return options_.name; }
  const Target& target() const override { return target_; }
  tensord::Allocator& allocator() override { return allocator_; }
  Timeline& timeline() override { return timeline_; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const std::string& binary,
                                                     const std::string& entry) override;
  absl::Status Submit(CommandList list) override { return queue_.Submit(std::move(list)); }
  Progress progress() override { return queue_.progress(); }
  void Abandon(uint64_t value, const absl::Status& why) override { queue_.Abandon(value, why); }

 private:
  absl::Status Exec(const ExecCommand& command) override;
  absl::Status Copy(const CopyCommand& command) override;
  void Stop() override { stop_.store(true, std::memory_order_relaxed); }
  void Restart() override { stop_.store(false, std::memory_order_relaxed); }

  const DeviceOptions options_;
  const Target target_;
  const std::shared_ptr<MemoryMap> map_;
  Allocator allocator_;
  hcq::HostTimeline timeline_;
  std::atomic<bool> stop_{false};  // relaxed: a request
  hcq::HostQueue queue_;           // last: its thread uses all of the above
};

}  // namespace tensord::interp
