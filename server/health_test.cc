// grpc.health.v1 of a daemon whose devices hang and come back.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "server/test_client.h"

namespace tensord {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthTest : public ServerTest {
 protected:
  void Start(absl::Duration interval) {
    ServerOptions options;
    options.probes = {.interval = interval, .patience = absl::Milliseconds(50)};
    StartServer(options);
    stub_ = Health::NewStub(channel_);
  }
  HealthCheckResponse::ServingStatus Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse reply;
    const grpc::Status status = stub_->Check(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.status();
  }

  std::unique_ptr<Health::Stub> stub_;
};

TEST_F(HealthTest, ADeviceThatHangsIsNotServingAndTheOthersAre) {
  Start(absl::ZeroDuration());
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
  runtime_->device().Hold();
  EXPECT_EQ(Check("tensord.device.0"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("tensord.device.1"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  runtime_->device().Unhold();
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
}

TEST_F(HealthTest, ListHasWhatIsKnownOfAll) {
  Start(absl::ZeroDuration());
  const auto list = [&] {
    grpc::ClientContext context;
    grpc::health::v1::HealthListResponse reply;
    EXPECT_TRUE(stub_->List(&context, {}, &reply).ok());
    std::map<std::string, HealthCheckResponse::ServingStatus> statuses;
    for (const auto& [service, status] : reply.statuses()) statuses[service] = status.status();
    return statuses;
  };
  constexpr auto kUnknown = HealthCheckResponse::UNKNOWN;
  constexpr auto kServing = HealthCheckResponse::SERVING;
  using Statuses = std::map<std::string, HealthCheckResponse::ServingStatus>;
  EXPECT_EQ(
      list(),
      (Statuses{{"", kUnknown}, {"tensord.device.0", kUnknown}, {"tensord.device.1", kUnknown}}));
  Check("tensord.device.1");
  EXPECT_EQ(
      list(),
      (Statuses{{"", kUnknown}, {"tensord.device.0", kUnknown}, {"tensord.device.1", kServing}}));
  Check("");
  EXPECT_EQ(
      list(),
      (Statuses{{"", kServing}, {"tensord.device.0", kServing}, {"tensord.device.1", kServing}}));
}

TEST_F(HealthTest, WatchTellsWhatTheProbesFind) {
  Start(absl::Milliseconds(5));
  grpc::ClientContext context, unknown_context;
  HealthCheckRequest request;
  request.set_service("tensord.device.0");
  const auto watch = stub_->Watch(&context, request);
  HealthCheckResponse reply;
  ASSERT_TRUE(watch->Read(&reply));
  EXPECT_EQ(reply.status(), HealthCheckResponse::SERVING);
  runtime_->device().Hold();
  ASSERT_TRUE(watch->Read(&reply));
  EXPECT_EQ(reply.status(), HealthCheckResponse::NOT_SERVING);
  runtime_->device().Unhold();
  ASSERT_TRUE(watch->Read(&reply));
  EXPECT_EQ(reply.status(), HealthCheckResponse::SERVING);

  request.set_service("tensord.device.7");
  const auto unknown = stub_->Watch(&unknown_context, request);
  ASSERT_TRUE(unknown->Read(&reply));
  EXPECT_EQ(reply.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  unknown_context.TryCancel();
  EXPECT_EQ(unknown->Finish().error_code(), grpc::StatusCode::CANCELLED);

  std::thread drain([&] { server_->Drain(absl::Seconds(60)); });
  ASSERT_TRUE(watch->Read(&reply));
  EXPECT_EQ(reply.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&reply));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
}

}  // namespace
}  // namespace tensord
