#include "server/systemd.h"

#include <absl/strings/numbers.h>
#include <absl/time/clock.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "core/base/log.h"
#include "core/base/status.h"

namespace tensord {
namespace {

constexpr int kFirstDescriptor = 3;

// A number from the environment, if it is one and the variable PID_NAME, where it is set, names us.
// What is meant for another process has reached us by inheritance.
template <typename Number>
bool ForUs(const char* name, const char* pid_name, Number& number) {
  const char* text = std::getenv(name);
  if (text == nullptr || !absl::SimpleAtoi(text, &number) || number <= 0) return false;
  const char* pid = std::getenv(pid_name);
  return pid == nullptr || pid == std::to_string(getpid());
}

}  // namespace

std::vector<int> InheritedDescriptors() {
  std::vector<int> result;
  int count;
  if (ForUs("LISTEN_FDS", "LISTEN_PID", count) && std::getenv("LISTEN_PID") != nullptr) {
    for (int fd = kFirstDescriptor; fd < kFirstDescriptor + count; ++fd) {
      fcntl(fd, F_SETFD, FD_CLOEXEC);
      result.push_back(fd);
    }
  }
  for (const char* name : {"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}) unsetenv(name);
  return result;
}

absl::Status NotifyManager(std::string_view lines) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return absl::OkStatus();
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const size_t length = std::strlen(path);
  if (length >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@')) {
    return InvalidArgument("NOTIFY_SOCKET={}: neither a path nor an abstract socket", path);
  }
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Unavailable("NOTIFY_SOCKET={}: {}", path, std::strerror(errno));
  // An abstract name has the length that the address says.
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const ssize_t sent = sendto(fd, lines.data(), lines.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), size);
  const int error = errno;
  close(fd);
  if (sent == static_cast<ssize_t>(lines.size())) return absl::OkStatus();
  return Unavailable("NOTIFY_SOCKET={}: {}", path, std::strerror(error));
}

absl::Status NotifyReloading() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return NotifyManager(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                                   int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000));
}

absl::Duration WatchdogInterval() {
  int64_t microseconds;
  if (!ForUs("WATCHDOG_USEC", "WATCHDOG_PID", microseconds)) return absl::InfiniteDuration();
  return absl::Microseconds(microseconds);
}

Watchdog::Watchdog(absl::Duration interval, std::function<bool(absl::Duration)> alive)
    : interval_(interval), alive_(std::move(alive)), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
}

void Watchdog::Run() {
  pthread_setname_np(pthread_self(), "td-watchdog");
  for (;;) {
    const absl::Time begin = absl::Now();
    if (!alive_(interval_ / 2)) {
      Log("server").error("the daemon does not answer itself interval={}",
                          absl::FormatDuration(interval_));
    } else if (const absl::Status status = NotifyManager("WATCHDOG=1"); !status.ok()) {
      Log("server").warn("{}", Message(status));
    }
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithDeadline(absl::Condition(&stopping_), begin + interval_ / 2);
    if (stopping_) return;
  }
}

}  // namespace tensord
