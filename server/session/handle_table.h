// The client's names for objects of one type. A slot remembers the last generation it had, so that
// a handle of an old one is found out instead of naming the new object.
//
// Not thread-safe: guarded by its session's lock.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/wire/handle.h"

namespace tensord {

template <typename T>
class HandleTable {
 public:
  explicit HandleTable(Handle::Type type) : type_(type) {}

  absl::StatusOr<T*> Find(uint64_t bits) const {
    const Handle handle = Handle::Unpack(bits);
    const auto found = slots_.find(handle.slot);
    if (handle.type == type_ && found != slots_.end() &&
        found->second.generation == handle.generation && found->second.object) {
      return found->second.object.get();
    }
    if (handle.type != type_) {
      return InvalidArgument("{} is not a {}", ToString(handle), TypeName());
    }
    if (found == slots_.end() || found->second.generation < handle.generation) {
      return NotFound("{} does not exist: no command has made it", ToString(handle));
    }
    return NotFound("{} does not exist any more: it was released", ToString(handle));
  }

  std::shared_ptr<T> Share(uint64_t bits) const {
    const auto found = slots_.find(Handle::Unpack(bits).slot);
    return found == slots_.end() ? nullptr : found->second.object;
  }

  // Whether a new object may take this name.
  absl::Status CheckNew(uint64_t bits) const {
    const Handle handle = Handle::Unpack(bits);
    if (handle.type != type_) {
      return InvalidArgument("{} cannot name a {}: its type is {}", ToString(handle), TypeName(),
                             handle.type);
    }
    if (handle.slot >= Handle::kMaxSlots) {
      return InvalidArgument("{}: slots are numbers below {}", ToString(handle), Handle::kMaxSlots);
    }
    const auto found = slots_.find(handle.slot);
    if (found == slots_.end() ||
        (!found->second.object && found->second.generation < handle.generation)) {
      return absl::OkStatus();
    }
    if (found->second.object) {
      return AlreadyExists("{}: the slot is in use at generation {}", ToString(handle),
                           found->second.generation);
    }
    return AlreadyExists("{}: the slot was at generation {} already: use a larger one",
                         ToString(handle), found->second.generation);
  }

  void Insert(uint64_t bits, std::shared_ptr<T> object) {
    const Handle handle = Handle::Unpack(bits);
    Entry& entry = slots_[handle.slot];
    entry.generation = handle.generation;
    entry.object = std::move(object);
    ++live_;
  }

  // The object, for the caller to destroy without the lock.
  absl::StatusOr<std::shared_ptr<T>> Remove(uint64_t bits) {
    TD_RETURN_IF_ERROR(Find(bits).status());
    --live_;
    return std::move(slots_.find(Handle::Unpack(bits).slot)->second.object);
  }

  size_t live() const { return live_; }

  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const auto& [slot, entry] : slots_) {
      if (!entry.object) continue;
      visit(Handle{.type = type_, .generation = entry.generation, .slot = slot}.Pack(),
            *entry.object);
    }
  }

 private:
  struct Entry {
    uint32_t generation = 0;
    std::shared_ptr<T> object;
  };

  const char* TypeName() const { return type_ == Handle::kTensor ? "tensor" : "program"; }

  Handle::Type type_;
  size_t live_ = 0;
  absl::flat_hash_map<uint32_t, Entry> slots_;
};

}  // namespace tensord
