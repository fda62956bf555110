#include "core/schedule/memory.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <numeric>

#include "core/schedule/schedule.h"

namespace tensord {
namespace {

constexpr uint64_t kScratchAlignment = 256;

}  // namespace

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

void PlaceTemporaries(Schedule& schedule) {
  std::vector<Lifetime> lifetimes;
  std::vector<int> buffer_of_lifetime;
  absl::flat_hash_map<int, size_t> lifetime_of;
  const int count = static_cast<int>(schedule.steps.size());
  for (int i = 0; i < count; ++i) {
    for (int buffer : schedule.steps[i].buffers) {
      if (schedule.buffers[buffer].kind != Schedule::Kind::kTemporary) continue;
      auto [place, is_new] = lifetime_of.emplace(buffer, lifetimes.size());
      if (is_new) {
        lifetimes.push_back({schedule.buffers[buffer].bytes(), i, i});
        buffer_of_lifetime.push_back(buffer);
      }
      lifetimes[place->second].last = i;
    }
  }
  // What a loop uses and does not begin itself lives through all of its iterations. Outer loops
  // come first, so inner ones see the longer lives.
  for (int begin = 0; begin < count; ++begin) {
    if (schedule.steps[begin].kernel != Schedule::Step::kLoop) continue;
    const int end = begin + schedule.steps[begin].body;
    for (Lifetime& life : lifetimes) {
      const bool inside = life.first > begin && life.last <= end;
      if (!inside && life.first <= end && life.last >= begin) {
        life.first = std::min(life.first, begin);
        life.last = std::max(life.last, end);
      }
    }
  }
  // Exchanges next to each other are one.
  for (int begin = 0; begin < count; ++begin) {
    if (schedule.steps[begin].kernel != Schedule::Step::kExchange) continue;
    const auto goes_on = [&](int i) {
      const Schedule::Step* step = i < count ? &schedule.steps[i] : nullptr;
      return step && step->kernel == Schedule::Step::kExchange && !step->meets;
    };
    int end = begin;
    while (goes_on(end + 1)) ++end;
    for (Lifetime& life : lifetimes) {
      if (life.first > end || life.last < begin) continue;
      life.first = std::min(life.first, begin);
      life.last = std::max(life.last, end);
    }
    begin = end;
  }
  schedule.scratch_bytes = PlanMemory(absl::MakeSpan(lifetimes), kScratchAlignment);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    schedule.buffers[buffer_of_lifetime[i]].offset = lifetimes[i].offset;
  }
}

}  // namespace tensord
