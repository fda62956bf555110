// What Prometheus is told, by way of HTTP.
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "server/test_client.h"

namespace tensord {
namespace {

// What a daemon answers to GET `path`, headers included.
std::string Get(const std::string& address, const std::string& path) {
  const size_t colon = address.rfind(':');
  sockaddr_in to = {.sin_family = AF_INET};
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  EXPECT_EQ(inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr), 1);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, got);
  close(fd);
  return reply;
}

class MetricsTest : public ServerTest {
 protected:
  void Start(int sessions = 20) {
    StartServer(
        {.metrics_listen = "localhost:0", .metrics_sessions = sessions, .scheduling = kNoTurns});
  }
  // Values by name and labels, as they are written.
  std::map<std::string, double> Scrape() {
    std::map<std::string, double> result;
    for (absl::string_view line :
         absl::StrSplit(Get(server_->metrics_address(), "/metrics"), '\n')) {
      if (!absl::StartsWith(line, "tensord_")) continue;
      const size_t space = line.rfind(' ');
      double value;
      EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
      result[std::string(line.substr(0, space))] = value;
    }
    return result;
  }
};

TEST_F(MetricsTest, CountsWhatClientsDo) {
  Start();
  {
    const auto client = Open();
    client->Upload(TensorHandle(1), {1, 2, 3});
    client->Register(ProgramHandle(1), AddProgram("add", 3));
    client->Run(ProgramHandle(1), {TensorHandle(1), TensorHandle(1)}, {TensorHandle(2)});
    client->SendAndRead();
    EXPECT_EQ(client->Values(TensorHandle(2)), (std::vector<float>{2, 4, 6}));
    std::string none;
    EXPECT_FALSE(client->Download(TensorHandle(9), &none).ok());
    auto metrics = Scrape();
    const struct {
      const char* name;
      double value;
    } kExpected[] = {
        {"tensord_build_info{version=\"0.1.0\",protocol=\"1\"}", 1},
        {"tensord_draining", 0},
        {"tensord_sessions", 1},
        {"tensord_sessions_opened_total", 1},
        {"tensord_session_memory_bytes{session=\"session-1\"}", 24},
        {"tensord_session_memory_bytes{session=\"other\"}", 0},
        {"tensord_device_memory_used_bytes{device=\"FAKE:0\"}", 24},
        {"tensord_device_memory_used_bytes{device=\"FAKE:1\"}", 0},
        {"tensord_device_busy_seconds_total{device=\"FAKE:0\"}", 1e-6},
        {"tensord_device_busy_seconds_total{device=\"FAKE:1\"}", 0},
        {"tensord_programs_run_total", 1},
        {"tensord_kernels_launched_total", 1},
        {"tensord_uploaded_bytes_total", 12},
        {"tensord_downloaded_bytes_total", 12},
        {"tensord_schedule_duration_seconds_count", 1},
        {"tensord_compile_duration_seconds_count", 1},
        {"tensord_rpc_calls_total{code=\"OK\",method=\"Download\"}", 1},
        {"tensord_rpc_calls_total{code=\"NOT_FOUND\",method=\"Download\"}", 1},
        {"tensord_rpc_duration_seconds_count{method=\"Download\"}", 2},
        {"tensord_rpc_duration_seconds_bucket{method=\"Download\",le=\"+Inf\"}", 2},
        {"tensord_plan_cache_hits_total", 2},
        {"tensord_plan_cache_misses_total", 3},
        {"tensord_kernel_cache_hits_total{tier=\"memory\"}", 4},
        {"tensord_kernel_cache_hits_total{tier=\"disk\"}", 5},
        {"tensord_kernel_cache_misses_total", 6},
        {"tensord_kernel_cache_disk_bytes", 8192},
    };
    for (const auto& test : kExpected) {
      ASSERT_TRUE(metrics.contains(test.name)) << test.name;
      EXPECT_EQ(metrics[test.name], test.value) << test.name;
    }
  }
  // What a session did stays counted when it is gone, and what it had does not.
  std::map<std::string, double> metrics;
  // The client is gone when its call ended, the session a moment later.
  do metrics = Scrape();
  while (metrics["tensord_sessions"] != 0);
  EXPECT_EQ(metrics["tensord_sessions_opened_total"], 1);
  EXPECT_EQ(metrics["tensord_programs_run_total"], 1);
  EXPECT_EQ(metrics["tensord_uploaded_bytes_total"], 12);
  EXPECT_FALSE(metrics.contains("tensord_session_memory_bytes{session=\"session-1\"}"));
}

