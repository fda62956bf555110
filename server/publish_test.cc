// Publishing and attaching, as raw messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "server/test_client.h"

namespace tensord {
namespace {

using testing::HasSubstr;

class PublishTest : public ServerTest {
 protected:
  void SetUp() override {
    StartServer();
    client_ = Open();
  }

  static v1::PublishRequest Request(const TestClient& client, const std::string& name,
                                    uint64_t handle) {
    v1::PublishRequest request;
    request.set_session_token(client.welcome.session_token());
    request.set_name(name);
    request.add_tensors()->set_handle(handle);
    request.set_after_sequence(client.sequence);
    return request;
  }
  static grpc::Status Publish(TestClient& client, const v1::PublishRequest& request,
                              v1::PublishReply* reply = nullptr) {
    grpc::ClientContext context;
    v1::PublishReply unread;
    return client.stub().Publish(&context, request, reply ? reply : &unread);
  }
  static grpc::Status Publish(TestClient& client, const std::string& name, uint64_t handle) {
    return Publish(client, Request(client, name, handle));
  }
  static v1::Publication Find(TestClient& client, const std::string& name) {
    grpc::ClientContext context;
    v1::FindPublishedRequest request;
    request.set_session_token(client.welcome.session_token());
    request.set_name(name);
    v1::Publication reply;
    const grpc::Status status = client.stub().FindPublished(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  static void Attach(TestClient& client, uint64_t handle, const v1::Publication& found,
                     uint32_t tensor = 0) {
    v1::AttachTensor* attach = client.Add()->mutable_attach();
    attach->set_handle(handle);
    attach->set_owner(found.owner());
    attach->set_name(found.name());
    attach->set_version(found.version());
    attach->set_tensor(tensor);
  }

  std::unique_ptr<TestClient> client_;
};

TEST_F(PublishTest, OneMemoryForAllAndNoWrites) {
  client_->Upload(TensorHandle(1), {1, 2});
  client_->Register(ProgramHandle(1), AddProgram("add", 2, /*overwrite=*/true));
  client_->SendAndRead();
  ASSERT_TRUE(Publish(*client_, "x", TensorHandle(1)).ok());
  EXPECT_EQ(client_->Counters().live_bytes(), 0);  // its owner is charged now, no session is

  const auto other = Open();
  const v1::Publication found = Find(*other, "x");
  ASSERT_EQ(found.tensors_size(), 1);
  EXPECT_EQ(found.tensors(0).shape(0), 2);
  EXPECT_EQ(found.tensors(0).device(), "FAKE:0");
  Attach(*other, TensorHandle(7), found);
  other->Register(ProgramHandle(1), AddProgram("add", 2, /*overwrite=*/true));
  other->SendAndRead();
  EXPECT_EQ(other->Values(TensorHandle(7)), (std::vector<float>{1, 2}));
  EXPECT_EQ(runtime_->device().allocator().stats().in_use_bytes, 8);
  EXPECT_EQ(Find(*other, "x").holders(), 2);

  // Neither may overwrite it; to each it costs its own handle only.
  other->Upload(TensorHandle(8), {1, 1});
  other->Run(ProgramHandle(1), {TensorHandle(7), TensorHandle(8)}, {TensorHandle(7)});
  other->Send();
  const v1::CommandError* error = other->ReadError(other->sequence);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(error->status().message(),
              HasSubstr("output 0 overwrites input 0, which is published"));
  EXPECT_EQ(Find(*other, "x").holders(), 1);
  EXPECT_EQ(client_->Values(TensorHandle(1)), (std::vector<float>{1, 2}));

  client_->Upload(TensorHandle(2), {1, 1});
  client_->Run(ProgramHandle(1), {TensorHandle(1), TensorHandle(2)}, {TensorHandle(1)});
  client_->Send();
  ASSERT_NE(client_->ReadError(client_->sequence), nullptr);
  Attach(*other, TensorHandle(9), found);
  other->SendAndRead();
  EXPECT_EQ(other->Values(TensorHandle(9)), (std::vector<float>{1, 2}));
}

TEST_F(PublishTest, ItHasTheValueThatCommandsBeforeGiveIt) {
  client_->Upload(TensorHandle(1), {1, 2});
  client_->Register(ProgramHandle(1), AddProgram("add", 2));
  client_->Register(ProgramHandle(2), AddProgram("add to", 2, /*overwrite=*/true));
  client_->SendAndRead();
  runtime_->device().Hold();
  client_->Run(ProgramHandle(1), {TensorHandle(1), TensorHandle(1)}, {TensorHandle(2)});
  client_->Send();
  auto published = std::async(std::launch::async, [&] {
    return Publish(*client_, Request(*client_, "sum", TensorHandle(2)));
  });
  EXPECT_EQ(published.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  runtime_->device().Unhold();
  ASSERT_TRUE(published.get().ok());
  const auto other = Open();
  Attach(*other, TensorHandle(1), Find(*other, "sum"));
  other->SendAndRead();
  EXPECT_EQ(other->Values(TensorHandle(1)), (std::vector<float>{2, 4}));
}

TEST_F(PublishTest, ARunFindsAnotherVersionInsteadOfWhatItExpects) {
  client_->Upload(TensorHandle(1), {1});
  client_->Upload(TensorHandle(2), {1, 2});
  client_->SendAndRead();
  ASSERT_TRUE(Publish(*client_, "x", TensorHandle(1)).ok());
  const v1::Publication found = Find(*client_, "x");
  ASSERT_TRUE(Publish(*client_, "x", TensorHandle(2)).ok());
  Attach(*client_, TensorHandle(3), found);
  client_->Send();
  const v1::CommandError* error = client_->ReadError(client_->sequence);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(client_->Wait(TensorHandle(3)).code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(PublishTest, TheSameCallAgainIsTheSamePublication) {
  client_->Upload(TensorHandle(1), {1});
  client_->SendAndRead();
  v1::PublishReply first, again;
  const v1::PublishRequest request = Request(*client_, "x", TensorHandle(1));
  ASSERT_TRUE(Publish(*client_, request, &first).ok());
  ASSERT_TRUE(Publish(*client_, request, &again).ok());
  EXPECT_EQ(first.version(), again.version());
}

TEST_F(PublishTest, WhatCannotBeIsRefused) {
  client_->Upload(TensorHandle(1), {1});
  client_->Register(ProgramHandle(1), AddProgram("add", 1));
  client_->Upload(TensorHandle(1), {2});  // refused: the handle is taken
  client_->Copy(TensorHandle(3), TensorHandle(99), "");
  client_->SendAndRead();
  v1::PublishRequest none = Request(*client_, "x", TensorHandle(1));
  none.clear_tensors();
  v1::PublishRequest nobody = Request(*client_, "x", TensorHandle(1));
  nobody.set_session_token("0123456789abcdef");
  const struct {
    v1::PublishRequest request;
    grpc::StatusCode code;
    const char* message;
  } kCases[] = {
      {none, grpc::StatusCode::INVALID_ARGUMENT, "no tensor"},
      {nobody, grpc::StatusCode::UNAUTHENTICATED, "token"},
      {Request(*client_, "x", TensorHandle(5)), grpc::StatusCode::NOT_FOUND, "tensor ''"},
      {Request(*client_, "x", TensorHandle(3)), grpc::StatusCode::NOT_FOUND, "tensor ''"},
      {Request(*client_, "x", ProgramHandle(1)), grpc::StatusCode::INVALID_ARGUMENT, "a program"},
      {Request(*client_, "", TensorHandle(1)), grpc::StatusCode::INVALID_ARGUMENT, "the name"},
  };
  for (const auto& test : kCases) {
    const grpc::Status status = Publish(*client_, test.request);
    EXPECT_EQ(status.error_code(), test.code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(test.message));
  }
  ASSERT_TRUE(Publish(*client_, "x", TensorHandle(1)).ok());
  const v1::Publication found = Find(*client_, "x");
  Attach(*client_, TensorHandle(10), found, 1);
  Attach(*client_, TensorHandle(1), found);
  Attach(*client_, ProgramHandle(2), found);
  client_->Send();
  uint64_t sequence = client_->sequence - 2;
  for (const char* message :
       {"'x' has 1 tensors, and no tensor 1", "the slot is in use", "cannot name a tensor"}) {
    const v1::CommandError* error = client_->ReadError(sequence++);
    ASSERT_NE(error, nullptr);
    EXPECT_THAT(error->status().message(), HasSubstr(message));
  }
}

TEST_F(PublishTest, ACallThatWaitsInVainEndsAtItsDeadline) {
  client_->Upload(TensorHandle(1), {1});
  client_->SendAndRead();
  v1::PublishRequest request = Request(*client_, "x", TensorHandle(1));
  request.set_after_sequence(client_->sequence + 1);  // which is never sent
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
  v1::PublishReply reply;
  EXPECT_EQ(client_->stub().Publish(&context, request, &reply).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(Publish(*client_, "x", TensorHandle(1)).ok());
  client_ = nullptr;
  EXPECT_TRUE(server_->Drain(absl::Seconds(10)));
}

}  // namespace
}  // namespace tensord
