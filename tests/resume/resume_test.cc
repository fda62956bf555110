// Connections that break: the client library, a daemon over a fake runtime, and a proxy between.
#include <absl/time/clock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cc/connection.h"
#include "core/base/status.h"
#include "core/ir/program.h"
#include "core/wire/handle.h"
#include "core/wire/program.h"
#include "proto/tensord/v1/admin.grpc.pb.h"
#include "proto/tensord/v1/session.grpc.pb.h"
#include "server/server.h"
#include "server/session/fake_runtime.h"
#include "tests/resume/cutting_proxy.h"

namespace tensord {
namespace {

using client::Connection;

const absl::Time kNever = absl::InfiniteFuture();
constexpr size_t kWhole = SIZE_MAX;  // of a frame

// What the client library says.
spdlog::sinks::ringbuffer_sink_mt& Said() {
  static auto& sink = *new auto([] {
    auto sink = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(64);
    spdlog::register_logger(std::make_shared<spdlog::logger>("client", sink));
    return sink;
  }());
  return *sink;
}

bool HasSaid(const std::string& text) {
  for (const std::string& line : Said().last_formatted()) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

// x + y over float32[1], which overwrites x.
v1::Program Adding() {
  Program program;
  program.name = "count";
  const Node* x = program.graph.Param(0, DType::kFloat32, {1});
  const Node* y = program.graph.Param(1, DType::kFloat32, {1});
  program.inputs = {x, y};
  program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, y}), .overwrites = 0}};
  return Encode(program);
}

// A program that counts, command by command.
class Counter {
 public:
  explicit Counter(Connection& connection)
      : connection_(connection),
        count_(connection.NewHandle(Handle::kTensor)),
        one_(connection.NewHandle(Handle::kTensor)),
        program_(connection.NewHandle(Handle::kProgram)) {
    for (const auto& [handle, value] : {std::pair(count_, 0.f), std::pair(one_, 1.f)}) {
      const absl::Span<const char> bytes(reinterpret_cast<const char*>(&value), sizeof(value));
      EXPECT_TRUE(connection.Upload(handle, DType::kFloat32, {1}, "", bytes, kNever).ok());
    }
    v1::Command command;
    command.mutable_register_program()->set_handle(program_);
    *command.mutable_register_program()->mutable_program() = Adding();
    connection.Send(std::move(command));
  }
  ~Counter() {
    for (uint64_t handle : {count_, one_, program_}) connection_.Release(handle, 4);
  }

  uint64_t Run() {
    v1::Command command;
    command.mutable_run()->set_program(program_);
    command.mutable_run()->add_inputs(count_);
    command.mutable_run()->add_inputs(one_);
    command.mutable_run()->add_outputs(count_);
    return connection_.Send(std::move(command));
  }
  absl::StatusOr<float> Value() {
    float value = -1;
    TD_RETURN_IF_ERROR(connection_.Download(
        count_, absl::MakeSpan(reinterpret_cast<char*>(&value), sizeof(value)), kNever));
    return value;
  }
  uint64_t handle() const { return count_; }

 private:
  Connection& connection_;
  const uint64_t count_, one_, program_;
};

