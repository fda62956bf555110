// DiskStore: compiled kernels as files in a folder, one a kernel, bounded in bytes. Several
// processes may share the folder: entries appear by rename, and whoever loses a race has only done
// work twice.
//
//   dir/ab/cdef...   ab is the key's first byte; the file is a header, then the kernel
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/compile/kernel.h"
#include "core/compile/kernel_key.h"

namespace tensord {

class DiskStore {
 public:
  struct Stats {
    uint64_t entries, bytes;  // as of the last look at the folder, and what this process did since
    uint64_t limit_bytes;
    uint64_t rejected;  // entries that were not what they should be
    uint64_t evicted;
  };

  // An empty directory stores nothing. Removes temporary files that a crash left behind, and what
  // is over the limit.
  DiskStore(std::string directory, uint64_t limit_bytes);

  std::optional<CompiledKernel> Read(const KernelKey& key);
  void Write(const KernelKey& key, const CompiledKernel& kernel);
  void Clear();
  Stats stats() const;
  const std::string& directory() const { return directory_; }

 private:
  std::string PathOf(const KernelKey& key) const;
  // Looks at the whole folder; deletes the least recently used entries while it is over the limit.
  void Sweep();
  // Writing failed: says so once.
  void Degraded(std::string_view what, std::string_view path);

  const std::string directory_;
  const uint64_t limit_bytes_;
  absl::Mutex sweep_mu_;  // one sweep at a time in this process; never held over a compilation
  mutable absl::Mutex mu_;
  Stats stats_ ABSL_GUARDED_BY(mu_) = {};
  bool warned_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tensord
