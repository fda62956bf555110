// The web console, by way of HTTP: who gets in, what they see, and what no browser must do.
#include <absl/strings/match.h>
#include <absl/strings/str_join.h>
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spdlog/logger.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "proto/tensord/v1/admin.grpc.pb.h"
#include "server/console/api.pb.h"
#include "server/console/http.h"
#include "server/console/log_ring.h"
#include "server/test_client.h"

namespace tensord {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Reply {
  int status = 0;
  std::string head, body;
};

Reply Exchange(int port, const std::string& request) {
  sockaddr_in to = {.sin_family = AF_INET};
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  // What the daemon refuses it need not read to its end.
  EXPECT_GT(send(fd, request.data(), request.size(), MSG_NOSIGNAL), 0);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, got);
  close(fd);
  Reply reply;
  const size_t end = text.find("\r\n\r\n");
  if (end == text.npos || !absl::StartsWith(text, "HTTP/1.1 ")) return reply;
  reply.status = std::atoi(text.c_str() + sizeof("HTTP/1.1"));
  reply.head = text.substr(0, end);
  reply.body = text.substr(end + 4);
  return reply;
}

struct Asked {
  std::string method = "GET";
  std::string token = "";
  std::string host = "localhost:7080";
  std::vector<std::string> headers = {};
  std::string body = "";
};

// Of alice; the hash of it stands in SetUp.
constexpr char kAlice[] = "alice's token";

class ConsoleTest : public ServerTest {
 protected:
  void SetUp() override {
    std::ofstream(tokens_) << "alice sha256:"
                              "4d63559a10572d247b6d2d666f8f776c2610b47d33255a6d136746d76f8d970d\n";
    chmod(tokens_.c_str(), 0600);
  }
  void TearDown() override { std::filesystem::remove(tokens_); }

  void Start() {
    AuthOptions auth;
    auto tokens = TokenTable::Read(tokens_);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    auth.tokens = *std::move(tokens);
    StartServer({.auth = std::move(auth),
                 .console_listen = "localhost:0",
                 .console_log = ring_,
                 .scheduling = kNoTurns});
    const std::string url = server_->console_url();
    EXPECT_TRUE(absl::StartsWith(url, "http://localhost:")) << url;
    port_ = std::atoi(url.substr(url.rfind(':') + 1).c_str());
  }

  Reply Ask(const std::string& path, const Asked& asked = {}) const {
    std::string request =
        fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", asked.method, path, asked.host);
    if (!asked.token.empty()) request += "Authorization: Bearer " + asked.token + "\r\n";
    for (const std::string& header : asked.headers) request += header + "\r\n";
    if (!asked.body.empty()) request += fmt::format("Content-Length: {}\r\n", asked.body.size());
    return Exchange(port_, request + "\r\n" + asked.body);
  }
  Reply Post(const std::string& path, const std::string& body,
             const std::string& token = "") const {
    return Ask(path, {.method = "POST",
                      .token = token,
                      .headers = {"Content-Type: application/json"},
                      .body = body.empty() ? "{}" : body});
  }

  // The code of a link for who asks in this process: an administrator.
  std::string Code() const {
    grpc::ClientContext context;
    v1::OpenConsoleReply reply;
    const grpc::Status status =
        v1::AdminService::NewStub(channel_)->OpenConsole(&context, {}, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(absl::StartsWith(reply.url(), server_->console_url() + "/#")) << reply.url();
    return reply.url().substr(reply.url().find('#') + 1);
  }
  std::string LogIn() const {
    const Reply reply = Post("/api/login", fmt::format("{{\"code\": \"{}\"}}", Code()));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Parsed<console::LoginReply>(reply).token();
  }

  template <typename Message>
  static Message Parsed(const Reply& reply) {
    Message message;
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(reply.body, &message).ok())
        << reply.body;
    return message;
  }
  template <typename Message>
  Message Get(const std::string& path, const std::string& token) const {
    return Parsed<Message>(Ask(path, {.token = token}));
  }

