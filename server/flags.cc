#include "server/flags.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>
#include <variant>

#include "core/base/status.h"
#include "core/wire/address.h"
#include "server/config_file.h"
#include "server/listen.h"

namespace tensord {
namespace {

using Kind = FileValue::Kind;

constexpr std::pair<std::string_view, int> kByteUnits[] = {
    {"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}};

// Each type of field: how its text is read and written, and what it may be in a file.

absl::Status Set(std::string& field, const std::string& text) {
  field = text;
  return absl::OkStatus();
}
std::string Text(const std::string& field) {
  return "\"" +
         absl::StrReplaceAll(field,
                             {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}, {"\t", "\\t"}}) +
         "\"";
}
bool Takes(const std::string&, Kind kind) { return kind == Kind::kText; }
const char* Wanted(const std::string&) { return "a text in quotes"; }

absl::Status Set(std::vector<std::string>& field, const std::string& text) {
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    field.emplace_back(absl::StripAsciiWhitespace(part));
  }
  return absl::OkStatus();
}
std::string Text(const std::vector<std::string>& field) {
  const auto quote = [](std::string* out, const std::string& text) { *out += Text(text); };
  return "[" + absl::StrJoin(field, ", ", quote) + "]";
}
bool Takes(const std::vector<std::string>&, Kind kind) {
  return kind == Kind::kText || kind == Kind::kList;
}
const char* Wanted(const std::vector<std::string>&) { return "a list of texts in quotes"; }

absl::Status Set(bool& field, const std::string& text) {
  if (absl::SimpleAtob(text, &field)) return absl::OkStatus();
  return InvalidArgument("takes true or false");
}
std::string Text(bool field) { return field ? "true" : "false"; }
bool Takes(bool, Kind kind) { return kind == Kind::kSwitch; }
const char* Wanted(bool) { return "true or false"; }

absl::Status Set(int64_t& field, const std::string& text) {
  if (absl::SimpleAtoi(text, &field) && field >= 0) return absl::OkStatus();
  return InvalidArgument("takes a number from 0 on");
}
std::string Text(int64_t field) { return std::to_string(field); }
bool Takes(int64_t, Kind kind) { return kind == Kind::kNumber; }
const char* Wanted(int64_t) { return "a number"; }

absl::Status Set(uint64_t& field, const std::string& text) {
  TD_ASSIGN_OR_RETURN(field, ParseBytes(text));
  return absl::OkStatus();
}
std::string Text(uint64_t field) {
  for (const auto& [unit, bits] : kByteUnits) {
    if (field != 0 && field % (uint64_t{1} << bits) == 0) {
      return fmt::format("\"{}{}\"", field >> bits, unit);
    }
  }
  return std::to_string(field);
}
bool Takes(uint64_t, Kind kind) { return kind == Kind::kNumber || kind == Kind::kText; }
const char* Wanted(uint64_t) { return "a number of bytes, or a text such as \"64MiB\""; }

absl::Status Set(absl::Duration& field, const std::string& text) {
  if (absl::ParseDuration(text, &field) && field >= absl::ZeroDuration()) return absl::OkStatus();
  return InvalidArgument("takes a duration such as 500ms, 30s or 2m");
}
std::string Text(absl::Duration field) { return "\"" + absl::FormatDuration(field) + "\""; }
bool Takes(absl::Duration, Kind kind) { return kind == Kind::kText; }
const char* Wanted(absl::Duration) { return "a text such as \"30s\""; }

using Field = std::variant<std::string Flags::*, std::vector<std::string> Flags::*, bool Flags::*,
                           int64_t Flags::*, uint64_t Flags::*, absl::Duration Flags::*>;

// Ranges, as functions that look at one field.
template <auto kField, uint64_t kMin, uint64_t kMax>
absl::Status Between(const Flags& flags) {
  const auto value = flags.*kField;
  using Value = std::decay_t<decltype(value)>;
  if (value >= Value{kMin} && value <= Value{kMax}) return absl::OkStatus();
  return InvalidArgument("takes {} to {}", absl::StrReplaceAll(Text(Value{kMin}), {{"\"", ""}}),
                         absl::StrReplaceAll(Text(Value{kMax}), {{"\"", ""}}));
}

absl::Status TimeToCompile(const Flags& flags) {
  if (flags.compile_timeout > absl::ZeroDuration()) return absl::OkStatus();
  return InvalidArgument("takes a duration above zero, such as 30s; 'inf' for none");
}

absl::Status FileMode(const Flags& flags) {
  const std::string& mode = flags.socket_mode;
  const bool octal =
      !mode.empty() && mode.size() <= 4 && mode.find_first_not_of("01234567") == std::string::npos;
  if (octal && (mode.size() < 4 || mode[0] == '0')) return absl::OkStatus();
  return InvalidArgument("takes permissions in octal, such as 0600 or 0660");
}

absl::Status KnownLevel(const Flags& flags) {
  for (const char* level : {"trace", "debug", "info", "warn", "error", "off"}) {
    if (flags.log_level == level) return absl::OkStatus();
  }
  return InvalidArgument("takes trace, debug, info, warn, error or off");
}

enum class Scope {
  kReload,   // may change while the daemon runs
  kStart,    // is settled when it starts
  kProcess,  // says what one process is for: not in a file
  kOnce,     // asks for something once: on the command line only
};

struct Flag {
  const char* name;
  const char* value;          // how help calls it; empty for a switch
  const char* default_value;  // empty: see DefaultValue
  Field field;
  Scope scope;
  absl::Status (*check)(const Flags& flags);  // null: anything will do
  const char* help;
};

// clang-format off
constexpr uint64_t kMiB = 1 << 20;
const Flag kFlags[] = {
    {"config", "FILE", "", &Flags::config, Scope::kProcess, nullptr,
     "TOML file with further flags by their names; 'none': no file"},
    {"listen", "ADDRESS", "", &Flags::listen, Scope::kStart, nullptr,
     "unix:PATH or HOST:PORT; may be given several times, or several with commas"},
    {"socket-mode", "MODE", "0600", &Flags::socket_mode, Scope::kStart, FileMode,
     "permissions of the unix sockets: 0660 lets the socket's group in, 0666 all of this machine"},
    {"tls-cert", "FILE", "", &Flags::tls_cert, Scope::kStart, nullptr,
     "certificate of the daemon, PEM: makes TCP connections TLS"},
    {"tls-key", "FILE", "", &Flags::tls_key, Scope::kStart, nullptr,
     "key of that certificate, PEM"},
    {"tls-client-ca", "FILE", "", &Flags::tls_client_ca, Scope::kStart, nullptr,
     "PEM of who signs the certificates of clients; whoever has one may connect by TCP"},
    {"auth-tokens", "FILE", "", &Flags::auth_tokens, Scope::kStart, nullptr,
     "names and hashes of tokens; whoever has one may connect by TCP. SIGHUP reads the file anew"},
    {"admin-users", "NAMES", "", &Flags::admin_users, Scope::kStart, nullptr,
     "who may see and end all sessions and clear caches, besides root and the daemon's own user"},
    {"insecure", "", "false", &Flags::insecure, Scope::kStart, nullptr,
     "allow TCP from other machines without TLS and without knowing who connects"},
    {"metrics-listen", "ADDRESS", "", &Flags::metrics_listen, Scope::kStart, nullptr,
     "HOST:PORT where Prometheus gets metrics, at /metrics; empty: nowhere"},
    {"metrics-sessions", "N", "20", &Flags::metrics_sessions, Scope::kReload,
     Between<&Flags::metrics_sessions, 0, 10'000>,
     "sessions that have metrics of their own, the largest; the rest is one, 'other'"},
    {"console-listen", "ADDRESS", "", &Flags::console_listen, Scope::kStart, nullptr,
     "HOST:PORT of the web console, which tensorctl console opens; empty: none"},
    {"devices", "SPEC", "cpu", &Flags::devices, Scope::kStart, nullptr,
     "backends to open, NAME or NAME:COUNT, several with commas: cpu:2,null; a simulated "
     "accelerator takes settings, see docs/operating.md: paced:2(launch_us=100)"},
    {"cpu-threads", "N", "0", &Flags::cpu_threads, Scope::kStart,
     Between<&Flags::cpu_threads, 0, 4096>,
     "threads of one CPU device; 0: one a core"},
    {"memory-bytes", "BYTES", "0", &Flags::memory_bytes, Scope::kStart, nullptr,
     "memory of one device; 0: the backend's choice"},
    {"spill-host-bytes", "BYTES", "4GiB", &Flags::spill_host_bytes, Scope::kStart, nullptr,
     "host memory for tensors that leave a full device for a while; 0: none"},
    {"spill-dir", "FOLDER", "", &Flags::spill_dir, Scope::kStart, nullptr,
     "where they go when that is full; empty: nowhere. The files have no names"},
    {"spill-disk-bytes", "BYTES", "64GiB", &Flags::spill_disk_bytes, Scope::kStart, nullptr,
     "size of what is there at most"},
    {"compile-threads", "N", "0", &Flags::compile_threads, Scope::kStart,
     Between<&Flags::compile_threads, 0, 4096>,
     "threads that compile kernels; 0: one a core"},
    {"compile-processes", "N", "0", &Flags::compile_processes, Scope::kStart,
     Between<&Flags::compile_processes, 0, 4096>,
     "programs that are compiled at once, each in a process of its own; 0: one a core"},
    {"compile-timeout", "DURATION", "5m", &Flags::compile_timeout, Scope::kStart, TimeToCompile,
     "how long one program may compile"},
    {"compile-memory-bytes", "BYTES", "4GiB", &Flags::compile_memory_bytes, Scope::kStart,
     Between<&Flags::compile_memory_bytes, 256 * kMiB, uint64_t{1} << 50>,
     "memory of one process that compiles"},
    {"cache-dir", "FOLDER", "", &Flags::cache_dir, Scope::kStart, nullptr,
     "where compiled kernels are kept; 'none': in memory only"},
    {"cache-bytes", "BYTES", "1GiB", &Flags::cache_bytes, Scope::kStart, nullptr,
     "size of that folder, above which the oldest kernels go"},
    // A chunk of a tensor has to fit, and gRPC allows less than 2 GiB.
    {"max-message-bytes", "BYTES", "64MiB", &Flags::max_message_bytes, Scope::kStart,
     Between<&Flags::max_message_bytes, 2 * kMiB, 2047 * kMiB>,
     "largest message from a client; tensors come in chunks and may be larger"},
    {"max-graph-nodes", "N", "1048576", &Flags::max_graph_nodes, Scope::kStart,
     Between<&Flags::max_graph_nodes, 1, 1 << 30>,
     "nodes of one program"},
    {"max-tensor-bytes", "BYTES", "1TiB", &Flags::max_tensor_bytes, Scope::kStart, nullptr,
     "size of one tensor"},
    {"max-session-bytes", "BYTES", "1TiB", &Flags::max_session_bytes, Scope::kReload, nullptr,
     "size of all tensors that one session holds; a change is for sessions opened later"},
    {"launch-timeout", "DURATION", "1m", &Flags::launch_timeout, Scope::kStart, nullptr,
     "how long one launch of a kernel, or one copy, may take before it is stopped; 0: for ever"},
    {"run-timeout", "DURATION", "1h", &Flags::run_timeout, Scope::kStart, nullptr,
     "the same of all launches of one run together, loops included"},
    {"state-dir", "FOLDER", "", &Flags::state_dir, Scope::kStart, nullptr,
     "where published tensors are kept, so that a restart finds them again; empty: in memory only"},
    {"max-published-bytes", "BYTES", "1TiB", &Flags::max_published_bytes, Scope::kStart, nullptr,
     "size of all tensors that one user has published"},
    {"max-user-bytes", "BYTES", "1024TiB", &Flags::max_user_bytes, Scope::kReload, nullptr,
     "size of all tensors of one user, in sessions and published; callers without a name are one user"},
    {"trace-runs", "N", "4096", &Flags::trace_runs, Scope::kStart,
     Between<&Flags::trace_runs, 0, 1'000'000>,
     "the latest runs, transfers and compilations that 'tensorctl trace' shows; 0: nothing is noted"},
    {"session-lease", "DURATION", "30s", &Flags::session_lease, Scope::kStart, nullptr,
     "how long a session lives on when its connection breaks; 0: not at all"},
    {"drain-timeout", "DURATION", "30s", &Flags::drain_timeout, Scope::kReload, nullptr,
     "how long work that was accepted may take after SIGTERM"},
    {"probe-interval", "DURATION", "10s", &Flags::probe_interval, Scope::kStart, nullptr,
     "how often a small program is run on each device for health checks; 0: only when asked"},
    {"probe-patience", "DURATION", "30s", &Flags::probe_patience, Scope::kStart, nullptr,
     "after how long without the end of any run a device is not healthy; longer than any one run"},
    {"log-level", "LEVEL", "info", &Flags::log_level, Scope::kReload, KnownLevel,
     "trace, debug, info, warn, error or off"},
    {"log-file", "FILE", "", &Flags::log_file, Scope::kReload, nullptr,
     "where the log goes, instead of standard error; SIGHUP opens it anew"},
    {"exit-with-parent", "", "false", &Flags::exit_with_parent, Scope::kProcess, nullptr,
     "drain when standard input ends or the parent process dies; for private daemons"},
    {"ready-fd", "N", "", &Flags::ready_fd, Scope::kProcess, nullptr,
     "file descriptor that gets one line, the first address, when the daemon serves"},
    {"check-config", "", "false", &Flags::check_config, Scope::kOnce, nullptr,
     "check flags, environment and file, print what is in force and why, and exit"},
    {"help", "", "false", &Flags::help, Scope::kOnce, nullptr, "print this and exit"},
    {"version", "", "false", &Flags::version, Scope::kOnce, nullptr, "print the version and exit"},
};
// clang-format on

absl::Status SetField(const Flag& flag, Flags& flags, const std::string& text) {
  return std::visit([&](auto field) { return Set(flags.*field, text); }, flag.field);
}

std::string FieldText(const Flag& flag, const Flags& flags) {
  return std::visit([&](auto field) { return Text(flags.*field); }, flag.field);
}

bool TakesKind(const Flag& flag, Kind kind) {
  return std::visit([kind](auto field) { return Takes(Flags().*field, kind); }, flag.field);
}

bool InFile(const Flag& flag) {
  return flag.scope == Scope::kReload || flag.scope == Scope::kStart;
}

bool IsSwitch(const Flag& flag) { return flag.value[0] == '\0'; }

std::string Variable(const Flag& flag) {
  return "TENSORD_" + absl::AsciiStrToUpper(absl::StrReplaceAll(flag.name, {{"-", "_"}}));
}

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : kFlags) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

// How many characters to insert, delete or replace to make one of the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string_view NearestName(std::string_view name) {
  const Flag* best = nullptr;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const Flag& flag : kFlags) {
    const size_t distance = EditDistance(name, flag.name);
    if (distance < best_distance) best = &flag, best_distance = distance;
  }
  return best->name;
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

