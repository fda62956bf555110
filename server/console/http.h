// The console's HTTP: what comes in is bounded, what goes out has the headers that browsers heed.
//
//   TD_ASSIGN_OR_RETURN(auto server, HttpServer::Start(address, answer));
//   ... server->address() ...
//
// It takes GET and POST and serves no files. Requests must name this daemon in Host, so that no
// other site's name can be made to lead here, and come from no other site's page. `answer` is
// called by several threads at once.
//
// Without TLS: the libcivetweb of Debian 12 asks OpenSSL for a function that version 3 lacks.
//
// Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/listen.h"

namespace tensord {

struct HttpRequest {
  bool post = false;
  std::string path;   // "/api/state"
  std::string query;  // "after=7", not decoded
  std::string body;   // of a POST
  std::string peer;   // "127.0.0.1:4711", for the log
  std::optional<std::string> token;

  // A value of the query, decoded; empty if it isn't there.
  std::string Query(const char* name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

class HttpServer {
 public:
  static constexpr int kThreads = 16;  // connections that are served at once
  static constexpr int kWaiting = 64;  // connections that are accepted and wait
  static constexpr size_t kMaxHeadBytes = 8 << 10;
  static constexpr size_t kMaxBodyBytes = 4 << 10;
  static constexpr int kPatienceMs = 5000;  // for a request to be there

  using Answer = std::function<HttpResponse(const HttpRequest&)>;

  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const ListenAddress& address,
                                                           Answer answer);
  ~HttpServer();

  const ListenAddress& address() const;  // with the port that port 0 became
  // What users type: "http://localhost:7080".
  std::string url() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace tensord
