#include "server/http_stop.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

namespace tensord {
namespace {

// Connects and hangs up.
void Knock(const ListenAddress& address) {
  addrinfo* found = nullptr;
  const addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0)
    return;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    // It needn't succeed: the port may be closed already.
    static_cast<void>(connect(fd, found->ai_addr, found->ai_addrlen));
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

void StopHttp(const ListenAddress& address, const std::function<void()>& stop) {
  std::atomic<bool> stopped = false;
  const std::jthread stopping([&] {
    stop();
    stopped = true;
  });
  while (!stopped) {
    Knock(address);
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace tensord
