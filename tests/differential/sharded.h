// Programs over several devices, compared with what they are on one: a case is partitioned for
// inputs that are divided along random axes, and run on devices of a runner.
#pragma once

#include <string>

#include "core/tensor/partition.h"
#include "tests/differential/check.h"

namespace tensord {

// "" if all is well, as Check. Each input is divided along one of the axes that `devices` divides,
// or whole, as `choice` has it. The runner has that many devices.
std::string CheckSharded(Case& test, ProgramRunner& runner, int64_t devices, uint64_t choice,
                         AllReduceKind all_reduce = AllReduceKind::kAuto);

}  // namespace tensord
