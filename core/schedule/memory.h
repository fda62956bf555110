// Memory planning: where temporaries lie in one block of scratch memory, so that those that are
// needed at the same time don't overlap.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace tensord {

struct Lifetime {
  uint64_t bytes;
  int first, last;  // steps that use it, inclusive
  uint64_t offset = 0;
};

// Sets the offsets, aligned to `alignment`; returns the size of the block. Largest first, each at
// the lowest place that is free during its life: near the optimum for the lifetimes of networks.
uint64_t PlanMemory(absl::Span<Lifetime> lifetimes, uint64_t alignment);

}  // namespace tensord
