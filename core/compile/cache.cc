#include "core/compile/cache.h"

#include <absl/synchronization/notification.h>

#include <utility>

namespace tensord {
namespace {

uint64_t SizeOf(const CompiledKernel& kernel) {
  return sizeof(kernel) + kernel.name.size() + kernel.entry.size() + kernel.binary.size() +
         kernel.source.size();
}

}  // namespace

struct KernelCache::Flight {
  absl::Notification done;
  absl::StatusOr<KernelRef> result;  // set before `done`, read after it
};

KernelCache::KernelCache(Options options)
    : memory_limit_bytes_(options.memory_limit_bytes),
      disk_(std::move(options.directory), options.disk_limit_bytes) {}

KernelCache::~KernelCache() = default;

absl::StatusOr<KernelCache::KernelRef> KernelCache::GetOrCompile(const KernelKey& key,
                                                                 const Compile& compile,
                                                                 Outcome* outcome) {
  Outcome unused;
  Outcome& how = outcome != nullptr ? *outcome : unused;
  std::shared_ptr<Flight> flight;  // shared by the thread that flies and those that wait
  bool joined = false;
  {
    absl::MutexLock lock(&mu_);
    if (auto found = kernels_.find(key); found != kernels_.end()) {
      uses_.splice(uses_.begin(), uses_, found->second.use);
      ++stats_.memory_hits;
      how = Outcome::kMemory;
      return found->second.kernel;
    }
    std::shared_ptr<Flight>& slot = flights_[key];
    joined = slot != nullptr;
    if (!joined) slot = std::make_shared<Flight>();
    flight = slot;
    if (joined) ++stats_.memory_hits;
  }
  if (joined) {
    flight->done.WaitForNotification();
    how = Outcome::kJoined;
    if (IsCompilerLost(flight->result.status())) return GetOrCompile(key, compile, outcome);
    return flight->result;
  }

  flight->result = Produce(key, compile, how);
  {
    absl::MutexLock lock(&mu_);
    ++(how == Outcome::kDisk ? stats_.disk_hits : stats_.misses);
    if (flight->result.ok()) Keep(key, *flight->result);
    flights_.erase(key);
  }
  flight->done.Notify();
  return flight->result;
}

absl::StatusOr<KernelCache::KernelRef> KernelCache::Produce(const KernelKey& key,
                                                            const Compile& compile,
                                                            Outcome& outcome) {
  if (std::optional<CompiledKernel> kernel = disk_.Read(key)) {
    outcome = Outcome::kDisk;
    return std::make_shared<const CompiledKernel>(*std::move(kernel));
  }
  outcome = Outcome::kCompiled;
  absl::StatusOr<CompiledKernel> compiled = compile();
  if (!compiled.ok()) return compiled.status();
  auto kernel = std::make_shared<const CompiledKernel>(*std::move(compiled));
  disk_.Write(key, *kernel);
  return kernel;
}

void KernelCache::Keep(const KernelKey& key, const KernelRef& kernel) {
  uses_.push_front(key);
  kernels_[key] = {.kernel = kernel, .use = uses_.begin()};
  stats_.memory_bytes += SizeOf(*kernel);
  while (stats_.memory_bytes > memory_limit_bytes_ && kernels_.size() > 1) {
    const auto oldest = kernels_.find(uses_.back());
    stats_.memory_bytes -= SizeOf(*oldest->second.kernel);
    kernels_.erase(oldest);
    uses_.pop_back();
  }
}

KernelCache::KernelRef KernelCache::Peek(const KernelKey& key) {
  {
    absl::MutexLock lock(&mu_);
    if (auto found = kernels_.find(key); found != kernels_.end()) return found->second.kernel;
  }
  std::optional<CompiledKernel> kernel = disk_.Read(key);
  return kernel ? std::make_shared<const CompiledKernel>(*std::move(kernel)) : nullptr;
}

std::vector<KernelCache::Listed> KernelCache::List(size_t most) const {
  std::vector<Listed> listed;
  absl::MutexLock lock(&mu_);
  for (const KernelKey& key : uses_) {
    if (listed.size() == most) break;
    const KernelRef& kernel = kernels_.at(key).kernel;
    listed.push_back({.key = key, .name = kernel->name, .bytes = SizeOf(*kernel)});
  }
  return listed;
}

KernelCache::Stats KernelCache::stats() const {
  const DiskStore::Stats disk = disk_.stats();
  absl::MutexLock lock(&mu_);
  Stats stats = stats_;
  stats.memory_entries = kernels_.size();
  stats.disk = disk;
  return stats;
}

void KernelCache::Clear() {
  {
    absl::MutexLock lock(&mu_);
    kernels_.clear();
    uses_.clear();
    stats_.memory_bytes = 0;
  }
  disk_.Clear();
}

}  // namespace tensord
