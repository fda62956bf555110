// The file of a trace, which ui.perfetto.dev and chrome://tracing show: tracks of the client's
// threads, of each session on the daemon, and of the devices, with arrows from the call of a run to
// what it did. docs/tracing.md says what is in it.
//
//   const v1::TraceFile file = MakeTraceFile({.records = std::move(records)});
//   TD_ASSIGN_OR_RETURN(const std::string json, TraceJson(file));
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/cc/slice_log.h"
#include "proto/tensord/v1/trace.pb.h"

namespace tensord::client {

struct TraceContents {
  std::vector<v1::TraceRecord> records;
  // What one of the sessions' clients did by itself; none where nobody knows.
  std::string session_id, client_name;
  std::vector<Slice> slices;
  // What makes times of that client those of the daemon. Without it, those of clients on the
  // daemon's machine are, and of others nothing is shown.
  std::optional<int64_t> add_to_client_ns;
  std::map<std::string, std::string> about;  // for people, by short names
};

v1::TraceFile MakeTraceFile(const TraceContents& contents);
absl::StatusOr<std::string> TraceJson(const v1::TraceFile& file);

}  // namespace tensord::client