// A value that somebody gave a flag.
struct Given {
  const Flag* flag;
  std::string text;
  std::string origin;
  std::string subject;  // how a complaint about it begins
};
using Faults = std::vector<std::string>;

Given OnCommandLine(const Flag& flag, std::string text) {
  return {&flag, text, fmt::format("--{}", flag.name), fmt::format("--{}={}", flag.name, text)};
}

std::vector<Given> FromCommandLine(absl::Span<const std::string> arguments, Faults& faults) {
  std::vector<Given> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument.size() < 3 || argument.substr(0, 2) != "--") {
      faults.push_back(fmt::format("'{}' is not a flag: see tensord --help", argument));
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(2, equals == argument.npos ? equals : equals - 2);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr) {
      faults.push_back(fmt::format("--{} does not exist; the nearest is --{}: see tensord --help",
                                   name, NearestName(name)));
    } else if (equals != argument.npos) {
      given.push_back(OnCommandLine(*flag, std::string(argument.substr(equals + 1))));
    } else if (IsSwitch(*flag)) {
      given.push_back(OnCommandLine(*flag, "true"));
    } else if (i + 1 < arguments.size()) {
      given.push_back(OnCommandLine(*flag, arguments[++i]));
    } else {
      faults.push_back(fmt::format("--{} needs a value: {}", name, flag->help));
    }
  }
  return given;
}

