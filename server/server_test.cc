// The session protocol over real gRPC: order, errors, several clients.
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/test_client.h"

namespace tensord {
namespace {

TEST_F(ServerTest, WelcomeSaysWhatThereIs) {
  StartServer();
  auto client = Open();
  EXPECT_EQ(client->welcome.version(), 1u);
  EXPECT_EQ(client->welcome.session_token().size(), 16u);
  EXPECT_EQ(client->welcome.limits().max_chunk_bytes(), 1u << 20);
  ASSERT_EQ(client->welcome.devices_size(), 2);
  EXPECT_EQ(client->welcome.devices(0).name(), "FAKE:0");
  EXPECT_TRUE(client->Finish().ok());
}

TEST_F(ServerTest, ClientsOfOtherVersionsLearnTheRemedy) {
  StartServer();
  const struct {
    uint32_t min, max;
    const char* remedy;
  } kOthers[] = {{2, 3, "upgrade the daemon"}, {0, 0, "upgrade the client"}};
  for (const auto& other : kOthers) {
    TestClient client(channel_);
    EXPECT_FALSE(client.Hello({.min_version = other.min, .max_version = other.max}));
    const grpc::Status status = client.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(status.error_message(),
              fmt::format("the client speaks protocol versions {} to {}, this daemon (tensord "
                          "0.1.0) speaks 1 to 1: {}",
                          other.min, other.max, other.remedy));
  }
  TestClient reversed(channel_);
  EXPECT_FALSE(reversed.Hello({.min_version = 3, .max_version = 1}));
  const grpc::Status wrong = reversed.Finish();
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(wrong.error_message(), "Hello: min_version 3 is above max_version 1");
  TestClient range(channel_);
  EXPECT_TRUE(range.Hello({.min_version = 0, .max_version = 9}));
  EXPECT_EQ(range.welcome.version(), 1u);
}

TEST_F(ServerTest, FirstFrameMustBeHelloAlone) {
  StartServer();
  TestClient client(channel_);
  client.Upload(TensorHandle(0), {1});
  client.Send();
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ServerTest, AFirstFrameThatIsNoneIsRefused) {
  StartServer();
  for (const char* bytes : {"\xff\xff\xff garbage", ""}) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto next = [&queue] {
      void* tag;
      bool ok;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, "/tensord.v1.SessionService/Session", &queue);
    call->StartCall(nullptr);
    ASSERT_TRUE(next());
    if (*bytes != '\0') {
      const grpc::Slice slice(bytes);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      next();
    }
    call->WritesDone(nullptr);
    next();
    grpc::Status status;
    call->Finish(&status, nullptr);
    ASSERT_TRUE(next());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << bytes;
    EXPECT_NE(status.error_message().find("before its first frame with Hello"), std::string::npos);
    queue.Shutdown();
  }
}

TEST_F(ServerTest, RunsAProgram) {
  StartServer();
  auto client = Open();
  client->Upload(TensorHandle(0), {1, 2, 3});
  client->Upload(TensorHandle(1), {10, 20, 30});
  client->Register(ProgramHandle(0), AddProgram("add", 3));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(2)}, true);
  client->Send();
  const v1::Completion* completion = client->ReadCompletion(4);
  ASSERT_NE(completion, nullptr);
  EXPECT_EQ(completion->status().code(), 0u);
  EXPECT_EQ(completion->kernels(), 1u);
  EXPECT_EQ(completion->device_ns(), 1000u);
  EXPECT_EQ(client->Values(TensorHandle(2)), (std::vector<float>{11, 22, 33}));
  const v1::CountersReply counters = client->Counters();
  EXPECT_EQ(counters.programs_run(), 1u);
  EXPECT_EQ(counters.kernels_compiled(), 1u);
  EXPECT_EQ(counters.plan_misses(), 1u);
  EXPECT_EQ(counters.bytes_uploaded(), 24u);
  EXPECT_EQ(counters.bytes_downloaded(), 12u);
  EXPECT_EQ(counters.device_ns(), 1000u);
  EXPECT_EQ(counters.live_bytes(), 36u);
  EXPECT_EQ(counters.live_handles(), 4u);
}

