#include "server/metrics/endpoint.h"

#include <exception>
#include <utility>

#include "core/base/status.h"
#include "server/http_stop.h"

namespace tensord {

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

MetricsEndpoint::~MetricsEndpoint() {
  StopHttp(bound_, [this] { exposer_ = nullptr; });
}

}  // namespace tensord
