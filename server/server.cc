#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "server/metrics/metered_runtime.h"

namespace tensord {
namespace {

int CompileThreads(int wanted) {
  return wanted > 0 ? wanted : std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
}

// What clients may take to read how their calls end.
constexpr absl::Duration kLastWords = absl::Milliseconds(500);

void Configure(grpc::ServerBuilder& builder, const SessionLimits& limits) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);
  // A half-open connection is noticed in 15 seconds; clients probe as well. Pings must go on while
  // no data flows.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  // Else a second daemon could share the port, and half the clients.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

// gRPC brings reflection, which is a switch of the process.
void EnablePlugins() {
  static const bool once = [] {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(once);
}

bool IsDone(Device* device) {
  return device->timeline().Reached(device->timeline().last_reserved());
}

// Bulk data goes by gRPC's sockets where there is none.
std::unique_ptr<SegmentSocket> ListenForSegments() {
  absl::StatusOr<std::unique_ptr<SegmentSocket>> socket = SegmentSocket::Listen();
  if (socket.ok()) return *std::move(socket);
  Log("server").warn("no shared memory: {}", Message(socket.status()));
  return nullptr;
}

// Steps are noted only while somebody asks for them: enough for an average of 64 a run.
std::unique_ptr<TraceRing> RingOf(int runs) {
  if (runs == 0) return nullptr;
  const auto records = static_cast<size_t>(runs);
  return std::make_unique<TraceRing>(TraceRing::Limits{.records = records, .steps = 64 * records});
}

CallObserver ObserverOf(Metrics* metrics) {
  if (metrics == nullptr) return nullptr;
  return [metrics](std::string_view method, absl::Duration duration, absl::StatusCode code) {
    metrics->CallEnded(method, duration, code);
  };
}

}  // namespace

Server::Server(const ServerOptions& options, std::unique_ptr<Runtime> runtime,
               std::unique_ptr<SpillStore> spill_store)
    : metrics_(options.metrics_listen.empty() ? nullptr : std::make_unique<Metrics>()),
      trace_(RingOf(options.trace_runs)),
      compile_pool_("td-compile", CompileThreads(options.compile_threads)),
      work_pool_("td-work", 2),
      files_pool_("td-files", 1),
      scheduler_(options.scheduling),
      ledger_(options.max_user_bytes),
      spill_store_(std::move(spill_store)),
      runtime_(metrics_ ? std::make_unique<MeteredRuntime>(std::move(runtime), *metrics_)
                        : std::move(runtime)),
      stall_watch_(std::make_unique<StallWatch>(runtime_->devices(), options.stalls)),
      publications_(ledger_, options.sharing),
      spiller_(spill_store_ ? std::make_unique<Spiller>(*spill_store_, ledger_) : nullptr),
      kernel_times_(options.console_listen.empty() ? nullptr : std::make_unique<KernelTimes>()),
      segment_socket_(ListenForSegments()),
      registry_({.runtime = *runtime_,
                 .compile_pool = compile_pool_,
                 .work_pool = work_pool_,
                 .scheduler = scheduler_,
                 .publications = publications_,
                 .segment_socket = segment_socket_ ? segment_socket_->name() : "",
                 .ledger = ledger_,
                 .programs = programs_,
                 .contents = contents_,
                 .limits = options.limits,
                 .trace = trace_.get(),
                 .spiller = spiller_.get(),
                 .kernel_times = kernel_times_.get()}),
      calls_(ObserverOf(metrics_.get())),
      authenticator_(options.auth),
      session_service_(registry_, calls_, authenticator_, files_pool_),
      admin_service_(registry_, calls_, authenticator_, files_pool_, options.drain),
      health_service_(*runtime_, calls_, options.probes),
      trace_service_(registry_, calls_, authenticator_),
      state_metrics_(std::make_shared<StateMetrics>(
          registry_, [this](size_t device) { return health_service_.Last(device); },
          options.metrics_sessions)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::unique_ptr<Runtime> runtime) {
  std::unique_ptr<SpillStore> spill_store;
  if (options.spilling.host_bytes > 0 || !options.spilling.folder.empty()) {
    TD_ASSIGN_OR_RETURN(spill_store, SpillStore::Create(options.spilling));
  }
  std::unique_ptr<Server> server(new Server(options, std::move(runtime), std::move(spill_store)));
  if (!options.state_dir.empty()) {
    TD_RETURN_IF_ERROR(server->publications_.Restore(options.state_dir, *server->runtime_));
  }
  TD_RETURN_IF_ERROR(server->ServeMetrics(options));
  TD_RETURN_IF_ERROR(server->ServeConsole(options));
  TD_RETURN_IF_ERROR(server->Listen(options));
  return server;
}

absl::Status Server::ServeMetrics(const ServerOptions& options) {
  if (metrics_ == nullptr) return absl::OkStatus();
  TD_ASSIGN_OR_RETURN(const ListenAddress address,
                      ParseMetricsAddress(options.metrics_listen, options.insecure));
  TD_ASSIGN_OR_RETURN(metrics_endpoint_,
                      MetricsEndpoint::Start(address, {state_metrics_, metrics_->registry()}));
  return absl::OkStatus();
}

absl::Status Server::ServeConsole(const ServerOptions& options) {
  if (options.console_listen.empty()) return absl::OkStatus();
  TD_ASSIGN_OR_RETURN(const ListenAddress address,
                      ParseConsoleAddress(options.console_listen, options.insecure));
  TD_ASSIGN_OR_RETURN(console_, Console::Start(address, {.registry = registry_,
                                                         .admin = admin_service_,
                                                         .authenticator = authenticator_,
                                                         .kernel_times = *kernel_times_,
                                                         .log = options.console_log}));
  admin_service_.SetConsole([this](const Caller& caller) { return console_->NewLink(caller); });
  return absl::OkStatus();
}

absl::Status Server::Listen(const ServerOptions& options) {
  EnablePlugins();
  grpc::ServerBuilder builder;
  Configure(builder, options.limits);
  builder.RegisterService(&session_service_);
  builder.RegisterService(&admin_service_);
  builder.RegisterService(&health_service_);
  builder.RegisterService(&trace_service_);
  const bool remote = options.insecure || (options.tls && options.auth.proof_required);
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (options.tls) {
    TD_ASSIGN_OR_RETURN(tls_, TlsCertificates::Read(*options.tls));
    credentials = tls_->credentials();
  }
  const auto take = [&](int fd, bool allowed) -> absl::Status {
    TD_ASSIGN_OR_RETURN(auto socket, ListeningSocket::Take(fd, allowed));
    socket->Prepare(builder, credentials);
    addresses_.push_back(socket->address());
    accepting_.push_back(std::move(socket));
    return absl::OkStatus();
  };
  struct Bound {  // TCP
    std::string host;
    size_t address;  // its place in addresses_
    int port = 0;    // gRPC writes it here when it starts
  };
  std::vector<Bound> bound;
  bound.reserve(options.listen.size());
  for (const std::string& each : options.listen) {
    TD_ASSIGN_OR_RETURN(const ListenAddress address,
                        ParseListenAddress(each, remote, options.tls.has_value()));
    if (address.kind == ListenAddress::Kind::kUnix) {
      const bool shared = (options.socket_mode & 0077) != 0;
      TD_ASSIGN_OR_RETURN(UnixSocket socket, UnixSocket::Claim(address.path, shared));
      TD_ASSIGN_OR_RETURN(const int fd, socket.Listen(options.socket_mode));
      sockets_.push_back(std::move(socket));
      TD_RETURN_IF_ERROR(take(fd, /*allowed=*/true));
    } else {
      Bound& tcp = bound.emplace_back(Bound{address.host, addresses_.size()});
      addresses_.push_back(each);
      builder.AddListeningPort(HostAndPort(address.host, address.port), credentials, &tcp.port);
    }
  }
  for (const int fd : options.inherited) TD_RETURN_IF_ERROR(take(fd, remote));
  grpc_ = builder.BuildAndStart();
  for (const Bound& tcp : bound) {
    std::string& address = addresses_[tcp.address];
    if (grpc_ == nullptr || tcp.port == 0) {
      return Unavailable("cannot listen on {}: is the address in use?", address);
    }
    address = HostAndPort(tcp.host, tcp.port);
  }
  if (grpc_ == nullptr) return Internal("gRPC did not start");
  admin_service_.SetListening(addresses_);
  for (const auto& socket : accepting_) socket->Accept(*grpc_);
  if (segment_socket_) segment_socket_->Serve(registry_);
  return absl::OkStatus();
}

Server::~Server() { Drain(absl::ZeroDuration()); }

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc_->InProcessChannel(arguments);
}

