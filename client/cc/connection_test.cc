#include "client/cc/connection.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "client/cc/fake_daemon.h"
#include "core/base/status.h"

namespace tensord::client {
namespace {

constexpr absl::Time kNever = absl::InfiniteFuture();

std::unique_ptr<Connection> Open(const FakeDaemon& daemon) {
  auto connection = Connection::Open(daemon.address(), {});
  EXPECT_TRUE(connection.ok()) << connection.status();
  return *std::move(connection);
}

class TransferTest : public ::testing::TestWithParam<size_t> {};

TEST_P(TransferTest, BytesComeBackAsTheyWent) {
  FakeDaemon daemon({.max_chunk_bytes = 100'000});
  auto connection = Open(daemon);
  std::vector<char> data(GetParam());
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  const uint64_t handle = connection->NewHandle(Handle::kTensor);
  const auto size = static_cast<int64_t>(data.size());
  ASSERT_TRUE(connection->Upload(handle, DType::kUint8, {size}, "", data, kNever).ok());
  std::vector<char> back(data.size());
  const absl::Status status = connection->Download(handle, absl::MakeSpan(back), kNever);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(back, data);
  EXPECT_EQ(daemon.upload_calls(), data.size() > 16384 ? 1 : 0);  // small ones ride in the command
  EXPECT_EQ(daemon.violations(), std::vector<std::string>{});
}
INSTANTIATE_TEST_SUITE_P(Sizes, TransferTest,
                         ::testing::Values(0, 1, 16384, 16385, 100'000, 3'000'001));

TEST(ConnectionTest, SaysItsPriority) {
  FakeDaemon daemon;
  const std::pair<std::string, v1::Priority> cases[] = {{"interactive", v1::PRIORITY_INTERACTIVE},
                                                        {"normal", v1::PRIORITY_NORMAL},
                                                        {"batch", v1::PRIORITY_BATCH}};
  for (const auto& [name, expected] : cases) {
    ASSERT_TRUE(Connection::Open(daemon.address(), {.priority = name}).ok());
    EXPECT_EQ(daemon.priority(), expected);
  }
  EXPECT_EQ(Message(Connection::Open(daemon.address(), {.priority = "high"}).status()),
            "connect: priority 'high' is none of interactive, normal and batch");
}

TEST(ConnectionTest, SlotsAreUsedAgainByALaterGeneration) {
  FakeDaemon daemon;
  auto connection = Open(daemon);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t handle = connection->NewHandle(Handle::kTensor);
    EXPECT_LT(Handle::Unpack(handle).slot, 200u);
    ASSERT_TRUE(connection->Upload(handle, DType::kUint8, {1}, "", {"x", 1}, kNever).ok());
    connection->Release(handle, 1);
  }
  ASSERT_TRUE(connection->Wait(0, kNever).ok());
  EXPECT_EQ(daemon.live_tensors(), 0u);
  EXPECT_EQ(daemon.violations(), std::vector<std::string>{});
  EXPECT_LT(daemon.count(v1::Command::kRelease), 20);  // they go together
}

TEST(ConnectionTest, LargeReleasesDoNotWait) {
  FakeDaemon daemon;
  auto connection = Open(daemon);
  const uint64_t handle = connection->NewHandle(Handle::kTensor);
  ASSERT_TRUE(connection->Upload(handle, DType::kUint8, {1}, "", {"x", 1}, kNever).ok());
  connection->Release(handle, uint64_t{1} << 30);
  ASSERT_TRUE(connection->Wait(0, kNever).ok());
  EXPECT_EQ(daemon.live_tensors(), 0u);
}

TEST(ConnectionTest, NobodyAnswers) {
  const auto connection =
      Connection::Open("unix:/nowhere/sock", {.connect_timeout = absl::Milliseconds(50)});
  EXPECT_EQ(connection.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(connection.status().message().find("tensord --listen unix:/nowhere/sock"),
            absl::string_view::npos);
}

TEST(ConnectionTest, ARefusedSessionSaysWhy) {
  FakeDaemon daemon({.welcome = false});
  const auto connection = Connection::Open(daemon.address(), {});
  EXPECT_EQ(connection.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(connection.status().message().find("full"), absl::string_view::npos);
}

TEST(ConnectionTest, AfterTheEndEveryCallSaysSo) {
  FakeDaemon daemon;
  auto connection = Open(daemon);
  const uint64_t handle = connection->NewHandle(Handle::kTensor);
  daemon.Stop();
  char byte;
  absl::Status status;
  while (connection->status().ok()) status = connection->Wait(0, kNever);
  for (const absl::Status& later :
       {connection->Download(handle, {&byte, 1}, kNever), connection->Wait(handle, kNever),
        connection->Counters(kNever).status(), connection->WaitForRoom(kNever)}) {
    EXPECT_EQ(later, connection->status());
    EXPECT_NE(later.message().find("is lost"), absl::string_view::npos) << later;
  }
}

TEST(ConnectionTest, AClosedSessionSaysSo) {
  FakeDaemon daemon;
  auto connection = Open(daemon);
  connection->Close();
  EXPECT_EQ(connection->Wait(0, kNever).code(), absl::StatusCode::kCancelled);
}

TEST(ConnectionTest, DeadlinesThatHavePassedAreErrors) {
  FakeDaemon daemon;
  auto connection = Open(daemon);
  EXPECT_EQ(connection->Wait(0, absl::Now() - absl::Seconds(1)).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(connection->Wait(0, kNever).ok());
}

TEST(ConnectionTest, CommandsOfManyThreadsHaveNoGaps) {
  FakeDaemon daemon;
  auto connection = Open(daemon);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const uint64_t handle = connection->NewHandle(Handle::kTensor);
        EXPECT_TRUE(connection->Upload(handle, DType::kUint8, {1}, "", {"x", 1}, kNever).ok());
        connection->Release(handle, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(connection->Wait(0, kNever).ok());
  EXPECT_EQ(daemon.count(v1::Command::kUpload), 2000);
  EXPECT_EQ(daemon.violations(), std::vector<std::string>{});
}

}  // namespace
}  // namespace tensord::client
