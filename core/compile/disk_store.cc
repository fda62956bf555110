#include "core/compile/disk_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/log.h"

namespace tensord {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "entries are little-endian");

constexpr char kMagic[8] = {'T', 'D', 'K', 'E', 'R', 'N', 'E', 'L'};
constexpr uint64_t kFormatVersion = 2;
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::time_t kTemporaryMaxAgeSeconds = 3600;

struct Header {
  char magic[8];
  uint64_t version;
  uint64_t key_hi, key_lo;
  uint64_t payload_bytes;
  uint64_t checksum_hi, checksum_lo;  // xxh3-128 of the payload
};
static_assert(sizeof(Header) == 56);

class File {
 public:
  File(const std::string& path, int flags, mode_t mode = 0)
      : fd_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode)) {}
  ~File() { Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool Close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || close(fd) == 0;
  }
  bool Read(char* to, size_t bytes) {
    while (bytes > 0) {
      const ssize_t n = read(fd_, to, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      to += n;
      bytes -= static_cast<size_t>(n);
    }
    return true;
  }
  bool Write(std::string_view data) {
    while (!data.empty()) {
      const ssize_t n = write(fd_, data.data(), data.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      data.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

 private:
  int fd_;
};

void AppendNumber(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void AppendText(std::string& out, std::string_view text) {
  AppendNumber(out, text.size());
  out.append(text);
}

bool TakeNumber(std::string_view& in, uint64_t& value) {
  if (in.size() < sizeof(value)) return false;
  std::memcpy(&value, in.data(), sizeof(value));
  in.remove_prefix(sizeof(value));
  return true;
}
bool TakeText(std::string_view& in, std::string& text) {
  uint64_t size;
  if (!TakeNumber(in, size) || size > in.size()) return false;
  text.assign(in.substr(0, size));
  in.remove_prefix(size);
  return true;
}

std::string Encode(const KernelKey& key, const CompiledKernel& kernel) {
  std::string payload;
  AppendText(payload, kernel.name);
  AppendText(payload, kernel.entry);
  AppendNumber(payload, static_cast<uint64_t>(kernel.grid));
  AppendText(payload, kernel.binary);
  AppendText(payload, kernel.source);
  const XXH128_hash_t checksum = XXH3_128bits(payload.data(), payload.size());
  Header header{.magic = {},
                .version = kFormatVersion,
                .key_hi = key.hi,
                .key_lo = key.lo,
                .payload_bytes = payload.size(),
                .checksum_hi = checksum.high64,
                .checksum_lo = checksum.low64};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + payload;
}

std::optional<CompiledKernel> Decode(const KernelKey& key, std::string_view file) {
  Header header;
  if (file.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof(header));
  std::string_view payload = file.substr(sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kFormatVersion ||
      header.key_hi != key.hi || header.key_lo != key.lo ||
      header.payload_bytes != payload.size()) {
    return std::nullopt;
  }
  const XXH128_hash_t checksum = XXH3_128bits(payload.data(), payload.size());
  if (checksum.high64 != header.checksum_hi || checksum.low64 != header.checksum_lo) {
    return std::nullopt;
  }
  CompiledKernel kernel;
  uint64_t grid;
  if (!TakeText(payload, kernel.name) || !TakeText(payload, kernel.entry) ||
      !TakeNumber(payload, grid) || !TakeText(payload, kernel.binary) ||
      !TakeText(payload, kernel.source) || !payload.empty()) {
    return std::nullopt;
  }
  kernel.grid = static_cast<int64_t>(grid);
  return kernel;
}

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

struct Entry {
  std::string path;
  uint64_t bytes;
  timespec used;
};

// The store's own files: `entry` is called for each kernel, `temporary` for each unfinished one.
// Others in the folder are left alone.
template <typename OnEntry, typename OnTemporary>
void ForEachFile(const std::string& directory, OnEntry entry, OnTemporary temporary) {
  std::error_code error;
  for (fs::directory_iterator group(directory, error), end; !error && group != end;
       group.increment(error)) {
    if (!IsHex(group->path().filename().string(), 2)) continue;
    std::error_code inner;
    for (fs::directory_iterator file(group->path(), inner); !inner && file != end;
         file.increment(inner)) {
      const std::string name = file->path().filename().string();
      struct stat info;
      // Another process may just have deleted it.
      if (lstat(file->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      if (name.starts_with(kTemporaryPrefix)) {
        temporary(file->path().string(), info.st_mtim.tv_sec);
      } else if (IsHex(name, 30)) {
        entry(Entry{file->path().string(), static_cast<uint64_t>(info.st_size), info.st_mtim});
      }
    }
  }
}

// No other process and no other thread has it.
std::string TemporaryName() {
  static std::atomic<uint64_t> next{std::random_device{}() | uint64_t{std::random_device{}()}
                                                                 << 32};
  return fmt::format("{}{}-{:016x}", kTemporaryPrefix, getpid(),
                     next.fetch_add(1, std::memory_order_relaxed));
}

// Why the folder can't be used, or nothing. It must be ours alone: its files are run as code.
std::string Prepare(const std::string& directory) {
  std::error_code error;
  const fs::path path(directory);
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return fmt::format("it can't be made: {}", std::strerror(errno));
  }
  struct stat info;
  if (stat(directory.c_str(), &info) != 0) return std::strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "it is not a folder";
  if (info.st_uid != geteuid()) return "it belongs to another user";
  if ((info.st_mode & 022) != 0) return "others may write into it; chmod 700 it or name another";
  return "";
}

std::string Usable(std::string directory) {
  if (directory.empty()) return directory;
  const std::string reason = Prepare(directory);
  if (reason.empty()) return directory;
  Log("compile").warn("kernel cache is in memory only: {} directory={}", reason, directory);
  return "";
}

}  // namespace

DiskStore::DiskStore(std::string directory, uint64_t limit_bytes)
    : directory_(Usable(std::move(directory))), limit_bytes_(limit_bytes) {
  if (!directory_.empty()) Sweep();
}

std::string DiskStore::PathOf(const KernelKey& key) const {
  const std::string hex = key.Hex();
  return fmt::format("{}/{}/{}", directory_, hex.substr(0, 2), hex.substr(2));
}

std::optional<CompiledKernel> DiskStore::Read(const KernelKey& key) {
  if (directory_.empty()) return std::nullopt;
  const std::string path = PathOf(key);
  uint64_t bytes = 0;
  {
    File file(path, O_RDONLY);
    if (!file.ok()) return std::nullopt;
    struct stat info;
    if (fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    bytes = static_cast<uint64_t>(info.st_size);
    if (bytes <= limit_bytes_) {
      std::string content(bytes, '\0');
      if (file.Read(content.data(), content.size())) {
        if (std::optional<CompiledKernel> kernel = Decode(key, content)) {
          futimens(file.fd(), nullptr);  // marks the use; if it fails the entry only looks older
          return kernel;
        }
      }
    }
  }
  const bool deleted = unlink(path.c_str()) == 0;
  absl::MutexLock lock(&mu_);
  ++stats_.rejected;
  if (deleted) {
    stats_.bytes -= std::min(stats_.bytes, bytes);
    stats_.entries -= std::min<uint64_t>(stats_.entries, 1);
  }
  return std::nullopt;
}

void DiskStore::Write(const KernelKey& key, const CompiledKernel& kernel) {
  if (directory_.empty()) return;
  const std::string content = Encode(key, kernel);
  if (content.size() > limit_bytes_) return;
  const std::string path = PathOf(key);
  const std::string group = path.substr(0, path.rfind('/'));
  if (mkdir(group.c_str(), 0700) != 0 && errno != EEXIST) return Degraded("mkdir", group);
  const std::string temporary = fmt::format("{}/{}", group, TemporaryName());
  {
    File file(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file.ok()) return Degraded("open", temporary);
    if (!file.Write(content) || !file.Close()) {
      Degraded("write", temporary);
      unlink(temporary.c_str());
      return;
    }
  }
  // No fsync: after a power failure a file may be empty or torn, which its checksum tells.
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    Degraded("rename", path);
    unlink(temporary.c_str());
    return;
  }
  bool full = false;
  {
    absl::MutexLock lock(&mu_);
    stats_.entries += 1;
    stats_.bytes += content.size();
    full = stats_.bytes > limit_bytes_;
  }
  if (full) Sweep();
}

void DiskStore::Sweep() {
  absl::MutexLock sweep(&sweep_mu_);
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  const std::time_t now = std::time(nullptr);
  ForEachFile(
      directory_,
      [&](Entry entry) {
        bytes += entry.bytes;
        entries.push_back(std::move(entry));
      },
      [&](const std::string& path, std::time_t modified) {
        if (now - modified > kTemporaryMaxAgeSeconds) unlink(path.c_str());
      });
  uint64_t evicted = 0;
  if (bytes > limit_bytes_) {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
    });
    // A tenth more than asked for, so that not every later write sweeps again.
    const uint64_t goal = limit_bytes_ - limit_bytes_ / 10;
    while (bytes > goal && evicted < entries.size()) {
      const Entry& entry = entries[evicted++];
      unlink(entry.path.c_str());
      bytes -= entry.bytes;
    }
  }
  absl::MutexLock lock(&mu_);
  stats_.entries = entries.size() - evicted;
  stats_.bytes = bytes;
  stats_.evicted += evicted;
}

void DiskStore::Clear() {
  if (directory_.empty()) return;
  absl::MutexLock sweep(&sweep_mu_);
  ForEachFile(
      directory_, [](const Entry& entry) { unlink(entry.path.c_str()); },
      [](const std::string&, std::time_t) {});
  absl::MutexLock lock(&mu_);
  stats_.entries = 0;
  stats_.bytes = 0;
}

DiskStore::Stats DiskStore::stats() const {
  absl::MutexLock lock(&mu_);
  Stats stats = stats_;
  stats.limit_bytes = limit_bytes_;
  return stats;
}

void DiskStore::Degraded(std::string_view what, std::string_view path) {
  const int error = errno;
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(warned_, true)) return;
  }
  Log("compile").warn("kernel cache can't write; going on without: {} {}: {}", what, path,
                      std::strerror(error));
}

}  // namespace tensord
