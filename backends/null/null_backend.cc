#include "backends/null/null_backend.h"

#include <fmt/format.h>

#include "backends/null/device.h"
#include "core/compile/llvm_host.h"

namespace tensord::null {
namespace {

constexpr uint64_t kDefaultMemoryBytes = uint64_t{1} << 40;  // untouched memory costs nothing

}  // namespace

absl::Status Probe() { return absl::OkStatus(); }

absl::StatusOr<std::vector<std::unique_ptr<tensord::Device>>> Open(int count,
                                                                   const OpenOptions& options) {
  Target target = LlvmHostTarget();
  if (options.threads > 0) target.cores = options.threads;
  std::vector<std::unique_ptr<tensord::Device>> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(std::make_unique<Device>(
        DeviceOptions{
            .name = fmt::format("NULL:{}", i),
            .memory_bytes = options.memory_bytes > 0 ? options.memory_bytes : kDefaultMemoryBytes},
        target));
  }
  return devices;
}

}  // namespace tensord::null
