// Cases as no client of ours would send them: a random program with something changed in one of
// its nodes. Most are refused; what is taken is a valid program, and must compute what it says.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "tests/differential/case.h"

namespace tensord {

// InvalidArgument or ResourceExhausted: Decode refuses it. OutOfRange: it is taken, and is not for
// the reference evaluator. Any other error is a fault. The same seed gives the same.
absl::StatusOr<Case> GenerateWire(uint64_t seed);
inline bool IsNoCase(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status) ||
         absl::IsOutOfRange(status);
}

}  // namespace tensord
