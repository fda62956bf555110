// The backend of the machine's own processor: devices CPU:0 ... CPU:n-1, each with its queue,
// timeline, workers and memory account.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "backends/hcq/open_options.h"
#include "core/device/device.h"

namespace tensord::cpu {

absl::Status Probe();
absl::StatusOr<std::vector<std::unique_ptr<tensord::Device>>> Open(int count,
                                                                   const OpenOptions& options);

}  // namespace tensord::cpu
