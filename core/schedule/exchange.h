// Programs for several devices. A program with Exchanges is cut where values go from one device to
// others, into parts that each device runs by itself. Exchanges that need no other go together, so
// that devices wait for each other as seldom as they can:
//
//   steps of the first part, Exchanges, steps of the second part, Exchanges, ...
//
// What a part computes and a later one needs is kept in memory, unless it is cheap to make again.
#pragma once

#include "core/schedule/schedule.h"

namespace tensord {

bool HasExchanges(const Program& program);

// Without places for the temporaries. InvalidArgument for an Exchange inside of a loop.
absl::StatusOr<Schedule> ScheduleExchanges(const Program& program);

}  // namespace tensord
