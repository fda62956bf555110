#include "server/sharing/publications.h"

#include <absl/algorithm/container.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "server/sharing/snapshots.h"

namespace tensord {
namespace {

bool MayRead(const Publication& publication, std::string_view caller) {
  return caller == publication.owner ||
         absl::c_any_of(publication.readers, [caller](const std::string& reader) {
           return reader == kEverybody || reader == caller;
         });
}

// The same for a name that nobody has and for one that is not for the caller.
absl::Status NoSuchPublication(std::string_view owner, std::string_view name) {
  return NotFound(
      "'{}' has published nothing as '{}' that you may attach; published() lists what there is, "
      "and "
      "the owner says by readers who may",
      owner, name);
}

bool Same(const Publication& publication, const Publications::Draft& draft) {
  return publication.readers == draft.readers &&
         absl::c_equal(publication.tensors, draft.tensors, [](const auto& a, const auto& b) {
           return a.key == b.key && a.buffer->buffer() == b.buffer;
         });
}

}  // namespace

PublishedBuffer::PublishedBuffer(BufferRef buffer, std::shared_ptr<PublishedBytes> charged)
    : buffer_(std::move(buffer)), charged_(std::move(charged)) {
  charged_->account.Take(&buffer_->memory->device(), bytes());
}

PublishedBuffer::~PublishedBuffer() {
  charged_->account.Release(&buffer_->memory->device(), bytes());
}

std::shared_ptr<const PublishedBuffer> PublishedBuffer::Hold() const {
  holders_.fetch_add(1, std::memory_order_relaxed);
  return {this, [self = shared_from_this()](const PublishedBuffer*) {
            self->holders_.fetch_sub(1, std::memory_order_relaxed);
          }};
}

uint64_t Publication::bytes() const {
  absl::flat_hash_set<const PublishedBuffer*> counted;
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    if (counted.insert(tensor.buffer.get()).second) sum += tensor.buffer->bytes();
  }
  return sum;
}

uint64_t Publication::holders() const {
  uint64_t most = 0;
  for (const Tensor& tensor : tensors) most = std::max(most, tensor.buffer->holders());
  return most;
}

Publications::Publications(MemoryLedger& ledger, SharingLimits limits)
    : ledger_(ledger), limits_(limits) {}
Publications::~Publications() = default;

absl::Status Publications::Restore(const std::string& folder, Runtime& runtime) {
  TD_ASSIGN_OR_RETURN(snapshots_, Snapshots::Open(folder));
  for (Snapshots::Found& found : snapshots_->Load(runtime)) {
    if (!found.draft.ok()) {
      rejected_.fetch_add(found.corrupt, std::memory_order_relaxed);
      Log("sharing").error("not restored file={} {}: {}", found.file,
                           found.corrupt ? "set aside" : "left as it is",
                           Message(found.draft.status()));
      continue;
    }
    absl::StatusOr<std::shared_ptr<Publication>> publication = Charge(*std::move(found.draft));
    if (!publication.ok()) {
      Log("sharing").error("not restored file={} left as it is: {}", found.file,
                           Message(publication.status()));
      continue;
    }
    (*publication)->saved = true;
    Log("sharing").info("restored name='{}' owner='{}' tensors={} bytes={}", (*publication)->name,
                        (*publication)->owner, (*publication)->tensors.size(),
                        (*publication)->bytes());
    Insert(*std::move(publication));
  }
  return absl::OkStatus();
}