TEST_F(ServerTest, RunsFollowOneAnotherWithoutWaiting) {
  StartServer();
  auto client = Open();
  runtime_->device().Hold();
  client->Upload(TensorHandle(0), {1});
  client->Register(ProgramHandle(0), AddProgram("twice", 1));
  for (uint32_t i = 0; i < 10; ++i) {
    v1::RunProgram* run =
        client->Run(ProgramHandle(0), {TensorHandle(i), TensorHandle(i)}, {TensorHandle(i + 1)});
    run->add_release(TensorHandle(i));
  }
  client->Send();
  runtime_->device().AwaitQueued(10);
  runtime_->device().Unhold();
  EXPECT_EQ(client->Values(TensorHandle(10)), (std::vector<float>{1024}));
  EXPECT_EQ(client->Counters().live_handles(), 2u);
}

TEST_F(ServerTest, OverwritesInPlace) {
  StartServer();
  auto client = Open();
  client->Upload(TensorHandle(0), {1, 1});
  client->Upload(TensorHandle(1), {2, 3});
  client->Register(ProgramHandle(0), AddProgram("accumulate", 2, /*overwrite=*/true));
  for (int i = 0; i < 5; ++i) {
    client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)});
  }
  client->Send();
  EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{11, 16}));
  EXPECT_EQ(client->Counters().live_bytes(), 16u);
}

TEST_F(ServerTest, ARunWaitsForItsProgramAndHoldsUpNobodyElse) {
  StartServer();
  auto slow = Open();
  slow->Upload(TensorHandle(0), {1});
  slow->Register(ProgramHandle(0), AddProgram("slow", 1));
  slow->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)}, true);
  slow->Upload(TensorHandle(2), {5});
  slow->Send();
  slow->ReadUntil(2);
  runtime_->AwaitCompiling(1);

  auto other = Open();
  other->Upload(TensorHandle(0), {3});
  other->Register(ProgramHandle(0), AddProgram("fast", 1));
  other->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)});
  other->Send();
  EXPECT_EQ(other->Values(TensorHandle(1)), (std::vector<float>{6}));
  EXPECT_EQ(slow->acknowledged, 2u);

  runtime_->ReleaseCompiles();
  ASSERT_NE(slow->ReadCompletion(3), nullptr);
  slow->ReadUntil(4);
  EXPECT_EQ(slow->Values(TensorHandle(1)), (std::vector<float>{2}));
}

TEST_F(ServerTest, DuplicatesAreDropped) {
  StartServer();
  auto client = Open();
  client->Upload(TensorHandle(0), {1});
  client->Upload(TensorHandle(1), {1});
  client->Register(ProgramHandle(0), AddProgram("accumulate", 1, true));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)});
  client->SendAndRead();
  client->sequence = 3;  // as after a resume: the run is sent once more, and another behind it
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)});
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)});
  client->SendAndRead();
  EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{3}));
  EXPECT_TRUE(client->errors.empty());
}

TEST_F(ServerTest, AGapEndsTheStream) {
  StartServer();
  auto client = Open();
  client->sequence = 4;
  client->Upload(TensorHandle(0), {1});
  client->Send();
  const grpc::Status status = client->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "command 5 arrived where 1 was due: numbers have no gaps");
}

TEST_F(ServerTest, AnErrorReachesWhatDependsOnIt) {
  StartServer();
  auto client = Open();
  client->Upload(TensorHandle(0), {1, 2});
  client->Register(ProgramHandle(0), AddProgram("bad sum", 2));
  client->Register(ProgramHandle(1), AddProgram("sum", 2));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)});
  client->Run(ProgramHandle(1), {TensorHandle(1), TensorHandle(0)}, {TensorHandle(2)}, true);
  client->Run(ProgramHandle(1), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(3)});
  client->Send();
  const std::string cause = "program 'bad sum': node 3 (Exp): the fake compiles no such program";
  const v1::Completion* completion = client->ReadCompletion(5);
  ASSERT_NE(completion, nullptr);
  EXPECT_EQ(completion->status().message(), cause);
  const v1::CommandError* error = client->ReadError(2);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().message(), cause);
  for (uint32_t slot : {1, 2}) {
    std::string bytes;
    const grpc::Status status = client->Download(TensorHandle(slot), &bytes);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(status.error_message(), cause);
    EXPECT_EQ(client->Wait(TensorHandle(slot)).message(), cause);
  }
  // Of a program that was compiled the kernels are told; the fake has one of the program's name.
  std::vector<std::string> kernels;
  EXPECT_EQ(client->Wait(ProgramHandle(0), &kernels).message(), cause);
  EXPECT_TRUE(kernels.empty());
  EXPECT_EQ(client->Wait(ProgramHandle(1), &kernels).code(), 0u);
  EXPECT_EQ(kernels, std::vector<std::string>{"sum"});
  EXPECT_EQ(client->Values(TensorHandle(3)), (std::vector<float>{2, 4}));
  EXPECT_EQ(client->errors.size(), 1u);  // told once, where it arose
}

