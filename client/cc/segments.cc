#include "client/cc/segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tensord::client {
namespace {

constexpr uint64_t kWorth = 1 << 20;     // bytes; fewer go by the socket as fast
constexpr uint64_t kSmallest = 4 << 20;  // bytes of a segment
// Of a segment: what a client may cost the machine's memory, rather than the daemon's limit.
constexpr uint64_t kLargest = 32 << 20;
constexpr uint64_t kSegments = 2;  // of a session; the daemon's limit
constexpr timeval kPatience = {.tv_sec = 10,
                               .tv_usec = 0};  // with the daemon's answer, on a busy machine

}  // namespace

std::unique_ptr<Segment> Segment::Create(uint64_t number, uint64_t bytes) {
  const int fd = memfd_create("tensord", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  void* data = MAP_FAILED;
  // Its pages are taken here and now, so that no transfer waits for them, and running out of memory
  // is an error rather than a signal.
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
      fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  }
  if (data == MAP_FAILED) {
    close(fd);
    return nullptr;
  }
  madvise(data, bytes, MADV_DONTFORK);
  return std::unique_ptr<Segment>(new Segment(number, fd, static_cast<char*>(data), bytes));
}

Segment::~Segment() {
  munmap(data_, size_);
  close(fd_);
}

bool Segment::Offer(const std::string& name, const std::string& token) const {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (name.size() + 1 > sizeof(address.sun_path)) return false;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) return false;
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  std::string packet = token;
  for (int i = 0; i < 8; ++i) packet.push_back(static_cast<char>(number_ >> (8 * i)));
  iovec part = {.iov_base = packet.data(), .iov_len = packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd_, sizeof(fd_));
  char answer = 0;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const bool taken =
      connect(connection, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size()) &&
      recv(connection, &answer, sizeof(answer), 0) == 1 && answer == 1;
  close(connection);
  return taken;
}

Segments::Segments(std::string socket, std::string token)
    : token_(std::move(token)), socket_(std::move(socket)) {
  for (uint64_t number = kSegments; number > 0; --number) unused_.push_back(number);
}

Segments::Lease Segments::Take(uint64_t bytes) {
  if (bytes < kWorth) return Lease();
  const uint64_t wanted = std::clamp(std::bit_ceil(bytes), kSmallest, kLargest);
  std::unique_ptr<Segment> segment;
  std::string socket;
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mu_);
    const auto largest =
        std::max_element(free_.begin(), free_.end(),
                         [](const auto& a, const auto& b) { return a->size() < b->size(); });
    if (largest != free_.end()) {
      segment = std::move(*largest);
      free_.erase(largest);
    }
    if (segment == nullptr || segment->size() < wanted) {
      // A larger one takes its number.
      if (socket_.empty() || (segment == nullptr && unused_.empty())) {
        return Lease();
      }
      if (segment != nullptr) {
        number = segment->number();
      } else {
        number = unused_.back();
        unused_.pop_back();
      }
      socket = socket_;
    }
  }
  if (number != 0) {
    segment = nullptr;  // its memory first
    segment = Segment::Create(number, wanted);
    if (segment == nullptr || !segment->Offer(socket, token_)) {
      // Another machine's or container's daemon, or one that is ending: the socket will do.
      absl::MutexLock lock(&mu_);
      socket_.clear();
      return Lease();
    }
  }
  return Lease(segment.release(),
               [this](Segment* back) { GiveBack(std::unique_ptr<Segment>(back)); });
}

void Segments::GiveBack(std::unique_ptr<Segment> segment) {
  absl::MutexLock lock(&mu_);
  free_.push_back(std::move(segment));
}

}  // namespace tensord::client
