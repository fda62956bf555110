// Who holds the memory, what it costs, why a client waits: as clients and operators are told.
#include <gtest/gtest.h>

#include <string>

#include "core/wire/refusal.h"
#include "core/wire/status.h"
#include "proto/tensord/v1/admin.grpc.pb.h"
#include "server/test_client.h"

namespace tensord {
namespace {

class QuotaTest : public ServerTest {
 protected:
  template <typename Reply, typename Method, typename Request>
  Reply Ask(Method method, const Request& request) {
    grpc::ClientContext context;
    Reply reply;
    const auto stub = v1::AdminService::NewStub(channel_);
    const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  v1::ExplainReply Explain(const TestClient& client) {
    grpc::ClientContext context;
    v1::ExplainRequest request;
    request.set_session_token(client.welcome.session_token());
    v1::ExplainReply reply;
    const grpc::Status status =
        v1::SessionService::NewStub(channel_)->Explain(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  // Until it waits for that. Commands are executed on other threads.
  v1::ExplainReply AwaitCause(const TestClient& client, v1::ExplainReply::Cause cause) {
    v1::ExplainReply reply;
    do reply = Explain(client);
    while (reply.cause() != cause);
    return reply;
  }
};

TEST_F(QuotaTest, SessionsOfAUserShareAQuotaToTheByte) {
  ServerOptions options;
  options.max_user_bytes = 100;
  StartServer(options);
  auto first = Open(), second = Open();
  EXPECT_EQ(first->welcome.limits().max_user_bytes(), 100u);
  first->Upload(TensorHandle(0), std::vector<float>(15));
  first->SendAndRead();
  // One float too many, over and over: no byte goes over.
  for (int i = 0; i < 100; ++i) second->Upload(TensorHandle(i), std::vector<float>(11));
  second->SendAndRead();
  ASSERT_EQ(second->errors.size(), 100u);
  const absl::Status refused = Decode(second->errors[99].status());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::optional<Refusal> refusal = RefusalOf(refused);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "MEMORY_OF_USER");
  EXPECT_EQ(refusal->limit, 100u);
  EXPECT_EQ(refusal->used, 60u);
  EXPECT_EQ(refusal->needed, 44u);
  EXPECT_TRUE(refusal->retry_after.has_value());
  ASSERT_EQ(refusal->holders.size(), 1u);
  EXPECT_EQ(refusal->holders[0].session, first->welcome.session_id());
  runtime_->device().AwaitInUse(60);

  // Results count as well, and what fits is taken.
  second->Upload(TensorHandle(200), std::vector<float>(5));
  second->Register(ProgramHandle(0), AddProgram("sum", 5));
  second->Run(ProgramHandle(0), {TensorHandle(200), TensorHandle(200)}, {TensorHandle(201)});
  second->Run(ProgramHandle(0), {TensorHandle(200), TensorHandle(200)}, {TensorHandle(202)}, true);
  second->Send();
  const v1::Completion* full = second->ReadCompletion(second->sequence);
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(RefusalOf(Decode(full->status()))->used, 100u);
  // What the other session gives back is there for this one.
  first->Release({TensorHandle(0)});
  first->SendAndRead();
  second->Run(ProgramHandle(0), {TensorHandle(200), TensorHandle(200)}, {TensorHandle(203)}, true);
  second->Send();
  const v1::Completion* done = second->ReadCompletion(second->sequence);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->status().message(), "");
}

TEST_F(QuotaTest, ADeviceThatIsFullSaysWhoHoldsIt) {
  StartServer();
  runtime_->device().SetCapacity(100);
  auto first = Open(), second = Open();
  first->Upload(TensorHandle(0), std::vector<float>(20));
  first->SendAndRead();
  second->Upload(TensorHandle(0), std::vector<float>(10));
  second->SendAndRead();
  ASSERT_EQ(second->errors.size(), 1u);
  const std::optional<Refusal> refusal = RefusalOf(Decode(second->errors[0].status()));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "MEMORY_OF_DEVICE");
  EXPECT_EQ(refusal->subject, "device:FAKE:0");
  EXPECT_EQ(refusal->limit, 100u);
  EXPECT_EQ(refusal->used, 80u);
  EXPECT_EQ(refusal->needed, 40u);
  ASSERT_EQ(refusal->holders.size(), 1u);
  EXPECT_EQ(refusal->holders[0].session, first->welcome.session_id());
  EXPECT_EQ(refusal->holders[0].bytes, 80u);
  EXPECT_EQ(second->Counters().live_bytes(), 0u);  // what was refused is not charged

