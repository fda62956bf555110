// ContentIndex: bytes that a user has uploaded and that are still on the daemon as they came, so
// that they need not be sent again. They are found by length, and hashed when somebody asks for a
// hash of that length, not before. Other users' bytes are never found, so that a hash proves
// nothing of them.
//
//   tensor.content = index.Add("alice", buffer);
//   for (const auto& content : index.Find("alice", bytes)) {
//     if (content->CopyIfEqual(sha256, to)) return;
//   }
//   tensor.content->Drop();   // before the buffer is written to
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/runtime.h"

namespace tensord {

// Lives as long as its tensor holds these bytes. Shared with who copies from it.
class Content {
 public:
  explicit Content(BufferRef buffer) : buffer_(std::move(buffer)) {}

  // The bytes are no longer these. Waits for a copy under way.
  void Drop();
  // Hashes them, if nobody has: CopyIfEqual need not then.
  void Prepare();
  // Copies all bytes if that is their SHA-256.
  bool CopyIfEqual(const std::string& sha256, char* to);

 private:
  // Empty if it was dropped meanwhile.
  std::string Hash() ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex hashing_;  // one hashes, the others wait for it
  std::string sha256_ ABSL_GUARDED_BY(hashing_);
  absl::Mutex mu_;
  BufferRef buffer_ ABSL_GUARDED_BY(mu_);  // null once it was dropped
};

class ContentIndex {
 public:
  static constexpr uint64_t kMinBytes = 1 << 20;  // fewer are sent faster than looked for
  static constexpr size_t kCandidates = 4;        // of one length, the latest

  // Null for what can't be compared: few bytes, and memory that the host does not reach.
  std::shared_ptr<Content> Add(const std::string& user, BufferRef buffer);
  std::vector<std::shared_ptr<Content>> Find(const std::string& user, uint64_t bytes);

 private:
  using Key = std::pair<std::string, uint64_t>;
  absl::Mutex mu_;
  absl::flat_hash_map<Key, std::deque<std::weak_ptr<Content>>> contents_ ABSL_GUARDED_BY(mu_);
  size_t sweep_at_ ABSL_GUARDED_BY(mu_) = 1024;  // keys, when those that hold nothing go
};

}  // namespace tensord
