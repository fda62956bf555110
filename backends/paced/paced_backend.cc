#include "backends/paced/paced_backend.h"

#include <fmt/format.h>

#include "backends/paced/device.h"
#include "backends/paced/settings.h"
#include "core/base/status.h"
#include "core/compile/llvm_host.h"

namespace tensord::paced {
namespace {

constexpr uint64_t kDefaultMemoryBytes = uint64_t{1} << 40;  // untouched memory costs nothing

uint64_t MemoryBytes(const Settings& settings, const OpenOptions& options) {
  if (settings.memory_mib > 0) return static_cast<uint64_t>(settings.memory_mib * (1 << 20));
  return options.memory_bytes > 0 ? options.memory_bytes : kDefaultMemoryBytes;
}

}  // namespace

absl::Status Probe() { return absl::OkStatus(); }

absl::StatusOr<std::vector<std::unique_ptr<tensord::Device>>> Open(int count,
                                                                   const OpenOptions& options) {
  TD_ASSIGN_OR_RETURN(const Settings settings, ParseSettings(options.settings));
  Target target = LlvmHostTarget();
  if (options.threads > 0) target.cores = options.threads;
  std::vector<std::unique_ptr<tensord::Device>> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(
        std::make_unique<Device>(DeviceOptions{.name = fmt::format("PACED:{}", i),
                                               .memory_bytes = MemoryBytes(settings, options),
                                               .settings = settings},
                                 target));
  }
  return devices;
}

}  // namespace tensord::paced
