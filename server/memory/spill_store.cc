#include "server/memory/spill_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

// One with no name; where the file system has no such thing, one that loses its name at once.
absl::StatusOr<int> OpenNameless(const std::string& folder) {
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string path = folder + "/spilled-XXXXXX";
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) unlink(path.c_str());
  }
  if (fd >= 0) return fd;
  return Unavailable("spilling: no file can be made in '{}': {}", folder,
                     std::generic_category().message(errno));
}

}  // namespace

class SpillStore::Spilled::Pages {
 public:
  static std::unique_ptr<Pages> Make(uint64_t size) {
    const uint64_t length = std::max<uint64_t>(size, 1);
    void* data = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    madvise(data, length, MADV_HUGEPAGE);  // advice: fewer faults
    return std::unique_ptr<Pages>(new Pages(static_cast<char*>(data), length));
  }
  ~Pages() { munmap(data_, length_); }

  char* data() const { return data_; }

 private:
  Pages(char* data, uint64_t length) : data_(data), length_(length) {}

  char* const data_;
  const uint64_t length_;
};

class SpillStore::Spilled::File {
 public:
  static absl::StatusOr<std::unique_ptr<File>> Write(const std::string& folder,
                                                     absl::Span<const char> bytes) {
    TD_ASSIGN_OR_RETURN(const int fd, OpenNameless(folder));
    std::unique_ptr<File> file(new File(fd, XXH3_64bits(bytes.data(), bytes.size())));
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = pwrite(fd, bytes.data() + done, bytes.size() - done, off_t(done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) {
        return ResourceExhausted("spilling: a file of {} bytes could not be written in '{}': {}",
                                 bytes.size(), folder, std::generic_category().message(errno));
      }
      done += static_cast<size_t>(wrote);
    }
    return file;
  }
  ~File() { close(fd_); }

  absl::Status Read(absl::Span<char> bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t got = pread(fd_, bytes.data() + done, bytes.size() - done, off_t(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return MakeStatus(absl::StatusCode::kDataLoss, "spilled bytes can't be read back: {}",
                          std::generic_category().message(errno));
      }
      if (got == 0) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "spilled bytes can't be read back: the file ends after {} of {}", done,
                          bytes.size());
      }
      done += static_cast<size_t>(got);
    }
    if (XXH3_64bits(bytes.data(), bytes.size()) == hash_) return absl::OkStatus();
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "spilled bytes can't be read back: the file has others than were written");
  }

 private:
  File(int fd, uint64_t hash) : fd_(fd), hash_(hash) {}

  const int fd_;
  const uint64_t hash_;
};

// What is where, and who is to go to disk next.
class SpillStore::State {
 public:
  using Place = Spilled::Place;

  explicit State(SpillOptions options) : options_(std::move(options)) {}

  const SpillOptions& options() const { return options_; }

  // Counts it there if there is room; it is counted at one place.
  bool Reserve(Spilled& entry, Place place) {
    absl::MutexLock lock(&mu_);
    uint64_t& used = place == Place::kHost ? stats_.host_bytes : stats_.disk_bytes;
    const uint64_t limit = place == Place::kHost ? options_.host_bytes : options_.disk_bytes;
    if (entry.size_ > limit || used > limit - entry.size_) return false;
    Leave(entry);
    used += entry.size_;
    ++(place == Place::kHost ? stats_.host_entries : stats_.disk_entries);
    entry.place_ = place;
    return true;
  }
  // Those that are listed may be asked to go to disk, the first one next.
  void List(Spilled& entry, bool first) {
    absl::MutexLock lock(&mu_);
    entry.at_ = hosted_.insert(first ? hosted_.begin() : hosted_.end(), &entry);
    entry.listed_ = true;
  }
  // Unlisted. Null if there is none.
  std::shared_ptr<Spilled> TakeOldest() {
    absl::MutexLock lock(&mu_);
    while (!hosted_.empty()) {
      Spilled* entry = hosted_.front();
      hosted_.pop_front();
      entry->listed_ = false;
      // One that is about to die waits for our lock to say so.
      if (std::shared_ptr<Spilled> alive = entry->weak_from_this().lock()) return alive;
    }
    return nullptr;
  }
  // Of two of one size.
  void Swap(Spilled& a, Spilled& b) {
    absl::MutexLock lock(&mu_);
    std::swap(a.place_, b.place_);
  }
  void Forget(Spilled& entry) {
    absl::MutexLock lock(&mu_);
    if (entry.listed_) hosted_.erase(entry.at_);
    entry.listed_ = false;
    Leave(entry);
  }

  // It is on disk then, or where it was.
  absl::Status MoveToDisk(Spilled& entry) const {
    absl::MutexLock lock(&entry.mu_);
    TD_ASSIGN_OR_RETURN(auto file,
                        Spilled::File::Write(options_.folder, {entry.pages_->data(), entry.size_}));
    entry.file_ = std::move(file);
    entry.pages_ = nullptr;
    return absl::OkStatus();
  }

