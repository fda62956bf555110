// Ends work that does not end by itself, so that the others get on: a launch or a copy that takes
// too long, or all launches of one run together. It looks eight times within the shortest limit.
//
// Owns a thread. What it abandons, the session that wanted it hears and logs.
#pragma once

#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/steady_clock.h"
#include "core/device/device.h"

namespace tensord {

struct StallLimits {  // zero: none
  absl::Duration launch;
  absl::Duration run;
};

class StallWatch {
 public:
  // The devices outlive it.
  StallWatch(absl::Span<Device* const> devices, const StallLimits& limits);
  ~StallWatch();

 private:
  struct Watched {
    Device* device;
    Progress last;
    // How long it has worked on the same, by looks that found it at work.
    absl::Duration launch, run;
  };

  void Watch();
  // `since` is how long ago the last look was.
  void Look(Watched& watched, absl::Duration since) const;

  const StallLimits limits_;
  absl::Duration interval_ = absl::InfiniteDuration();
  std::vector<Watched> devices_;
  SteadyWake stop_;
  std::jthread thread_;  // last, so that it starts when all else is there
};

}  // namespace tensord