std::vector<Given> FromEnvironment(const Environment& environment) {
  std::vector<Given> given;
  for (const Flag& flag : kFlags) {
    // Asking for help or the version is not something to leave in an environment.
    if (flag.scope == Scope::kOnce) continue;
    const std::optional<std::string> text = environment(Variable(flag));
    if (!text || text->empty()) continue;
    given.push_back({&flag, *text, Variable(flag), fmt::format("{}={}", Variable(flag), *text)});
  }
  return given;
}

std::vector<Given> FromFile(const std::string& path, bool must_exist, Faults& faults) {
  const absl::StatusOr<std::vector<FileValue>> values = ReadConfigFile(path);
  if (!values.ok()) {
    if (must_exist || !absl::IsNotFound(values.status())) {
      faults.push_back(std::string(Message(values.status())));
    }
    return {};
  }
  std::vector<Given> given;
  for (const FileValue& value : *values) {
    const Flag* flag = FindFlag(value.key);
    if (flag == nullptr) {
      faults.push_back(
          fmt::format("{}: '{}' does not exist; the nearest is '{}': see tensord --help",
                      value.where, value.key, NearestName(value.key)));
    } else if (!InFile(*flag)) {
      faults.push_back(
          fmt::format("{}: '{}' is for the command line, not for a file", value.where, value.key));
    } else if (!TakesKind(*flag, value.kind)) {
      const auto wanted = [](auto field) { return Wanted(Flags().*field); };
      faults.push_back(fmt::format("{}: '{}' takes {}", value.where, value.key,
                                   std::visit(wanted, flag->field)));
    } else {
      given.push_back(
          {flag, value.text, value.where,
           fmt::format("{}: {} = {}", value.where, value.key,
                       value.kind == Kind::kText ? "\"" + value.text + "\"" : value.text)});
    }
  }
  return given;
}

