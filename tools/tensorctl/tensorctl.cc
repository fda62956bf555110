#include "tools/tensorctl/tensorctl.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "proto/tensord/v1/admin.grpc.pb.h"
#include "tools/tensorctl/table.h"

namespace tensord {
namespace {

struct Options {
  std::string address;
  bool json = false;
  int count = 20;
  absl::Duration timeout = absl::Seconds(5);
  bool help = false;
  std::vector<std::string> words;  // the command
};

// One daemon, asked under a deadline.
struct Daemon {
  const Options& options;
  std::unique_ptr<v1::AdminService::Stub> stub;

  template <typename Request, typename Reply>
  using Method = grpc::Status (v1::AdminService::Stub::*)(grpc::ClientContext*, const Request&,
                                                          Reply*);

  template <typename Request, typename Reply>
  absl::Status Ask(Method<Request, Reply> method, Reply* reply) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(options.timeout));
    const grpc::Status status = (stub.get()->*method)(&context, Request(), reply);
    if (status.ok()) return absl::OkStatus();
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      return Unavailable("no daemon at {}: start one with tensord --listen {} ({})",
                         options.address, options.address, status.error_message());
    }
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return DeadlineExceeded("no answer from {} within {}", options.address,
                              absl::FormatDuration(options.timeout));
    }
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
};

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return "{}\n";
  return text;
}

std::string Age(uint64_t ms) {
  return absl::FormatDuration(
      absl::Trunc(absl::Milliseconds(ms), ms < 10'000 ? absl::Milliseconds(1) : absl::Seconds(1)));
}

absl::StatusOr<std::string> Status(const Daemon& daemon) {
  v1::GetStatusReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::GetStatus, &reply));
  if (daemon.options.json) return Json(reply);
  return FormatPairs({
      {"version", reply.server_version()},
      {"state", reply.draining() ? "draining" : "serving"},
      {"pid", std::to_string(reply.pid())},
      {"uptime", Age(reply.uptime_ms())},
      {"listening", fmt::format("{}", fmt::join(reply.listening(), ", "))},
      {"sessions",
       fmt::format("{} open, {} since start", reply.sessions(), reply.sessions_total())},
      {"programs run", std::to_string(reply.programs_run())},
      {"memory in use", FormatBytes(reply.resident_bytes())},
  });
}

absl::StatusOr<std::string> Devices(const Daemon& daemon) {
  v1::ListDevicesReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListDevices, &reply));
  if (daemon.options.json) return Json(reply);
  std::vector<std::vector<std::string>> rows = {
      {"DEVICE", "ARCH", "MEMORY", "IN USE", "CACHED", "PEAK", "QUEUED"}};
  for (const auto& device : reply.devices()) {
    rows.push_back({device.info().name() + (device.info().executes() ? "" : " (computes nothing)"),
                    device.info().arch(), FormatBytes(device.info().memory_bytes()),
                    FormatBytes(device.in_use_bytes()), FormatBytes(device.cached_bytes()),
                    FormatBytes(device.peak_in_use_bytes()),
                    std::to_string(device.submitted() - device.completed())});
  }
  return FormatTable(rows);
}

absl::StatusOr<std::string> Sessions(const Daemon& daemon) {
  v1::ListSessionsReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListSessions, &reply));
  if (daemon.options.json) return Json(reply);
  if (reply.sessions_size() == 0) return std::string("no sessions\n");
  std::vector<std::vector<std::string>> rows = {{"SESSION", "CLIENT", "AGE", "IDLE", "MEMORY",
                                                 "HANDLES", "RUNS", "DEVICE TIME", "UP", "DOWN"}};
  for (const auto& session : reply.sessions()) {
    const v1::CountersReply& c = session.counters();
    rows.push_back({session.session_id(), session.client_name(), Age(session.age_ms()),
                    Age(session.last_command_ms_ago()), FormatBytes(c.live_bytes()),
                    std::to_string(c.live_handles()), std::to_string(c.programs_run()),
                    fmt::format("{:.3f}s", static_cast<double>(c.device_ns()) / 1e9),
                    FormatBytes(c.bytes_uploaded()), FormatBytes(c.bytes_downloaded())});
  }
  return FormatTable(rows);
}

absl::StatusOr<std::string> CacheStats(const Daemon& daemon) {
  v1::GetCacheStatsReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::GetCacheStats, &reply));
  if (daemon.options.json) return Json(reply);
  return FormatPairs({
      {"folder", reply.directory().empty() ? "none, in memory only" : reply.directory()},
      {"kernels on disk",
       fmt::format("{}, {} of {}", reply.disk_entries(), FormatBytes(reply.disk_bytes()),
                   FormatBytes(reply.disk_limit_bytes()))},
      {"plans", fmt::format("{} kept, {} hits, {} misses", reply.plans(), reply.plan_hits(),
                            reply.plan_misses())},
      {"kernels",
       fmt::format("{} from memory, {} from disk, {} compiled", reply.kernel_memory_hits(),
                   reply.kernel_disk_hits(), reply.kernel_misses())},
      {"rejected", fmt::format("{} entries of the disk cache", reply.disk_rejected())},
  });
}

absl::StatusOr<std::string> CacheClear(const Daemon& daemon) {
  v1::ClearCacheReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ClearCache, &reply));
  if (daemon.options.json) return Json(reply);
  return fmt::format("removed {} kernels, {}\n", reply.entries_removed(),
                     FormatBytes(reply.bytes_removed()));
}

