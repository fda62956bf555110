// The backend that interprets linear programs: devices INTERP:0 ... INTERP:n-1, the oracle that
// compiled ones are compared with.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "backends/hcq/open_options.h"
#include "core/device/device.h"

namespace tensord::interp {

absl::Status Probe();
absl::StatusOr<std::vector<std::unique_ptr<tensord::Device>>> Open(int count,
                                                                   const OpenOptions& options);

}  // namespace tensord::interp
