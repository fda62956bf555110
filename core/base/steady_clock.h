// A clock that nobody sets, for how long something takes or may take. The machine's date can jump
// by hours when it is corrected; leases and drains should not end by that.
//
//   const absl::Time end = SteadyNow() + absl::Seconds(30);
//   mu_.AwaitWithTimeout(condition, end - SteadyNow());
//
// Its times are none of a calendar: compare them with each other only.
#pragma once

#include <absl/time/time.h>

#include <chrono>

namespace tensord {

inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace tensord
