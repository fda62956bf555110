// Addresses that the daemon may listen on, and the files of its unix sockets.
//
//   unix:/run/user/1000/tensord.sock     unix:./t.sock     localhost:7070     [::1]:0
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace tensord {

struct ListenAddress {
  enum class Kind { kUnix, kTcp };
  Kind kind = Kind::kUnix;
  std::string path;  // unix: absolute
  std::string host;  // TCP: without brackets
  int port = 0;      // TCP; 0: any free one
};

// InvalidArgument says what an address looks like; FailedPrecondition for a TCP address that other
// machines can reach, unless `allow_remote`: they are kept out in another way, or are trusted.
// `encrypted` is for what to say: there is a certificate, but nobody has to prove who they are.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text, bool allow_remote,
                                                 bool encrypted = false);
// The same of --metrics-listen, which takes no unix socket and knows nobody.
absl::StatusOr<ListenAddress> ParseMetricsAddress(std::string_view text, bool insecure);

// And of --console-listen, which knows who asks, but is not encrypted.
absl::StatusOr<ListenAddress> ParseConsoleAddress(std::string_view text, bool insecure);

bool IsLoopback(std::string_view host);
// "HOST:PORT", as clients dial it.
std::string HostAndPort(std::string_view host, int port);

// The right to listen on a path: a lock on a file beside the socket, held while this lives. The
// destructor removes both files.
class UnixSocket {
 public:
  // Makes the folder if it isn't there, of mode 0700 or for all if `shared`, and removes the socket
  // of a daemon that has died.
  // AlreadyExists if one is alive there, or if something else than a socket has that name.
  static absl::StatusOr<UnixSocket> Claim(std::string path, bool shared = false);
  UnixSocket(UnixSocket&& other) noexcept;
  UnixSocket& operator=(UnixSocket&& other) noexcept;
  ~UnixSocket();

  const std::string& path() const { return path_; }
  // Makes the socket, of that mode from the moment on which it can be connected to; returns a
  // descriptor that the caller owns.
  absl::StatusOr<int> Listen(unsigned mode) const;

 private:
  UnixSocket(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  void Release();

  std::string path_;
  int lock_ = -1;  // descriptor of the lock file
};

}  // namespace tensord
