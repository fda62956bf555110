// tensorctl replay: plays a recording (core/wire/recording.h) to a daemon, and says where its
// answers differ from the recorded ones.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>

#include "tools/tensorctl/daemon.h"

namespace tensord {

// What was played; an error that lists the differences if there are any.
absl::StatusOr<std::string> Replay(const Daemon& daemon, absl::Span<const std::string> operands);

}  // namespace tensord
