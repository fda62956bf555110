// Tensors that are shared: published by a user under a name, and attached, read-only, by the
// sessions of those who may. A publication is one or more tensors that come and go together.
//
//   TD_ASSIGN_OR_RETURN(auto publication, publications.Publish({.owner = "alice", .name =
//   "weights",
//                                                               .readers = {"*"}, .tensors =
//                                                               ...}));
//   TD_ASSIGN_OR_RETURN(auto found, publications.Find("bob", "alice", "weights"));
//   tensor.published = found->tensors[0].buffer->Hold();
//
// A buffer lives until no publication and no session has it any more, and is charged to its owner
// that long. With a folder, publications outlive the daemon: a publication is there once it is on
// disk (snapshots.h).
//
// Thread-safe, but Publish, Unpublish and Restore come from one thread at a time: they write files.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/runtime.h"
#include "server/memory/memory_ledger.h"

namespace tensord {

class Snapshots;

struct SharingLimits {
  // Of one user: what is published, and what is not any more but held by somebody.
  uint64_t max_published_bytes = uint64_t{1} << 40;
  uint32_t max_publications = 1024;  // of one user
  uint32_t max_tensors = 65'536;     // of one publication
  uint32_t max_readers = 1024;       // of one publication
  uint32_t max_name_bytes = 200;     // of a publication's name, a key and a user's name
};

inline constexpr std::string_view kEverybody = "*";  // among readers: every user

// What a user is charged for.
struct PublishedBytes {
  PublishedBytes(MemoryLedger& ledger, const std::string& owner)
      : user(owner), account(ledger, "", owner, std::numeric_limits<uint64_t>::max()) {}

  const std::string user;
  MemoryLedger::Account account;
};

class PublishedBuffer : public std::enable_shared_from_this<PublishedBuffer> {
 public:
  PublishedBuffer(BufferRef buffer, std::shared_ptr<PublishedBytes> charged);
  ~PublishedBuffer();
  PublishedBuffer(const PublishedBuffer&) = delete;
  PublishedBuffer& operator=(const PublishedBuffer&) = delete;

  const BufferRef& buffer() const { return buffer_; }
  const std::string& owner() const { return charged_->user; }
  uint64_t bytes() const { return buffer_->memory->size(); }
  // How many tensors of sessions share it.
  uint64_t holders() const { return holders_.load(std::memory_order_relaxed); }

  // For a tensor of a session: counts as a holder while it lives.
  std::shared_ptr<const PublishedBuffer> Hold() const;

 private:
  const BufferRef buffer_;
  const std::shared_ptr<PublishedBytes> charged_;
  mutable std::atomic<uint64_t> holders_ = 0;  // relaxed: only shown
};
using PublishedBufferRef = std::shared_ptr<const PublishedBuffer>;

struct Publication {
  struct Tensor {
    std::string key;
    PublishedBufferRef buffer;
  };
  std::string owner, name;
  std::vector<std::string> readers;
  std::vector<Tensor> tensors;
  uint64_t version = 0;
  bool saved = false;

  uint64_t bytes() const;  // a tensor that is there by two keys counts once
  uint64_t holders() const;
};
using PublicationRef = std::shared_ptr<const Publication>;

class Publications {
 public:
  struct Draft {
    struct Tensor {
      std::string key;
      BufferRef buffer;
      PublishedBufferRef published;  // null: it is not published yet
    };
    std::string owner, name;
    std::vector<std::string> readers;  // users beside the owner
    std::vector<Tensor> tensors;
  };

  explicit Publications(MemoryLedger& ledger, SharingLimits limits = {});
  ~Publications();

  // From now on publications are kept in that folder; those that are there are published again.
  // What cannot be is logged, and left or set aside.
  absl::Status Restore(const std::string& folder, Runtime& runtime);

  // Takes the place of what its owner has published by this name. The same again changes nothing.
  absl::StatusOr<PublicationRef> Publish(Draft draft);
  // Of what `caller` owns. NotFound.
  absl::Status Unpublish(std::string_view owner, std::string_view name);
  // Drops all; files stay.
  void Clear();

  // NotFound if there is none, and likewise if `caller` may not read it.
  absl::StatusOr<PublicationRef> Find(std::string_view caller, std::string_view owner,
                                      std::string_view name);
  // Those that `caller` may read; with `all`, every one. By owner and name.
  std::vector<PublicationRef> List(std::string_view caller, bool all = false);

  struct Stats {
    uint64_t publications = 0;
    uint64_t bytes = 0;     // charged to all users together
    uint64_t rejected = 0;  // files that were corrupt
  };
  Stats stats();

 private:
  using Key = std::pair<std::string, std::string>;  // owner, name

  absl::Status Check(const Draft& draft) const;
  std::shared_ptr<PublishedBytes> ChargedTo(const std::string& user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The draft as a publication, its bytes charged.
  absl::StatusOr<std::shared_ptr<Publication>> Charge(Draft draft);
  void Insert(PublicationRef publication);
  uint64_t CountOf(const std::string& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  MemoryLedger& ledger_;
  const SharingLimits limits_;
  std::unique_ptr<Snapshots> snapshots_;  // null: in memory only
  std::atomic<uint64_t> rejected_ = 0;    // relaxed: only shown

  absl::Mutex mu_;
  std::map<Key, PublicationRef> publications_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<PublishedBytes>> charged_ ABSL_GUARDED_BY(mu_);
  uint64_t last_version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