absl::StatusOr<std::string> Ping(const Daemon& daemon) {
  v1::PingReply reply;
  // The first call also connects, which isn't what is measured.
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::Ping, &reply));
  std::vector<double> us;
  for (int i = 0; i < daemon.options.count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::Ping, &reply));
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                     .count());
  }
  std::sort(us.begin(), us.end());
  const double min = us.front(), median = us[us.size() / 2], max = us.back();
  if (daemon.options.json) {
    return fmt::format(
        "{{\"address\": \"{}\", \"server_version\": \"{}\", \"pings\": {}, \"min_us\": {:.1f}, "
        "\"median_us\": {:.1f}, \"max_us\": {:.1f}}}\n",
        daemon.options.address, reply.server_version(), us.size(), min, median, max);
  }
  return fmt::format("tensord {} at {}: {} pings, min {:.1f} us, median {:.1f} us, max {:.1f} us\n",
                     reply.server_version(), daemon.options.address, us.size(), min, median, max);
}

struct Command {
  std::string_view name;  // words with a space between them
  absl::StatusOr<std::string> (*run)(const Daemon& daemon);
  std::string_view help;
};

constexpr Command kCommands[] = {
    {"status", Status, "version, uptime, sessions, memory"},
    {"devices", Devices, "the devices, their memory and queues"},
    {"sessions", Sessions, "who is connected and what it costs"},
    {"cache stats", CacheStats, "compiled plans and kernels: kept, found, compiled"},
    {"cache clear", CacheClear, "forget compiled plans and kernels, on disk as well"},
    {"ping", Ping, "round-trip times"},
};

std::string Help(const std::string& default_address) {
  std::string text =
      "tensorctl: asks a tensord daemon\n\nusage: tensorctl [--flag VALUE]... COMMAND\n\n";
  for (const Command& command : kCommands) {
    text += fmt::format("  {:<12} {}\n", command.name, command.help);
  }
  return text + fmt::format(
                    "\n"
                    "  --address ADDRESS  the daemon; default {} (environment: TENSORD_ADDRESS)\n"
                    "  --json             print JSON instead of tables\n"
                    "  --count N          how many pings; default 20\n"
                    "  --timeout DURATION how long to wait for an answer; default 5s\n"
                    "  --help             print this\n\n"
                    "exit code: 0 done, 1 the daemon is not there or refused, 2 wrong usage\n",
                    default_address);
}

absl::Status SetFlag(std::string_view name, const std::string& value, Options& options) {
  if (name == "address") {
    options.address = value;
  } else if (name == "count") {
    if (!absl::SimpleAtoi(value, &options.count) || options.count < 1 ||
        options.count > 1'000'000) {
      return InvalidArgument("--count {}: takes a number from 1 to 1000000", value);
    }
  } else if (name == "timeout") {
    if (!absl::ParseDuration(value, &options.timeout) || options.timeout <= absl::ZeroDuration()) {
      return InvalidArgument("--timeout {}: takes a duration such as 500ms or 5s", value);
    }
  } else {
    return InvalidArgument("--{} does not exist: see tensorctl --help", name);
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> Parse(absl::Span<const std::string> arguments,
                              const std::string& default_address) {
  Options options;
  options.address = default_address;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.substr(0, 2) != "--") {
      options.words.push_back(argument);
    } else if (argument == "--help") {
      options.help = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (const size_t equals = argument.find('='); equals != std::string::npos) {
      TD_RETURN_IF_ERROR(
          SetFlag(argument.substr(2, equals - 2), argument.substr(equals + 1), options));
    } else if (i + 1 < arguments.size()) {
      TD_RETURN_IF_ERROR(SetFlag(argument.substr(2), arguments[i + 1], options));
      ++i;
    } else {
      return InvalidArgument("{} needs a value, or does not exist: see tensorctl --help", argument);
    }
  }
  return options;
}

}  // namespace

ControlResult Control(absl::Span<const std::string> arguments, const std::string& default_address) {
  const absl::StatusOr<Options> options = Parse(arguments, default_address);
  if (!options.ok()) {
    return {.exit_code = 2,
            .output = {},
            .error = fmt::format("tensorctl: {}\n", Message(options.status()))};
  }
  if (options->help) return {.exit_code = 0, .output = Help(default_address), .error = {}};
  const std::string name = fmt::format("{}", fmt::join(options->words, " "));
  const auto* command = std::find_if(std::begin(kCommands), std::end(kCommands),
                                     [&](const Command& c) { return c.name == name; });
  if (command == std::end(kCommands)) {
    const std::string what =
        name.empty() ? "a command is missing" : fmt::format("there is no command '{}'", name);
    return {.exit_code = 2,
            .output = {},
            .error = fmt::format("tensorctl: {}\n\n{}", what, Help(default_address))};
  }
  const Daemon daemon{*options, v1::AdminService::NewStub(grpc::CreateChannel(
                                    options->address, grpc::InsecureChannelCredentials()))};
  absl::StatusOr<std::string> output = command->run(daemon);
  if (!output.ok()) {
    return {.exit_code = 1,
            .output = {},
            .error = fmt::format("tensorctl: {}\n", Message(output.status()))};
  }
  return {.exit_code = 0, .output = *std::move(output), .error = {}};
}

}  // namespace tensord
