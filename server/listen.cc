#include "server/listen.h"

#include <absl/strings/numbers.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr size_t kMaxPath = sizeof(sockaddr_un{}.sun_path) - 1;

absl::Status BadAddress(std::string_view text, std::string_view why) {
  return InvalidArgument("{}: {}; addresses look like unix:/path/to.sock or localhost:7070", text,
                         why);
}

absl::StatusOr<ListenAddress> ParseUnix(std::string_view text, std::string_view path) {
  if (path.empty()) return BadAddress(text, "the path is empty");
  ListenAddress address{.kind = ListenAddress::Kind::kUnix};
  std::error_code error;
  address.path = std::filesystem::absolute(path, error).lexically_normal();
  if (error) return BadAddress(text, error.message());
  if (address.path.size() > kMaxPath) {
    return BadAddress(text, fmt::format("the path has {} bytes, sockets allow {}",
                                        address.path.size(), kMaxPath));
  }
  return address;
}

// Whether a daemon answers there. A socket file without one refuses connections.
bool SomebodyListens(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

absl::Status AlreadyListens(const std::string& path) {
  return AlreadyExists(
      "a daemon listens on unix:{} already: use it, stop it, or choose another path with --listen",
      path);
}

// Locks the file, also against a daemon that removes it at this moment.
absl::StatusOr<int> Lock(const std::string& path, const std::string& socket_path) {
  for (;;) {
    const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return Unavailable("cannot open {}: {}", path, std::strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      return AlreadyListens(socket_path);
    }
    struct stat locked, named;
    if (fstat(fd, &locked) == 0 && stat(path.c_str(), &named) == 0 &&
        locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) {
      return fd;
    }
    close(fd);
  }
}

absl::StatusOr<ListenAddress> Parse(std::string_view text, bool allow_remote, std::string_view what,
                                    std::string_view instead) {
  std::string_view rest = text;
  if (rest.substr(0, 5) == "unix:") return ParseUnix(text, rest.substr(5));
  if (rest.substr(0, 4) == "tcp:") rest.remove_prefix(4);
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(text, "there is no port");
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddress(text, "an IPv6 address stands in brackets");
  }
  if (host.empty()) return BadAddress(text, "there is no host");
  ListenAddress address{.kind = ListenAddress::Kind::kTcp, .path = {}, .host = std::string(host)};
  if (!absl::SimpleAtoi(absl::string_view(port.data(), port.size()), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return BadAddress(text, "the port is not a number from 0 to 65535");
  }
  if (!IsLoopback(host) && !allow_remote) {
    return FailedPrecondition(
        "{}: other machines could connect, and {}; listen on localhost{}, or add --insecure if "
        "the network is trusted",
        text, what, instead);
  }
  return address;
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text, bool allow_remote,
                                                 bool encrypted) {
  TD_ASSIGN_OR_RETURN(
      ListenAddress address,
      encrypted ? Parse(text, allow_remote, "anybody would be let in",
                        ", or give --auth-tokens or --tls-client-ca")
                : Parse(text, allow_remote, "nothing would be encrypted, and anybody let in",
                        ", or give --tls-cert and --auth-tokens or --tls-client-ca"),
      "--listen");
  return address;
}

absl::StatusOr<ListenAddress> ParseMetricsAddress(std::string_view text, bool insecure) {
  TD_ASSIGN_OR_RETURN(ListenAddress address,
                      Parse(text, insecure, "metrics are for everybody, in plain text", ""),
                      "--metrics-listen");
  if (address.kind == ListenAddress::Kind::kTcp) return address;
  return InvalidArgument("--metrics-listen: {}: Prometheus needs HOST:PORT, not a unix socket",
                         text);
}

absl::StatusOr<ListenAddress> ParseConsoleAddress(std::string_view text, bool insecure) {
  TD_ASSIGN_OR_RETURN(
      ListenAddress address,
      Parse(text, insecure, "what the console shows and who asks would not be encrypted",
            " and reach it through ssh -L"),
      "--console-listen");
  if (address.kind == ListenAddress::Kind::kTcp) return address;
  return InvalidArgument("--console-listen: {}: browsers need HOST:PORT, not a unix socket", text);
}

bool IsLoopback(std::string_view host) {
  in_addr ip;  // only a number: 127.example.org may be anywhere
  return host == "localhost" || host == "::1" ||
         (inet_pton(AF_INET, std::string(host).c_str(), &ip) == 1 && ntohl(ip.s_addr) >> 24 == 127);
}

std::string HostAndPort(std::string_view host, int port) {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

absl::StatusOr<UnixSocket> UnixSocket::Claim(std::string path, bool shared) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) {
    std::filesystem::create_directories(folder.parent_path(), error);
    // The second, because the daemon's umask hides its files from others.
    const bool made = mkdir(folder.c_str(), 0700) == 0;
    if ((!made && errno != EEXIST) || (made && shared && chmod(folder.c_str(), 0755) != 0)) {
      return Unavailable("cannot make folder {}: {}", folder.string(), std::strerror(errno));
    }
  }
  // In /tmp anybody might have made the folder first, and could then stand in for the daemon.
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) {
    return Unavailable("cannot read folder {}: {}", folder.string(), std::strerror(errno));
  }
  if (info.st_uid != geteuid() && (info.st_mode & S_ISVTX) == 0 && info.st_uid != 0) {
    return FailedPrecondition("folder {} belongs to another user: choose a path of your own",
                              folder.string());
  }
  TD_ASSIGN_OR_RETURN(const int lock, Lock(path + ".lock", path));
  UnixSocket claimed("", lock);
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      return AlreadyExists("{} exists and is not a socket: choose another path with --listen",
                           path);
    }
    if (SomebodyListens(path)) return AlreadyListens(path);
    unlink(path.c_str());
  }
  claimed.path_ = std::move(path);
  return claimed;
}

UnixSocket::UnixSocket(UnixSocket&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

UnixSocket& UnixSocket::operator=(UnixSocket&& other) noexcept {
  if (this != &other) {
    Release();
    path_ = std::move(other.path_);
    lock_ = std::exchange(other.lock_, -1);
  }
  return *this;
}

UnixSocket::~UnixSocket() { Release(); }

absl::StatusOr<int> UnixSocket::Listen(unsigned mode) const {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path_.c_str(), mode) != 0 || listen(fd, SOMAXCONN) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return Unavailable("cannot listen on unix:{}: {}", path_, std::strerror(error));
  }
  return fd;
}

void UnixSocket::Release() {
  if (lock_ < 0) return;
  if (!path_.empty()) {
    unlink(path_.c_str());
    unlink((path_ + ".lock").c_str());
  }
  close(lock_);
  lock_ = -1;
}

}  // namespace tensord
