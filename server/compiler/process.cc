#include "server/compiler/process.h"

#include <absl/time/clock.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/base/status.h"

extern char** environ;

namespace tensord::compiler {
namespace {

// No plan and no kernel is as large.
constexpr uint32_t kMaxFrame = 1 << 30;
constexpr size_t kFirstPiece = 1 << 20;

// A sanitizer's shadow memory would count.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitMemory = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kLimitMemory = false;
#else
constexpr bool kLimitMemory = true;
#endif
#else
constexpr bool kLimitMemory = true;
#endif

bool Ready(int fd, short events, absl::Time deadline) {
  for (;;) {
    int wait = -1;
    if (deadline != absl::InfiniteFuture()) {
      const absl::Duration rest = std::max(deadline - absl::Now(), absl::ZeroDuration());
      wait = static_cast<int>(
          std::min<int64_t>(absl::ToInt64Milliseconds(rest + absl::Milliseconds(1)), INT_MAX));
      if (rest == absl::ZeroDuration()) wait = 0;
    }
    pollfd one = {.fd = fd, .events = events, .revents = 0};
    const int got = poll(&one, 1, wait);
    if (got < 0 && errno == EINTR) continue;
    return got > 0;
  }
}

bool WriteAll(int fd, std::string_view data, absl::Time deadline) {
  while (!data.empty()) {
    if (!Ready(fd, POLLOUT, deadline)) return false;
    const ssize_t sent = send(fd, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent <= 0) return false;
    data.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool ReadAll(int fd, char* to, size_t size, absl::Time deadline) {
  while (size > 0) {
    if (!Ready(fd, POLLIN, deadline)) return false;
    const ssize_t got = recv(fd, to, size, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

bool WriteFrame(int fd, const google::protobuf::MessageLite& message, absl::Time deadline) {
  const size_t size = message.ByteSizeLong();
  if (size > kMaxFrame) return false;
  const auto header = static_cast<uint32_t>(size);
  std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
  return message.AppendToString(&frame) && WriteAll(fd, frame, deadline);
}

bool ReadFrame(int fd, google::protobuf::MessageLite& message, absl::Time deadline) {
  uint32_t size;
  if (!ReadAll(fd, reinterpret_cast<char*>(&size), sizeof(size), deadline) || size > kMaxFrame) {
    return false;
  }
  // Memory is taken for what has come, not for what is said to come.
  std::string text;
  while (text.size() < size) {
    const size_t have = text.size();
    text.resize(std::min<size_t>(size, std::max<size_t>(2 * have, kFirstPiece)));
    if (!ReadAll(fd, text.data() + have, text.size() - have, deadline)) return false;
  }
  return message.ParseFromString(text);
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const std::vector<std::string>& arguments,
                                                        uint64_t memory_bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Unavailable("a process to compile in can't be started: socketpair: {}",
                       std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kWorkerSocket);
  // It must keep no connection of a client open.
  posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerSocket + 1);
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // Signals that are blocked stay so: a worker ends with its socket.
  pid_t pid;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return Unavailable("a process to compile in can't be started: {}", std::strerror(error));
  }
  if (kLimitMemory && memory_bytes > 0) {
    const rlimit limit = {.rlim_cur = memory_bytes, .rlim_max = memory_bytes};
    prlimit(pid, RLIMIT_DATA, &limit, nullptr);
  }
  return std::unique_ptr<Process>(new Process(pid, ends[0]));
}

Process::~Process() {
  End();
  close(fd_);
}

bool Process::IsIdle() const {
  pollfd one = {.fd = fd_, .events = POLLIN, .revents = 0};
  return poll(&one, 1, 0) == 0;
}

void Process::LimitProcessorTime(absl::Duration more) const {
  if (more == absl::InfiniteDuration()) return;
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return;
  const absl::Duration until = absl::DurationFromTimespec(used) + more;
  const auto seconds = static_cast<rlim_t>(absl::ToInt64Seconds(until) + 1);
  // The soft limit is a signal that ends it.
  const rlimit limit = {.rlim_cur = seconds, .rlim_max = RLIM_INFINITY};
  prlimit(pid_, RLIMIT_CPU, &limit, nullptr);
}

bool Process::Send(const Request& request, absl::Time deadline) {
  absl::MutexLock lock(&sending_);
  return WriteFrame(fd_, request, deadline);
}

bool Process::Receive(Reply& reply, absl::Time deadline) { return ReadFrame(fd_, reply, deadline); }

std::optional<int> Process::End() {
  if (std::exchange(ended_, true)) return std::nullopt;
  // Who has closed the socket is about to end by itself, and how is worth knowing.
  int status = 0;
  pollfd one = {.fd = fd_, .events = 0, .revents = 0};
  const bool hung_up = poll(&one, 1, 0) > 0 && (one.revents & POLLHUP) != 0;
  const absl::Time patience = absl::Now() + (hung_up ? absl::Seconds(5) : absl::ZeroDuration());
  for (;;) {
    const pid_t got = waitpid(pid_, &status, WNOHANG);
    if (got == pid_) return status;
    if (got < 0 && errno != EINTR) return std::nullopt;
    if (absl::Now() >= patience) break;
    absl::SleepFor(absl::Milliseconds(1));
  }
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  return std::nullopt;
}

}  // namespace tensord::compiler
