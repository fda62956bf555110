// The daemon's config file as a list of values: TOML without sections, a flag's name before each.
//
//   listen = ["unix:/run/tensord/tensord.sock", "localhost:7070"]
//   max-session-bytes = "64GiB"
//
// What the names mean is the business of flags.h.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace tensord {

struct FileValue {
  enum class Kind { kText, kNumber, kSwitch, kList, kOther };
  std::string key;
  Kind kind = Kind::kOther;
  std::string text;   // as on a command line; of a list: with commas
  std::string where;  // FILE:LINE:COLUMN
  int line = 0;
};

// NotFound if there is no such file; InvalidArgument with FILE:LINE:COLUMN if it isn't TOML.
absl::StatusOr<std::vector<FileValue>> ReadConfigFile(const std::string& path);

}  // namespace tensord