  // A session that has run a program of that name.
  std::unique_ptr<TestClient> Working(const std::string& program) {
    auto client = Open();
    client->Upload(TensorHandle(1), {1, 2, 3});
    client->Register(ProgramHandle(1), AddProgram(program, 3));
    client->Run(ProgramHandle(1), {TensorHandle(1), TensorHandle(1)}, {TensorHandle(2)}, true);
    client->Send();
    EXPECT_NE(client->ReadCompletion(3), nullptr);
    return client;
  }

  const std::string tokens_ = testing::TempDir() + "/console-tokens";
  const std::shared_ptr<LogRing> ring_ = std::make_shared<LogRing>();
  int port_ = 0;
};

const std::vector<std::string> kPaths = {"/api/state",   "/api/history", "/api/memory",
                                         "/api/kernels", "/api/source",  "/api/cache",
                                         "/api/log",     "/api/explain"};

TEST_F(ConsoleTest, ALinkLogsInOnce) {
  Start();
  const std::string body = fmt::format("{{\"code\": \"{}\"}}", Code());
  const Reply first = Post("/api/login", body);
  ASSERT_EQ(first.status, 200) << first.body;
  const std::string token = Parsed<console::LoginReply>(first).token();
  const auto state = Get<console::State>("/api/state", token);
  EXPECT_EQ(state.user(), UserName(geteuid()));
  EXPECT_TRUE(state.admin());
  const Reply second = Post("/api/login", body);
  EXPECT_EQ(second.status, 401);
  EXPECT_THAT(second.body, HasSubstr("this link was used before, or is too old"));
  EXPECT_EQ(Post("/api/logout", "", token).status, 200);
  EXPECT_EQ(Ask("/api/state", {.token = token}).status, 401);
}

TEST_F(ConsoleTest, WhoProvesNothingSeesNothing) {
  Start();
  const std::string code = Code();
  for (const std::string& path : kPaths) {
    for (const std::string& token : {std::string(), std::string("guessed"), code}) {
      const Reply reply = Ask(path, {.token = token});
      EXPECT_EQ(reply.status, 401) << path;
      EXPECT_THAT(reply.body, HasSubstr("\"error\":")) << path;
    }
    EXPECT_EQ(Ask(path, {.headers = {"Authorization: Basic YTpi"}}).status, 401) << path;
  }
  for (const char* path : {"/api/kill", "/api/logout"}) {
    EXPECT_EQ(Post(path, "").status, 401) << path;
  }
  EXPECT_EQ(Post("/api/login", "{\"code\": \"\"}").status, 401);
  EXPECT_EQ(Post("/api/login", "no JSON").status, 400);
}

