// The machine's processor as a device with a queue: one thread drains the command lists, a pool of
// workers shares each launch. A kernel that faults fails its command list, named, and no other.
// One that doesn't end can be stopped. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "backends/cpu/worker_pool.h"
#include "backends/hcq/host_allocator.h"
#include "backends/hcq/host_queue.h"
#include "backends/hcq/host_timeline.h"
#include "core/device/device.h"

namespace tensord::cpu {

struct DeviceOptions {
  std::string name = "CPU:0";
  int threads = 1;            // workgroups that run at the same time
  uint64_t memory_bytes = 0;  // capacity
  size_t max_queued_lists = 4096;
};

class Device final : public tensord::Device, private hcq::Executor {
 public:
  // `target` describes this machine; its cores become options.threads.
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

 private:
  absl::Status Exec(const ExecCommand& command) override;
  absl::Status Copy(const CopyCommand& command) override;
  void Stop() override { pool_.Stop(); }
  void Restart() override { pool_.Restart(); }

  const DeviceOptions options_;
  const Target target_;
  hcq::HostAllocator allocator_;
  hcq::HostTimeline timeline_;
  WorkerPool pool_;
  hcq::HostQueue queue_;  // last: its thread uses all of the above
};

}  // namespace tensord::cpu