// Also of a value that another one hides: it would come to light at a bad time.
void CheckAlone(const Given& given, Faults& faults) {
  Flags alone;
  absl::Status status = SetField(*given.flag, alone, given.text);
  if (status.ok() && given.flag->check != nullptr) status = given.flag->check(alone);
  if (!status.ok()) faults.push_back(fmt::format("{}: {}", given.subject, Message(status)));
}

// What can only be said of several flags together.
void CheckTogether(const Configuration& configuration, Faults& faults) {
  const Flags& flags = configuration.flags;
  const auto check = [&](const absl::Status& status, std::string_view name) {
    if (status.ok()) return;
    faults.push_back(fmt::format("{} (from {})", Message(status), configuration.Origin(name)));
  };
  if (flags.listen.empty()) faults.push_back("--listen needs an address");
  const bool remote = flags.insecure || configuration.secure();
  for (const std::string& address : flags.listen) {
    check(ParseListenAddress(address, remote, !flags.tls_cert.empty()).status(), "listen");
  }
  if (!flags.metrics_listen.empty()) {
    check(ParseMetricsAddress(flags.metrics_listen, flags.insecure).status(), "metrics-listen");
  }
  if (!flags.console_listen.empty()) {
    check(ParseConsoleAddress(flags.console_listen, flags.insecure).status(), "console-listen");
  }
  if (flags.tls_cert.empty() != flags.tls_key.empty()) {
    const bool key = flags.tls_cert.empty();
    check(InvalidArgument("--tls-{} needs --tls-{} as well", key ? "key" : "cert",
                          key ? "cert" : "key"),
          key ? "tls-key" : "tls-cert");
  }
  // Else a secret would travel in plain text.
  for (const auto& [name, value] : {std::pair("tls-client-ca", &flags.tls_client_ca),
                                    std::pair("auth-tokens", &flags.auth_tokens)}) {
    if (value->empty() || !flags.tls_cert.empty()) continue;
    check(InvalidArgument("--{} needs --tls-cert", name), name);
  }
}