TEST_F(ConsoleTest, BrowsersAreToldWhatThePageMayDo) {
  Start();
  const struct {
    std::string path;
    Asked asked;
    int status;
  } kCases[] = {
      {"/", {}, 200},
      {"/console.js", {}, 200},
      {"/console.css", {}, 200},
      {"/icon.svg", {}, 200},
      {"/api/state", {}, 401},
      {"/nowhere", {}, 404},
      {"/../etc/passwd", {}, 404},
      {"/%2e%2e/etc/passwd", {}, 404},
      {"/", {.method = "PUT"}, 405},
      {"/",
       {.method = "OPTIONS",
        .headers = {"Origin: http://evil", "Access-Control-Request-Method: GET"}},
       405},
      {"/api/login", {}, 404},
      // Another site's name that leads here, and another site's page.
      {"/", {.host = "evil.example"}, 421},
      {"/", {.host = "localhost.evil.example:7080"}, 421},
      {"/", {.host = ""}, 421},
      {"/", {.headers = {"Sec-Fetch-Site: cross-site"}}, 403},
      {"/", {.headers = {"Sec-Fetch-Site: same-site"}}, 403},
      // A form of another site could send these.
      {"/api/login", {.method = "POST", .body = "{}"}, 415},
      {"/api/login",
       {.method = "POST", .headers = {"Content-Type: text/plain"}, .body = "{}"},
       415},
      // Too much.
      {"/api/login",
       {.method = "POST",
        .headers = {"Content-Type: application/json"},
        .body = std::string(HttpServer::kMaxBodyBytes + 1, 'x')},
       413},
      {"/api/login",
       {.method = "POST",
        .headers = {"Content-Type: application/json", "Transfer-Encoding: chunked"}},
       411},
  };
  for (const auto& test : kCases) {
    const Reply reply = Ask(test.path, test.asked);
    EXPECT_EQ(reply.status, test.status) << test.path << reply.head;
    EXPECT_THAT(reply.head,
                HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"));
    EXPECT_THAT(reply.head, HasSubstr("X-Content-Type-Options: nosniff"));
    EXPECT_THAT(reply.head, HasSubstr("X-Frame-Options: DENY"));
    EXPECT_THAT(reply.head, HasSubstr("Cache-Control: no-store"));
    EXPECT_THAT(reply.head, HasSubstr("Referrer-Policy: no-referrer"));
    EXPECT_THAT(reply.head, Not(HasSubstr("Access-Control-Allow")));
    EXPECT_THAT(reply.head, Not(HasSubstr("Set-Cookie")));
  }
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:7080", "[::1]:7080"}) {
    EXPECT_EQ(Ask("/", {.host = host}).status, 200) << host;
  }
  for (const char* site : {"same-origin", "none"}) {
    EXPECT_EQ(Ask("/", {.headers = {std::string("Sec-Fetch-Site: ") + site}}).status, 200) << site;
  }
}

