// Handles and versions: what the two ends of the session protocol agree on beside the messages.
//
//   Handle h{.type = Handle::kTensor, .generation = 3, .slot = 7};
//   Handle::Unpack(h.Pack()) == h
#pragma once

#include <cstdint>
#include <string>

namespace tensord {

// Versions of the session protocol that this build speaks, at either end.
inline constexpr uint32_t kMinProtocolVersion = 1;
inline constexpr uint32_t kMaxProtocolVersion = 1;

// The client's name for an object: bits 63..56 type, 55..32 generation, 31..0 slot.
struct Handle {
  enum Type : uint8_t { kTensor = 1, kProgram = 2 };
  static constexpr uint32_t kMaxGeneration = (1u << 24) - 1;
  // Slots are numbers below this, which bounds what the daemon remembers of released ones.
  static constexpr uint32_t kMaxSlots = 1u << 20;

  uint8_t type = 0;
  uint32_t generation = 0;  // at most kMaxGeneration; larger by one at each reuse of the slot
  uint32_t slot = 0;

  constexpr uint64_t Pack() const {
    return uint64_t{type} << 56 | uint64_t{generation & kMaxGeneration} << 32 | slot;
  }
  static constexpr Handle Unpack(uint64_t bits) {
    return {.type = static_cast<uint8_t>(bits >> 56),
            .generation = static_cast<uint32_t>(bits >> 32) & kMaxGeneration,
            .slot = static_cast<uint32_t>(bits)};
  }
  friend constexpr bool operator==(const Handle&, const Handle&) = default;
};

std::string ToString(Handle handle);  // "tensor 7.3": slot and generation

}  // namespace tensord
