// The daemon's process: flags, log, devices, signals.
#include <absl/strings/str_split.h>
#include <absl/time/time.h>
#include <grpc/support/log.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/registry.h"
#include "core/base/log.h"
#include "core/base/log_limiter.h"
#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/runtime/runtime.h"
#include "core/wire/handle.h"
#include "server/auth/tls.h"
#include "server/auth/tokens.h"
#include "server/compiler/compiler.h"
#include "server/compiler/worker.h"
#include "server/console/log_ring.h"
#include "server/flags.h"
#include "server/memory/spill_store.h"
#include "server/server.h"
#include "server/systemd.h"

namespace tensord {
namespace {

// Where the log goes. All loggers write to it, and it passes lines on to what can be exchanged.
spdlog::sinks::dist_sink_mt& LogSink() {
  static const auto& sink = *new auto(std::make_shared<spdlog::sinks::dist_sink_mt>());
  return *sink;
}

// What a line says. Parts of it were written by clients, who must not begin a line of their own.
class Said final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string line = OneLine({message.payload.data(), message.payload.size()});
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Said>(); }
};

absl::StatusOr<spdlog::sink_ptr> OpenLog(const std::string& file) {
  spdlog::sink_ptr sink;
  try {
    if (file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    }
  } catch (const spdlog::spdlog_ex& error) {
    return InvalidArgument("--log-file={}: {}", file, error.what());
  }
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<Said>('*').set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%n] [%l] %*");
  sink->set_formatter(std::move(format));
  return sink;
}

// Only so does gRPC tell of connections that did not come about, as by TLS that failed.
void LogOfGrpc(gpr_log_func_args* line) {
  static LogLimiter& limiter = *new LogLimiter();
  if (line->severity < GPR_LOG_SEVERITY_ERROR) return;
  if (const std::optional<uint64_t> left_out = limiter.Take()) {
    Log("grpc").warn("{} left_out={}", line->message, *left_out);
  }
}

// The lines that the console shows; null without one.
std::shared_ptr<LogRing> RingOf(const Flags& flags) {
  static const auto& ring = *new auto(std::make_shared<LogRing>());
  return flags.console_listen.empty() ? nullptr : ring;
}

void WriteTo(spdlog::sink_ptr target, const Flags& flags) {
  std::vector<spdlog::sink_ptr> sinks = {std::move(target)};
  if (auto ring = RingOf(flags)) sinks.push_back(std::move(ring));
  LogSink().set_sinks(std::move(sinks));
}

