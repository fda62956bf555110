// SpillStore: bytes of tensors that have left their device for a while. They go to host memory;
// where that is full, those that have been there longest go on to files in a folder.
//
//   TD_ASSIGN_OR_RETURN(auto store, SpillStore::Create({.host_bytes = 4 << 30}));
//   TD_ASSIGN_OR_RETURN(auto spilled, store->Put({data, size}));
//   TD_RETURN_IF_ERROR(spilled->Get({data, size}));
//   spilled = nullptr;   // its place is free
//
// A file has no name and is its owner's only, so that nobody else reads it and nothing is left of a
// daemon that was killed. What comes back from a file is what was written, or DataLoss.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <absl/types/span.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

namespace tensord {

struct SpillOptions {
  uint64_t host_bytes = 0;  // in memory at most
  std::string folder;       // is made if it isn't there; empty: no files
  uint64_t disk_bytes = 0;  // in files at most
};

class SpillStore {
 public:
  class Spilled;
  struct Stats {
    uint64_t host_bytes = 0, host_entries = 0;
    uint64_t disk_bytes = 0, disk_entries = 0;
  };

  // An error if there is a folder and files can't be made in it.
  static absl::StatusOr<std::unique_ptr<SpillStore>> Create(SpillOptions options);
  ~SpillStore();

  // ResourceExhausted names the limits if there is no room, neither in memory nor on disk.
  absl::StatusOr<std::shared_ptr<Spilled>> Put(absl::Span<const char> bytes);

  const SpillOptions& options() const;
  Stats stats() const;

 private:
  class State;

  explicit SpillStore(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Shared with what is spilled, which may die after the store.
  const std::shared_ptr<State> state_;
};

// What one Put has kept; its end frees the place. Shared by its tensor and by who moves it to disk.
class SpillStore::Spilled final : public std::enable_shared_from_this<Spilled> {
 public:
  ~Spilled();
  Spilled(const Spilled&) = delete;
  Spilled& operator=(const Spilled&) = delete;

  uint64_t size() const { return size_; }
  // Into as many bytes as were put. DataLoss if the file has them no more.
  absl::Status Get(absl::Span<char> bytes) const;

 private:
  friend class SpillStore;
  friend class State;

  // Pages of our own, so that they go back to the system at once.
  class Pages;
  class File;

  Spilled(std::shared_ptr<State> state, uint64_t size);

  const std::shared_ptr<State> state_;
  const uint64_t size_;
  mutable absl::Mutex mu_;  // taken before the state's
  std::unique_ptr<Pages> pages_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<File> file_ ABSL_GUARDED_BY(mu_);  // one of the two
  // Guarded by the state's lock: what it is counted as.
  enum class Place : uint8_t { kNowhere, kHost, kDisk };
  Place place_ = Place::kNowhere;
  bool listed_ = false;
  std::list<Spilled*>::iterator at_;  // in the state's list, if it is listed
};

}  // namespace tensord
