// Memory that remembers which of its bytes something has written, and a map from addresses to it,
// so that a kernel's pointers can be checked.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/btree_map.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/hcq/host_allocator.h"
#include "backends/interp/interpreter.h"
#include "core/device/device.h"

namespace tensord::interp {

class Memory;

// The memory of all devices that were opened together: their kernels may use each other's.
// Thread-safe.
class MemoryMap {
 public:
  void Insert(const Memory& memory);
  void Remove(const Memory& memory);
  // From the address to the end of the allocation that it lies in; no bytes if it lies in none. The
  // view holds for as long as somebody keeps that memory.
  BufferView Find(const void* address) const;

 private:
  mutable absl::Mutex mu_;
  absl::btree_map<uintptr_t, const Memory*> memory_ ABSL_GUARDED_BY(mu_);  // by first address
};

class Memory final : public DeviceMemory {
 public:
  Memory(std::shared_ptr<DeviceMemory> bytes, std::shared_ptr<MemoryMap> map);
  ~Memory() override;

  void* address() const override { return bytes_->address(); }
  size_t size() const override { return bytes_->size(); }
  // Whoever has this address may write: from now on all bytes count as written.
  void* host_address() const override;
  Device& device() const override { return bytes_->device(); }

  // Null once the host may have written.
  uint8_t* written() const;

 private:
  const std::shared_ptr<DeviceMemory> bytes_;
  // Shared with the allocator and other memory: this may die after them.
  const std::shared_ptr<MemoryMap> map_;
  mutable std::vector<uint8_t> written_;  // touched on the queue's thread only
  mutable std::atomic<bool> host_may_write_{false};
};

class Allocator final : public tensord::Allocator {
 public:
  Allocator(hcq::HostAllocatorOptions options, Device& device, std::shared_ptr<MemoryMap> map)
      : bytes_(std::move(options), device), map_(std::move(map)) {}

  absl::StatusOr<std::shared_ptr<DeviceMemory>> Allocate(size_t bytes) override;
  void Trim() override { bytes_.Trim(); }
  MemoryStats stats() const override { return bytes_.stats(); }

 private:
  hcq::HostAllocator bytes_;
  const std::shared_ptr<MemoryMap> map_;
};

}  // namespace tensord::interp
