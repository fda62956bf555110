#include "backends/interp/interp_backend.h"

#include <fmt/format.h>

#include "backends/hcq/host_allocator.h"
#include "backends/interp/device.h"

namespace tensord::interp {
namespace {

// A machine that nobody has: kernels are tiled as for a processor with vectors, the same
// everywhere.
Target InterpTarget(int cores) {
  return {.renderer = "linear",
          .arch = "interp",
          .cpu = "",
          .features = "",
          .vector_bytes = 32,
          .vector_registers = 16,
          .has_fma = true,
          .cores = cores,
          .checks_bounds = true};
}

}  // namespace

absl::Status Probe() { return absl::OkStatus(); }

absl::StatusOr<std::vector<std::unique_ptr<tensord::Device>>> Open(int count,
                                                                   const OpenOptions& options) {
  constexpr int kCores = 4;  // so that work is split over workgroups, which the interpreter checks
  const auto map = std::make_shared<MemoryMap>();
  std::vector<std::unique_ptr<tensord::Device>> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(std::make_unique<Device>(
        DeviceOptions{.name = fmt::format("INTERP:{}", i),
                      .memory_bytes = options.memory_bytes > 0
                                          ? options.memory_bytes
                                          : hcq::DefaultHostMemoryBytes() / (2 * count)},
        InterpTarget(options.threads > 0 ? options.threads : kCores), map));
  }
  return devices;
}

}  // namespace tensord::interp
