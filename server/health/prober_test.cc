#include "server/health/prober.h"

#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "server/session/fake_runtime.h"

namespace tensord {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(50);

class ProberTest : public testing::Test {
 protected:
  ~ProberTest() override { runtime_.device().Unhold(); }

  absl::Status Check() {
    absl::Notification answered;
    absl::Status result;
    prober_.Check(0, [&](const absl::Status& status) {
      result = status;
      answered.Notify();
    });
    answered.WaitForNotification();
    return result;
  }

  FakeRuntime runtime_;
  std::atomic<int> changes_ = 0;
  Prober prober_{runtime_, {.patience = kPatience}, [this] { ++changes_; }};
};

TEST_F(ProberTest, ADeviceThatHangsIsFoundAndOneThatComesBackAsWell) {
  EXPECT_FALSE(prober_.Last(0).has_value());
  EXPECT_TRUE(Check().ok());
  EXPECT_TRUE(Check().ok());
  EXPECT_TRUE(prober_.Last(0)->ok());
  const uint64_t probes = runtime_.device().timeline().last_reserved();
  EXPECT_EQ(probes, 2u);

  runtime_.device().Hold();
  for (int i = 0; i < 3; ++i) {
    const absl::Status hung = Check();
    EXPECT_EQ(hung.code(), absl::StatusCode::kDeadlineExceeded) << hung;
  }
  EXPECT_FALSE(prober_.Last(0)->ok());
  // They all wait for the one that is there.
  EXPECT_EQ(runtime_.device().timeline().last_reserved(), probes + 1);

  runtime_.device().Unhold();
  EXPECT_TRUE(Check().ok());
  prober_.Stop();
  EXPECT_EQ(changes_, 3);
}

TEST_F(ProberTest, ALongRunWhoseLaunchesEndIsWaitedFor) {
  runtime_.device().Hold();
  runtime_.device().SetBusy(true);
  std::thread check([&] { EXPECT_TRUE(Check().ok()); });
  runtime_.device().AwaitLooks(5);  // of kPatience each
  runtime_.device().Unhold();
  check.join();
}

TEST_F(ProberTest, ADeviceThatOthersHaveFilledIsHealthy) {
  EXPECT_TRUE(Check().ok());
  runtime_.device().SetCapacity(0);
  EXPECT_TRUE(Check().ok());
}

TEST_F(ProberTest, WithoutMemoryItIsNotHealthy) {
  runtime_.device().SetCapacity(0);
  const absl::Status status = Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()).find("FAKE:0: health: "), 0u) << status;
  runtime_.device().SetCapacity(uint64_t{1} << 30);
  EXPECT_TRUE(Check().ok());
}

TEST_F(ProberTest, StopAnswersWhoStillAsks) {
  prober_.Stop();
  EXPECT_EQ(Check().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace tensord
