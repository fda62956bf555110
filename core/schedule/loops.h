// Programs with loops. What comes before a loop, its body, and what comes after become programs of
// their own, without loops, which are scheduled like any other; their steps are then joined:
//
//   steps of what the loop needs, Loop { steps of the body }, steps of what needs the loop
//
// A state of a loop is one buffer. Each iteration overwrites it, in place where it can be done.
// What the body uses and no state has a part in is computed before the loop.
#pragma once

#include "core/schedule/schedule.h"

namespace tensord {

bool HasLoops(const Program& program);

// Without places for the temporaries. InvalidArgument for a Carry that is outside of its loop.
absl::StatusOr<Schedule> ScheduleLoops(const Program& program);

}  // namespace tensord