TEST_F(ConsoleTest, WhatIsNoHttpIsRefused) {
  Start();
  const std::string long_header(HttpServer::kMaxHeadBytes, 'x');
  for (const std::string& request :
       {std::string("hello\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + long_header + "\r\n\r\n"}) {
    const Reply reply = Exchange(port_, request);
    EXPECT_TRUE(reply.status == 0 || reply.status >= 400) << reply.head;
    EXPECT_THAT(reply.body, Not(HasSubstr("tensord")));
  }
  EXPECT_EQ(Ask("/").status, 200);
}

TEST_F(ConsoleTest, ThePageIsSmallAndAsksNobodyElse) {
  Start();
  size_t bytes = 0;
  for (const char* path : {"/", "/console.js", "/console.css", "/icon.svg"}) {
    const Reply reply = Ask(path);
    bytes += reply.body.size();
    EXPECT_THAT(reply.body, Not(HasSubstr("https://"))) << path;
    EXPECT_THAT(reply.body, Not(HasSubstr("innerHTML"))) << path;
    EXPECT_THAT(reply.body, Not(HasSubstr(" style="))) << path;
  }
  EXPECT_LT(bytes, 50u << 10);
}

TEST_F(ConsoleTest, ShowsWhatTheDaemonHas) {
  Start();
  const auto client = Working("add");
  const std::string token = LogIn();
  const auto state = Get<console::State>("/api/state", token);
  EXPECT_EQ(state.status().sessions(), 1u);
  EXPECT_EQ(state.status().programs_run(), 1u);
  EXPECT_EQ(state.devices_size(), 2);
  EXPECT_EQ(state.devices(0).busy_ns(), 1000u);
  ASSERT_EQ(state.sessions_size(), 1);
  EXPECT_EQ(state.sessions(0).session_id(), "session-1");
  EXPECT_EQ(state.sessions(0).client_name(), "test");
  EXPECT_EQ(state.sessions(0).weight(), 4u);
  EXPECT_EQ(state.sessions(0).queued(), 0u);
  EXPECT_EQ(state.sessions(0).in_flight(), 0u);

  const auto memory = Get<console::Memory>("/api/memory", token);
  ASSERT_EQ(memory.held().devices_size(), 2);
  EXPECT_EQ(memory.held().devices(0).device(), "FAKE:0");
  ASSERT_EQ(memory.held().devices(0).holders_size(), 1);
  EXPECT_EQ(memory.held().devices(0).holders(0).session_id(), "session-1");
  EXPECT_EQ(memory.held().devices(0).holders(0).bytes(), 24u);
  EXPECT_EQ(memory.tensors().count(), 2u);

  const auto kernels = Get<console::Kernels>("/api/kernels", token);
  ASSERT_EQ(kernels.kernels_size(), 1);
  EXPECT_EQ(kernels.kernels(0).name(), "kernel of add");
  EXPECT_EQ(kernels.kernels(0).programs(0), "add");
  EXPECT_EQ(kernels.kernels(0).launches(), 1);
  EXPECT_EQ(kernels.kernels(0).device_ns(), 1000);
  EXPECT_EQ(Get<console::Source>("/api/source?kernel=key%20of+add", token).text(),
            "source of key of add\n");

  const auto cache = Get<console::Cache>("/api/cache", token);
  EXPECT_EQ(cache.stats().kernel_misses(), 6u);
  EXPECT_EQ(cache.kernels_size(), 2);

  const auto explained = Get<v1::ExplainReply>("/api/explain?session=session-1", token);
  EXPECT_EQ(explained.cause(), v1::ExplainReply::CAUSE_NOTHING);
  EXPECT_EQ(Ask("/api/explain?session=session-9", {.token = token}).status, 404);

  // The first look at the devices is taken at once, by a thread of its own.
  console::History history;
  do history = Get<console::History>("/api/history", token);
  while (history.last() == 0);
  EXPECT_EQ(history.devices(0).name(), "FAKE:0");
  EXPECT_EQ(history.devices_size(), 2);
  EXPECT_GE(history.devices(0).busy_permille_size(), 1);
  EXPECT_EQ(
      Get<console::History>("/api/history?after=999999", token).devices(0).busy_permille_size(), 0);
}

TEST_F(ConsoleTest, TellsWhatWaits) {
  Start();
  const auto client = Working("add");
  runtime_->device().Hold();
  for (uint32_t i = 3; i < 6; ++i) {
    client->Run(ProgramHandle(1), {TensorHandle(1), TensorHandle(1)}, {TensorHandle(i)});
  }
  client->Send();
  runtime_->device().AwaitQueued(3);
  const auto state = Get<console::State>("/api/state", LogIn());
  EXPECT_EQ(state.devices(0).submitted() - state.devices(0).completed(), 3u);
  EXPECT_EQ(state.sessions(0).in_flight(), 3u);
  runtime_->device().Unhold();
}

TEST_F(ConsoleTest, AnotherUserSeesNoNames) {
  Start();
  const auto client = Working("secret");
  EXPECT_FALSE(Get<console::State>("/api/state", kAlice).admin());
  const auto state = Get<console::State>("/api/state", kAlice);
  EXPECT_EQ(state.user(), "alice");
  ASSERT_EQ(state.sessions_size(), 1);
  EXPECT_EQ(state.sessions(0).client_name(), "");
  EXPECT_EQ(state.sessions(0).user(), "");
  EXPECT_EQ(state.sessions(0).peer(), "");
  const auto memory = Get<console::Memory>("/api/memory", kAlice);
  EXPECT_EQ(memory.tensors().count(), 0u);
  EXPECT_EQ(memory.held().devices(0).holders(0).user(), "");
  EXPECT_EQ(Get<console::Kernels>("/api/kernels", kAlice).kernels_size(), 0);
  EXPECT_EQ(Get<console::Cache>("/api/cache", kAlice).kernels_size(), 0);
  EXPECT_EQ(Ask("/api/source?kernel=key+of+secret", {.token = kAlice}).status, 404);
  EXPECT_EQ(Ask("/api/log", {.token = kAlice}).status, 403);
  EXPECT_EQ(Ask("/api/explain?session=session-1", {.token = kAlice}).status, 403);
  const Reply kill = Post("/api/kill", "{\"session_id\": \"session-1\"}", kAlice);
  EXPECT_EQ(kill.status, 403);
  EXPECT_THAT(kill.body, HasSubstr("ending a session of another user is for administrators"));
  for (const std::string& path : kPaths) {
    EXPECT_THAT(Ask(path, {.token = kAlice}).body, Not(HasSubstr("secret"))) << path;
  }
}

TEST_F(ConsoleTest, NamesOfClientsAreData) {
  Start();
  const std::string name = "</script><img src=x onerror=alert(1)>\"'\\\n\xe2\x80\xa8";
  const auto client = Working(name);
  const std::string token = LogIn();
  const Reply reply = Ask("/api/kernels", {.token = token});
  EXPECT_THAT(reply.body, Not(HasSubstr("<")));
  EXPECT_THAT(reply.head, HasSubstr("Content-Type: application/json"));
  EXPECT_EQ(Parsed<console::Kernels>(reply).kernels(0).programs(0), name);
}

TEST_F(ConsoleTest, AnAdministratorEndsSessions) {
  Start();
  const auto client = Working("add");
  const std::string token = LogIn();
  EXPECT_EQ(Post("/api/kill", "{\"session_id\": \"session-9\"}", token).status, 404);
  EXPECT_EQ(Ask("/api/kill", {.token = token}).status, 404);  // by a GET
  const Reply reply = Post("/api/kill", "{\"session_id\": \"session-1\"}", token);
  EXPECT_EQ(Parsed<v1::KillSessionReply>(reply).bytes_freed(), 24u);
  EXPECT_THAT(client->Finish().error_message(), HasSubstr("from the console"));
  EXPECT_EQ(Get<console::State>("/api/state", token).sessions_size(), 0);
}

TEST_F(ConsoleTest, ShowsTheLogToAdministrators) {
  Start();
  spdlog::logger log("session", ring_);
  log.warn("slow id={}", 7);
  const std::string token = LogIn();
  const auto lines = Get<console::Log>("/api/log", token);
  ASSERT_EQ(lines.lines_size(), 1);
  EXPECT_EQ(lines.lines(0).text(), "slow id=7");
  EXPECT_EQ(lines.lines(0).level(), "warning");
  EXPECT_EQ(Get<console::Log>("/api/log?after=1", token).lines_size(), 0);
  EXPECT_EQ(Get<console::Log>("/api/log?after=nonsense", token).lines_size(), 1);
}

TEST_F(ConsoleTest, WithoutItThereIsNoLink) {
  StartServer();
  EXPECT_EQ(server_->console_url(), "");
  grpc::ClientContext context;
  v1::OpenConsoleReply reply;
  const grpc::Status status =
      v1::AdminService::NewStub(channel_)->OpenConsole(&context, {}, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--console-listen"));
}

TEST_F(ConsoleTest, AddressesAreRefusedWithAReason) {
  Start();
  const struct {
    std::string address;
    absl::StatusCode code;
    const char* error;
  } kCases[] = {
      {"0.0.0.0:0", absl::StatusCode::kFailedPrecondition, "other machines could connect"},
      {"unix:/x", absl::StatusCode::kInvalidArgument, "browsers need HOST:PORT"},
      {fmt::format("localhost:{}", port_), absl::StatusCode::kUnavailable, "is the address in use"},
  };
  for (const auto& test : kCases) {
    const absl::Status status =
        Server::Start({.console_listen = test.address}, std::make_unique<FakeRuntime>()).status();
    EXPECT_EQ(status.code(), test.code) << status;
    EXPECT_NE(Message(status).find(test.error), std::string_view::npos) << status;
  }
}

}  // namespace
}  // namespace tensord
