#include "client/cc/run_trace.h"

#include <fstream>
#include <utility>
#include <vector>

#include "client/cc/trace_file.h"
#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "proto/tensord/v1/trace.pb.h"

namespace tensord {
namespace {

// Calls at the start, of which the quickest tells most of the daemon's clock.
constexpr int kClockCalls = 8;

absl::Status Write(const std::string& path, const std::string& text, std::ios::openmode mode) {
  std::ofstream file(path, std::ios::binary | mode);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return InvalidArgument("trace: the file '{}' can't be written", path);
}

}  // namespace

struct RunTrace::Records {
  std::vector<v1::TraceRecord> all;
  uint64_t lost = 0;
};

RunTrace::RunTrace(std::shared_ptr<client::Session> session, std::string path)
    : session_(std::move(session)), connection_(session_->connection()), path_(std::move(path)) {}

absl::StatusOr<std::unique_ptr<RunTrace>> RunTrace::Start(const Client& client, std::string path) {
  // Rather now than when all is done.
  TD_RETURN_IF_ERROR(Write(path, "", std::ios::app));
  auto trace = std::unique_ptr<RunTrace>(new RunTrace(client.session(), std::move(path)));
  if (!trace->session_->slices().Start()) {
    return FailedPrecondition("trace: this session is traced already");
  }
  trace->on_ = true;
  v1::GetTraceRequest request;
  request.set_recording(true);
  v1::GetTraceReply reply;
  TD_RETURN_IF_ERROR(trace->Ask(request, reply), "trace");
  request.clear_recording();
  for (int i = 1; i < kClockCalls; ++i) TD_RETURN_IF_ERROR(trace->Ask(request, reply), "trace");
  return trace;
}

RunTrace::~RunTrace() {
  if (!on_) return;
  session_->slices().Stop();
  EndOnDaemon();
}

void RunTrace::EndOnDaemon() {
  v1::GetTraceRequest request;
  request.set_recording(false);
  v1::GetTraceReply reply;
  Ask(request, reply).IgnoreError();  // it ends with the session otherwise
}

absl::Status RunTrace::Ask(const v1::GetTraceRequest& request, v1::GetTraceReply& reply) {
  reply.Clear();
  const int64_t before = SteadyNs();
  TD_RETURN_IF_ERROR(connection_->GetTrace(request, reply, session_->Deadline()));
  const int64_t after = SteadyNs();
  same_clock_ = same_clock_ && before <= reply.now_ns() && reply.now_ns() <= after;
  if (round_trip_ns_ == 0 || after - before < round_trip_ns_) {
    round_trip_ns_ = after - before;
    add_ns_ = reply.now_ns() - (before + round_trip_ns_ / 2);
  }
  return absl::OkStatus();
}

absl::Status RunTrace::Fetch(const std::vector<uint64_t>& runs, Records& records) {
  TD_RETURN_IF_ERROR(connection_->Wait(0, session_->Deadline()));
  // What a run has as its record is there when its completion leaves.
  for (uint64_t run : runs) {
    if (!connection_->AwaitRun(run, session_->Deadline()).has_value()) continue;
    TD_RETURN_IF_ERROR(connection_->status());
  }
  v1::GetTraceRequest request;
  v1::GetTraceReply reply;
  do {
    TD_RETURN_IF_ERROR(Ask(request, reply));
    request.set_after(reply.last());
    records.lost += reply.lost();
    for (v1::TraceRecord& record : *reply.mutable_records()) {
      records.all.push_back(std::move(record));
    }
  } while (reply.more());
  return absl::OkStatus();
}

std::string RunTrace::ClockText() const {
  if (same_clock_) return "monotonic, of the machine that client and daemon are on";
  return fmt::format(
      "monotonic, the daemon's; {:.3f} us are added to times of the client, as the quickest of its "
      "calls says, so that these may be off by {:.3f} us",
      static_cast<double>(add_ns_) / 1e3, static_cast<double>(round_trip_ns_) / 2e3);
}

absl::StatusOr<uint64_t> RunTrace::Stop() {
  if (!on_) return FailedPrecondition("trace: it has been stopped");
  client::SliceLog::Taken taken = session_->slices().Stop();
  std::vector<uint64_t> runs;
  for (const client::Slice& slice : taken.slices) {
    if (slice.sequence != 0) runs.push_back(slice.sequence);
  }
  Records records;
  const absl::Status fetched = Fetch(runs, records);
  EndOnDaemon();
  on_ = false;
  client::TraceContents contents{.records = std::move(records.all),
                                 .session_id = connection_->welcome().session_id(),
                                 .client_name = session_->client_name(),
                                 .slices = std::move(taken.slices),
                                 .add_to_client_ns = same_clock_ ? 0 : add_ns_};
  contents.about["clock"] = ClockText();
  contents.about["session"] = contents.session_id;
  contents.about["daemon"] = connection_->welcome().server_version();
  if (!fetched.ok()) contents.about["missing"] = std::string(Message(fetched));
  if (records.lost > 0) {
    contents.about["lost"] = fmt::format("the first {} records of the daemon", records.lost);
  }
  if (taken.left_out > 0) {
    contents.about["left out"] = fmt::format("the last {} slices of the client", taken.left_out);
  }
  TD_ASSIGN_OR_RETURN(const std::string json, client::TraceJson(MakeTraceFile(contents)));
  TD_RETURN_IF_ERROR(Write(path_, json, std::ios::trunc));
  TD_RETURN_IF_ERROR(fetched, "trace: '{}' has what the client knows, and nothing of the daemon",
                     path_);
  return records.lost;
}

}  // namespace tensord
