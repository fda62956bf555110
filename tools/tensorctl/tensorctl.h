// What the tensorctl command does: asks a daemon's admin service and prints tables or JSON.
#pragma once

#include <absl/types/span.h>

#include <string>

#include "tools/tensorctl/show.h"

namespace tensord {

struct ControlResult {
  int exit_code = 0;   // 0: done; 1: the daemon is not there or refused; 2: wrong usage
  std::string output;  // for standard output
  std::string error;   // for standard error
};

// `arguments` without the program's name; `default_address` where --address isn't given; `show`
// where live pictures go, null for a place that can't take any: then they are part of the output.
ControlResult Control(absl::Span<const std::string> arguments, const std::string& default_address,
                      const Show& show = nullptr);

}  // namespace tensord