absl::Status Publications::Check(const Draft& draft) const {
  const auto check_name = [this](std::string_view what, std::string_view name) -> absl::Status {
    if (!name.empty() && name.size() <= limits_.max_name_bytes) return absl::OkStatus();
    return InvalidArgument("{} '{}' has {} bytes: 1 to {} are allowed", what,
                           Prefix(name, limits_.max_name_bytes), name.size(),
                           limits_.max_name_bytes);
  };
  if (draft.owner.empty()) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      "what is published belongs to a user, and the daemon does not know who you "
                      "are: connect by a unix socket, or with a token or a certificate");
  }
  TD_RETURN_IF_ERROR(check_name("the name", draft.name));
  const auto check_count = [](std::string_view what, size_t count, size_t limit) -> absl::Status {
    if (count <= limit) return absl::OkStatus();
    return ResourceExhausted("{} {}: a publication has {} at most", count, what, limit);
  };
  TD_RETURN_IF_ERROR(check_count("tensors", draft.tensors.size(), limits_.max_tensors));
  TD_RETURN_IF_ERROR(check_count("readers", draft.readers.size(), limits_.max_readers));
  for (const std::string& reader : draft.readers) TD_RETURN_IF_ERROR(check_name("reader", reader));
  if (draft.tensors.empty()) return InvalidArgument("there is no tensor to publish");
  absl::flat_hash_set<std::string_view> keys;
  for (const Draft::Tensor& tensor : draft.tensors) {
    if (draft.tensors.size() > 1) TD_RETURN_IF_ERROR(check_name("key", tensor.key));
    if (!keys.insert(tensor.key).second) {
      return InvalidArgument("key '{}' stands for two tensors", tensor.key);
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<PublishedBytes> Publications::ChargedTo(const std::string& user) {
  std::shared_ptr<PublishedBytes>& charged = charged_[user];
  if (charged == nullptr) charged = std::make_shared<PublishedBytes>(ledger_, user);
  return charged;
}

uint64_t Publications::CountOf(const std::string& owner) {
  const auto first = publications_.lower_bound({owner, ""});
  auto last = first;
  uint64_t count = 0;
  for (; last != publications_.end() && last->first.first == owner; ++last) ++count;
  return count;
}

absl::StatusOr<std::shared_ptr<Publication>> Publications::Charge(Draft draft) {
  TD_RETURN_IF_ERROR(Check(draft));
  auto publication = std::make_shared<Publication>();
  absl::MutexLock lock(&mu_);
  if (!publications_.contains({draft.owner, draft.name}) &&
      CountOf(draft.owner) >= limits_.max_publications) {
    return ResourceExhausted(
        "'{}' has {} publications, the limit: take one back with unpublish() first", draft.owner,
        limits_.max_publications);
  }
  uint64_t fresh = 0;
  absl::flat_hash_set<const Buffer*> counted;
  const auto published_already = [&draft](const Draft::Tensor& tensor) {
    return tensor.published != nullptr && tensor.published->owner() == draft.owner;
  };
  for (const Draft::Tensor& tensor : draft.tensors) {
    if (!published_already(tensor) && counted.insert(tensor.buffer.get()).second) {
      fresh += tensor.buffer->memory->size();
    }
  }
  const std::shared_ptr<PublishedBytes> charged = ChargedTo(draft.owner);
  const uint64_t present = charged->account.bytes();
  if (fresh > limits_.max_published_bytes || present > limits_.max_published_bytes - fresh) {
    return ResourceExhausted(
        "'{}' needs {} bytes: '{}' has published {} of the limit of {}, which counts what others "
        "still hold as well; take something back with unpublish(), or start the daemon with a "
        "larger --max-published-bytes",
        draft.name, fresh, draft.owner, present, limits_.max_published_bytes);
  }
  absl::flat_hash_map<const Buffer*, PublishedBufferRef> made;
  for (Draft::Tensor& tensor : draft.tensors) {
    PublishedBufferRef& buffer = made[tensor.buffer.get()];
    if (buffer == nullptr && published_already(tensor)) {
      buffer = tensor.published->shared_from_this();
    } else if (buffer == nullptr) {
      buffer = std::make_shared<PublishedBuffer>(tensor.buffer, charged);
    }
    publication->tensors.push_back({.key = std::move(tensor.key), .buffer = buffer});
  }
  publication->owner = std::move(draft.owner);
  publication->name = std::move(draft.name);
  publication->readers = std::move(draft.readers);
  publication->version = ++last_version_;
  return publication;
}

void Publications::Insert(PublicationRef publication) {
  PublicationRef replaced;  // dies without the lock
  absl::MutexLock lock(&mu_);
  PublicationRef& place = publications_[{publication->owner, publication->name}];
  replaced = std::exchange(place, std::move(publication));
}

absl::StatusOr<PublicationRef> Publications::Publish(Draft draft) {
  std::sort(draft.readers.begin(), draft.readers.end());
  draft.readers.erase(std::unique(draft.readers.begin(), draft.readers.end()), draft.readers.end());
  {
    absl::MutexLock lock(&mu_);
    const auto present = publications_.find({draft.owner, draft.name});
    if (present != publications_.end() && Same(*present->second, draft)) return present->second;
  }
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<Publication> publication, Charge(std::move(draft)));
  if (snapshots_ != nullptr) {
    TD_ASSIGN_OR_RETURN(publication->saved, snapshots_->Save(*publication));
  }
  Insert(publication);
  Log("sharing").info("published name='{}' owner='{}' version={} tensors={} bytes={} saved={}",
                      publication->name, publication->owner, publication->version,
                      publication->tensors.size(), publication->bytes(), publication->saved);
  return publication;
}

absl::Status Publications::Unpublish(std::string_view owner, std::string_view name) {
  PublicationRef removed;  // dies without the lock
  const Key key(owner, name);
  {
    absl::MutexLock lock(&mu_);
    const auto found = publications_.find(key);
    if (found == publications_.end()) {
      return NotFound("'{}' has published nothing as '{}'; published() lists what there is",
                      Prefix(owner, limits_.max_name_bytes), Prefix(name, limits_.max_name_bytes));
    }
    removed = found->second;
  }
  // The file first: as long as it is there a restart publishes it again.
  if (snapshots_ != nullptr) TD_RETURN_IF_ERROR(snapshots_->Remove(key.first, key.second));
  {
    absl::MutexLock lock(&mu_);
    publications_.erase(key);
  }
  Log("sharing").info("unpublished name='{}' owner='{}' holders={}", name, owner,
                      removed->holders());
  return absl::OkStatus();
}

void Publications::Clear() {
  std::map<Key, PublicationRef> dying;
  absl::MutexLock lock(&mu_);
  dying.swap(publications_);
}

absl::StatusOr<PublicationRef> Publications::Find(std::string_view caller, std::string_view owner,
                                                  std::string_view name) {
  if (caller.empty()) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      "what is published is for users, and the daemon does not know who you are: "
                      "connect by a unix socket, or with a token or a certificate");
  }
  if (owner.empty()) owner = caller;
  absl::MutexLock lock(&mu_);
  const auto found = publications_.find({std::string(owner), std::string(name)});
  if (found == publications_.end() || !MayRead(*found->second, caller)) {
    return NoSuchPublication(Prefix(owner, limits_.max_name_bytes),
                             Prefix(name, limits_.max_name_bytes));
  }
  return found->second;
}

std::vector<PublicationRef> Publications::List(std::string_view caller, bool all) {
  std::vector<PublicationRef> result;
  absl::MutexLock lock(&mu_);
  for (const auto& [key, publication] : publications_) {
    if (all || (!caller.empty() && MayRead(*publication, caller))) result.push_back(publication);
  }
  return result;
}

Publications::Stats Publications::stats() {
  Stats stats{.rejected = rejected_.load(std::memory_order_relaxed)};
  absl::MutexLock lock(&mu_);
  stats.publications = publications_.size();
  for (const auto& [user, charged] : charged_) {
    stats.bytes += charged->account.bytes();
  }
  return stats;
}

}  // namespace tensord
