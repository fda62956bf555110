// What operators ask: status, devices, sessions, the cache.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/tensord/v1/admin.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/service/call.h"
#include "server/session/registry.h"
#include "server/session/worker_pool.h"

namespace tensord {

class AdminServiceImpl final : public v1::AdminService::CallbackService {
 public:
  // `drain` begins to drain the daemon, without waiting; may be null where nothing can.
  AdminServiceImpl(SessionRegistry& registry, CallCount& calls, const Authenticator& authenticator,
                   WorkerPool& files, std::function<void()> drain)
      : registry_(registry),
        calls_(calls),
        authenticator_(authenticator),
        files_(files),
        drain_(std::move(drain)) {}

  void SetListening(std::vector<std::string> addresses) {
    absl::MutexLock lock(&mu_);
    listening_ = std::move(addresses);
  }
  // Makes a link to the console for a caller. Before the server serves.
  void SetConsole(std::function<std::string(const Caller&)> link) {
    console_link_ = std::move(link);
  }

  // What the calls below say, for callers who come another way.
  void Status(v1::GetStatusReply* reply);
  void Devices(v1::ListDevicesReply* reply);
  void Sessions(const Caller& caller, v1::ListSessionsReply* reply);
  absl::Status Kill(const Caller& caller, const v1::KillSessionRequest& request,
                    v1::KillSessionReply* reply);
  absl::Status Tensors(const Caller& caller, const v1::ListTensorsRequest& request,
                       v1::ListTensorsReply* reply);
  absl::Status Explain(const Caller& caller, const v1::ExplainSessionRequest& request,
                       v1::ExplainReply* reply);
  void Memory(const Caller& caller, v1::GetMemoryReply* reply);
  void Cache(v1::GetCacheStatsReply* reply);

  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context,
                                 const v1::PingRequest* request, v1::PingReply* reply) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusReply* reply) override;
  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context,
                                        const v1::ListDevicesRequest* request,
                                        v1::ListDevicesReply* reply) override;
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsReply* reply) override;
  grpc::ServerUnaryReactor* KillSession(grpc::CallbackServerContext* context,
                                        const v1::KillSessionRequest* request,
                                        v1::KillSessionReply* reply) override;
  grpc::ServerUnaryReactor* ListTensors(grpc::CallbackServerContext* context,
                                        const v1::ListTensorsRequest* request,
                                        v1::ListTensorsReply* reply) override;
  grpc::ServerUnaryReactor* ListPublished(grpc::CallbackServerContext* context,
                                          const v1::ListPublishedRequest* request,
                                          v1::ListPublishedReply* reply) override;
  grpc::ServerUnaryReactor* Unpublish(grpc::CallbackServerContext* context,
                                      const v1::UnpublishRequest* request,
                                      v1::UnpublishReply* reply) override;
  grpc::ServerUnaryReactor* ExplainSession(grpc::CallbackServerContext* context,
                                           const v1::ExplainSessionRequest* request,
                                           v1::ExplainReply* reply) override;
  grpc::ServerUnaryReactor* GetMemory(grpc::CallbackServerContext* context,
                                      const v1::GetMemoryRequest* request,
                                      v1::GetMemoryReply* reply) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request, v1::DrainReply* reply) override;
  grpc::ServerUnaryReactor* GetCacheStats(grpc::CallbackServerContext* context,
                                          const v1::GetCacheStatsRequest* request,
                                          v1::GetCacheStatsReply* reply) override;
  grpc::ServerUnaryReactor* ClearCache(grpc::CallbackServerContext* context,
                                       const v1::ClearCacheRequest* request,
                                       v1::ClearCacheReply* reply) override;
  grpc::ServerUnaryReactor* OpenConsole(grpc::CallbackServerContext* context,
                                        const v1::OpenConsoleRequest* request,
                                        v1::OpenConsoleReply* reply) override;

 private:
  SessionRegistry& registry_;
  CallCount& calls_;
  const Authenticator& authenticator_;
  WorkerPool& files_;  // of the session service
  const std::function<void()> drain_;
  const absl::Time started_ = absl::Now();
  absl::Mutex mu_;
  std::vector<std::string> listening_ ABSL_GUARDED_BY(mu_);
  std::function<std::string(const Caller&)> console_link_;  // null: there is none
};

}  // namespace tensord
