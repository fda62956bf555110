#include "server/console/http.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/strip.h>
#include <arpa/inet.h>
#include <civetweb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/log.h"
#include "core/base/log_limiter.h"
#include "core/base/status.h"
#include "server/http_stop.h"

namespace tensord {
namespace {

// Nothing from anywhere else is loaded or asked, the page stands in no frame, and nothing is kept.
constexpr std::string_view kHeaders =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n";

struct Refusal {
  int status;
  const char* why;
};

const char* Header(mg_connection* connection, const char* name) {
  const char* value = mg_get_header(connection, name);
  return value == nullptr ? "" : value;
}

// "localhost:7080" -> "localhost", "[::1]:7080" -> "::1".
std::string HostOf(std::string_view header) {
  const size_t bracket = header.find(']');
  if (!header.empty() && header[0] == '[' && bracket != header.npos) {
    return std::string(header.substr(1, bracket - 1));
  }
  std::string host(header.substr(0, header.find(':')));
  absl::AsciiStrToLower(&host);
  return host;
}

// A number is nobody's name, so no name server can make it lead elsewhere.
bool IsAddress(const std::string& host) {
  in6_addr ip;
  return inet_pton(AF_INET, host.c_str(), &ip) == 1 || inet_pton(AF_INET6, host.c_str(), &ip) == 1;
}

std::string ThisMachine() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? HostOf(name.data()) : "";
}

void Send(mg_connection* connection, const HttpResponse& response) {
  const std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n", response.status,
      mg_get_response_code_text(connection, response.status), response.type, response.body.size(),
      kHeaders, response.status == 405 ? "Allow: GET, POST\r\n" : "");
  // Who hangs up meanwhile misses the rest.
  mg_write(connection, head.data(), head.size());
  mg_write(connection, response.body.data(), response.body.size());
}

HttpResponse Plain(int status, std::string_view why) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = fmt::format("{}\n", why)};
}

}  // namespace

std::string HttpRequest::Query(const char* name) const {
  std::array<char, 256> value = {};
  const int size = mg_get_var(query.data(), query.size(), name, value.data(), value.size());
  return size > 0 ? std::string(value.data(), static_cast<size_t>(size)) : "";
}

struct HttpServer::State {
  Answer answer;
  ListenAddress bound;
  std::string wanted_host;  // as the operator wrote it
  bool loopback = true;
  mg_context* context = nullptr;
  LogLimiter complaints;

  static State& Of(const mg_connection* connection) {
    return *static_cast<State*>(mg_get_user_data(mg_get_context(connection)));
  }

  // Another site's name that leads to this address is none of these.
  bool IsOurs(const std::string& host) const {
    if (host == "localhost" || IsAddress(host)) return true;
    if (loopback) return false;
    static const std::string& machine = *new std::string(ThisMachine());
    return host == wanted_host || host == machine;
  }

  std::optional<Refusal> Check(mg_connection* connection, const mg_request_info& info) const {
    const std::string_view method = info.request_method;
    if (method != "GET" && method != "POST") return Refusal{405, "only GET and POST"};
    if (!IsOurs(HostOf(Header(connection, "Host")))) {
      return Refusal{421, "this is a tensord; the name in Host is none of its names"};
    }
    // Of browsers: which page makes them ask. "none" is a user who types.
    const std::string_view from = Header(connection, "Sec-Fetch-Site");
    if (!from.empty() && from != "same-origin" && from != "none") {
      return Refusal{403, "another site's page asks"};
    }
    // Only a page of the same site can send that without asking first.
    if (method == "POST" &&
        !absl::StartsWith(Header(connection, "Content-Type"), "application/json")) {
      return Refusal{415, "a POST has to be application/json"};
    }
    if (info.content_length > static_cast<long long>(kMaxBodyBytes)) {
      return Refusal{413, "the body is too long"};
    }
    if (*Header(connection, "Transfer-Encoding") != '\0') {
      return Refusal{411, "a body has to say its Content-Length"};
    }
    return std::nullopt;
  }