TEST_F(MetricsTest, TellsWhatADeviceHasNotDone) {
  Start();
  const auto client = Open();
  client->Upload(TensorHandle(1), {1, 2});
  client->Register(ProgramHandle(1), AddProgram("add", 2));
  client->SendAndRead();
  runtime_->device().Hold();
  for (uint32_t i = 2; i < 5; ++i) {
    client->Run(ProgramHandle(1), {TensorHandle(1), TensorHandle(1)}, {TensorHandle(i)});
  }
  client->Send();
  runtime_->device().AwaitQueued(3);
  EXPECT_EQ(Scrape()["tensord_device_queue_depth{device=\"FAKE:0\"}"], 3);
  EXPECT_EQ(Scrape()["tensord_device_queue_depth{device=\"FAKE:1\"}"], 0);
  runtime_->device().Unhold();
  EXPECT_EQ(client->Values(TensorHandle(4)), (std::vector<float>{2, 4}));
  EXPECT_EQ(Scrape()["tensord_device_queue_depth{device=\"FAKE:0\"}"], 0);
  EXPECT_EQ(Scrape()["tensord_device_submissions_total{device=\"FAKE:0\"}"], 3);
}

TEST_F(MetricsTest, OnlyTheLargestSessionsHaveTheirOwn) {
  Start(1);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t floats : {2, 5, 3}) {
    clients.push_back(Open());
    clients.back()->Upload(TensorHandle(1), std::vector<float>(floats));
    clients.back()->SendAndRead();
  }
  auto metrics = Scrape();
  EXPECT_EQ(metrics["tensord_session_memory_bytes{session=\"session-2\"}"], 20);
  EXPECT_EQ(metrics["tensord_session_memory_bytes{session=\"other\"}"], 20);
  EXPECT_FALSE(metrics.contains("tensord_session_memory_bytes{session=\"session-1\"}"));
  server_->SetMetricsSessions(2);
  metrics = Scrape();
  EXPECT_EQ(metrics["tensord_session_memory_bytes{session=\"session-3\"}"], 12);
  EXPECT_EQ(metrics["tensord_session_memory_bytes{session=\"other\"}"], 8);
}

TEST_F(MetricsTest, SaysThatItDrains) {
  Start();
  const auto client = Open();
  client->Upload(TensorHandle(1), {1});
  client->Register(ProgramHandle(1), AddProgram("slow", 1));
  client->Send();
  runtime_->AwaitCompiling(1);
  std::jthread drain([this] { server_->Drain(absl::Seconds(30)); });
  EXPECT_TRUE(client->ReadGoAway());
  EXPECT_EQ(Scrape()["tensord_draining"], 1);
  runtime_->ReleaseCompiles();
}

TEST_F(MetricsTest, NothingElseIsServed) {
  Start();
  for (const char* path : {"/", "/etc/passwd", "/metrics/../etc/passwd"}) {
    EXPECT_TRUE(absl::StartsWith(Get(server_->metrics_address(), path), "HTTP/1.1 404")) << path;
  }
  StartServer();
  EXPECT_EQ(server_->metrics_address(), "");
}

TEST_F(MetricsTest, AddressesAreRefusedWithAReason) {
  Start();
  const struct {
    std::string address;
    absl::StatusCode code;
    const char* error;
  } kCases[] = {
      {"0.0.0.0:0", absl::StatusCode::kFailedPrecondition, "other machines could connect"},
      {"unix:/x", absl::StatusCode::kInvalidArgument, "Prometheus needs HOST:PORT"},
      {server_->metrics_address(), absl::StatusCode::kUnavailable, "is the address in use?"},
  };
  for (const auto& test : kCases) {
    const absl::Status status =
        Server::Start({.metrics_listen = test.address}, std::make_unique<FakeRuntime>()).status();
    EXPECT_EQ(status.code(), test.code) << status;
    EXPECT_NE(Message(status).find(test.error), std::string_view::npos) << status;
  }
}

TEST_F(MetricsTest, ALimitThatChangesIsForSessionsOpenedLater) {
  Start();
  const auto before = Open();
  server_->SetMaxSessionBytes(8);
  const auto after = Open();
  EXPECT_EQ(before->welcome.limits().max_session_bytes(), uint64_t{1} << 40);
  EXPECT_EQ(after->welcome.limits().max_session_bytes(), 8u);
  after->Upload(TensorHandle(1), {1, 2, 3});
  after->Send();
  const v1::CommandError* error = after->ReadError(1);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tensord
