#include "server/segment_socket.h"

#include <absl/strings/escaping.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"
#include "server/auth/authenticator.h"
#include "server/session/segment.h"

namespace tensord {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr size_t kPacketBytes = kTokenBytes + sizeof(uint64_t);
// Of connections that have not sent their packet: above that the oldest goes.
constexpr size_t kMaxWaiting = 64;

struct Descriptors {
  ~Descriptors() {
    for (int descriptor : all) close(descriptor);
  }
  std::vector<int> all;
};

// The segment of one packet goes to its session.
absl::Status Take(int connection, SessionRegistry& registry) {
  char packet[kPacketBytes];
  iovec part = {.iov_base = packet, .iov_len = sizeof(packet)};
  // The space for one has room for two, so descriptors are counted rather than the bytes.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  // The kernel closes what has no room here.
  Descriptors descriptors;
  for (cmsghdr* each = got < 0 ? nullptr : CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= each->cmsg_len; at += sizeof(int)) {
      std::memcpy(&descriptors.all.emplace_back(), CMSG_DATA(each) + (at - CMSG_LEN(0)),
                  sizeof(int));
    }
  }
  if (descriptors.all.size() != 1 || (message.msg_flags & MSG_CTRUNC) != 0) {
    return InvalidArgument("a packet brings one descriptor");
  }
  if (got != static_cast<ssize_t>(kPacketBytes) || (message.msg_flags & MSG_TRUNC) != 0) {
    return InvalidArgument("a packet has {} bytes", kPacketBytes);
  }
  ucred sender;
  socklen_t size = sizeof(sender);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &sender, &size) != 0) {
    return Internal("SO_PEERCRED: {}", std::strerror(errno));
  }
  TD_ASSIGN_OR_RETURN(const auto session, registry.Find(std::string(packet, kTokenBytes),
                                                        Printable(UserName(sender.uid))));
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof(number); ++i) {
    number |= uint64_t{static_cast<unsigned char>(packet[kTokenBytes + i])} << (8 * i);
  }
  TD_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, Segment::Map(descriptors.all[0]));
  return session->SetSegment(number, std::move(segment));
}

}  // namespace

// There is no descriptor left for a connection. Its client hears so at once, and sends in chunks;
// in the queue it would wait, and poll would tell of it again and again.
void SegmentSocket::TurnAway(pollfd& stop) {
  close(std::exchange(spare_, -1));
  const int connection = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection >= 0) close(connection);
  spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (connection < 0) poll(&stop, 1, 100);  // another thread took the spare one's place
}

absl::StatusOr<std::unique_ptr<SegmentSocket>> SegmentSocket::Listen() {
  std::string secret(16, '\0');
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return Internal("getrandom: {}", std::strerror(errno));
  }
  std::string name = "tensord-" + absl::BytesToHexString(secret);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) != 0 ||
      listen(fd, static_cast<int>(kMaxWaiting)) != 0) {
    const std::string error = std::strerror(errno);
    if (fd >= 0) close(fd);
    return Unavailable("a socket for shared memory: {}", error);
  }
  return std::unique_ptr<SegmentSocket>(new SegmentSocket(std::move(name), fd));
}

SegmentSocket::~SegmentSocket() {
  Stop();
  close(fd_);
}

void SegmentSocket::Serve(SessionRegistry& registry) {
  stop_ = eventfd(0, EFD_CLOEXEC);
  spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  thread_ = std::jthread([this, &registry] {
    pthread_setname_np(pthread_self(), "td-segments");
    Run(registry);
  });
}

void SegmentSocket::Stop() {
  if (stop_ < 0) return;
  const uint64_t one = 1;
  // An eventfd takes eight bytes at any time.
  [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof(one));
  thread_.join();
  close(stop_);
  close(spare_);
  stop_ = -1;
}

void SegmentSocket::Run(SessionRegistry& registry) {
  std::vector<pollfd> polled = {{.fd = stop_, .events = POLLIN, .revents = 0},
                                {.fd = fd_, .events = POLLIN, .revents = 0}};
  for (;;) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) break;
    for (size_t i = 2; i < polled.size();) {
      if (polled[i].revents == 0) {
        ++i;
        continue;
      }
      const absl::Status taken = Take(polled[i].fd, registry);
      const char answer = taken.ok() ? 1 : 0;
      if (!taken.ok()) Log("server").debug("segment refused: {}", Message(taken));
      send(polled[i].fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
      close(polled[i].fd);
      polled.erase(polled.begin() + static_cast<ptrdiff_t>(i));
    }
    if (polled[1].revents == 0) continue;
    const int connection = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      if (errno == EMFILE || errno == ENFILE) TurnAway(polled[0]);
      continue;
    }
    polled.push_back({.fd = connection, .events = POLLIN, .revents = 0});
    if (polled.size() > 2 + kMaxWaiting) {
      close(polled[2].fd);
      polled.erase(polled.begin() + 2);
    }
  }
  for (size_t i = 2; i < polled.size(); ++i) close(polled[i].fd);
}

}  // namespace tensord
