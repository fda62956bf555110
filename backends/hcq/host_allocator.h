// Memory for devices that compute in host memory: size classes at most an eighth apart, a bounded
// cache of free blocks, and an account that is exact. Big blocks are mappings that huge pages can
// back. Memory that outlives its device is still given back properly. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/device/device.h"

namespace tensord::hcq {

// Three quarters of what this process may use: of the machine's memory or its control group's.
uint64_t DefaultHostMemoryBytes();

// The bytes that an allocation of `bytes` takes: at least 64, and at most an eighth more than asked
// for above 512.
size_t SizeClass(size_t bytes);

struct HostAllocatorOptions {
  std::string device_name;
  uint64_t capacity_bytes = 0;
  uint64_t max_cached_bytes = 0;  // beyond it the blocks that lay free longest go to the system
};

class HostAllocator final : public Allocator {
 public:
  // `device` is what the memory says it belongs to; it isn't used otherwise.
  HostAllocator(HostAllocatorOptions options, Device& device);

  absl::StatusOr<std::shared_ptr<DeviceMemory>> Allocate(size_t bytes) override;
  void Trim() override;
  MemoryStats stats() const override;

 private:
  class Memory;
  class Pool;

  Device& device_;
  // Shared with the memory that is handed out, which may die after the allocator.
  const std::shared_ptr<Pool> pool_;
};

}  // namespace tensord::hcq
