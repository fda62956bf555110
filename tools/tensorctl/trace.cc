#include "tools/tensorctl/trace.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cc/trace_file.h"
#include "core/base/status.h"
#include "core/base/steady_clock.h"

namespace tensord {
namespace {

// Often enough for the ring not to be over before it is read again, by tens of thousands of runs a
// second.
constexpr absl::Duration kInterval = absl::Milliseconds(50);
// For how long one call has kernels timed: they are no longer when this program is gone.
constexpr uint32_t kKernelsMs = 1000;

struct Collected {
  std::vector<v1::TraceRecord> records;
  uint64_t last = 0;  // number
  uint64_t lost = 0;
};

// All that there is behind `collected.last`.
absl::Status Collect(const Daemon& daemon, uint32_t kernels_ms, Collected& collected) {
  v1::GetTraceReply reply;
  do {
    v1::GetTraceRequest request;
    request.set_session_id(daemon.options().session);
    request.set_after(collected.last);
    request.set_kernels_ms(kernels_ms);
    reply.Clear();
    TD_RETURN_IF_ERROR(daemon.GetTrace(request, reply));
    collected.last = reply.last();
    collected.lost += reply.lost();
    for (v1::TraceRecord& record : *reply.mutable_records()) {
      collected.records.push_back(std::move(record));
    }
  } while (reply.more());
  return absl::OkStatus();
}

absl::StatusOr<Collected> CollectFor(const Daemon& daemon, absl::Duration time) {
  Collected collected;
  collected.last = std::numeric_limits<uint64_t>::max();  // nothing of what there is
  TD_RETURN_IF_ERROR(Collect(daemon, kKernelsMs, collected));
  for (const absl::Time end = SteadyNow() + time; SteadyNow() < end;) {
    absl::SleepFor(std::min(kInterval, end - SteadyNow()));
    TD_RETURN_IF_ERROR(Collect(daemon, kKernelsMs, collected));
  }
  return collected;
}

std::string Summary(const Collected& collected, const std::string& file) {
  std::array<size_t, v1::TraceRecord::Kind_ARRAYSIZE> count{};
  std::set<std::string_view> sessions;
  for (const v1::TraceRecord& record : collected.records) {
    if (v1::TraceRecord::Kind_IsValid(record.kind())) ++count[record.kind()];
    sessions.insert(record.session_id());
  }
  return fmt::format(
      "{}: {} runs, {} transfers and {} compilations of {} sessions; open it in "
      "https://ui.perfetto.dev or chrome://tracing\n",
      file, count[v1::TraceRecord::KIND_RUN],
      count[v1::TraceRecord::KIND_UPLOAD] + count[v1::TraceRecord::KIND_DOWNLOAD],
      count[v1::TraceRecord::KIND_COMPILE], sessions.size());
}

}  // namespace

absl::StatusOr<std::string> Trace(const Daemon& daemon, absl::Span<const std::string>) {
  const ControlOptions& options = daemon.options();
  Collected collected;
  client::TraceContents contents;
  if (options.seconds > 0) {
    TD_ASSIGN_OR_RETURN(collected, CollectFor(daemon, absl::Seconds(options.seconds)));
    if (collected.lost > 0) {
      contents.about["lost"] = fmt::format(
          "{} records, which the daemon replaced before they were read: see --trace-runs",
          collected.lost);
    }
  } else {
    TD_RETURN_IF_ERROR(Collect(daemon, 0, collected));
  }
  const std::string summary = Summary(collected, options.output);
  contents.records = std::move(collected.records);
  contents.about["clock"] =
      "monotonic, the daemon's; of clients on other machines the way to it is not shown";
  contents.about["daemon"] = options.address;
  TD_ASSIGN_OR_RETURN(std::string json, client::TraceJson(client::MakeTraceFile(contents)));
  if (options.output.empty()) return json + "\n";
  std::ofstream file(options.output, std::ios::binary | std::ios::trunc);
  file << json;
  file.close();
  if (!file) return InvalidArgument("the file '{}' can't be written", options.output);
  return summary;
}

}  // namespace tensord
