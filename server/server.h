// The daemon as an object: a runtime behind gRPC, on one or more addresses.
//
//   TD_ASSIGN_OR_RETURN(auto server, Server::Start(options, std::move(runtime)));
//   ... server->addresses() ...
//   server->Drain(absl::Seconds(30));
//
// Not thread-safe: started and drained by one thread.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/runtime.h"
#include "server/auth/authenticator.h"
#include "server/auth/tls.h"
#include "server/console/console.h"
#include "server/console/log_ring.h"
#include "server/health/health_service.h"
#include "server/listen.h"
#include "server/listening_socket.h"
#include "server/metrics/endpoint.h"
#include "server/metrics/kernel_times.h"
#include "server/metrics/metrics.h"
#include "server/metrics/state.h"
#include "server/scheduler/scheduler.h"
#include "server/segment_socket.h"
#include "server/service/admin_service.h"
#include "server/service/session_service.h"
#include "server/service/trace_service.h"
#include "server/session/registry.h"
#include "server/session/spiller.h"
#include "server/session/worker_pool.h"
#include "server/sharing/publications.h"
#include "server/stall_watch.h"
#include "server/trace/trace_ring.h"

namespace tensord {

struct ServerOptions {
  std::vector<std::string> listen;  // see listen.h; none: in-process channels only
  std::vector<int> inherited;       // sockets that listen already; the server owns them
  unsigned socket_mode = 0600;      // of the unix sockets of `listen`
  bool insecure = false;            // may listen where other machines can connect, whoever they are
  std::optional<TlsFiles> tls;      // of TCP; without them it is plain
  AuthOptions auth;
  std::string metrics_listen;  // HOST:PORT for Prometheus; empty: nothing is measured
  int metrics_sessions = 20;   // that have metrics of their own
  std::string console_listen;  // HOST:PORT for browsers; empty: no console
  std::shared_ptr<const LogRing> console_log = nullptr;  // shared with the loggers
  SessionLimits limits;
  uint64_t max_user_bytes = uint64_t{1} << 50;  // tensors of all sessions of a user
  SchedulerOptions scheduling;
  StallLimits stalls;
  SharingLimits sharing;
  std::string state_dir;  // where published tensors are kept; empty: in memory only
  ProberOptions probes;   // of the devices' health
  // Begins what ends in Drain(), without waiting: an operator has asked for it. Null: nobody may.
  std::function<void()> drain;
  int compile_threads = 0;  // 0: one a core
  int trace_runs = 4096;    // runs, transfers and compilations that traces go back; 0: none
  SpillOptions spilling;    // without room for anything: what finds no memory is refused
};

class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::unique_ptr<Runtime> runtime);
  ~Server();

  // As clients dial them: with the port that port 0 became.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // Empty without metrics.
  std::string metrics_address() const {
    return metrics_endpoint_ ? metrics_endpoint_->address() : "";
  }
  // Empty without a console.
  std::string console_url() const { return console_ ? console_->url() : ""; }
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // What may change while it serves.
  void SetMaxSessionBytes(uint64_t bytes) { registry_.SetMaxSessionBytes(bytes); }
  void SetMaxUserBytes(uint64_t bytes) { ledger_.SetUserQuota(bytes); }
  void SetTokens(TokenTable tokens) { authenticator_.SetTokens(std::move(tokens)); }
  // Certificates and keys of TLS, of connections that come later; nothing without TLS.
  absl::Status ReadTlsAgain() { return tls_ ? tls_->ReadAgain() : absl::OkStatus(); }
  void SetMetricsSessions(int count) { state_metrics_->SetMaxSessions(count); }

  // A function that any thread may call: whether a call to the daemon comes back within `patience`,
  // and so threads take up work. False once it has been drained.
  std::function<bool(absl::Duration patience)> Probe();

  // Tells health checks and sessions that the daemon goes away, refuses new work, finishes what was
  // accepted within `timeout`, and ends. Returns whether all was finished, and nothing given up.
  bool Drain(absl::Duration timeout);

 private:
  Server(const ServerOptions& options, std::unique_ptr<Runtime> runtime,
         std::unique_ptr<SpillStore> spill_store);
  absl::Status Listen(const ServerOptions& options);
  absl::Status ServeMetrics(const ServerOptions& options);
  absl::Status ServeConsole(const ServerOptions& options);

  // In this order: what stands first outlives what follows.
  std::unique_ptr<Metrics> metrics_;        // null: nothing is measured
  const std::unique_ptr<TraceRing> trace_;  // null: nothing is noted
  WorkerPool compile_pool_;
  WorkerPool work_pool_;
  WorkerPool files_pool_;
  Scheduler scheduler_;
  MemoryLedger ledger_;
  ProgramIndex programs_;
  ContentIndex contents_;
  std::unique_ptr<SpillStore> spill_store_;  // null: nothing is spilled
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<StallWatch> stall_watch_;
  Publications publications_;
  const std::unique_ptr<Spiller> spiller_;               // null without a store
  const std::unique_ptr<KernelTimes> kernel_times_;      // null: there is no console
  const std::unique_ptr<SegmentSocket> segment_socket_;  // null: none could be opened
  SessionRegistry registry_;
  CallCount calls_;
  Authenticator authenticator_;
  SessionServiceImpl session_service_;
  AdminServiceImpl admin_service_;
  HealthServiceImpl health_service_;
  TraceServiceImpl trace_service_;
  const std::shared_ptr<StateMetrics> state_metrics_;  // shared with the endpoint
  std::unique_ptr<MetricsEndpoint> metrics_endpoint_;
  std::unique_ptr<Console> console_;  // null: there is none
  std::unique_ptr<TlsCertificates> tls_;
  std::vector<UnixSocket> sockets_;
  std::vector<std::string> addresses_;
  std::unique_ptr<grpc::Server> grpc_;
  std::vector<std::unique_ptr<ListeningSocket>> accepting_;
  bool drained_ = false;
};

}  // namespace tensord
