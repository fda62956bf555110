// What tensorctl's commands print: one function each.
#include "tools/tensorctl/commands.h"

#include <absl/strings/str_join.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/status.h"
#include "core/wire/handle.h"
#include "tools/tensorctl/bench.h"
#include "tools/tensorctl/replay.h"
#include "tools/tensorctl/table.h"
#include "tools/tensorctl/top.h"
#include "tools/tensorctl/trace.h"

namespace tensord {
namespace {

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return "{}\n";
  return text;
}

absl::StatusOr<std::string> Status(const Daemon& daemon, absl::Span<const std::string>) {
  v1::GetStatusReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::GetStatus, &reply));
  if (daemon.options().json) return Json(reply);
  return FormatPairs({
      {"version", reply.server_version()},
      {"state", reply.draining() ? "draining" : "serving"},
      {"pid", std::to_string(reply.pid())},
      {"uptime", FormatAge(reply.uptime_ms())},
      {"listening", fmt::format("{}", fmt::join(reply.listening(), ", "))},
      {"sessions", fmt::format("{} open, {} of them parked, {} since start", reply.sessions(),
                               reply.sessions_parked(), reply.sessions_total())},
      {"programs run", std::to_string(reply.programs_run())},
      {"memory in use", FormatBytes(reply.resident_bytes())},
  });
}

absl::StatusOr<std::string> Devices(const Daemon& daemon, absl::Span<const std::string>) {
  v1::ListDevicesReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListDevices, &reply));
  if (daemon.options().json) return Json(reply);
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

absl::StatusOr<std::string> Sessions(const Daemon& daemon, absl::Span<const std::string>) {
  v1::ListSessionsReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListSessions, &reply));
  if (daemon.options().json) return Json(reply);
  if (reply.sessions_size() == 0) return std::string("no sessions\n");
  std::vector<std::vector<std::string>> rows = {{"SESSION", "USER", "CLIENT", "STATE", "AGE",
                                                 "IDLE", "MEMORY", "HANDLES", "RUNS", "DEVICE TIME",
                                                 "MEMORY TIME", "COMPILE", "UP", "DOWN"}};
  for (const auto& session : reply.sessions()) {
    const v1::CountersReply& c = session.counters();
    const std::string state =
        session.parked() ? fmt::format("parked, {} left", FormatAge(session.lease_ms_left()))
                         : "connected";
    rows.push_back(
        {session.session_id(), session.user(), session.client_name(), state,
         FormatAge(session.age_ms()), FormatAge(session.last_command_ms_ago()),
         FormatBytes(c.live_bytes()), std::to_string(c.live_handles()),
         std::to_string(c.programs_run()),
         fmt::format("{:.3f}s", static_cast<double>(c.device_ns()) / 1e9),
         FormatBytes(c.byte_seconds()) + "*s",
         fmt::format("{:.3f}s", static_cast<double>(c.compile_ns() + c.schedule_ns()) / 1e9),
         FormatBytes(c.bytes_uploaded()), FormatBytes(c.bytes_downloaded())});
  }
  return FormatTable(rows);
}

absl::StatusOr<std::string> KillSession(const Daemon& daemon, absl::Span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) {
    v1::KillSessionRequest request;
    request.set_session_id(name);
    request.set_reason(daemon.options().reason);
    v1::KillSessionReply reply;
    TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::KillSession, &reply, request));
    text += daemon.options().json
                ? Json(reply)
                : fmt::format("ended {}, which held {}\n", name, FormatBytes(reply.bytes_freed()));
  }
  return text;
}

absl::StatusOr<std::string> Buffers(const Daemon& daemon, absl::Span<const std::string> names) {
  v1::ListTensorsRequest request;
  if (!names.empty()) request.set_session_id(names[0]);
  request.set_limit(daemon.options().count > 0 ? daemon.options().count : 50);
  v1::ListTensorsReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListTensors, &reply, request));
  if (daemon.options().json) return Json(reply);
  if (reply.count() == 0) return std::string("no buffers\n");
  std::vector<std::vector<std::string>> rows = {
      {"SESSION", "BUFFER", "SIZE", "DTYPE", "SHAPE", "DEVICE", "STATE"}};
  for (const auto& tensor : reply.tensors()) {
    rows.push_back({tensor.session_id(), ToString(Handle::Unpack(tensor.handle())),
                    FormatBytes(tensor.bytes()), tensor.dtype(),
                    fmt::format("[{}]", absl::StrJoin(tensor.shape(), ", ")), tensor.device(),
                    tensor.error().empty() ? tensor.state() : "error: " + tensor.error()});
  }
  return FormatTable(rows) + fmt::format("{} of {} buffers, {} in all\n", reply.tensors_size(),
                                         reply.count(), FormatBytes(reply.bytes()));
}

