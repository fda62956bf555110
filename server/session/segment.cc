#include "server/session/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

#include "core/base/status.h"

namespace tensord {

absl::StatusOr<std::shared_ptr<Segment>> Segment::Map(int descriptor) {
  struct stat about;
  struct statfs system;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return InvalidArgument(
        "a segment is a memfd with F_SEAL_SHRINK, or it could be cut off under "
        "the daemon");
  }
  // Huge pages may run out at any access; ordinary ones can't.
  if (fstat(descriptor, &about) != 0 || fstatfs(descriptor, &system) != 0 ||
      system.f_type != TMPFS_MAGIC) {
    return InvalidArgument("a segment is a memfd of ordinary pages");
  }
  const auto size = static_cast<uint64_t>(about.st_size);
  if (about.st_size <= 0 || size > kMaxBytes) {
    return InvalidArgument("a segment has 1 to {} bytes, not {}", kMaxBytes, about.st_size);
  }
  void* data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (data == MAP_FAILED) return InvalidArgument("a segment can't be mapped: {}", strerror(errno));
  return std::shared_ptr<Segment>(new Segment(static_cast<char*>(data), size));
}

Segment::~Segment() { munmap(data_, size_); }

absl::StatusOr<char*> Segment::At(uint64_t offset, uint64_t bytes) const {
  if (offset <= size_ && bytes <= size_ - offset) return data_ + offset;
  return MakeStatus(absl::StatusCode::kOutOfRange, "bytes {}+{} of a segment of {}", offset, bytes,
                    size_);
}

}  // namespace tensord
