// The daemon's flags. One table says name, environment variable, default and help of each; a flag
// on the command line wins over its variable.
//
//   --listen unix:./t.sock --listen=localhost:7070      TENSORD_LISTEN=unix:./t.sock,localhost:7070
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensord {

struct Flags {
  std::vector<std::string> listen;
  bool allow_remote = false;
  std::string devices;
  int64_t cpu_threads = 0;
  int64_t compile_threads = 0;
  uint64_t memory_bytes = 0;
  std::string cache_dir;
  uint64_t cache_bytes = 0;
  uint64_t max_message_bytes = 0;
  uint64_t max_graph_nodes = 0;
  uint64_t max_tensor_bytes = 0;
  uint64_t max_session_bytes = 0;
  absl::Duration drain_timeout;
  std::string log_level;
  std::string log_file;
  bool exit_with_parent = false;
  int64_t ready_fd = -1;
  bool help = false;
  bool version = false;
};

// Looks up an environment variable; so that tests bring their own.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> ProcessEnvironment(const std::string& name);

// `arguments` without the program's name. InvalidArgument names the flag and what it takes.
absl::StatusOr<Flags> ParseFlags(absl::Span<const std::string> arguments,
                                 const Environment& environment);

// What --help prints.
std::string FlagsHelp(const Environment& environment);

// "4096", "64KiB", "2MiB", "1GiB", "1TiB".
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);

}  // namespace tensord