std::function<bool(absl::Duration)> Server::Probe() {
  return [channel = InProcessChannel()](absl::Duration patience) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + patience));
    v1::PingReply reply;
    return v1::AdminService::NewStub(channel)->Ping(&context, {}, &reply).ok();
  };
}

bool Server::Drain(absl::Duration timeout) {
  if (drained_) return true;
  drained_ = true;
  const absl::Time deadline = SteadyNow() + timeout;
  bool finished = true;
  const uint64_t given_up_before = registry_.gave_up();
  if (grpc_ != nullptr) {
    health_service_.Drain();
    // Who connects from here on waits for the next daemon.
    for (const auto& socket : accepting_) socket->Stop();
    if (segment_socket_) segment_socket_->Stop();
    registry_.GoAway("the daemon is shutting down", timeout);
    // Looks again and again rather than being told: it happens once in a daemon's life.
    const auto all_idle = [this] {
      const auto sessions = registry_.List();
      const auto devices = runtime_->devices();
      return std::all_of(sessions.begin(), sessions.end(),
                         [](const auto& session) { return session->Idle(); }) &&
             std::all_of(devices.begin(), devices.end(), IsDone);  // also for those who have left
    };
    while (!(finished = all_idle()) && SteadyNow() < deadline)
      absl::SleepFor(absl::Milliseconds(2));
    const absl::Status last_word = Unavailable("the daemon is shutting down");
    for (const auto& session : registry_.List()) registry_.GiveUp(*session, last_word);
    // Now, or before: a lease may have ended meanwhile.
    finished = finished && registry_.gave_up() == given_up_before;
    for (Device* device : runtime_->devices()) {
      if (IsDone(device)) continue;
      Log("server").warn("gave up unfinished work device={} lists={}", device->name(),
                         device->timeline().last_reserved() -
                             device->timeline().signal()->value.load(std::memory_order_relaxed));
    }
    health_service_.Stop();
    // In-process channels break off at a shutdown what their clients have not read yet.
    const absl::Time end = absl::Now() + kLastWords;
    calls_.AwaitNone(end);
    grpc_->Shutdown(absl::ToChronoTime(end));
    grpc_->Wait();
    // A stream that was opened while all this happened.
    for (const auto& session : registry_.List()) registry_.Close(*session);
    calls_.AwaitNone();
    grpc_ = nullptr;
  }
  health_service_.Stop();
  metrics_endpoint_ = nullptr;
  if (spiller_) spiller_->Stop();
  console_ = nullptr;
  // Pools stop before the runtime that they use, and are still there for its devices' last words.
  compile_pool_.Stop();
  work_pool_.Stop();
  stall_watch_ = nullptr;
  files_pool_.Stop();
  publications_.Clear();
  runtime_ = nullptr;
  Log("server").info("ended all_work_finished={}", finished);
  return finished;
}

}  // namespace tensord
