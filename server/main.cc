// The daemon's process: flags, log, devices, signals.
#include <absl/time/clock.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/registry.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/runtime/runtime.h"
#include "core/wire/handle.h"
#include "server/flags.h"
#include "server/server.h"
#include "server/version.h"

namespace tensord {
namespace {

absl::Status SetUpLog(const Flags& flags) {
  const spdlog::level::level_enum level = spdlog::level::from_str(flags.log_level);
  if (level == spdlog::level::off && flags.log_level != "off") {
    return InvalidArgument("--log-level={}: takes trace, debug, info, warn, error or off",
                           flags.log_level);
  }
  try {
    spdlog::sink_ptr sink;
    if (flags.log_file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(flags.log_file);
    }
    auto logger = std::make_shared<spdlog::logger>("tensord", std::move(sink));
    logger->set_level(level);
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return InvalidArgument("--log-file={}: {}", flags.log_file, error.what());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> StartServer(const Flags& flags) {
  TD_ASSIGN_OR_RETURN(auto devices,
                      OpenDevices(flags.devices, {.threads = static_cast<int>(flags.cpu_threads),
                                                  .memory_bytes = flags.memory_bytes}),
                      "--devices={}", flags.devices);
  RuntimeOptions options;
  options.cache_dir = flags.cache_dir == "none" ? "" : flags.cache_dir;
  options.disk_cache_bytes = flags.cache_bytes;
  options.compile_threads = static_cast<int>(flags.compile_threads);
  options.max_graph_nodes = flags.max_graph_nodes;
  options.max_buffer_bytes = flags.max_tensor_bytes;
  TD_ASSIGN_OR_RETURN(auto runtime, Runtime::Create(std::move(options), std::move(devices)));
  SessionLimits limits;
  limits.graph.max_nodes = flags.max_graph_nodes;
  limits.graph.max_tensor_bytes = static_cast<int64_t>(flags.max_tensor_bytes);
  limits.max_session_bytes = flags.max_session_bytes;
  limits.max_message_bytes = flags.max_message_bytes;
  return Server::Start({.listen = flags.listen,
                        .allow_remote = flags.allow_remote,
                        .limits = limits,
                        .compile_threads = static_cast<int>(flags.compile_threads)},
                       std::move(runtime));
}

// Files and sockets that the daemon makes are for its user only.
void Privacy() { umask(0077); }

// Threads started later inherit the mask, so only the descriptor gets these signals.
int BlockSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

// Readable once the parent has died; -1 if it is dead already or the kernel is too old.
// (PR_SET_PDEATHSIG would tell of the death of the parent's thread, not of its process.)
int WatchParent() { return static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0)); }

void TellReady(const Flags& flags, const Server& server) {
  for (const std::string& address : server.addresses()) {
    Log("server").info("listening address={}", address);
  }
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

// Until a signal, or the parent, ends the daemon. A second signal ends it at once.
int Serve(const Flags& flags, Server& server, int signals) {
  const int drained = eventfd(0, EFD_CLOEXEC);
  std::optional<std::jthread> drain;
  absl::Time end = absl::InfiniteFuture();
  const auto begin_drain = [&](const char* why) {
    Log("server").info("draining because={} timeout={}", why,
                       absl::FormatDuration(flags.drain_timeout));
    end = absl::Now() + flags.drain_timeout + kAfterDrain;
    drain.emplace([&server, &flags, drained] {
      server.Drain(flags.drain_timeout);
      const uint64_t one = 1;
      // An eventfd takes eight bytes at any time.
      [[maybe_unused]] const ssize_t written = write(drained, &one, sizeof(one));
    });
  };
  pollfd events[] = {
      {.fd = signals, .events = POLLIN, .revents = 0},
      {.fd = drained, .events = POLLIN, .revents = 0},
      {.fd = flags.exit_with_parent ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
      {.fd = flags.exit_with_parent ? WatchParent() : -1, .events = POLLIN, .revents = 0}};
  for (;;) {
    if (absl::Now() >= end) EndAtOnce("the drain did not end");
    const timespec rest = absl::ToTimespec(std::min(end - absl::Now(), absl::Hours(1)));
    if (ppoll(events, std::size(events), &rest, nullptr) <= 0) continue;
    if (events[1].revents != 0) return 0;
    if (events[0].revents != 0) {
      signalfd_siginfo info;
      if (read(signals, &info, sizeof(info)) != sizeof(info)) continue;
      if (drain) EndAtOnce("second-signal");
      begin_drain(info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
    }
    if ((events[2].revents != 0 && InputEnded()) || events[3].revents != 0) {
      events[2].fd = events[3].fd = -1;
      if (!drain) begin_drain("parent-ended");
    }
  }
}

int Main(int argc, char** argv) {
  absl::StatusOr<Flags> flags =
      ParseFlags(std::vector<std::string>(argv + 1, argv + argc), ProcessEnvironment);
  if (flags.ok() && flags->help) {
    std::fputs(FlagsHelp(ProcessEnvironment).c_str(), stdout);
    return 0;
  }
  if (flags.ok() && flags->version) {
    fmt::print("tensord {} (protocol {} to {})\n", kServerVersion, kMinProtocolVersion,
               kMaxProtocolVersion);
    return 0;
  }
  Privacy();
  absl::Status status = flags.ok() ? SetUpLog(*flags) : flags.status();
  if (!status.ok()) {
    fmt::print(stderr, "tensord: {}\n", Message(status));
    return 2;
  }
  const int signals = BlockSignals();
  absl::StatusOr<std::unique_ptr<Server>> server = StartServer(*flags);
  if (!server.ok()) {
    fmt::print(stderr, "tensord: {}\n", Message(server.status()));
    return 1;
  }
  TellReady(*flags, **server);
  return Serve(*flags, **server, signals);
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) { return tensord::Main(argc, argv); }
