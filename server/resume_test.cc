// Sessions that outlive their streams, by the raw protocol.
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/tensord/v1/admin.grpc.pb.h"
#include "server/test_client.h"

namespace tensord {
namespace {

constexpr uint32_t kLeaseMs = 600'000;  // longer than any test may take

class ResumeTest : public ServerTest {
 protected:
  void StartWithLease(absl::Duration lease = absl::Milliseconds(kLeaseMs),
                      uint32_t max_parked = 1000) {
    ServerOptions options{.scheduling = kNoTurns};
    options.limits.max_lease = lease;
    options.limits.max_parked_sessions = max_parked;
    options.limits.max_kept_events = 8;
    StartServer(options);
  }
  std::unique_ptr<TestClient> OpenLeased() {
    auto client = std::make_unique<TestClient>(channel_);
    EXPECT_TRUE(client->Hello({.lease_ms = kLeaseMs}));
    return client;
  }
  // Another stream of the session.
  std::unique_ptr<TestClient> Resume(const TestClient& before) {
    auto client = std::make_unique<TestClient>(channel_);
    EXPECT_TRUE(client->Hello({.lease_ms = kLeaseMs,
                               .token = before.welcome.session_token(),
                               .acknowledged = before.events}));
    client->sequence = before.sequence;
    client->events = before.events;
    return client;
  }
  v1::ListSessionsReply Sessions() {
    const auto admin = v1::AdminService::NewStub(channel_);
    grpc::ClientContext context;
    v1::ListSessionsReply reply;
    EXPECT_TRUE(admin->ListSessions(&context, {}, &reply).ok());
    return reply;
  }
  void AwaitParked(int count) {
    const auto parked = [this] {
      int parked = 0;
      const v1::ListSessionsReply reply = Sessions();
      for (const auto& session : reply.sessions()) parked += session.parked();
      return parked;
    };
    while (parked() != count) std::this_thread::yield();
  }
};

TEST_F(ResumeTest, TheLeaseIsWhatTheClientAsksForAndTheDaemonAllows) {
  const struct {
    uint32_t asked_ms;
    absl::Duration limit;
    uint32_t granted_ms;
  } kCases[] = {{0, absl::Seconds(30), 0},
                {500, absl::Seconds(30), 500},
                {4'000'000'000, absl::Seconds(30), 30'000},
                {500, absl::ZeroDuration(), 0}};
  for (const auto& test : kCases) {
    StartWithLease(test.limit);
    TestClient client(channel_);
    ASSERT_TRUE(client.Hello({.lease_ms = test.asked_ms}));
    EXPECT_EQ(client.welcome.lease_ms(), test.granted_ms);
    EXPECT_FALSE(client.welcome.resumed());
  }
}

TEST_F(ResumeTest, ASessionKeepsItsTensorsAndCommandNumbers) {
  StartWithLease();
  auto before = OpenLeased();
  before->Upload(TensorHandle(0), {1, 2});
  before->Upload(TensorHandle(1), {10, 20});
  before->Register(ProgramHandle(0), AddProgram("add", 2, /*overwrite=*/true));
  before->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)}, true);
  before->Send();
  ASSERT_NE(before->ReadCompletion(4), nullptr);
  before->Drop();
  AwaitParked(1);
  EXPECT_GT(Sessions().sessions(0).lease_ms_left(), 0u);
  EXPECT_EQ(Sessions().sessions(0).counters().live_bytes(), 16u);
  auto after = Resume(*before);
  EXPECT_TRUE(after->welcome.resumed());
  EXPECT_EQ(after->welcome.received(), 4u);
  EXPECT_EQ(after->welcome.session_id(), before->welcome.session_id());
  AwaitParked(0);
  // Sent again, it is dropped.
  after->sequence = 3;
  after->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)}, true);
  after->Send();
  EXPECT_EQ(after->Values(TensorHandle(0)), (std::vector<float>{11, 22}));
  EXPECT_EQ(after->Counters().programs_run(), 1u);
}

