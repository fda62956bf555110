// The backend that simulates an accelerator: for testing and measuring scheduling and failures.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "backends/hcq/open_options.h"
#include "core/device/device.h"

namespace tensord::paced {

absl::Status Probe();
absl::StatusOr<std::vector<std::unique_ptr<tensord::Device>>> Open(int count,
                                                                   const OpenOptions& options);

}  // namespace tensord::paced
