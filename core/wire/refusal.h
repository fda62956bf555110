// What a refusal for want of room says to programs: google.rpc's error details, as the payload of a
// Status, which Annotate and the wire keep.
//
//   return Refuse({.reason = "MEMORY_OF_USER", .subject = "user:alice", .limit = 100, .used = 80,
//                  .needed = 40}, "the outputs need 40 bytes: ...");
//   if (std::optional<Refusal> refusal = RefusalOf(status)) ... refusal->limit ...
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tensord {

struct Refusal {
  struct Holder {
    std::string session;
    uint64_t bytes = 0;
  };
  std::string reason;   // ErrorInfo.reason
  std::string subject;  // of what there is not enough: "session:ID", "user:NAME", "device:NAME"
  uint64_t limit = 0;
  uint64_t used = 0;
  uint64_t needed = 0;  // what was asked for
  // Before that there is no point in trying again; nothing if time alone changes nothing.
  std::optional<absl::Duration> retry_after;
  std::vector<Holder> holders;  // the largest first
};

// ResourceExhausted.
absl::Status Refuse(const Refusal& refusal, const std::string& message);
// The same status with that to say.
absl::Status WithRefusal(absl::Status status, const Refusal& refusal);
std::optional<Refusal> RefusalOf(const absl::Status& status);

}  // namespace tensord