absl::Status SetUpLog(const Flags& flags) {
  TD_ASSIGN_OR_RETURN(spdlog::sink_ptr target, OpenLog(flags.log_file));
  WriteTo(std::move(target), flags);
  // The sink lives as long as the process, hence no owner.
  const spdlog::sink_ptr sink(&LogSink(), [](spdlog::sinks::sink*) {});
  auto logger = std::make_shared<spdlog::logger>("tensord", sink);
  logger->set_level(spdlog::level::from_str(flags.log_level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(LogOfGrpc);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> DevicesOf(const Flags& flags) {
  TD_ASSIGN_OR_RETURN(auto devices,
                      OpenDevices(flags.devices, {.threads = static_cast<int>(flags.cpu_threads),
                                                  .memory_bytes = flags.memory_bytes}),
                      "--devices={}", flags.devices);
  return devices;
}

SpillOptions SpillingOf(const Flags& flags) {
  return {.host_bytes = flags.spill_host_bytes,
          .folder = flags.spill_dir,
          .disk_bytes = flags.spill_disk_bytes};
}

// Drains as the signal does. A second signal would end the daemon at once.
std::function<void()> TerminateOnce() {
  return [sent = std::make_shared<std::once_flag>()] {
    std::call_once(*sent, [] { kill(getpid(), SIGTERM); });
  };
}

absl::StatusOr<TokenTable> TokensOf(const Flags& flags) {
  if (flags.auth_tokens.empty()) return TokenTable();
  return TokenTable::Read(flags.auth_tokens);
}

absl::StatusOr<std::unique_ptr<Server>> StartServer(const Configuration& configuration,
                                                    std::vector<int> inherited) {
  const Flags& flags = configuration.flags;
  TD_ASSIGN_OR_RETURN(auto devices, DevicesOf(flags));
  RuntimeOptions options;
  options.cache_dir = flags.cache_dir == "none" ? "" : flags.cache_dir;
  options.disk_cache_bytes = flags.cache_bytes;
  options.compile_threads = static_cast<int>(flags.compile_threads);
  options.compiler = compiler::InProcesses(
      {.processes = flags.compile_processes > 0
                        ? static_cast<int>(flags.compile_processes)
                        : static_cast<int>(std::thread::hardware_concurrency()),
       .timeout = flags.compile_timeout,
       .memory_bytes = flags.compile_memory_bytes,
       .arguments = {"tensord", compiler::kWorkerArgument}});
  options.max_graph_nodes = flags.max_graph_nodes;
  options.max_buffer_bytes = flags.max_tensor_bytes;
  TD_ASSIGN_OR_RETURN(auto runtime, Runtime::Create(std::move(options), std::move(devices)));
  SessionLimits limits;
  limits.graph.max_nodes = flags.max_graph_nodes;
  limits.graph.max_tensor_bytes = static_cast<int64_t>(flags.max_tensor_bytes);
  limits.max_session_bytes = flags.max_session_bytes;
  limits.max_message_bytes = flags.max_message_bytes;
  limits.max_lease = flags.session_lease;
  // Sockets from a service manager take the place of the default, not of what somebody asked for.
  const bool asked = inherited.empty() || configuration.Origin("listen") != kDefaultOrigin;
  std::optional<TlsFiles> tls;
  if (!flags.tls_cert.empty()) {
    tls = {.certificate = flags.tls_cert,
           .key = flags.tls_key,
           .client_ca = flags.tls_client_ca,
           .client_certificate_required = flags.auth_tokens.empty()};
  }
  TD_ASSIGN_OR_RETURN(TokenTable tokens, TokensOf(flags));
  return Server::Start(
      {.listen = asked ? flags.listen : std::vector<std::string>(),
       .inherited = std::move(inherited),
       .socket_mode = static_cast<unsigned>(std::stoul(flags.socket_mode, nullptr, 8)),
       .insecure = flags.insecure,
       .tls = std::move(tls),
       .auth = {.admin_users = flags.admin_users,
                .proof_required = configuration.secure(),
                .tokens = std::move(tokens)},
       .metrics_listen = flags.metrics_listen,
       .metrics_sessions = static_cast<int>(flags.metrics_sessions),
       .console_listen = flags.console_listen,
       .console_log = RingOf(flags),
       .limits = limits,
       .max_user_bytes = flags.max_user_bytes,
       .stalls = {.launch = flags.launch_timeout, .run = flags.run_timeout},
       .sharing = {.max_published_bytes = flags.max_published_bytes},
       .state_dir = flags.state_dir,
       .probes = {.interval = flags.probe_interval, .patience = flags.probe_patience},
       .drain = TerminateOnce(),
       .compile_threads = static_cast<int>(flags.compile_threads),
       .trace_runs = static_cast<int>(flags.trace_runs),
       .spilling = SpillingOf(flags)},
      std::move(runtime));
}

// Files and sockets that the daemon makes are for its user only.
void Privacy() { umask(0077); }

// Each connection takes a descriptor, and what a shell or a service manager allows a process
// unasked is often 1024.
void AllowDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    Log("server").warn("the limit of open files stays: {}", std::strerror(errno));
  }
}

// Threads started later inherit the mask, so only the descriptor gets these signals.
int BlockSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

// Readable once the parent has died; -1 if it is dead already or the kernel is too old.
// (PR_SET_PDEATHSIG would tell of the death of the parent's thread, not of its process.)
int WatchParent() { return static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0)); }

void TellManager(std::string_view lines) {
  const absl::Status status = NotifyManager(lines);
  if (!status.ok()) Log("server").warn("{}", Message(status));
}

