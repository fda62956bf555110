// HTTP for Prometheus: GET /metrics.
#pragma once

#include <absl/status/statusor.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <memory>
#include <string>
#include <vector>

#include "server/listen.h"

namespace tensord {

class MetricsEndpoint {
 public:
  // Serves what the collectables say, until it dies.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const ListenAddress& address,
      std::vector<std::shared_ptr<prometheus::Collectable>> collectables);

  ~MetricsEndpoint();

  const std::string& address() const { return address_; }  // with the port that port 0 became

 private:
  // The exposer knows them weakly.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string address_;
  ListenAddress bound_;
};

}  // namespace tensord
