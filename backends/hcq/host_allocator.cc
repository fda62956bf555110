#include "backends/hcq/host_allocator.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <list>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"

namespace tensord::hcq {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector register
constexpr size_t kMappedBytes = 256 << 10;
constexpr size_t kHugePage = 2 << 20;

// A free or used piece of memory from the system; `bytes` is a size class.
struct Block {
  void* address;
  size_t bytes;
};

// Null when the system has none. Address space that nobody touches costs no memory.
void* SystemAllocate(size_t bytes) {
  if (bytes < kMappedBytes) return std::aligned_alloc(kAlignment, bytes);
  const size_t extra = bytes >= kHugePage ? kHugePage : 0;  // so that a huge page can begin it
  void* mapping = mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  if (extra == 0) return mapping;
  const auto begin = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t aligned = (begin + kHugePage - 1) & ~(kHugePage - 1);
  const size_t head = aligned - begin;
  if (head > 0) munmap(mapping, head);
  if (head < extra) munmap(reinterpret_cast<void*>(aligned + bytes), extra - head);
  // Only advice: without huge pages the memory works as well.
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

void SystemFree(const Block& block) {
  if (block.bytes < kMappedBytes) {
    std::free(block.address);
  } else {
    munmap(block.address, block.bytes);
  }
}

}  // namespace

uint64_t DefaultHostMemoryBytes() {
  uint64_t bytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGE_SIZE));
  uint64_t limit;  // absent, or the word "max", without a limit
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) bytes = std::min(bytes, limit);
  return bytes / 4 * 3;
}

size_t SizeClass(size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  // Eight steps from one power of two to the next, but none under the alignment.
  const size_t step = std::max(kAlignment, std::bit_floor(bytes - 1) / 8);
  return (bytes + step - 1) / step * step;
}

// The account, and the cache of free blocks.
class HostAllocator::Pool {
 public:
  explicit Pool(HostAllocatorOptions options) : options_(std::move(options)) {}
  ~Pool() { Trim(); }

  absl::StatusOr<Block> Take(size_t asked_bytes);
  void GiveBack(Block block);
  void Trim();
  MemoryStats stats() const;

 private:
  using FreeList = std::list<Block>;

  absl::Status Exhausted(size_t asked_bytes, std::string_view reason) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the blocks that lay free longest out of the cache until at most `bytes` are left.
  std::vector<Block> EvictDownTo(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const HostAllocatorOptions options_;
  mutable absl::Mutex mu_;
  FreeList free_ ABSL_GUARDED_BY(mu_);  // longest free first
  // The same blocks by size class, longest free first; the newest is reused, as it may still be in
  // the processor's cache. There are few classes, so their lists stay when empty.
  absl::flat_hash_map<size_t, std::deque<FreeList::iterator>> by_class_ ABSL_GUARDED_BY(mu_);
  uint64_t in_use_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t cached_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t peak_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t allocations_ ABSL_GUARDED_BY(mu_) = 0;
};

absl::StatusOr<Block> HostAllocator::Pool::Take(size_t asked_bytes) {
  std::vector<Block> evicted;  // freed after the lock is gone: unmapping is slow
  Block block{nullptr, 0};
  {
    absl::MutexLock lock(&mu_);
    // The first test keeps the rounding up from overflowing.
    if (asked_bytes > options_.capacity_bytes ||
        SizeClass(asked_bytes) > options_.capacity_bytes - in_use_) {
      return Exhausted(asked_bytes, "free some buffers, or raise the device's memory limit");
    }
    block.bytes = SizeClass(asked_bytes);
    in_use_ += block.bytes;
    peak_ = std::max(peak_, in_use_);
    ++allocations_;
    if (const auto it = by_class_.find(block.bytes); it != by_class_.end() && !it->second.empty()) {
      block.address = it->second.back()->address;
      free_.erase(it->second.back());
      it->second.pop_back();
      cached_ -= block.bytes;
      return block;
    }
    evicted = EvictDownTo(options_.capacity_bytes - in_use_);
  }
  for (const Block& old : evicted) SystemFree(old);
  if (block.address == nullptr) block.address = SystemAllocate(block.bytes);
  if (block.address == nullptr) {
    Trim();
    block.address = SystemAllocate(block.bytes);
  }
  if (block.address != nullptr) return block;
  absl::MutexLock lock(&mu_);
  in_use_ -= block.bytes;
  --allocations_;
  return Exhausted(asked_bytes, "the system has no memory left");
}

void HostAllocator::Pool::GiveBack(Block block) {
  std::vector<Block> evicted;
  {
    absl::MutexLock lock(&mu_);
    in_use_ -= block.bytes;
    cached_ += block.bytes;
    by_class_[block.bytes].push_back(free_.insert(free_.end(), block));
    evicted = EvictDownTo(std::min(options_.max_cached_bytes, options_.capacity_bytes - in_use_));
  }
  for (const Block& old : evicted) SystemFree(old);
}

void HostAllocator::Pool::Trim() {
  std::vector<Block> evicted;
  {
    absl::MutexLock lock(&mu_);
    evicted = EvictDownTo(0);
  }
  for (const Block& block : evicted) SystemFree(block);
}

MemoryStats HostAllocator::Pool::stats() const {
  absl::MutexLock lock(&mu_);
  return {.capacity_bytes = options_.capacity_bytes,
          .in_use_bytes = in_use_,
          .cached_bytes = cached_,
          .peak_in_use_bytes = peak_,
          .allocations = allocations_};
}

absl::Status HostAllocator::Pool::Exhausted(size_t asked_bytes, std::string_view reason) const {
  return ResourceExhausted("{}: cannot allocate {} bytes: {} in use, {} cached, capacity {}; {}",
                           options_.device_name, asked_bytes, in_use_, cached_,
                           options_.capacity_bytes, reason);
}

std::vector<Block> HostAllocator::Pool::EvictDownTo(uint64_t bytes) {
  std::vector<Block> evicted;
  while (cached_ > bytes) {
    const Block block = free_.front();
    const auto it = by_class_.find(block.bytes);
    TD_CHECK(it != by_class_.end() && !it->second.empty() && it->second.front() == free_.begin());
    it->second.pop_front();
    free_.pop_front();
    cached_ -= block.bytes;
    evicted.push_back(block);
  }
  return evicted;
}

class HostAllocator::Memory final : public DeviceMemory {
 public:
  Memory(std::shared_ptr<Pool> pool, Device& device, Block block, size_t size)
      : pool_(std::move(pool)), device_(device), block_(block), size_(size) {}
  ~Memory() override { pool_->GiveBack(block_); }

  void* address() const override { return block_.address; }
  size_t size() const override { return size_; }
  void* host_address() const override { return block_.address; }
  Device& device() const override { return device_; }

 private:
  const std::shared_ptr<Pool> pool_;
  Device& device_;
  const Block block_;
  const size_t size_;  // as asked for
};

HostAllocator::HostAllocator(HostAllocatorOptions options, Device& device)
    : device_(device), pool_(std::make_shared<Pool>(std::move(options))) {}

absl::StatusOr<std::shared_ptr<DeviceMemory>> HostAllocator::Allocate(size_t bytes) {
  TD_ASSIGN_OR_RETURN(const Block block, pool_->Take(bytes));
  return std::make_shared<Memory>(pool_, device_, block, bytes);
}

void HostAllocator::Trim() { pool_->Trim(); }

MemoryStats HostAllocator::stats() const { return pool_->stats(); }

}  // namespace tensord::hcq
