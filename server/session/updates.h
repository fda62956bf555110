// The parts of a program that overwrite inputs, as programs of their own: what is left to be done
// of a run that can't be started as a whole, so that no update is lost for what was to be computed
// beside it.
#pragma once

#include <cstddef>
#include <vector>

#include "core/ir/program.h"

namespace tensord {

struct Updates {
  Program program;
  // Which of the whole's it has, on each device.
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
};

// Whether the program overwrites inputs and has other results as well, or overwrites several.
bool HasUpdatesApart(const Program& program);
// To be run one after another: each before what it reads is overwritten. Outputs that need each
// other's inputs as they were are together. A program has those inputs only that it reads or
// overwrites.
std::vector<Updates> UpdatesOf(const Program& program);

}  // namespace tensord
