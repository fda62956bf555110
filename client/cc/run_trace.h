// RunTrace: what one session does from its start to its end, in a file: the client's calls, their
// way to the daemon, queues, compilations, and each kernel on its device. docs/tracing.md.
//
//   TD_ASSIGN_OR_RETURN(auto trace, RunTrace::Start(*client, "step.json"));
//   ... y.Realize() ...
//   TD_RETURN_IF_ERROR(trace->Stop().status());
//
// Not thread-safe; what it traces may be on any thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/cc/client.h"
#include "proto/tensord/v1/trace.pb.h"

namespace tensord {

class RunTrace {
 public:
  // FailedPrecondition if the session is traced already; InvalidArgument if the file can't be
  // written; Unimplemented if the daemon is older.
  static absl::StatusOr<std::unique_ptr<RunTrace>> Start(const Client& client, std::string path);
  // Stops without a file, unless Stop was called.
  ~RunTrace();
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  // Waits for the runs so far, and writes the file; if the session is lost, with what the client
  // knows. Returns how many of the first records were pushed out by later ones.
  absl::StatusOr<uint64_t> Stop();

 private:
  struct Records;
  RunTrace(std::shared_ptr<client::Session> session, std::string path);
  // Asks the daemon, and compares its clock with ours.
  absl::Status Ask(const v1::GetTraceRequest& request, v1::GetTraceReply& reply);
  absl::Status Fetch(const std::vector<uint64_t>& runs, Records& records);
  void EndOnDaemon();
  std::string ClockText() const;

  const std::shared_ptr<client::Session> session_;
  const std::shared_ptr<client::Connection> connection_;
  const std::string path_;
  bool on_ = false;
  // What is known of the clocks: whether the daemon's could be ours, and what our quickest call
  // says.
  bool same_clock_ = true;
  int64_t round_trip_ns_ = 0, add_ns_ = 0;
};

}  // namespace tensord