absl::StatusOr<std::string> Published(const Daemon& daemon, absl::Span<const std::string>) {
  v1::ListPublishedReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListPublished, &reply));
  if (daemon.options().json) return Json(reply);
  if (reply.publications_size() == 0) return std::string("nothing is published\n");
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "OWNER", "TENSORS", "SIZE", "HOLDERS", "READERS", "SAVED"}};
  for (const v1::Publication& each : reply.publications()) {
    rows.push_back({each.name(), each.owner(), std::to_string(each.tensor_count()),
                    FormatBytes(each.bytes()), std::to_string(each.holders()),
                    absl::StrJoin(each.readers(), ", "), each.saved() ? "yes" : "no"});
  }
  return FormatTable(rows);
}

absl::StatusOr<std::string> Unpublish(const Daemon& daemon, absl::Span<const std::string> names) {
  v1::UnpublishRequest request;
  request.set_name(names[0]);
  if (names.size() > 1) request.set_owner(names[1]);
  v1::UnpublishReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::Unpublish, &reply, request));
  if (daemon.options().json) return Json(reply);
  return fmt::format("'{}' is not published any more; who has attached it keeps it\n", names[0]);
}

std::string Seconds(uint64_t ns) { return fmt::format("{:.6f}s", static_cast<double>(ns) / 1e9); }

constexpr std::pair<v1::ExplainReply::Cause, const char*> kCauses[] = {
    {v1::ExplainReply::CAUSE_NOTHING, "nothing"},
    {v1::ExplainReply::CAUSE_TURN, "its turn on the device"},
    {v1::ExplainReply::CAUSE_PROGRAM, "its program, which is being compiled"},
    {v1::ExplainReply::CAUSE_COMPILES, "programs that are compiled before"},
    {v1::ExplainReply::CAUSE_TENSOR, "an operand that is on its way"},
    {v1::ExplainReply::CAUSE_READERS, "downloads and copies of what it overwrites"},
    {v1::ExplainReply::CAUSE_RUNS, "runs of the session on the device"},
    {v1::ExplainReply::CAUSE_MEMORY, "memory of the device, which is being made free"}};

std::string HoldersTable(const google::protobuf::RepeatedPtrField<v1::DeviceHolders>& devices) {
  std::vector<std::vector<std::string>> rows = {{"DEVICE", "SESSION", "USER", "HOLDS"}};
  for (const v1::DeviceHolders& device : devices) {
    for (const v1::DeviceHolders::Holder& holder : device.holders()) {
      rows.push_back({device.device(),
                      holder.session_id().empty() ? "(published)" : holder.session_id(),
                      holder.user(), FormatBytes(holder.bytes())});
    }
    const uint64_t rest =
        device.in_use_bytes() - std::min(device.in_use_bytes(), device.tensor_bytes());
    rows.push_back({device.device(), "(runs)", "", FormatBytes(rest)});
    const uint64_t free =
        device.capacity_bytes() - std::min(device.capacity_bytes(), device.in_use_bytes());
    rows.push_back({device.device(), "(free)", "", FormatBytes(free)});
  }
  return FormatTable(rows);
}

absl::StatusOr<std::string> Memory(const Daemon& daemon, absl::Span<const std::string>) {
  v1::GetMemoryReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::GetMemory, &reply));
  if (daemon.options().json) return Json(reply);
  std::string text = HoldersTable(reply.devices());
  if (!reply.has_spilled()) return text;
  const v1::SpilledMemory& spilled = reply.spilled();
  std::vector<std::vector<std::string>> rows = {{"SPILLED", "SESSION", "USER", "HOLDS"}};
  for (const v1::DeviceHolders::Holder& holder : spilled.holders()) {
    rows.push_back({"", holder.session_id(), holder.user(), FormatBytes(holder.bytes())});
  }
  const auto place = [&rows](const char* name, uint64_t bytes, uint64_t limit) {
    if (limit == 0) return;
    rows.push_back({name, "(all)", "", FormatBytes(bytes) + " of " + FormatBytes(limit)});
  };
  place("host", spilled.host_bytes(), spilled.host_limit_bytes());
  place("disk", spilled.disk_bytes(), spilled.disk_limit_bytes());
  return text + FormatTable(rows);
}

