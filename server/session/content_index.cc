#include "server/session/content_index.h"

#include <absl/algorithm/container.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

namespace tensord {
namespace {

// Hashed at once: for so long a run that overwrites the bytes may have to wait.
constexpr size_t kSlice = 1 << 20;

}  // namespace

void Content::Drop() {
  BufferRef dying;  // without the lock
  absl::MutexLock lock(&mu_);
  dying.swap(buffer_);
}

std::string Content::Hash() {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (size_t offset = 0;; offset += kSlice) {
    absl::MutexLock lock(&mu_);
    if (buffer_ == nullptr) return "";
    const size_t size = buffer_->memory->size();
    if (offset >= size) break;
    EVP_DigestUpdate(context.get(),
                     static_cast<const char*>(buffer_->memory->host_address()) + offset,
                     std::min(kSlice, size - offset));
  }
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  digest.resize(size);
  return digest;
}

void Content::Prepare() {
  absl::MutexLock hashing(&hashing_);
  if (sha256_.empty()) sha256_ = Hash();
}

bool Content::CopyIfEqual(const std::string& sha256, char* to) {
  {
    absl::MutexLock hashing(&hashing_);
    if (sha256_.empty()) sha256_ = Hash();
    if (sha256_.empty() || sha256_ != sha256) return false;
  }
  absl::MutexLock lock(&mu_);
  if (buffer_ == nullptr) return false;
  std::memcpy(to, buffer_->memory->host_address(), buffer_->memory->size());
  return true;
}

std::shared_ptr<Content> ContentIndex::Add(const std::string& user, BufferRef buffer) {
  const uint64_t bytes = buffer->memory->size();
  if (bytes < kMinBytes || buffer->memory->host_address() == nullptr) return nullptr;
  auto content = std::make_shared<Content>(std::move(buffer));
  absl::MutexLock lock(&mu_);
  if (contents_.size() >= sweep_at_) {
    absl::erase_if(contents_, [](const auto& entry) {
      return absl::c_all_of(entry.second, [](const auto& each) { return each.expired(); });
    });
    sweep_at_ = std::max<size_t>(1024, 2 * contents_.size());
  }
  std::deque<std::weak_ptr<Content>>& same = contents_[Key(user, bytes)];
  std::erase_if(same, [](const auto& each) { return each.expired(); });
  same.push_front(content);
  if (same.size() > kCandidates) same.pop_back();
  return content;
}

std::vector<std::shared_ptr<Content>> ContentIndex::Find(const std::string& user, uint64_t bytes) {
  std::vector<std::shared_ptr<Content>> found;
  absl::MutexLock lock(&mu_);
  const auto same = contents_.find(Key(user, bytes));
  if (same == contents_.end()) return found;
  for (const auto& each : same->second) {
    if (auto content = each.lock()) found.push_back(std::move(content));
  }
  return found;
}

}  // namespace tensord
