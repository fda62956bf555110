#include "server/metrics/endpoint.h"

#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "core/base/status.h"

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

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const ListenAddress& address,
    std::vector<std::shared_ptr<prometheus::Collectable>> collectables) {
  auto endpoint = std::make_unique<MetricsEndpoint>();
  endpoint->collectables_ = std::move(collectables);
  // The HTTP server takes numbers only.
  const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  const std::string wanted = HostAndPort(host, address.port);
  try {
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(wanted);
  } catch (const std::exception& error) {
    return Unavailable("cannot serve metrics on {}: is the address in use? ({})", wanted,
                       error.what());
  }
  for (const auto& collectable : endpoint->collectables_) {
    endpoint->exposer_->RegisterCollectable(collectable);
  }
  endpoint->bound_ = {.kind = ListenAddress::Kind::kTcp,
                      .host = host,
                      .port = endpoint->exposer_->GetListeningPorts().at(0)};
  endpoint->address_ = HostAndPort(host, endpoint->bound_.port);
  return endpoint;
}

// The HTTP server looks every two seconds whether it is to end, and whenever somebody connects. A
// daemon that ends shouldn't take so long.
MetricsEndpoint::~MetricsEndpoint() {
  std::atomic<bool> stopped = false;
  const std::jthread stop([&] {
    exposer_ = nullptr;
    stopped = true;
  });
  while (!stopped) {
    Knock(bound_);
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace tensord
