// The part of a program that overwrites inputs, as a program of its own: what is left to be done of
// a run that can't be started as a whole, so that no update is lost for what was to be computed
// beside it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/ir/program.h"

namespace tensord {

struct Updates {
  Program program;
  // Which of the whole's it has, on each device.
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
};

// Whether the program overwrites inputs and has other results as well.
bool HasUpdatesApart(const Program& program);
// With those inputs only that it reads or overwrites.
Updates UpdatesOf(const Program& program);

}  // namespace tensord
