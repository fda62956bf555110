#include "tools/tensorctl/top.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_join.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "tools/tensorctl/table.h"

namespace tensord {
namespace {

// "[|||||     ]  52%"
std::string Bar(double share) {
  constexpr int kWidth = 10;
  share = std::clamp(share, 0.0, 1.0);
  const auto full = static_cast<size_t>(share * kWidth + 0.5);
  return fmt::format("[{:<{}}] {:>3.0f}%", std::string(full, '|'), kWidth, share * 100);
}

// What a counter grew by in a second, or "-" before it is known.
struct Rates {
  double seconds = 0;  // 0: not known

  double Of(uint64_t before, uint64_t now) const {
    return seconds > 0 && now > before ? static_cast<double>(now - before) / seconds : 0;
  }
  std::string Count(uint64_t before, uint64_t now) const {
    return seconds > 0 ? fmt::format("{:.0f}/s", Of(before, now)) : "-";
  }
  std::string Bytes(uint64_t before, uint64_t now) const {
    return seconds > 0 ? FormatBytes(static_cast<uint64_t>(Of(before, now))) + "/s" : "-";
  }
  // Of counters of nanoseconds.
  std::string Share(uint64_t before, uint64_t now) const {
    return seconds > 0 ? fmt::format("{:.0f}%", Of(before, now) / 1e7) : "-";
  }
};

std::string DeviceTable(const Snapshot* before, const Snapshot& now, const Rates& rates) {
  std::vector<std::vector<std::string>> rows = {
      {"DEVICE", "ARCH", "BUSY", "MEMORY", "IN USE", "QUEUED", "SUBMITTED"}};
  for (int i = 0; i < now.devices.devices_size(); ++i) {
    const v1::ListDevicesReply::Device& device = now.devices.devices(i);
    // A daemon has the devices that it started with, so they stand at the same place.
    const v1::ListDevicesReply::Device& last =
        before != nullptr && i < before->devices.devices_size() ? before->devices.devices(i)
                                                                : device;
    const uint64_t capacity = device.info().memory_bytes();
    rows.push_back(
        {device.info().name(), device.info().arch(),
         rates.seconds > 0 ? Bar(rates.Of(last.busy_ns(), device.busy_ns()) * 1e-9) : "-",
         capacity > 0
             ? Bar(static_cast<double>(device.in_use_bytes()) / static_cast<double>(capacity))
             : "-",
         fmt::format("{} of {}", FormatBytes(device.in_use_bytes()), FormatBytes(capacity)),
         std::to_string(device.submitted() - device.completed()),
         rates.Count(last.submitted(), device.submitted())});
  }
  return FormatTable(rows);
}

std::string SessionTable(const Snapshot* before, const Snapshot& now, const Rates& rates) {
  if (now.sessions.sessions_size() == 0) return "no sessions\n";
  absl::flat_hash_map<std::string, const v1::CountersReply*> last;
  if (before != nullptr) {
    for (const auto& session : before->sessions.sessions()) {
      last[session.session_id()] = &session.counters();
    }
  }
  std::vector<const v1::ListSessionsReply::Session*> sessions;
  for (const auto& session : now.sessions.sessions()) sessions.push_back(&session);
  // Who takes most of the devices first, then who holds most.
  const auto grown = [&](const v1::ListSessionsReply::Session& session) {
    const auto found = last.find(session.session_id());
    return session.counters().device_ns() - (found == last.end() ? 0 : found->second->device_ns());
  };
  std::stable_sort(sessions.begin(), sessions.end(), [&](const auto* a, const auto* b) {
    return std::pair(grown(*a), a->counters().live_bytes()) >
           std::pair(grown(*b), b->counters().live_bytes());
  });
  std::vector<std::vector<std::string>> rows = {
      {"SESSION", "DEVICE", "RUNS", "MEMORY", "BUFFERS", "UP", "DOWN", "IDLE", "CLIENT"}};
  const v1::CountersReply none;
  for (const auto* session : sessions) {
    const v1::CountersReply& c = session->counters();
    const auto found = last.find(session->session_id());
    const v1::CountersReply& b = found == last.end() ? none : *found->second;
    rows.push_back({session->session_id(), rates.Share(b.device_ns(), c.device_ns()),
                    rates.Count(b.programs_run(), c.programs_run()), FormatBytes(c.live_bytes()),
                    std::to_string(c.live_handles()),
                    rates.Bytes(b.bytes_uploaded(), c.bytes_uploaded()),
                    rates.Bytes(b.bytes_downloaded(), c.bytes_downloaded()),
                    FormatAge(session->last_command_ms_ago()), session->client_name()});
  }
  return FormatTable(rows);
}

absl::StatusOr<Snapshot> Look(const Daemon& daemon) {
  Snapshot snapshot;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::GetStatus, &snapshot.status));
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListDevices, &snapshot.devices));
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::ListSessions, &snapshot.sessions));
  snapshot.time = absl::Now();
  return snapshot;
}

}  // namespace

std::string Picture(const std::optional<Snapshot>& before, const Snapshot& now,
                    const std::string& address) {
  const Snapshot* last = before ? &*before : nullptr;
  const Rates rates{before ? absl::ToDoubleSeconds(now.time - before->time) : 0};
  return fmt::format(
      "tensord {} at {}: {}, up {}, {} sessions, {} runs ({})\n\n{}\n{}",
      now.status.server_version(), address, now.status.draining() ? "draining" : "serving",
      FormatAge(now.status.uptime_ms()), now.status.sessions(), now.status.programs_run(),
      rates.Count(last != nullptr ? last->status.programs_run() : 0, now.status.programs_run()),
      DeviceTable(last, now, rates), SessionTable(last, now, rates));
}

absl::StatusOr<std::string> Top(const Daemon& daemon, absl::Span<const std::string>) {
  const ControlOptions& options = daemon.options();
  if (options.json) return InvalidArgument("top prints no JSON: take status, devices, sessions");
  std::optional<Snapshot> before;
  std::string printed;
  const int wanted = options.count > 0 ? options.count : options.show ? 0 : 1;  // 0: no end
  for (int shown = 0; wanted == 0 || shown < wanted;) {
    TD_ASSIGN_OR_RETURN(Snapshot now, Look(daemon));
    const std::string picture = Picture(before, now, options.address);
    // The first look has no rates: it is shown for a moment only, and not printed.
    const bool first = !before;
    before = std::move(now);
    if (!first) ++shown;
    if (options.show) {
      const absl::Duration moment = std::min(options.interval, absl::Milliseconds(200));
      if (!options.show(picture, first ? moment : options.interval)) break;
    } else {
      if (!first) printed += (printed.empty() ? "" : "\n") + picture;
      if (shown < wanted) absl::SleepFor(options.interval);
    }
  }
  return printed;
}

}  // namespace tensord