TEST_F(ServerTest, AFaultOnTheDevicePoisonsRunsThatWereQueuedBehindIt) {
  StartServer();
  auto client = Open();
  runtime_->device().Hold();
  client->Upload(TensorHandle(0), {1});
  client->Register(ProgramHandle(0), AddProgram("sum", 1));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)});
  client->Run(ProgramHandle(0), {TensorHandle(1), TensorHandle(0)}, {TensorHandle(2)}, true)
      ->add_release(TensorHandle(1));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(3)}, true);
  client->Send();
  runtime_->device().AwaitQueued(3);
  runtime_->device().Step(Internal("kernel 'sum' faulted"));
  runtime_->device().Unhold();
  const v1::Completion* completion = client->ReadCompletion(4);
  ASSERT_NE(completion, nullptr);
  EXPECT_EQ(completion->status().message(),
            "run of program 'sum' in session-1: kernel 'sum' faulted");
  completion = client->ReadCompletion(5);
  ASSERT_NE(completion, nullptr);
  EXPECT_EQ(completion->status().code(), 0u);
  EXPECT_EQ(client->Wait(TensorHandle(2)).message(),
            "run of program 'sum' in session-1: kernel 'sum' faulted");
}

TEST_F(ServerTest, AMalformedGraphIsRefusedAndTheSessionGoesOn) {
  StartServer();
  auto client = Open();
  v1::Program program = AddProgram("cycle", 1);
  program.mutable_nodes(2)->set_src(0, 2);
  client->Register(ProgramHandle(0), program);
  client->Send();
  const v1::CommandError* error = client->ReadError(1);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().code(), static_cast<uint32_t>(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_EQ(error->status().message(),
            "program 'cycle': node 2 (Add): source 2 does not come before it: the graph has a "
            "cycle or is out of order");
  client->Upload(TensorHandle(0), {4});
  client->Register(ProgramHandle(1), AddProgram("good", 1));
  client->Run(ProgramHandle(1), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)});
  client->Send();
  EXPECT_EQ(client->Values(TensorHandle(1)), (std::vector<float>{8}));
}

TEST_F(ServerTest, ForeignTokensAreRefused) {
  StartServer();
  auto client = Open();
  TestClient stranger(channel_);
  std::string bytes;
  EXPECT_EQ(stranger.Download(TensorHandle(0), &bytes).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stranger.Bulk(1, "", 0, "nonsense").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  // A token dies with its session.
  stranger.welcome = client->welcome;
  client->Finish();
  grpc::Status status;
  do {
    status = stranger.Download(TensorHandle(0), &bytes);
  } while (status.error_code() == grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ServerTest, ReadingHoldsBackWhatWouldOverwrite) {
  StartServer();
  auto client = Open();
  client->Upload(TensorHandle(0), {1});
  client->Upload(TensorHandle(1), {10});
  client->Register(ProgramHandle(0), AddProgram("accumulate", 1, true));
  client->SendAndRead();
  runtime_->device().Hold();
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)});
  client->Copy(TensorHandle(2), TensorHandle(0), "FAKE:1");
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)}, true);
  client->Send();
  runtime_->device().AwaitQueued(1);
  runtime_->device().Step();
  runtime_->device().AwaitQueued(1);  // the second run, only now that the copy is made
  runtime_->device().Unhold();
  ASSERT_NE(client->ReadCompletion(6), nullptr);
  EXPECT_EQ(client->Values(TensorHandle(2)), (std::vector<float>{11}));
  EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{21}));
}

TEST_F(ServerTest, TwoClientsAtOnceDoNotSeeEachOther) {
  StartServer();
  const auto work = [this](float value) {
    auto client = Open();
    client->Upload(TensorHandle(0), {0});
    client->Upload(TensorHandle(1), {value});
    client->Register(ProgramHandle(0), AddProgram("accumulate", 1, true));
    for (int i = 0; i < 200; ++i) {
      client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)},
                  i % 10 == 0);
      client->Send();
      if (i % 10 != 0) continue;
      EXPECT_NE(client->ReadCompletion(client->sequence), nullptr);
    }
    EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{200 * value}));
  };
  std::thread first(work, 1.0f), second(work, 3.0f);
  first.join();
  second.join();
}

}  // namespace
}  // namespace tensord
