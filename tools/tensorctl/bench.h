// tensorctl bench: what a client gets from this daemon, now.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>

#include "tools/tensorctl/daemon.h"

namespace tensord {

absl::StatusOr<std::string> Bench(const Daemon& daemon, absl::Span<const std::string> operands);

}  // namespace tensord