  static std::optional<HttpRequest> Read(mg_connection* connection, const mg_request_info& info) {
    HttpRequest request;
    request.post = std::string_view(info.request_method) == "POST";
    request.path = info.local_uri != nullptr ? info.local_uri : "";
    request.query = info.query_string != nullptr ? info.query_string : "";
    request.peer = HostAndPort(info.remote_addr, info.remote_port);
    absl::string_view authorization = Header(connection, "Authorization");
    if (!authorization.empty()) {
      request.token = absl::ConsumePrefix(&authorization, "Bearer ") ? std::string(authorization)
                                                                     : std::string();
    }
    if (!request.post) return request;
    request.body.resize(static_cast<size_t>(std::max(info.content_length, 0LL)));
    for (size_t got = 0; got < request.body.size();) {
      const int more = mg_read(connection, request.body.data() + got, request.body.size() - got);
      if (more <= 0) return std::nullopt;
      got += static_cast<size_t>(more);
    }
    return request;
  }

  static int Begin(mg_connection* connection) {
    const State& state = Of(connection);
    const mg_request_info& info = *mg_get_request_info(connection);
    HttpResponse response;
    if (const std::optional<Refusal> refusal = state.Check(connection, info)) {
      response = Plain(refusal->status, refusal->why);
    } else if (const std::optional<HttpRequest> request = Read(connection, info)) {
      response = state.answer(*request);
    } else {
      response = Plain(400, "the body is not all there");
    }
    Send(connection, response);
    return response.status;
  }

  // What the library refuses by itself: no HTTP, or too much of it.
  static int Error(mg_connection* connection, int status, const char* /*why*/) {
    Send(connection, Plain(status, mg_get_response_code_text(connection, status)));
    return 0;
  }

  static int Complain(const mg_connection* connection, const char* message) {
    // Before it serves there is no connection, and Start says what is wrong.
    if (connection == nullptr) return 1;
    if (const std::optional<uint64_t> left_out = Of(connection).complaints.Take()) {
      Log("console").debug("{} left_out={}", message, *left_out);
    }
    return 1;
  }
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const ListenAddress& address,
                                                              Answer answer) {
  auto state = std::make_unique<State>();
  state->answer = std::move(answer);
  state->wanted_host = absl::AsciiStrToLower(address.host);
  state->loopback = IsLoopback(address.host);
  // The library takes numbers only.
  state->bound = address;
  if (state->bound.host == "localhost") state->bound.host = "127.0.0.1";
  if (state->bound.host.find(':') != std::string::npos && mg_check_feature(MG_FEATURES_IPV6) == 0) {
    return Unavailable(
        "--console-listen: the HTTP library of this system (libcivetweb) knows no IPv6: give "
        "127.0.0.1 or another IPv4 address");
  }
  mg_init_library(MG_FEATURES_DEFAULT);
  const std::string port = HostAndPort(state->bound.host, state->bound.port);
  const std::string threads = std::to_string(kThreads), waiting = std::to_string(kWaiting),
                    head = std::to_string(kMaxHeadBytes), patience = std::to_string(kPatienceMs);
  const char* const settings[] = {"listening_ports",
                                  port.c_str(),
                                  "num_threads",
                                  threads.c_str(),
                                  "connection_queue",
                                  waiting.c_str(),
                                  "listen_backlog",
                                  waiting.c_str(),
                                  "max_request_size",
                                  head.c_str(),
                                  "request_timeout_ms",
                                  patience.c_str(),
                                  "enable_keep_alive",
                                  "no",
                                  "tcp_nodelay",
                                  "1",
                                  "access_control_allow_origin",
                                  "",
                                  "access_control_allow_methods",
                                  "",
                                  nullptr};
  mg_callbacks callbacks = {};
  callbacks.begin_request = State::Begin;
  callbacks.http_error = State::Error;
  callbacks.log_message = State::Complain;
  state->context = mg_start(&callbacks, state.get(), const_cast<const char**>(settings));
  mg_server_port opened = {};
  if (state->context == nullptr || mg_get_server_ports(state->context, 1, &opened) < 1) {
    if (state->context != nullptr) mg_stop(state->context);
    mg_exit_library();
    return Unavailable(
        "cannot serve the console on {}: is the address in use, and of this machine?",
        HostAndPort(address.host, address.port));
  }
  state->bound.port = opened.port;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  // Who listens on all addresses is found at this machine's own.
  ListenAddress knock = state_->bound;
  if (knock.host == "0.0.0.0") knock.host = "127.0.0.1";
  StopHttp(knock, [this] { mg_stop(state_->context); });
  mg_exit_library();
}

const ListenAddress& HttpServer::address() const { return state_->bound; }

std::string HttpServer::url() const {
  std::string host = state_->wanted_host;
  if (host == "127.0.0.1") host = "localhost";
  if (host == "0.0.0.0") host = ThisMachine();
  return fmt::format("http://{}", HostAndPort(host, state_->bound.port));
}

}  // namespace tensord