const std::string* Last(const std::vector<Given>& given, std::string_view name) {
  const std::string* text = nullptr;
  for (const Given& value : given) {
    if (name == value.flag->name) text = &value.text;
  }
  return text;
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  int shift = 0;
  std::string_view digits = text;
  for (const auto& [unit, bits] : kByteUnits) {
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

const std::string& Configuration::Origin(std::string_view name) const {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const FlagValue& value) { return value.name == name; });
  static const std::string none;
  return found == values.end() ? none : found->origin;
}

bool Configuration::secure() const {
  return !flags.tls_cert.empty() && (!flags.auth_tokens.empty() || !flags.tls_client_ca.empty());
}

absl::StatusOr<Configuration> Configure(absl::Span<const std::string> arguments,
                                        const Environment& environment,
                                        const std::string& default_file) {
  Faults faults;
  // The strongest source first.
  std::vector<std::vector<Given>> sources = {FromCommandLine(arguments, faults),
                                             FromEnvironment(environment)};
  const std::string* named = nullptr;
  bool is_private = false;
  for (auto source = sources.rbegin(); source != sources.rend(); ++source) {
    if (const std::string* text = Last(*source, "config")) named = text;
    if (const std::string* text = Last(*source, "exit-with-parent")) is_private = *text != "false";
  }
  const std::string file = named ? *named : is_private ? "none" : default_file;
  if (file != "none") sources.push_back(FromFile(file, named != nullptr, faults));
  for (const std::vector<Given>& source : sources) {
    for (const Given& given : source) CheckAlone(given, faults);
  }
  Configuration result;
  for (const Flag& flag : kFlags) {
    std::string origin = kDefaultOrigin;
    const auto of_flag = [&](const Given& given) { return given.flag == &flag; };
    const auto source = std::find_if(sources.begin(), sources.end(), [&](const auto& given) {
      return std::any_of(given.begin(), given.end(), of_flag);
    });
    if (source == sources.end()) {
      const std::string text = DefaultValue(flag, environment);
      if (!text.empty()) TD_RETURN_IF_ERROR(SetField(flag, result.flags, text), "{}", flag.name);
    } else {
      for (const Given& given : *source) {
        if (!of_flag(given)) continue;
        // Its fault, if it has one, is noted already.
        static_cast<void>(SetField(flag, result.flags, given.text));
        origin = given.origin;
      }
    }
    if (InFile(flag)) result.values.push_back({flag.name, FieldText(flag, result.flags), origin});
  }
  CheckTogether(result, faults);
  if (!faults.empty()) return InvalidArgument("{}", absl::StrJoin(faults, "\n"));
  return result;
}

