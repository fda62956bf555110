// grpc.health.v1: the daemon under the empty name, and each device as "tensord.device.0" and so on.
// Check runs a probe; List and Watch tell what the last one said, Watch again when that changes.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "server/health/prober.h"
#include "server/service/call.h"

namespace tensord {

class HealthServiceImpl final : public grpc::health::v1::Health::CallbackService {
 public:
  HealthServiceImpl(Runtime& runtime, CallCount& calls, ProberOptions options);

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const grpc::health::v1::HealthListRequest* request,
                                 grpc::health::v1::HealthListResponse* reply) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

  // All is NOT_SERVING from now on.
  void Drain();
  // Ends the calls that watch.
  void Stop();
  // What the last probe of a device said; nothing before the first.
  std::optional<absl::Status> Last(size_t device) const { return prober_.Last(device); }

 private:
  class WatchCall;
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // The numbers of the devices that the name stands for; nothing if it is unknown.
  std::optional<std::vector<size_t>> DevicesOf(const std::string& service) const;
  // Nothing as long as it is not known.
  std::optional<Status> Known(const std::string& service);
  void Changed();

  CallCount& calls_;
  absl::Mutex mu_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<WatchCall>> watchers_ ABSL_GUARDED_BY(mu_);
  Prober prober_;  // last: it calls the rest
};

}  // namespace tensord
