// The table of tensorctl's commands.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>
#include <string_view>

#include "tools/tensorctl/daemon.h"

namespace tensord {

struct Command {
  std::string_view name;      // words with a space between them
  std::string_view operands;  // for people: "SESSION..."
  size_t min_operands, max_operands;
  absl::StatusOr<std::string> (*run)(const Daemon& daemon, absl::Span<const std::string> operands);
  std::string_view help;
};

absl::Span<const Command> Commands();

}  // namespace tensord