  absl::Status Full(uint64_t bytes) const {
    absl::MutexLock lock(&mu_);
    const auto limit = [](const char* flag, uint64_t used, uint64_t of) {
      return fmt::format("--{} allows {}, of which {} are taken", flag, of, used);
    };
    return ResourceExhausted("no room to spill {} bytes: {}; {}", bytes,
                             limit("spill-host-bytes", stats_.host_bytes, options_.host_bytes),
                             options_.folder.empty() ? "there is no --spill-dir"
                                                     : limit("spill-disk-bytes", stats_.disk_bytes,
                                                             options_.disk_bytes));
  }

  Stats stats() const {
    absl::MutexLock lock(&mu_);
    return stats_;
  }

 private:
  void Leave(Spilled& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (entry.place_ == Place::kNowhere) return;
    const bool host = entry.place_ == Place::kHost;
    (host ? stats_.host_bytes : stats_.disk_bytes) -= entry.size_;
    --(host ? stats_.host_entries : stats_.disk_entries);
    entry.place_ = Place::kNowhere;
  }

  const SpillOptions options_;
  mutable absl::Mutex mu_;
  std::list<Spilled*> hosted_ ABSL_GUARDED_BY(mu_);  // longest there first
  Stats stats_ ABSL_GUARDED_BY(mu_);
};

SpillStore::Spilled::Spilled(std::shared_ptr<State> state, uint64_t size)
    : state_(std::move(state)), size_(size) {}

SpillStore::Spilled::~Spilled() { state_->Forget(*this); }

absl::Status SpillStore::Spilled::Get(absl::Span<char> bytes) const {
  if (bytes.size() != size_) {
    return Internal("{} spilled bytes are asked for as {}", size_, bytes.size());
  }
  absl::MutexLock lock(&mu_);
  if (file_ != nullptr) return file_->Read(bytes);
  if (size_ > 0) std::memcpy(bytes.data(), pages_->data(), size_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SpillStore>> SpillStore::Create(SpillOptions options) {
  if (!options.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.folder, error);
    if (error) {
      return Unavailable("spilling: the folder '{}' can't be made: {}", options.folder,
                         error.message());
    }
    TD_ASSIGN_OR_RETURN(const int fd, OpenNameless(options.folder));
    close(fd);
  } else {
    options.disk_bytes = 0;
  }
  return std::unique_ptr<SpillStore>(new SpillStore(std::make_shared<State>(std::move(options))));
}

SpillStore::~SpillStore() = default;

absl::StatusOr<std::shared_ptr<SpillStore::Spilled>> SpillStore::Put(absl::Span<const char> bytes) {
  State& state = *state_;
  std::shared_ptr<Spilled> entry(new Spilled(state_, bytes.size()));
  bool hosted = state.Reserve(*entry, Spilled::Place::kHost);
  // What is larger than all of the memory for it makes nobody go.
  while (!hosted && bytes.size() <= state.options().host_bytes) {
    const std::shared_ptr<Spilled> oldest = state.TakeOldest();
    if (oldest == nullptr) break;
    // Counted at its new place only once it is there, lest the memory be given away before.
    std::shared_ptr<Spilled> place(new Spilled(state_, oldest->size_));
    if (!state.Reserve(*place, Spilled::Place::kDisk)) {
      state.List(*oldest, /*first=*/true);
      break;
    }
    if (absl::Status moved = state.MoveToDisk(*oldest); !moved.ok()) {
      state.List(*oldest, /*first=*/true);
      return moved;
    }
    state.Swap(*oldest, *place);
    place = nullptr;
    hosted = state.Reserve(*entry, Spilled::Place::kHost);
  }
  if (hosted) {
    absl::MutexLock lock(&entry->mu_);
    entry->pages_ = Spilled::Pages::Make(bytes.size());
    if (entry->pages_ == nullptr) {
      return ResourceExhausted("no room to spill {} bytes: the system has no memory left",
                               bytes.size());
    }
    if (!bytes.empty()) std::memcpy(entry->pages_->data(), bytes.data(), bytes.size());
  } else if (state.Reserve(*entry, Spilled::Place::kDisk)) {
    absl::MutexLock lock(&entry->mu_);
    TD_ASSIGN_OR_RETURN(entry->file_, Spilled::File::Write(state.options().folder, bytes));
  } else {
    return state.Full(bytes.size());
  }
  if (hosted) state.List(*entry, /*first=*/false);
  return entry;
}

const SpillOptions& SpillStore::options() const { return state_->options(); }

SpillStore::Stats SpillStore::stats() const { return state_->stats(); }

}  // namespace tensord
