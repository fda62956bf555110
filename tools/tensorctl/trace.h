// tensorctl trace: what the daemon noted of its latest work, as a file for trace viewers.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>

#include "tools/tensorctl/daemon.h"

namespace tensord {

absl::StatusOr<std::string> Trace(const Daemon& daemon, absl::Span<const std::string> operands);

}  // namespace tensord
