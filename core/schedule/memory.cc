#include "core/schedule/memory.h"

#include <algorithm>
#include <numeric>

namespace tensord {

uint64_t PlanMemory(absl::Span<Lifetime> lifetimes, uint64_t alignment) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<const Lifetime*> placed;  // by offset
  uint64_t total = 0;
  for (size_t i : order) {
    Lifetime& wanted = lifetimes[i];
    uint64_t offset = 0;
    for (const Lifetime* other : placed) {
      if (other->last < wanted.first || wanted.last < other->first) continue;
      if (offset + wanted.bytes <= other->offset) break;
      const uint64_t end = other->offset + other->bytes;
      offset = std::max(offset, (end + alignment - 1) / alignment * alignment);
    }
    wanted.offset = offset;
    total = std::max(total, offset + wanted.bytes);
    placed.insert(std::upper_bound(
                      placed.begin(), placed.end(), &wanted,
                      [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; }),
                  &wanted);
  }
  return total;
}

}  // namespace tensord
