// The table of backends, and opening devices by name.
//
//   TD_ASSIGN_OR_RETURN(auto devices, OpenDevices("cpu:2,null"));   // CPU:0 CPU:1 NULL:0
//   OpenDevices("paced:2(launch_us=100,memory_mib=64)")             // PACED:0 PACED:1
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <memory>
#include <string_view>
#include <vector>

#include "backends/hcq/open_options.h"
#include "core/device/device.h"

namespace tensord {

struct Backend {
  std::string_view name;
  absl::Status (*probe)();  // Unavailable with the reason, if it can't run here
  absl::StatusOr<std::vector<std::unique_ptr<Device>>> (*open)(int count,
                                                               const OpenOptions& options);
  bool takes_settings = false;
};

// In order of preference.
absl::Span<const Backend> Backends();

// `spec` is NAME or NAME:COUNT, and (KEY=VALUE,...) behind it for a backend that takes settings;
// several are separated by commas; empty is the first backend that can run here. InvalidArgument
// names the wrong part and lists what exists.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(std::string_view spec,
                                                                 OpenOptions options = {});

}  // namespace tensord