class ResumeTest : public testing::Test {
 protected:
  void SetUp() override {
    Said();
    char name[] = "/tmp/td-XXXXXX";
    folder_ = mkdtemp(name);
    Start();
    proxy_ = std::make_unique<CuttingProxy>(folder_ + "/p", folder_ + "/t");
  }
  void TearDown() override {
    server_ = nullptr;
    proxy_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  void Start(absl::Duration lease = absl::Seconds(60)) {
    SessionLimits limits;
    limits.max_lease = lease;
    server_ = nullptr;
    auto runtime = std::make_unique<FakeRuntime>();
    runtime_ = runtime.get();
    auto server =
        Server::Start({.listen = {"unix:" + folder_ + "/t"}, .limits = limits}, std::move(runtime));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<Connection> Open() {
    auto connection = Connection::Open(proxy_->address(), {});
    EXPECT_TRUE(connection.ok()) << connection.status();
    return *std::move(connection);
  }
  v1::GetStatusReply Status() {
    const auto admin = v1::AdminService::NewStub(server_->InProcessChannel());
    grpc::ClientContext context;
    v1::GetStatusReply reply;
    EXPECT_TRUE(admin->GetStatus(&context, {}, &reply).ok());
    return reply;
  }

  std::string folder_;
  FakeRuntime* runtime_ = nullptr;
  std::unique_ptr<Server> server_;
  std::unique_ptr<CuttingProxy> proxy_;
};

struct Cut {
  const char* name;
  CuttingProxy::Direction direction;
  size_t bytes;  // of the frame in which it is cut
};
const Cut kCuts[] = {{"BeforeAFrameToTheServer", CuttingProxy::kToServer, 0},
                     {"InAFrameToTheServer", CuttingProxy::kToServer, 12},
                     {"AfterAFrameToTheServer", CuttingProxy::kToServer, kWhole},
                     {"BeforeAFrameToTheClient", CuttingProxy::kToClient, 0},
                     {"InAFrameToTheClient", CuttingProxy::kToClient, 12},
                     {"AfterAFrameToTheClient", CuttingProxy::kToClient, kWhole}};

class CutTest : public ResumeTest, public testing::WithParamInterface<Cut> {};

TEST_P(CutTest, EachCommandIsDoneOnceWhereverTheCutIs) {
  constexpr int kRuns = 12;
  int cuts = 0;
  for (int frames = 0;; ++frames) {
    SCOPED_TRACE(frames);
    ASSERT_LT(frames, 1000);
    auto connection = Open();
    proxy_->CutAfter(GetParam().direction, {.frames = frames, .bytes = GetParam().bytes});
    Counter counter(*connection);
    std::vector<uint64_t> runs;
    for (int i = 0; i < kRuns; ++i) {
      runs.push_back(counter.Run());
      if (i % 3 == 2) {
        ASSERT_EQ(connection->AwaitRun(runs.back(), kNever), absl::OkStatus());
      }
    }
    ASSERT_EQ(connection->Wait(counter.handle(), kNever), absl::OkStatus());
    const absl::StatusOr<float> value = counter.Value();
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, kRuns);
    for (uint64_t run : runs) EXPECT_EQ(connection->AwaitRun(run, kNever), absl::OkStatus());
    const auto counters = connection->Counters(kNever);
    ASSERT_TRUE(counters.ok()) << counters.status();
    EXPECT_EQ(counters->programs_run(), kRuns);
    if (proxy_->cuts() == 0) break;
    ++cuts;
  }
  // Runs that come while a frame is under way share the next, but for those that are waited for.
  EXPECT_GT(cuts, kRuns / 3);
}

TEST_P(CutTest, TransfersGoOnWhereverTheCutIs) {
  std::string data(3'000'001, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 % 251);
  int cuts = 0;
  for (int frames = 0;; frames += 13) {
    SCOPED_TRACE(frames);
    ASSERT_LT(frames, 10'000);
    auto connection = Open();
    proxy_->CutAfter(GetParam().direction, {.frames = frames, .bytes = GetParam().bytes});
    const uint64_t handle = connection->NewHandle(Handle::kTensor);
    const absl::Status sent = connection->Upload(
        handle, DType::kUint8, {static_cast<int64_t>(data.size())}, "", data, kNever);
    ASSERT_EQ(sent, absl::OkStatus());
    std::string back(data.size(), '\0');
    ASSERT_EQ(connection->Download(handle, absl::MakeSpan(back), kNever), absl::OkStatus());
    EXPECT_TRUE(back == data);
    if (proxy_->cuts() == 0) break;
    ++cuts;
  }
  EXPECT_GT(cuts, 0);
}
INSTANTIATE_TEST_SUITE_P(Cuts, CutTest, testing::ValuesIn(kCuts),
                         [](const auto& info) { return info.param.name; });

TEST_F(ResumeTest, WorkGoesOnWhileTheClientIsAway) {
  auto connection = Open();
  Counter counter(*connection);
  runtime_->device().Hold();
  const uint64_t run = counter.Run();
  runtime_->device().AwaitQueued(1);
  proxy_->Refuse(true);
  proxy_->CutNow();
  runtime_->device().Unhold();
  while (Status().sessions_parked() == 0) std::this_thread::yield();
  EXPECT_EQ(Status().sessions(), 1u);
  EXPECT_EQ(runtime_->device().allocator().stats().in_use_bytes, 8u);  // is kept, and counts
  EXPECT_EQ(connection->AwaitRun(run, absl::Now())->code(), absl::StatusCode::kDeadlineExceeded);
  proxy_->Refuse(false);
  EXPECT_EQ(connection->AwaitRun(run, kNever), absl::OkStatus());
  EXPECT_EQ(*counter.Value(), 1);
  EXPECT_EQ(Status().sessions_parked(), 0u);
  EXPECT_TRUE(HasSaid("connection to " + proxy_->address() + " lost: "));
  EXPECT_TRUE(HasSaid("resumed " + connection->welcome().session_id() + " with "));
}

TEST_F(ResumeTest, CallsWaitForTheReconnectUpToTheirDeadline) {
  auto connection = Open();
  Counter counter(*connection);
  ASSERT_TRUE(counter.Value().ok());
  proxy_->Refuse(true);
  proxy_->CutNow();
  while (Status().sessions_parked() == 0) std::this_thread::yield();
  const absl::Status status = connection->Wait(0, absl::Now() + absl::Milliseconds(20));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(connection->status().ok());
  proxy_->Refuse(false);
  EXPECT_EQ(connection->Wait(0, kNever), absl::OkStatus());
}

TEST_F(ResumeTest, AClientThatDoesNotComeBackIsFreedAtTheEndOfItsLease) {
  Start(absl::Milliseconds(50));
  auto connection = Open();
  Counter counter(*connection);
  ASSERT_TRUE(counter.Value().ok());
  proxy_->Refuse(true);
  proxy_->CutNow();
  runtime_->device().AwaitInUse(0);
  const absl::Status lost = connection->Wait(0, kNever);
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_TRUE(connection->lost());
  for (const char* part : {connection->welcome().session_id().c_str(), proxy_->address().c_str(),
                           "lease of 50ms", "made again", "a new session"}) {
    EXPECT_NE(lost.message().find(part), absl::string_view::npos) << part << " in " << lost;
  }
  // Every use says the same.
  EXPECT_EQ(counter.Value().status(), lost);
  EXPECT_EQ(connection->WaitForRoom(kNever), lost);
  EXPECT_EQ(connection->Counters(kNever).status(), lost);
  EXPECT_EQ(*connection->AwaitRun(counter.Run(), kNever), lost);
}

TEST_F(ResumeTest, ACleanEndFreesAtOnce) {
  {
    auto connection = Open();
    Counter counter(*connection);
    ASSERT_TRUE(counter.Value().ok());
    EXPECT_GT(runtime_->device().allocator().stats().in_use_bytes, 0u);
  }
  // The lease is longer than the test may take.
  runtime_->device().AwaitInUse(0);
  EXPECT_EQ(Status().sessions(), 0u);
}

TEST_F(ResumeTest, AClientThatWantsNoLeaseHasNone) {
  auto connection = Connection::Open(proxy_->address(), {.lease = absl::ZeroDuration()});
  ASSERT_TRUE(connection.ok());
  EXPECT_EQ((*connection)->welcome().lease_ms(), 0u);
  Counter counter(**connection);
  ASSERT_TRUE(counter.Value().ok());
  proxy_->CutNow();
  runtime_->device().AwaitInUse(0);
  EXPECT_EQ((*connection)->Wait(0, kNever).code(), absl::StatusCode::kUnavailable);
}

TEST_F(ResumeTest, ARestartedDaemonSaysThatItDoesNotKnowTheSession) {
  auto connection = Open();
  Counter counter(*connection);
  ASSERT_TRUE(counter.Value().ok());
  // Killed, as far as a client can tell: no word, and the socket is gone.
  proxy_->Refuse(true);
  proxy_->CutNow();
  Start();
  proxy_->Refuse(false);
  const absl::Status lost = connection->Wait(counter.handle(), kNever);
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_NE(lost.message().find("the daemon was restarted"), absl::string_view::npos) << lost;
  auto fresh = Open();
  Counter again(*fresh);
  again.Run();
  EXPECT_EQ(*again.Value(), 1);
}

// Takes as long as keep-alive does, 15 s: nothing but its pings can tell.
TEST_F(ResumeTest, AConnectionOnWhichNothingPassesIsReplaced) {
  auto connection = Open();
  Counter counter(*connection);
  ASSERT_TRUE(counter.Value().ok());
  proxy_->Freeze();
  const uint64_t run = counter.Run();
  EXPECT_EQ(connection->AwaitRun(run, kNever), absl::OkStatus());
  EXPECT_EQ(*counter.Value(), 1);
  EXPECT_EQ(Status().sessions_total(), 1u);
}

TEST_F(ResumeTest, ManyClientsComeBack) {
  constexpr int kClients = 200;
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<std::unique_ptr<Counter>> counters;
  for (int i = 0; i < kClients; ++i) {
    connections.push_back(Open());
    counters.push_back(std::make_unique<Counter>(*connections.back()));
    counters.back()->Run();
  }
  for (const auto& connection : connections) ASSERT_TRUE(connection->Wait(0, kNever).ok());
  proxy_->CutNow();
  for (const auto& counter : counters) counter->Run();
  for (const auto& counter : counters) {
    const absl::StatusOr<float> value = counter->Value();
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, 2);
  }
  EXPECT_EQ(Status().sessions(), static_cast<uint64_t>(kClients));
  EXPECT_EQ(Status().sessions_total(), static_cast<uint64_t>(kClients));
}

}  // namespace
}  // namespace tensord