absl::StatusOr<std::string> Explain(const Daemon& daemon, absl::Span<const std::string> names) {
  v1::ExplainSessionRequest request;
  request.set_session_id(names[0]);
  v1::ExplainReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ExplainSession, &reply, request));
  if (daemon.options().json) return Json(reply);
  std::string text = fmt::format("{} commands wait, {} programs are being compiled\n",
                                 reply.commands(), reply.compiling());
  for (const auto& [cause, name] : kCauses) {
    if (cause != reply.cause()) continue;
    text += fmt::format("waits for {}", name);
  }
  if (!reply.what().empty())
    text += fmt::format(": {}, for {}", reply.what(), Seconds(reply.waiting_ns()));
  text += "\n";
  for (const v1::ExplainReply::Queue& queue : reply.queues()) {
    text += fmt::format(
        "{}: {} of {} in line, {} before it; on the device {} runs of its own ({}) and {} of "
        "others "
        "({}); starts in about {}\n",
        queue.device(), queue.place(), queue.waiting(), Seconds(queue.ns_before()),
        queue.own_runs(), Seconds(queue.own_ns()), queue.other_runs(), Seconds(queue.other_ns()),
        Seconds(queue.starts_in_ns()));
  }
  for (const v1::ExplainReply::Miss& miss : reply.misses()) text += miss.text() + "\n";
  return text;
}

absl::StatusOr<std::string> Drain(const Daemon& daemon, absl::Span<const std::string>) {
  v1::DrainReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::Drain, &reply));
  if (daemon.options().json) return Json(reply);
  return std::string("the daemon takes no new work and ends once it has done what it accepted\n");
}

absl::StatusOr<std::string> OpenConsole(const Daemon& daemon, absl::Span<const std::string>) {
  v1::OpenConsoleReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::OpenConsole, &reply));
  return daemon.options().json ? Json(reply) : reply.url() + "\n";
}

absl::StatusOr<std::string> CacheStats(const Daemon& daemon, absl::Span<const std::string>) {
  v1::GetCacheStatsReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::GetCacheStats, &reply));
  if (daemon.options().json) return Json(reply);
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

absl::StatusOr<std::string> CacheClear(const Daemon& daemon, absl::Span<const std::string>) {
  v1::ClearCacheReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ClearCache, &reply));
  if (daemon.options().json) return Json(reply);
  return fmt::format("removed {} kernels, {}\n", reply.entries_removed(),
                     FormatBytes(reply.bytes_removed()));
}

absl::StatusOr<std::string> Ping(const Daemon& daemon, absl::Span<const std::string>) {
  v1::PingReply reply;
  // The first call also connects, which isn't what is measured.
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::Ping, &reply));
  const int count = daemon.options().count > 0 ? daemon.options().count : 20;
  std::vector<double> us;
  for (int i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::Ping, &reply));
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                     .count());
  }
  std::sort(us.begin(), us.end());
  const double min = us.front(), median = us[us.size() / 2], max = us.back();
  if (daemon.options().json) {
    return fmt::format(
        "{{\"address\": \"{}\", \"server_version\": \"{}\", \"pings\": {}, \"min_us\": {:.1f}, "
        "\"median_us\": {:.1f}, \"max_us\": {:.1f}}}\n",
        daemon.options().address, reply.server_version(), us.size(), min, median, max);
  }
  return fmt::format("tensord {} at {}: {} pings, min {:.1f} us, median {:.1f} us, max {:.1f} us\n",
                     reply.server_version(), daemon.options().address, us.size(), min, median, max);
}

}  // namespace

absl::Span<const Command> Commands() {
  static constexpr Command kCommands[] = {
      {"status", "", 0, 0, Status, "version, uptime, sessions, memory"},
      {"top", "", 0, 0, Top, "devices and sessions, live; q ends it"},
      {"devices", "", 0, 0, Devices, "the devices, their memory and queues"},
      {"sessions", "", 0, 0, Sessions, "who is connected and what it costs"},
      {"sessions kill", "SESSION...", 1, 100, KillSession,
       "end sessions: yours, or anybody's for administrators"},
      {"buffers", "[SESSION]", 0, 1, Buffers, "the tensors that take most memory"},
      {"published", "", 0, 0, Published, "tensors that users share, by name"},
      {"published remove", "NAME [OWNER]", 1, 2, Unpublish,
       "take a publication back: yours, or anybody's for administrators"},
      {"memory", "", 0, 0, Memory, "who holds the memory of each device"},
      {"explain", "SESSION", 1, 1, Explain,
       "what a session waits for, and why it missed the cache"},
      {"cache stats", "", 0, 0, CacheStats, "compiled plans and kernels: kept, found, compiled"},
      {"cache clear", "", 0, 0, CacheClear, "forget compiled plans and kernels, on disk as well"},
      {"console", "", 0, 0, OpenConsole, "a link to the web console, good for one login, soon"},
      {"drain", "", 0, 0, Drain, "finish accepted work, take no more, and end the daemon"},
      {"bench", "", 0, 0, Bench, "round trips, runs a second and bandwidth, as a client sees them"},
      {"replay", "FILE", 1, 1, Replay,
       "play what TENSORD_RECORD wrote, and say where the answers differ"},
      {"trace", "", 0, 0, Trace, "what ran lately and when, as JSON for trace viewers"},
      {"ping", "", 0, 0, Ping, "round-trip times"},
  };
  return kCommands;
}

}  // namespace tensord
