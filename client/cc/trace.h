// The trace that the present thread is in, if any. Internal to client/cc.
#pragma once

#include <absl/status/status.h>

#include <optional>

#include "client/cc/session.h"

namespace tensord::client {

// Null unless this thread captures a function over tensors of that session.
Trace* CurrentTrace(const Session& session);

// Whether this thread builds a function that is to be mapped over a batch (vmap).
bool IsMapping();
// The number of that function, of the innermost if there are several; 0 if there is none.
uint64_t CurrentMapping();
// Stand-ins with this slot or a larger one vary within those that are mapped now and were not when
// `mapping` was the innermost. Nothing if there are none.
std::optional<int64_t> StandInsSince(uint64_t mapping);

// Makes `trace` the current one of this thread.
class TraceScope {
 public:
  explicit TraceScope(Trace* trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* const outer_;
};

// The error for a tensor that was made by a captured function and kept by somebody.
absl::Status EscapedFromTrace();
// The error for one that moves to other devices inside of one.
absl::Status MovedInTrace();

}  // namespace tensord::client
