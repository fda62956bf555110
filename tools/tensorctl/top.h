// tensorctl top: devices and sessions with what they did since the last picture.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <optional>
#include <string>

#include "tools/tensorctl/daemon.h"

namespace tensord {

// One look at the daemon.
struct Snapshot {
  absl::Time time;
  v1::GetStatusReply status;
  v1::ListDevicesReply devices;
  v1::ListSessionsReply sessions;
};

// Rates are of the time since `before`, and missing without it.
std::string Picture(const std::optional<Snapshot>& before, const Snapshot& now,
                    const std::string& address);

// Shows pictures until nobody looks any more. Where none can be shown, prints as many as --count
// says, one by default.
absl::StatusOr<std::string> Top(const Daemon& daemon, absl::Span<const std::string> operands);

}  // namespace tensord