TEST_F(ResumeTest, EventsAreToldUntilTheyAreAcknowledged) {
  StartWithLease();
  auto first = OpenLeased();
  first->Upload(TensorHandle(0), {1});
  first->Register(ProgramHandle(0), AddProgram("add", 1));
  first->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)}, true);
  first->Release({TensorHandle(9)});  // refused
  first->Send();
  ASSERT_NE(first->ReadCompletion(3), nullptr);
  ASSERT_NE(first->ReadError(4), nullptr);
  EXPECT_EQ(first->events, 2u);
  first->Drop();
  // It says that it has got nothing.
  first->events = 0;
  auto second = Resume(*first);
  ASSERT_NE(second->ReadCompletion(3), nullptr);
  ASSERT_NE(second->ReadError(4), nullptr);
  EXPECT_EQ(second->events, 2u);
  second->Drop();
  // And now that it has all: the next thing it hears is new.
  auto third = Resume(*second);
  third->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(2)}, true);
  third->Send();
  ASSERT_NE(third->ReadCompletion(5), nullptr);
  EXPECT_EQ(third->completions.size(), 1u);
  EXPECT_EQ(third->errors.size(), 0u);
  EXPECT_EQ(third->events, 3u);
}

TEST_F(ResumeTest, AClientThatDoesNotAcknowledgeIsEnded) {
  StartWithLease();
  auto client = OpenLeased();
  client->acknowledges = false;
  for (int i = 0; i < 9; ++i) client->Release({TensorHandle(0)});
  client->Send();
  ASSERT_NE(client->ReadError(9), nullptr);
  client->Release({TensorHandle(0)});
  client->Send();
  const grpc::Status status = client->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("9 events are not acknowledged, more than the limit of 8"),
            std::string::npos)
      << status.error_message();
  EXPECT_EQ(Sessions().sessions_size(), 0);
}

TEST_F(ResumeTest, AStreamThatSeemsAliveIsReplaced) {
  StartWithLease();
  auto before = OpenLeased();
  before->Upload(TensorHandle(0), {1});
  before->SendAndRead();
  auto after = Resume(*before);
  EXPECT_EQ(before->Finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(after->Values(TensorHandle(0)), (std::vector<float>{1}));
  EXPECT_EQ(Sessions().sessions_size(), 1);
  EXPECT_FALSE(Sessions().sessions(0).parked());
}

TEST_F(ResumeTest, WrongTokensTellNothing) {
  StartWithLease();
  auto client = OpenLeased();
  auto ended = OpenLeased();
  const std::string gone = ended->welcome.session_token();
  ASSERT_TRUE(ended->EndSession().ok());
  std::string forged = client->welcome.session_token();
  forged.back() = static_cast<char>(forged.back() ^ 1);
  for (const std::string& token :
       {gone, forged, forged.substr(1), std::string(16, '\0'), std::string("x"),
        client->welcome.session_token() + "x", client->welcome.session_id()}) {
    TestClient thief(channel_);
    EXPECT_FALSE(thief.Hello({.token = token}));
    const grpc::Status status = thief.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_message(),
              "there is no such session: its lease ran out, it was ended, or the daemon was "
              "restarted; open a new one");
  }
  EXPECT_EQ(client->Wait().code(), 0u);  // and nothing has happened to it
}

TEST_F(ResumeTest, AcknowledgingWhatWasNotToldIsRefused) {
  StartWithLease();
  auto client = OpenLeased();
  client->Drop();
  client->events = 1;
  TestClient again(channel_);
  EXPECT_FALSE(
      again.Hello({.token = client->welcome.session_token(), .acknowledged = client->events}));
  EXPECT_EQ(again.Finish().error_message(), "event 1 is acknowledged where 0 were told");
}

TEST_F(ResumeTest, AnEndedSessionIsFreedAtOnceWithAndWithoutAStream) {
  StartWithLease();
  for (const bool has_stream : {true, false}) {
    auto client = OpenLeased();
    client->Upload(TensorHandle(0), {1});
    client->SendAndRead();
    if (!has_stream) {
      client->Drop();
      AwaitParked(1);
    }
    ASSERT_TRUE(client->EndSession().ok());
    runtime_->device().AwaitInUse(0);
    EXPECT_EQ(Sessions().sessions_size(), 0);
    if (!has_stream) continue;
    EXPECT_TRUE(client->Finish().ok());
  }
}

TEST_F(ResumeTest, TheLeaseEndsASession) {
  StartWithLease(absl::Milliseconds(20));
  for (int i = 0; i < 10; ++i) {
    auto client = OpenLeased();
    client->Upload(TensorHandle(0), {1, 2, 3});
    client->SendAndRead();
    client->Drop();
    runtime_->device().AwaitInUse(0);
    TestClient late(channel_);
    EXPECT_FALSE(late.Hello({.token = client->welcome.session_token()}));
    EXPECT_EQ(late.Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  }
}

TEST_F(ResumeTest, OfTooManyParkedSessionsTheOldestEnds) {
  StartWithLease(absl::Milliseconds(kLeaseMs), /*max_parked=*/2);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(OpenLeased());
    clients.back()->Drop();
    AwaitParked(std::min(i + 1, 2));
  }
  while (Sessions().sessions_size() != 2) std::this_thread::yield();
  TestClient first(channel_);
  EXPECT_FALSE(first.Hello({.token = clients[0]->welcome.session_token()}));
  EXPECT_TRUE(Resume(*clients[1])->welcome.resumed());
  EXPECT_TRUE(Resume(*clients[2])->welcome.resumed());
}

