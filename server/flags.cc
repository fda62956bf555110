#include "server/flags.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <cstdlib>
#include <limits>

#include "core/base/status.h"
#include "core/wire/address.h"

namespace tensord {
namespace {

absl::Status Set(std::string& field, const std::string& text) {
  field = text;
  return absl::OkStatus();
}

absl::Status Set(std::vector<std::string>& field, const std::string& text) {
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    field.emplace_back(absl::StripAsciiWhitespace(part));
  }
  return absl::OkStatus();
}

absl::Status Set(bool& field, const std::string& text) {
  if (absl::SimpleAtob(text, &field)) return absl::OkStatus();
  return InvalidArgument("takes true or false");
}

absl::Status Set(int64_t& field, const std::string& text) {
  if (absl::SimpleAtoi(text, &field) && field >= 0) return absl::OkStatus();
  return InvalidArgument("takes a number from 0 on");
}

absl::Status Set(uint64_t& field, const std::string& text) {
  TD_ASSIGN_OR_RETURN(field, ParseBytes(text));
  return absl::OkStatus();
}

absl::Status Set(absl::Duration& field, const std::string& text) {
  if (absl::ParseDuration(text, &field) && field >= absl::ZeroDuration()) return absl::OkStatus();
  return InvalidArgument("takes a duration such as 500ms, 30s or 2m");
}

struct Flag {
  const char* name;
  const char* value;          // how help calls it; empty for a switch
  const char* default_value;  // empty: see Defaults
  absl::Status (*set)(Flags& flags, const std::string& text);
  const char* help;
};

// clang-format off
#define TD_SETS(field) [](Flags& flags, const std::string& text) { return Set(flags.field, text); }
const Flag kFlags[] = {
    {"listen", "ADDRESS", "", TD_SETS(listen),
     "unix:PATH or HOST:PORT; may be given several times, or several with commas"},
    {"allow-remote", "", "false", TD_SETS(allow_remote),
     "allow addresses that other machines can reach (no encryption, no authentication)"},
    {"devices", "SPEC", "cpu", TD_SETS(devices),
     "backends to open, NAME or NAME:COUNT, several with commas: cpu:2,null"},
    {"cpu-threads", "N", "0", TD_SETS(cpu_threads),
     "threads of one CPU device; 0: one a core"},
    {"memory-bytes", "BYTES", "0", TD_SETS(memory_bytes),
     "memory of one device; 0: the backend's choice"},
    {"compile-threads", "N", "0", TD_SETS(compile_threads),
     "threads that compile kernels; 0: one a core"},
    {"cache-dir", "FOLDER", "", TD_SETS(cache_dir),
     "where compiled kernels are kept; 'none': in memory only"},
    {"cache-bytes", "BYTES", "1GiB", TD_SETS(cache_bytes),
     "size of that folder, above which the oldest kernels go"},
    {"max-message-bytes", "BYTES", "64MiB", TD_SETS(max_message_bytes),
     "largest message from a client; tensors come in chunks and may be larger"},
    {"max-graph-nodes", "N", "1048576", TD_SETS(max_graph_nodes),
     "nodes of one program"},
    {"max-tensor-bytes", "BYTES", "1TiB", TD_SETS(max_tensor_bytes),
     "size of one tensor"},
    {"max-session-bytes", "BYTES", "1TiB", TD_SETS(max_session_bytes),
     "size of all tensors that one session holds"},
    {"drain-timeout", "DURATION", "30s", TD_SETS(drain_timeout),
     "how long work that was accepted may take after SIGTERM"},
    {"log-level", "LEVEL", "info", TD_SETS(log_level),
     "trace, debug, info, warn, error or off"},
    {"log-file", "FILE", "", TD_SETS(log_file),
     "where the log goes, instead of standard error"},
    {"exit-with-parent", "", "false", TD_SETS(exit_with_parent),
     "drain when standard input ends or the parent process dies; for private daemons"},
    {"ready-fd", "N", "", TD_SETS(ready_fd),
     "file descriptor that gets one line, the first address, when the daemon serves"},
    {"help", "", "false", TD_SETS(help), "print this and exit"},
    {"version", "", "false", TD_SETS(version), "print the version and exit"},
};
#undef TD_SETS
// clang-format on

std::string Variable(const Flag& flag) {
  return "TENSORD_" + absl::AsciiStrToUpper(absl::StrReplaceAll(flag.name, {{"-", "_"}}));
}

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : kFlags) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