  const auto memory =
      Ask<v1::GetMemoryReply>(&v1::AdminService::Stub::GetMemory, v1::GetMemoryRequest());
  ASSERT_EQ(memory.devices_size(), 2);
  EXPECT_EQ(memory.devices(0).capacity_bytes(), 100u);
  EXPECT_EQ(memory.devices(0).tensor_bytes(), 80u);
  ASSERT_EQ(memory.devices(0).holders_size(), 1);
  EXPECT_EQ(memory.devices(0).holders(0).bytes(), 80u);
  EXPECT_EQ(memory.devices(1).holders_size(), 0);
}

TEST_F(QuotaTest, RefusedCallsCarryTheDetailsInTheirTrailers) {
  ServerOptions options;
  options.limits.max_transfers = 1;
  StartServer(options);
  auto client = Open();
  client->UploadLater(TensorHandle(0), 1, 1);
  client->UploadLater(TensorHandle(1), 1, 2);
  client->SendAndRead();
  const grpc::Status refused = client->Bulk(2, std::string(4, '\0'));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::Status details;
  ASSERT_TRUE(details.ParseFromString(refused.error_details()));
  EXPECT_EQ(details.code(), static_cast<uint32_t>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  const std::optional<Refusal> refusal = RefusalOf(Decode(details));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "TRANSFERS_OF_SESSION");
  EXPECT_EQ(refusal->limit, 1u);
}

TEST_F(QuotaTest, BillsAddUpToWhatDevicesCount) {
  StartServer();
  uint64_t billed = 0;
  for (int runs : {3, 5, 7}) {
    auto client = Open();
    client->Upload(TensorHandle(0), {1});
    client->Register(ProgramHandle(0), AddProgram("accumulate", 1, true));
    for (int i = 0; i < runs; ++i) {
      client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(0)},
                  i == runs - 1);
    }
    client->Send();
    ASSERT_NE(client->ReadCompletion(client->sequence), nullptr);
    grpc::ClientContext context;
    v1::EndSessionRequest request;
    request.set_session_token(client->welcome.session_token());
    v1::EndSessionReply reply;
    ASSERT_TRUE(v1::SessionService::NewStub(channel_)->EndSession(&context, request, &reply).ok());
    EXPECT_EQ(reply.counters().programs_run(), static_cast<uint64_t>(runs));
    EXPECT_EQ(reply.counters().device_ns(), static_cast<uint64_t>(runs) * 1000);
    EXPECT_EQ(reply.counters().live_bytes(), 0u);
    billed += reply.counters().device_ns();
  }
  uint64_t busy = 0;
  do {  // the device counts a run after its client has been told
    busy = 0;
    const auto reply =
        Ask<v1::ListDevicesReply>(&v1::AdminService::Stub::ListDevices, v1::ListDevicesRequest());
    for (const auto& device : reply.devices()) {
      busy += device.busy_ns();
    }
  } while (busy < billed);
  EXPECT_EQ(busy, billed);
}

TEST_F(QuotaTest, SaysWhatASessionWaitsFor) {
  ServerOptions options;
  options.limits.max_runs_in_flight = 2;
  options.scheduling = {.window = absl::Nanoseconds(2000), .min_runs = 2};
  StartServer(options);
  auto client = Open(), other = Open();
  EXPECT_EQ(Explain(*client).cause(), v1::ExplainReply::CAUSE_NOTHING);
  client->UploadLater(TensorHandle(0), 1, 1);
  client->Register(ProgramHandle(0), AddProgram("slow", 1));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)});
  client->Send();
  v1::ExplainReply reply = AwaitCause(*client, v1::ExplainReply::CAUSE_PROGRAM);
  EXPECT_EQ(reply.what(), "run of program 'slow'");
  EXPECT_EQ(reply.compiling(), 1u);
  EXPECT_EQ(reply.commands(), 1u);
  runtime_->ReleaseCompiles();
  reply = AwaitCause(*client, v1::ExplainReply::CAUSE_TENSOR);
  EXPECT_EQ(reply.what(), "run of program 'slow', input 0");

  // Two of the other session fill the window.
  runtime_->device().Hold();
  other->Upload(TensorHandle(0), {1});
  other->Register(ProgramHandle(0), AddProgram("sum", 1));
  for (int i = 1; i <= 3; ++i) {
    other->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(i)});
  }
  other->Send();
  runtime_->device().AwaitQueued(2);
  reply = AwaitCause(*other, v1::ExplainReply::CAUSE_RUNS);
  ASSERT_TRUE(client->Bulk(1, std::string(4, '\0')).ok());
  reply = AwaitCause(*client, v1::ExplainReply::CAUSE_TURN);
  ASSERT_EQ(reply.queues_size(), 1);
  const v1::ExplainReply::Queue& queue = reply.queues(0);
  EXPECT_EQ(queue.device(), "FAKE:0");
  EXPECT_EQ(queue.place(), 1u);
  EXPECT_EQ(queue.waiting(), 1u);
  EXPECT_EQ(queue.own_runs(), 0u);
  EXPECT_EQ(queue.other_runs(), 2u);
  EXPECT_EQ(queue.other_ns(), 4000u);  // not known yet: as good as the window
  EXPECT_EQ(queue.starts_in_ns(), 4000u);
  // The same by the public name, for operators.
  v1::ExplainSessionRequest request;
  request.set_session_id(client->welcome.session_id());
  const auto asked = Ask<v1::ExplainReply>(&v1::AdminService::Stub::ExplainSession, request);
  EXPECT_EQ(asked.cause(), v1::ExplainReply::CAUSE_TURN);
  runtime_->device().Unhold();
  AwaitCause(*client, v1::ExplainReply::CAUSE_NOTHING);
}

}  // namespace
}  // namespace tensord
