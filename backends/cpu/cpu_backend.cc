#include "backends/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "backends/cpu/device.h"
#include "backends/hcq/host_allocator.h"
#include "core/compile/llvm_host.h"

namespace tensord::cpu {

absl::Status Probe() { return absl::OkStatus(); }

absl::StatusOr<std::vector<std::unique_ptr<tensord::Device>>> Open(int count,
                                                                   const OpenOptions& options) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<std::unique_ptr<tensord::Device>> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(std::make_unique<Device>(
        DeviceOptions{.name = fmt::format("CPU:{}", i),
                      .threads = options.threads > 0 ? options.threads : cores,
                      // They share one memory.
                      .memory_bytes = options.memory_bytes > 0
                                          ? options.memory_bytes
                                          : hcq::DefaultHostMemoryBytes() / count},
        LlvmHostTarget()));
  }
  return devices;
}

}  // namespace tensord::cpu
