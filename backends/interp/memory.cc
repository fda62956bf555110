#include "backends/interp/memory.h"

#include <iterator>
#include <utility>

#include "core/base/status.h"

namespace tensord::interp {
namespace {

uintptr_t FirstAddress(const Memory& memory) {
  return reinterpret_cast<uintptr_t>(memory.address());
}

}  // namespace

void MemoryMap::Insert(const Memory& memory) {
  if (memory.size() == 0) return;
  absl::MutexLock lock(&mu_);
  memory_[FirstAddress(memory)] = &memory;
}

void MemoryMap::Remove(const Memory& memory) {
  if (memory.size() == 0) return;
  absl::MutexLock lock(&mu_);
  memory_.erase(FirstAddress(memory));
}

BufferView MemoryMap::Find(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  absl::MutexLock lock(&mu_);
  const auto after = memory_.upper_bound(at);
  if (after == memory_.begin()) return {};
  const auto& [first, memory] = *std::prev(after);
  const uintptr_t offset = at - first;
  if (offset >= memory->size()) return {};
  uint8_t* written = memory->written();
  return {.data = static_cast<std::byte*>(memory->address()) + offset,
          .written = written == nullptr ? nullptr : written + offset,
          .bytes = memory->size() - offset};
}

Memory::Memory(std::shared_ptr<DeviceMemory> bytes, std::shared_ptr<MemoryMap> map)
    : bytes_(std::move(bytes)), map_(std::move(map)), written_(bytes_->size()) {
  map_->Insert(*this);
}

Memory::~Memory() { map_->Remove(*this); }

void* Memory::host_address() const {
  // Publishes nothing: the host's bytes are the business of whoever orders them before a kernel.
  host_may_write_.store(true, std::memory_order_relaxed);
  return bytes_->host_address();
}

uint8_t* Memory::written() const {
  return host_may_write_.load(std::memory_order_relaxed) ? nullptr : written_.data();
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> Allocator::Allocate(size_t bytes) {
  TD_ASSIGN_OR_RETURN(std::shared_ptr<DeviceMemory> memory, bytes_.Allocate(bytes));
  return std::make_shared<Memory>(std::move(memory), map_);
}

}  // namespace tensord::interp
