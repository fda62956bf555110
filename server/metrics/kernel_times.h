// Where the time of devices goes, by kernel: launches and device time of each, by the user whose
// runs they were. So many rows are kept; the one that was launched longest ago goes first.
//
//   times.Add("alice", "train step", *step_times);
//   for (const KernelTimes::Row& row : times.Largest(100, may_see)) ...
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/runtime.h"

namespace tensord {

class KernelTimes {
 public:
  static constexpr size_t kMaxRows = 1024;
  static constexpr size_t kMaxPrograms = 4;  // of a row

  struct Row {
    std::string user;
    std::string name;                   // of the kernel; "loop", "copy" or "exchange"
    std::vector<std::string> kernels;   // keys of the code: one, or those of a loop
    std::vector<std::string> programs;  // the first that launched it, by name
    uint64_t launches = 0;              // a loop is one
    int64_t device_ns = 0;
  };

  explicit KernelTimes(size_t max_rows = kMaxRows) : max_rows_(max_rows) {}

  // Of a run on one device that is done. Steps that it did not come to count for nothing.
  void Add(const std::string& user, const std::string& program, const StepTimes& steps);

  // Those that took most, of users that `may_see` says yes to, so many at most.
  std::vector<Row> Largest(size_t most,
                           const std::function<bool(const std::string& user)>& may_see) const;
  // Whether one of these users has launched the kernel of that key.
  bool Has(std::string_view kernel,
           const std::function<bool(const std::string& user)>& may_see) const;

 private:
  using Key = std::pair<std::string, std::string>;  // user; name and keys of the step
  struct Entry {
    Row row;
    std::list<Key>::iterator use;
  };

  const size_t max_rows_;
  mutable absl::Mutex mu_;
  absl::flat_hash_map<Key, Entry> rows_ ABSL_GUARDED_BY(mu_);
  std::list<Key> uses_ ABSL_GUARDED_BY(mu_);  // latest first
};

}  // namespace tensord
