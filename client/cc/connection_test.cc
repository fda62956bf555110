#include "client/cc/connection.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client/cc/fake_daemon.h"
#include "core/base/status.h"
#include "core/wire/recording.h"
#include "proto/tensord/v1/session.pb.h"

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
  for (const auto& [code, why] : {
           std::pair(grpc::StatusCode::UNAVAILABLE, "full"),
           std::pair(grpc::StatusCode::CANCELLED, "it is shutting down"),  // gRPC's, for the daemon
       }) {
    FakeDaemon daemon({.refusal = code});
    const absl::Status refused = Connection::Open(daemon.address(), {}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Message(refused), fmt::format("{} ended the session: {}", daemon.address(), why));
  }
}

TEST(ConnectionTest, DaemonsOfOtherVersionsAreRefusedWithTheRemedy) {
  for (const auto& [version, remedy] :
       {std::pair<uint32_t, std::string>{0, "upgrade the daemon"},
        std::pair<uint32_t, std::string>{2, "upgrade the client"}}) {
    FakeDaemon daemon({.version = version});
    const absl::Status refused = Connection::Open(daemon.address(), {}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(Message(refused),
              fmt::format("{} (tensord 9.8.7) answers in protocol version {}, this client (tensord "
                          "0.1.0) speaks 1 to 1: {}",
                          daemon.address(), version, remedy));
  }
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

// What stands in the file that TENSORD_RECORD names after an upload, a failed run and a download.
Recording RecordSession(const char* contents) {
  const std::string path = ::testing::TempDir() + "/recorder_test_" + contents + ".tdrec";
  setenv("TENSORD_RECORD", path.c_str(), 1);
  setenv("TENSORD_RECORD_CONTENTS", contents, 1);
  FakeDaemon daemon;
  {
    auto connection = Open(daemon);
    unsetenv("TENSORD_RECORD");
    const uint64_t small = connection->NewHandle(Handle::kTensor);
    EXPECT_TRUE(connection->Upload(small, DType::kUint8, {5}, "", {"small", 5}, kNever).ok());
    const uint64_t large = connection->NewHandle(Handle::kTensor);
    std::string data(1'500'000, 'L');
    EXPECT_TRUE(connection->Upload(large, DType::kUint8, {1'500'000}, "", data, kNever).ok());
    EXPECT_TRUE(connection->Download(large, absl::MakeSpan(data), kNever).ok());
    char none;
    EXPECT_FALSE(connection->Download(99, {&none, 1}, kNever).ok());
  }
  absl::StatusOr<Recording> recording = ReadRecording(path);
  EXPECT_TRUE(recording.ok()) << recording.status();
  return *std::move(recording);
}

TEST(RecorderTest, KeepsOrderAndSizesAndNeitherTokensNorContents) {
  const Recording recording = RecordSession("false");
  EXPECT_FALSE(recording.header.contents());
  EXPECT_FALSE(recording.cut_off);
  std::map<std::string, int> begun;
  uint64_t left_out = 0, time = 0;
  int failed = 0;
  for (const v1::RecordedEvent& event : recording.events) {
    if (event.has_begun()) ++begun[event.begun()];
    for (const v1::LeftOut& each : event.left_out()) left_out += each.bytes();
    failed += event.ended().code() == static_cast<uint32_t>(absl::StatusCode::kNotFound);
    EXPECT_LE(time, event.time_us());
    time = event.time_us();
    for (const std::string& message : {event.sent(), event.received()}) {
      for (const char* secret : {"the session's secret", "small", "LLLL"}) {
        EXPECT_EQ(message.find(secret), std::string::npos) << secret;
      }
    }
  }
  EXPECT_EQ(begun["/tensord.v1.SessionService/Session"], 1);
  EXPECT_EQ(begun["/tensord.v1.SessionService/Upload"], 1);
  EXPECT_EQ(begun["/tensord.v1.SessionService/Download"], 2);
  EXPECT_EQ(left_out, 5u + 1'500'000u + 1'500'000u);  // up and down
  EXPECT_EQ(failed, 1);
}

TEST(RecorderTest, KeepsContentsIfAsked) {
  const Recording recording = RecordSession("true");
  EXPECT_TRUE(recording.header.contents());
  std::string sent, received;
  for (const v1::RecordedEvent& event : recording.events) {
    EXPECT_EQ(event.left_out_size(), 0);
    sent += event.sent();
    received += event.received();
  }
  EXPECT_NE(sent.find("small"), std::string::npos);
  const std::string piece(10'000, 'L');
  EXPECT_NE(sent.find(piece), std::string::npos);
  EXPECT_NE(received.find(piece), std::string::npos);
}

TEST(RecorderTest, SaysWhatIsNoPlaceForARecording) {
  FakeDaemon daemon;
  setenv("TENSORD_RECORD", "/nowhere/f.tdrec", 1);
  const absl::Status refused = Connection::Open(daemon.address(), {}).status();
  unsetenv("TENSORD_RECORD");
  EXPECT_EQ(Message(refused),
            "connect: TENSORD_RECORD: cannot write '/nowhere/f.tdrec': No such file or directory");
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