bool IsSwitch(const Flag& flag) { return flag.value[0] == '\0'; }

// Asking for help or the version is not something to leave in an environment.
bool HasVariable(const Flag& flag) {
  return std::string_view(flag.name) != "help" && std::string_view(flag.name) != "version";
}

std::string DefaultCacheDir(const Environment& environment) {
  const std::optional<std::string> cache = environment("XDG_CACHE_HOME");
  if (cache && !cache->empty()) return *cache + "/tensord/kernels";
  const std::optional<std::string> home = environment("HOME");
  return home && !home->empty() ? *home + "/.cache/tensord/kernels" : "";
}

// Defaults that depend on where the daemon runs.
std::string DefaultValue(const Flag& flag, const Environment& environment) {
  const std::string_view name = flag.name;
  if (name == "listen") return DefaultAddress();
  if (name == "cache-dir") return DefaultCacheDir(environment);
  return flag.default_value;
}

struct Given {
  const Flag* flag;
  std::string text;
};

absl::StatusOr<std::vector<Given>> Split(absl::Span<const std::string> arguments) {
  std::vector<Given> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument.size() < 3 || argument.substr(0, 2) != "--") {
      return InvalidArgument("'{}' is not a flag: see tensord --help", argument);
    }
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(2, equals == argument.npos ? equals : equals - 2);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr) return InvalidArgument("--{} does not exist: see tensord --help", name);
    if (equals != argument.npos) {
      given.push_back({flag, std::string(argument.substr(equals + 1))});
    } else if (IsSwitch(*flag)) {
      given.push_back({flag, "true"});
    } else if (i + 1 < arguments.size()) {
      given.push_back({flag, arguments[++i]});
    } else {
      return InvalidArgument("--{} needs a value: {}", name, flag->help);
    }
  }
  return given;
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  constexpr std::pair<std::string_view, int> kUnits[] = {
      {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  int shift = 0;
  std::string_view digits = text;
  for (const auto& [unit, bits] : kUnits) {
    if (digits.size() <= unit.size() || digits.substr(digits.size() - unit.size()) != unit)
      continue;
    digits.remove_suffix(unit.size());
    shift = bits;
    break;
  }
  uint64_t count;
  // Half of the range, so that sums of two sizes cannot overflow.
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (!absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &count) ||
      count > (kMax >> shift)) {
    return InvalidArgument("takes a number, of bytes or with KiB, MiB, GiB or TiB");
  }
  return count << shift;
}

absl::StatusOr<Flags> ParseFlags(absl::Span<const std::string> arguments,
                                 const Environment& environment) {
  TD_ASSIGN_OR_RETURN(const std::vector<Given> given, Split(arguments));
  Flags flags;
  for (const Flag& flag : kFlags) {
    bool on_command_line = false;
    for (const Given& value : given) {
      if (value.flag != &flag) continue;
      on_command_line = true;
      TD_RETURN_IF_ERROR(flag.set(flags, value.text), "--{}={}", flag.name, value.text);
    }
    if (on_command_line) continue;
    const std::optional<std::string> variable =
        HasVariable(flag) ? environment(Variable(flag)) : std::nullopt;
    if (variable && !variable->empty()) {
      TD_RETURN_IF_ERROR(flag.set(flags, *variable), "{}={}", Variable(flag), *variable);
    } else if (const std::string text = DefaultValue(flag, environment); !text.empty()) {
      TD_RETURN_IF_ERROR(flag.set(flags, text), "--{}={}", flag.name, text);
    }
  }
  if (flags.listen.empty()) return InvalidArgument("--listen needs an address");
  if (flags.max_message_bytes > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("--max-message-bytes={}: gRPC allows less than 2 GiB",
                           flags.max_message_bytes);
  }
  return flags;
}

std::string FlagsHelp(const Environment& environment) {
  std::string text =
      "tensord: runs tensor programs for its clients on the devices of this machine\n\n"
      "usage: tensord [--flag VALUE | --flag=VALUE]...\n\n"
      "A flag can also be set by its environment variable; the command line wins.\n\n";
  for (const Flag& flag : kFlags) {
    text += fmt::format("  --{}{}{}\n      {}\n", flag.name, IsSwitch(flag) ? "" : " ", flag.value,
                        flag.help);
    if (!HasVariable(flag)) continue;
    const std::string value = DefaultValue(flag, environment);
    text += fmt::format("      default: {}; environment: {}\n", value.empty() ? "none" : value,
                        Variable(flag));
  }
  return text;
}

}  // namespace tensord