std::string ConfigText(const Configuration& configuration) {
  std::string text;
  for (const FlagValue& value : configuration.values) {
    text += fmt::format("{} = {}  # {}\n", value.name, value.text, value.origin);
  }
  return text;
}

std::vector<FlagChange> Adopt(Configuration& running, const Configuration& read) {
  std::vector<FlagChange> changes;
  for (size_t i = 0; i < running.values.size(); ++i) {
    const Flag& flag = *FindFlag(running.values[i].name);
    const FlagValue& now = running.values[i];
    const FlagValue& next = read.values[i];
    const bool adopted = flag.scope == Scope::kReload;
    if (now.text != next.text) {
      changes.push_back({next.name, now.text, next.text, next.origin, adopted});
    }
    if (!adopted) continue;
    std::visit([&](auto field) { running.flags.*field = read.flags.*field; }, flag.field);
    running.values[i] = next;
  }
  return changes;
}

std::string FlagsHelp(const Environment& environment) {
  constexpr const char* kNotes[] = {"; SIGHUP applies a change", "", "; not in a file", ""};
  std::string text = fmt::format(
      "tensord: runs tensor programs for its clients on the devices of this machine\n\n"
      "usage: tensord [--flag VALUE | --flag=VALUE]...\n\n"
      "A flag can also be set by its environment variable, or in a TOML file under its own name:\n"
      "the one that --config names, else {}, if it is there. The command\n"
      "line wins over the environment, and that over the file.\n\n",
      kDefaultConfigFile);
  for (const Flag& flag : kFlags) {
    text += fmt::format("  --{}{}{}\n      {}\n", flag.name, IsSwitch(flag) ? "" : " ", flag.value,
                        flag.help);
    if (flag.scope == Scope::kOnce) continue;
    const std::string value = DefaultValue(flag, environment);
    text += fmt::format("      default: {}; environment: {}{}\n", value.empty() ? "none" : value,
                        Variable(flag), kNotes[static_cast<size_t>(flag.scope)]);
  }
  return text;
}

}  // namespace tensord
