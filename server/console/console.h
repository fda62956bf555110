// The web console: one page, and what it asks, by HTTP on a port of its own. Everybody has to say
// who they are, on loopback as well, because there any user of the machine can connect: by a link
// that was made on the unix socket, or by a token of --auth-tokens. They see what
// the calls of the admin service show them.
//
//   TD_ASSIGN_OR_RETURN(auto console, Console::Start(address, sources));
//   admin.SetConsole([&](const Caller& caller) { return console->NewLink(caller); });
//
// Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

#include "server/auth/authenticator.h"
#include "server/console/history.h"
#include "server/console/http.h"
#include "server/console/log_ring.h"
#include "server/console/logins.h"
#include "server/metrics/kernel_times.h"
#include "server/service/admin_service.h"
#include "server/session/registry.h"

namespace tensord {

class Console {
 public:
  // What it shows; all of it outlives the console.
  struct Sources {
    SessionRegistry& registry;
    AdminServiceImpl& admin;
    const Authenticator& authenticator;
    const KernelTimes& kernel_times;
    std::shared_ptr<const LogRing> log;  // shared with the loggers; null: there is none
  };

  static absl::StatusOr<std::unique_ptr<Console>> Start(const ListenAddress& address,
                                                        const Sources& sources);

  std::string url() const { return http_->url(); }
  const ListenAddress& address() const { return http_->address(); }
  // A page that logs the caller in, once and soon.
  std::string NewLink(const Caller& caller);

 private:
  explicit Console(const Sources& sources);
  HttpResponse Answer(const HttpRequest& request);
  absl::StatusOr<Caller> Identify(const HttpRequest& request);

  // The table in console.cc says which path is whose. Each returns JSON.
  absl::StatusOr<std::string> Login(const HttpRequest& request);
  absl::StatusOr<std::string> Logout(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> State(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Samples(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Memory(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Kernels(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Source(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Cache(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Lines(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Explain(const Caller& caller, const HttpRequest& request);
  absl::StatusOr<std::string> Kill(const Caller& caller, const HttpRequest& request);

  struct Route;
  static const Route kRoutes[];

  const Sources sources_;
  Logins logins_;
  History history_;
  std::unique_ptr<HttpServer> http_;  // last: its threads use the rest
};

}  // namespace tensord
