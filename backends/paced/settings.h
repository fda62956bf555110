// What a paced device can be told, as KEY=VALUE in the specification of the devices.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "backends/hcq/open_options.h"

namespace tensord::paced {

struct Settings {
  double launch_us = 0;      // of each launch
  double workgroup_ns = 0;   // and per workgroup of it
  double copy_us = 0;        // of each copy
  double byte_ns = 0;        // and per byte of it
  double memory_mib = 0;     // 0: the backend's default
  double fault_launch = 0;   // number of the launch that fails, from 1; 0: none
  double hang_launch = 0;    // and of the one that never ends
  std::string fault_kernel;  // part of the names of kernels that fail; empty: none
  std::string hang_kernel;   // and of those that never end
};

// InvalidArgument names the wrong setting and lists what there is.
absl::StatusOr<Settings> ParseSettings(const BackendSettings& given);

}  // namespace tensord::paced