TEST_F(ResumeTest, AnUploadGoesOnWhereItStopped) {
  StartWithLease();
  auto client = OpenLeased();
  client->UploadLater(TensorHandle(0), 4, 1);
  client->SendAndRead();
  const std::string all = Bytes({1, 2, 3, 4});
  const auto call = [&](uint64_t offset, uint64_t bytes) {
    grpc::ClientContext context;
    v1::UploadReply reply;
    const auto writer = client->stub().Upload(&context, &reply);
    v1::UploadChunk chunk;
    chunk.set_session_token(client->welcome.session_token());
    chunk.set_transfer_id(1);
    chunk.set_total_bytes(all.size());
    chunk.set_handle(TensorHandle(0));
    chunk.set_offset(offset);
    chunk.set_data(all.substr(offset, bytes));
    writer->Write(chunk);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    return std::pair(status.error_code(), reply.bytes());
  };
  using Result = std::pair<grpc::StatusCode, uint64_t>;
  EXPECT_EQ(call(0, 4), Result(grpc::StatusCode::OK, 4));
  EXPECT_EQ(call(0, 0), Result(grpc::StatusCode::OK, 4));  // asks
  EXPECT_EQ(call(4, 8), Result(grpc::StatusCode::OK, 12));
  EXPECT_EQ(call(12, 4), Result(grpc::StatusCode::OK, 16));
  EXPECT_EQ(call(0, 0), Result(grpc::StatusCode::OK, 16));  // it was complete before
  EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(ResumeTest, AnUploadThatIsGivenUpPoisonsItsTensor) {
  StartWithLease();
  auto client = OpenLeased();
  client->UploadLater(TensorHandle(0), 4, 1);
  client->SendAndRead();
  grpc::ClientContext context;
  v1::UploadReply reply;
  const auto writer = client->stub().Upload(&context, &reply);
  v1::UploadChunk chunk;
  chunk.set_session_token(client->welcome.session_token());
  chunk.set_transfer_id(1);
  chunk.set_total_bytes(16);
  chunk.set_abandon(true);
  writer->Write(chunk);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(client->Wait(TensorHandle(0)).message().find("gave the upload up after 0 of 16 bytes"),
            std::string::npos);
}

TEST_F(ResumeTest, ADownloadGoesOnUnlessTheTensorWasOverwritten) {
  StartWithLease();
  auto client = OpenLeased();
  client->Upload(TensorHandle(0), {1, 2, 3, 4});
  client->Register(ProgramHandle(0), AddProgram("add", 4, /*overwrite=*/true));
  client->SendAndRead();
  uint64_t version = 0;
  const auto read_from = [&](uint64_t offset) {
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_session_token(client->welcome.session_token());
    request.set_handle(TensorHandle(0));
    request.set_after_sequence(client->sequence);
    request.set_offset(offset);
    request.set_version(version);
    const auto reader = client->stub().Download(&context, request);
    v1::DownloadChunk chunk;
    EXPECT_TRUE(reader->Read(&chunk));
    version = chunk.version();
    EXPECT_TRUE(reader->Finish().ok());
    return std::pair(chunk.offset(), Floats(chunk.data()));
  };
  using Result = std::pair<uint64_t, std::vector<float>>;
  EXPECT_EQ(read_from(0), Result(0, {1, 2, 3, 4}));
  EXPECT_EQ(read_from(8), Result(8, {3, 4}));
  client->Upload(TensorHandle(1), {1, 1, 1, 1});
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)}, true);
  client->Send();
  EXPECT_EQ(read_from(8), Result(0, {2, 3, 4, 5}));
}

TEST_F(ResumeTest, ADrainDoesNotWaitForThoseWhoAreAway) {
  StartWithLease();
  auto client = OpenLeased();
  client->Upload(TensorHandle(0), {1});
  client->SendAndRead();
  client->Drop();
  AwaitParked(1);
  EXPECT_TRUE(server_->Drain(absl::Minutes(10)));
}

}  // namespace
}  // namespace tensord
