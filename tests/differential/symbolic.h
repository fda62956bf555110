// Programs whose sizes vary, compared with what they are at fixed sizes: a case is run by one plan
// for several values of its variables, and each time against the same graph with the values put in.
#pragma once

#include <string>

#include "tests/differential/check.h"

namespace tensord {

// A random case over the variables n and m, which are sizes.
Case GenerateSymbolic(uint64_t seed);

// "" if all is well, as Check. `Variables` of the case are given values in their bounds, the bounds
// included.
std::string CheckSymbolic(Case& test, ProgramRunner& runner, int runs);

}  // namespace tensord
