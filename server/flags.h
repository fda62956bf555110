// The daemon's flags. One table says name, default, range and help of each; the environment
// variable and the name in the config file follow from the name. What stands first wins:
//
//   tensord --log-level debug            command line
//   TENSORD_LOG_LEVEL=debug tensord      environment
//   log-level = "debug"                  the file that --config names (config_file.h)
//   info                                 default
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

inline constexpr char kDefaultConfigFile[] = "/etc/tensord/tensord.toml";
inline constexpr char kDefaultOrigin[] = "default";

struct Flags {
  std::string config;
  std::vector<std::string> listen;
  std::string socket_mode;
  std::string tls_cert, tls_key, tls_client_ca;
  std::string auth_tokens;
  std::vector<std::string> admin_users;
  bool insecure = false;
  std::string metrics_listen;
  int64_t metrics_sessions = 0;
  std::string console_listen;
  std::string devices;
  int64_t cpu_threads = 0;
  int64_t compile_threads = 0;
  int64_t compile_processes = 0;
  absl::Duration compile_timeout;
  uint64_t compile_memory_bytes = 0;
  uint64_t memory_bytes = 0;
  uint64_t spill_host_bytes = 0, spill_disk_bytes = 0;
  std::string spill_dir;
  std::string cache_dir;
  uint64_t cache_bytes = 0;
  uint64_t max_message_bytes = 0;
  int64_t max_graph_nodes = 0;
  uint64_t max_tensor_bytes = 0;
  uint64_t max_session_bytes = 0;
  absl::Duration launch_timeout, run_timeout;
  std::string state_dir;
  uint64_t max_published_bytes = 0;
  uint64_t max_user_bytes = 0;
  int64_t trace_runs = 0;
  absl::Duration session_lease;
  absl::Duration drain_timeout;
  absl::Duration probe_interval, probe_patience;
  std::string log_level;
  std::string log_file;
  bool exit_with_parent = false;
  int64_t ready_fd = -1;
  bool check_config = false;
  bool help = false;
  bool version = false;
};

// A flag's value and where it comes from.
struct FlagValue {
  std::string name;
  std::string text;    // as in a config file
  std::string origin;  // "default", "--devices", "TENSORD_DEVICES", "/etc/tensord.toml:3:1"
};

struct Configuration {
  Flags flags;
  std::vector<FlagValue> values;  // of the flags that a config file may set, in the table's order

  const std::string& Origin(std::string_view name) const;
  // Whether callers by TCP are encrypted and have to prove who they are.
  bool secure() const;
};

// Looks up an environment variable; so that tests bring their own.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> ProcessEnvironment(const std::string& name);

// `arguments` without the program's name. `default_file` is read if it exists and nothing else is
// named; a private daemon (--exit-with-parent) reads only what is named. InvalidArgument has a line
// for each fault, which says where the value stands and what the flag takes.
absl::StatusOr<Configuration> Configure(absl::Span<const std::string> arguments,
                                        const Environment& environment,
                                        const std::string& default_file = kDefaultConfigFile);

// What --check-config prints: a config file that says what is in force, and where that comes from.
std::string ConfigText(const Configuration& configuration);

struct FlagChange {
  std::string name, from, to, origin;
  bool adopted = false;  // else it needs a restart
};
// Takes over from `read` what can change while the daemon runs; says what differs.
std::vector<FlagChange> Adopt(Configuration& running, const Configuration& read);

// What --help prints.
std::string FlagsHelp(const Environment& environment);

// "4096", "64KiB", "2MiB", "1GiB", "1TiB".
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);

}  // namespace tensord
