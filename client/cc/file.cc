#include "client/cc/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/status.h"

namespace tensord {

absl::StatusOr<std::shared_ptr<File>> File::Open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return InvalidArgument("a path has no zero byte, as '{}' has", path.c_str());
  }
  // O_NONBLOCK: to open a pipe would wait for its writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, fmt::format("'{}' cannot be opened", path));
  std::shared_ptr<File> file(new File(path, descriptor, 0));
  struct stat about = {};
  if (fstat(descriptor, &about) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("'{}' cannot be examined", path));
  }
  if (!S_ISREG(about.st_mode)) return InvalidArgument("'{}' is no regular file", path);
  file->size_ = static_cast<uint64_t>(about.st_size);
  return file;
}

File::~File() { close(descriptor_); }

absl::Status File::Read(uint64_t offset, absl::Span<char> out) const {
  while (!out.empty()) {
    const ssize_t count = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, fmt::format("'{}' cannot be read", path_));
    if (count == 0) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "'{}' ends at byte {}: it has been cut since it was opened", path_, offset);
    }
    offset += static_cast<uint64_t>(count);
    out.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace tensord
