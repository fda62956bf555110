// Publications on disk: a folder with one file for each, which is either the whole of it or not
// there. A file is written under another name, synced, and renamed; it ends with its own SHA-256.
//
//   "tdshare1"   8 bytes, the format
//   length       8 bytes, little-endian, of the header
//   header       snapshot.proto
//   data         of the tensors, row-major and little-endian
//   SHA-256      32 bytes, of all that comes before
//
// Not thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/runtime.h"
#include "server/sharing/publications.h"

namespace tensord {

class Snapshots {
 public:
  // Makes the folder if there is none, and locks it. It must be ours and for others not to write.
  // FailedPrecondition if another daemon has it.
  static absl::StatusOr<std::unique_ptr<Snapshots>> Open(const std::string& folder);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // True once it is on disk, in place of what had its owner and name before. False if a tensor is
  // on a device whose memory keeps nothing.
  absl::StatusOr<bool> Save(const Publication& publication);
  absl::Status Remove(const std::string& owner, const std::string& name);

  struct Found {
    std::string file;
    bool corrupt = false;  // it has been renamed; else what it needs is missing for now
    absl::StatusOr<Publications::Draft> draft;
  };
  // All files, in the order of their names, with their tensors on the devices where they were.
  std::vector<Found> Load(Runtime& runtime);

 private:
  Snapshots(std::string folder, int descriptor)
      : folder_(std::move(folder)), descriptor_(descriptor) {}
  std::string PathOf(std::string_view owner, std::string_view name) const;
  absl::Status SyncFolder() const;

  const std::string folder_;
  const int descriptor_;  // of the folder, locked
};

}  // namespace tensord