void TellReady(const Flags& flags, const Server& server) {
  for (const std::string& address : server.addresses()) {
    Log("server").info("listening address={}", address);
  }
  if (const std::string metrics = server.metrics_address(); !metrics.empty()) {
    Log("server").info("serving metrics url=http://{}/metrics", metrics);
  }
  if (const std::string console = server.console_url(); !console.empty()) {
    Log("server").info("serving console url={} log in by='tensorctl console'", console);
  }
  TellManager(fmt::format("READY=1\nSTATUS=serving on {}", server.addresses()[0]));
  if (flags.ready_fd < 0) return;
  const int fd = static_cast<int>(flags.ready_fd);
  const std::string line = server.addresses()[0] + "\n";
  if (write(fd, line.data(), line.size()) < 0) {
    Log("server").warn("nobody reads from --ready-fd={}", flags.ready_fd);
  }
  close(fd);
}

// True if standard input has ended; what it says meanwhile is of no interest.
bool InputEnded() {
  char buffer[256];
  const ssize_t got = read(STDIN_FILENO, buffer, sizeof(buffer));
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

// What a drain may take beyond its timeout. A compilation can't be interrupted, and by then it is
// for nobody.
constexpr absl::Duration kAfterDrain = absl::Seconds(5);

[[noreturn]] void EndAtOnce(const char* why) {
  Log("server").warn("ending at once because={}", why);
  std::fflush(nullptr);
  _exit(1);
}

// Reads flags, environment and file again, and does what they say where that is possible now. What
// is wrong anywhere changes nothing.
absl::Status Reload(absl::Span<const std::string> arguments, Configuration& running,
                    Server& server) {
  TD_ASSIGN_OR_RETURN(const Configuration read, Configure(arguments, ProcessEnvironment));
  TD_ASSIGN_OR_RETURN(spdlog::sink_ptr target, OpenLog(read.flags.log_file));
  // Of the file that was named at the start: another one needs a restart.
  TD_ASSIGN_OR_RETURN(TokenTable tokens, TokensOf(running.flags));
  TD_RETURN_IF_ERROR(server.ReadTlsAgain());
  const std::vector<FlagChange> changes = Adopt(running, read);
  const Flags& flags = running.flags;
  WriteTo(std::move(target), flags);
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  server.SetMaxSessionBytes(flags.max_session_bytes);
  server.SetMaxUserBytes(flags.max_user_bytes);
  server.SetMetricsSessions(static_cast<int>(flags.metrics_sessions));
  server.SetTokens(std::move(tokens));
  for (const FlagChange& change : changes) {
    if (change.adopted) {
      Log("server").info("changed flag={} from={} to={} origin={}", change.name, change.from,
                         change.to, change.origin);
    } else {
      Log("server").warn("needs a restart flag={} from={} to={} origin={}", change.name,
                         change.from, change.to, change.origin);
    }
  }
  Log("server").info("configuration read again changes={}", changes.size());
  return absl::OkStatus();
}

void HandleHangup(absl::Span<const std::string> arguments, Configuration& running, Server& server) {
  if (const absl::Status status = NotifyReloading(); !status.ok()) {
    Log("server").warn("{}", Message(status));
  }
  if (const absl::Status status = Reload(arguments, running, server); !status.ok()) {
    for (absl::string_view fault : absl::StrSplit(status.message(), '\n')) {
      Log("server").error("nothing is changed because of {}",
                          std::string_view(fault.data(), fault.size()));
    }
  }
  TellManager("READY=1");
}

// Until a signal, or the parent, ends the daemon. A second signal ends it at once.
int Serve(absl::Span<const std::string> arguments, Configuration& configuration, Server& server,
          int signals) {
  const Flags& flags = configuration.flags;
  const int drained = eventfd(0, EFD_CLOEXEC);
  std::optional<std::jthread> drain;
  absl::Time end = absl::InfiniteFuture();
  std::atomic<bool> draining = false;  // relaxed: for the watchdog, which asks again and again
  const auto begin_drain = [&](const char* why) {
    Log("server").info("draining because={} timeout={}", why,
                       absl::FormatDuration(flags.drain_timeout));
    TellManager("STOPPING=1");
    draining.store(true, std::memory_order_relaxed);
    end = SteadyNow() + flags.drain_timeout + kAfterDrain;
    drain.emplace([&server, timeout = flags.drain_timeout, drained] {
      server.Drain(timeout);
      const uint64_t one = 1;
      // An eventfd takes eight bytes at any time.
      [[maybe_unused]] const ssize_t written = write(drained, &one, sizeof(one));
    });
  };
  // The end of a drain is watched below.
  const absl::Duration interval = WatchdogInterval();
  std::optional<Watchdog> watchdog;
  if (interval != absl::InfiniteDuration()) {
    watchdog.emplace(interval, [&draining, answers = server.Probe()](absl::Duration patience) {
      // Asked before and after: a drain may end what answers.
      return draining.load(std::memory_order_relaxed) || answers(patience) ||
             draining.load(std::memory_order_relaxed);
    });
  }
  pollfd events[] = {
      {.fd = signals, .events = POLLIN, .revents = 0},
      {.fd = drained, .events = POLLIN, .revents = 0},
      {.fd = flags.exit_with_parent ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
      {.fd = flags.exit_with_parent ? WatchParent() : -1, .events = POLLIN, .revents = 0}};
  for (;;) {
    if (SteadyNow() >= end) EndAtOnce("the drain did not end");
    const timespec rest = absl::ToTimespec(std::min(end - SteadyNow(), absl::Hours(1)));
    if (ppoll(events, std::size(events), &rest, nullptr) <= 0) continue;
    if (events[1].revents != 0) return 0;
    if (events[0].revents != 0) {
      signalfd_siginfo info;
      if (read(signals, &info, sizeof(info)) != sizeof(info)) continue;
      if (info.ssi_signo == SIGHUP) {
        HandleHangup(arguments, configuration, server);
        continue;
      }
      if (drain) EndAtOnce("second-signal");
      begin_drain(info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
    }
    if ((events[2].revents != 0 && InputEnded()) || events[3].revents != 0) {
      events[2].fd = events[3].fd = -1;
      if (!drain) begin_drain("parent-ended");
    }
  }
}

// A line for each fault.
int Complain(const absl::Status& status, int code) {
  for (absl::string_view fault : absl::StrSplit(status.message(), '\n')) {
    fmt::print(stderr, "tensord: {}\n", std::string_view(fault.data(), fault.size()));
  }
  return code;
}

int CheckConfig(const Configuration& configuration) {
  const auto devices = DevicesOf(configuration.flags);
  if (!devices.ok()) return Complain(devices.status(), 1);
  const auto spilled = SpillStore::Create(SpillingOf(configuration.flags));
  if (!spilled.ok()) return Complain(spilled.status(), 1);
  fmt::print("{}", ConfigText(configuration));
  return 0;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  absl::StatusOr<Configuration> configuration = Configure(arguments, ProcessEnvironment);
  if (!configuration.ok()) {
    const bool check = std::count(arguments.begin(), arguments.end(), "--check-config") > 0;
    return Complain(configuration.status(), check ? 1 : 2);
  }
  const Flags& flags = configuration->flags;
  if (flags.help) {
    std::fputs(FlagsHelp(ProcessEnvironment).c_str(), stdout);
    return 0;
  }
  if (flags.version) {
    fmt::print("tensord {} (protocol {} to {})\n", kVersion, kMinProtocolVersion,
               kMaxProtocolVersion);
    return 0;
  }
  if (flags.check_config) return CheckConfig(*configuration);
  Privacy();
  if (const absl::Status status = SetUpLog(flags); !status.ok()) return Complain(status, 2);
  AllowDescriptors();
  const int signals = BlockSignals();
  absl::StatusOr<std::unique_ptr<Server>> server =
      StartServer(*configuration, InheritedDescriptors());
  if (!server.ok()) return Complain(server.status(), 1);
  TellReady(flags, **server);
  return Serve(arguments, *configuration, **server, signals);
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == tensord::compiler::kWorkerArgument) {
    tensord::compiler::RunWorker();
  }
  return tensord::Main(argc, argv);
}
