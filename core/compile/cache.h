// KernelCache: compiled kernels by content, in memory and in front of a folder on disk that several
// processes may share. Equal requests in flight share one compilation.
//
//   KernelCache cache({.directory = "/home/me/.cache/tensord/kernels"});
//   KernelCache::Outcome outcome;
//   TD_ASSIGN_OR_RETURN(auto kernel, cache.GetOrCompile(key, [&] { return CompileKernel(...); },
//                                                       &outcome));
//
// Nothing on disk is trusted: an entry that is truncated, corrupt, foreign or of another format
// version is counted, deleted and compiled again. Entries appear by rename, so a reader sees a
// whole one or none. A folder that can't be written costs a warning, not the kernel. Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/compile/disk_store.h"
#include "core/compile/kernel.h"
#include "core/compile/kernel_key.h"

namespace tensord {

class KernelCache {
 public:
  struct Options {
    std::string directory;  // empty: memory only
    uint64_t disk_limit_bytes = uint64_t{1} << 30;
    uint64_t memory_limit_bytes = uint64_t{1} << 28;  // least recently used kernels go first
  };
  enum class Outcome {
    kMemory,    // was there
    kDisk,      // read from disk
    kCompiled,  // by this call
    kJoined,    // by another call in flight, or read by it
  };
  struct Stats {
    uint64_t memory_hits, disk_hits,
        misses;  // a miss is a compilation; a joined call is a memory hit
    uint64_t memory_entries, memory_bytes;
    DiskStore::Stats disk;
  };
  using Compile = std::function<absl::StatusOr<CompiledKernel>()>;
  using KernelRef = std::shared_ptr<const CompiledKernel>;  // shared by the cache and its users

  explicit KernelCache(Options options);
  ~KernelCache();

  // `compile` runs on this thread, without a lock, at most once among equal requests in flight. Its
  // error goes to all of them and is not kept, unless it says nothing of the kernel (see
  // CompilerLost): then each of the others tries for itself. `outcome` may be null.
  absl::StatusOr<KernelRef> GetOrCompile(const KernelKey& key, const Compile& compile,
                                         Outcome* outcome);

  // The kernel if it is there, in memory or on disk; else null. Counts as no hit.
  KernelRef Peek(const KernelKey& key);

  struct Listed {
    KernelKey key;
    std::string name;
    uint64_t bytes;
  };
  // Of those in memory so many at most, the latest used first.
  std::vector<Listed> List(size_t most) const;

  Stats stats() const;
  const std::string& directory() const { return disk_.directory(); }
  // Forgets all kernels, in memory and on disk; compilations in flight still deliver.
  void Clear();

 private:
  struct Flight;  // one lookup or compilation that others may wait for
  struct Entry {
    KernelRef kernel;
    std::list<KernelKey>::iterator use;
  };

  absl::StatusOr<KernelRef> Produce(const KernelKey& key, const Compile& compile, Outcome& outcome);
  void Keep(const KernelKey& key, const KernelRef& kernel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t memory_limit_bytes_;
  DiskStore disk_;
  mutable absl::Mutex mu_;
  absl::flat_hash_map<KernelKey, Entry> kernels_ ABSL_GUARDED_BY(mu_);
  std::list<KernelKey> uses_ ABSL_GUARDED_BY(mu_);  // latest first
  absl::flat_hash_map<KernelKey, std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mu_);
  Stats stats_ ABSL_GUARDED_BY(mu_) = {};
};

}  // namespace tensord
