// Runs one case through the compiler and says what is wrong with it, if anything.
#pragma once

#include <string>

#include "tests/compiler/run_program.h"
#include "tests/differential/case.h"

namespace tensord {

struct CheckOptions {
  bool compile = true;  // else only up to the linear program, which is interpreted
};

// "" if all is well, else the first thing found: a spec that a stage breaks, an access out of
// bounds, a wrong value, an input that changed, an error. Runs on each device of the runner.
std::string Check(Case& test, ProgramRunner& runner, const CheckOptions& options = {});

}  // namespace tensord
