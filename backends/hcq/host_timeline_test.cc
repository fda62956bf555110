#include "backends/hcq/host_timeline.h"

#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/hcq/signal.h"
#include "core/base/status.h"

namespace tensord::hcq {
namespace {

TEST(HostTimelineTest, ValuesGrowByOne) {
  HostTimeline timeline("T:0");
  EXPECT_EQ(timeline.last_reserved(), 0);
  EXPECT_EQ(timeline.Reserve(), 1);
  EXPECT_EQ(timeline.Reserve(), 2);
  EXPECT_EQ(timeline.last_reserved(), 2);
  EXPECT_TRUE(timeline.Reached(0));
  EXPECT_FALSE(timeline.Reached(1));
  EXPECT_TRUE(timeline.Wait(0, absl::InfinitePast()).ok());
}

TEST(HostTimelineTest, WaitWakesWhenTheValueIsSignalled) {
  HostTimeline timeline("T:0");
  const uint64_t value = timeline.Reserve();
  std::thread device([&] { SetSignal(*timeline.signal(), value); });
  EXPECT_TRUE(timeline.Wait(value, absl::InfiniteFuture()).ok());
  device.join();
}

TEST(HostTimelineTest, WaitSaysWhereTheDeviceIsAfterTheDeadline) {
  HostTimeline timeline("T:0");
  timeline.Reserve();
  const uint64_t value = timeline.Reserve();
  SetSignal(*timeline.signal(), 1);
  const absl::Status status = timeline.Wait(value, absl::Now());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(status), "T:0: timeline value 2 is not reached, the device is at 1");
}

TEST(HostTimelineTest, WaitRefusesAValueThatNobodyReserved) {
  HostTimeline timeline("T:0");
  const absl::Status status = timeline.Wait(3, absl::InfiniteFuture());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(HostTimelineTest, AFaultBelongsToItsValueOnly) {
  HostTimeline timeline("T:0");
  for (int i = 0; i < 3; ++i) timeline.Reserve();
  timeline.Fail(2, Internal("boom"));
  SetSignal(*timeline.signal(), 3);
  EXPECT_TRUE(timeline.Wait(1, absl::InfiniteFuture()).ok());
  EXPECT_EQ(Message(timeline.Wait(2, absl::InfiniteFuture())), "boom");
  EXPECT_TRUE(timeline.Wait(3, absl::InfiniteFuture()).ok());
}

TEST(HostTimelineTest, CallbacksRunInOrderOfValuesThenOfRegistration) {
  HostTimeline timeline("T:0");
  for (int i = 0; i < 3; ++i) timeline.Reserve();
  std::string order;  // written on the timeline's thread, read after `all` is notified
  absl::Notification all;
  const auto note = [&](char name) { return [&order, name](absl::Status) { order += name; }; };
  timeline.OnReached(3, note('d'));
  timeline.OnReached(1, note('a'));
  timeline.OnReached(2, note('b'));
  timeline.OnReached(2, note('c'));
  timeline.OnReached(3, [&](absl::Status) { all.Notify(); });
  SetSignal(*timeline.signal(), 3);
  all.WaitForNotification();
  EXPECT_EQ(order, "abcd");
}

TEST(HostTimelineTest, CallbackForAReachedValueRunsAtOnce) {
  HostTimeline timeline("T:0");
  const uint64_t value = timeline.Reserve();
  timeline.Fail(value, Internal("boom"));
  SetSignal(*timeline.signal(), value);
  absl::Notification done;
  timeline.OnReached(value, [&](absl::Status status) {
    EXPECT_EQ(Message(status), "boom");
    done.Notify();
  });
  done.WaitForNotification();
}

TEST(HostTimelineTest, CallbackMayRegisterAnother) {
  HostTimeline timeline("T:0");
  timeline.Reserve();
  timeline.Reserve();
  absl::Notification done;
  timeline.OnReached(1, [&](absl::Status) {
    timeline.OnReached(2, [&](absl::Status) { done.Notify(); });
    SetSignal(*timeline.signal(), 2);
  });
  SetSignal(*timeline.signal(), 1);
  done.WaitForNotification();
}

TEST(HostTimelineTest, DestructionCancelsWhatWasNotReached) {
  auto timeline = std::make_unique<HostTimeline>("T:0");
  absl::Status status;
  timeline->OnReached(timeline->Reserve(), [&](absl::Status result) { status = result; });
  timeline.reset();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(HostTimelineTest, OldFailuresAreForgottenAndRecentOnesKept) {
  HostTimeline timeline("T:0");
  for (int i = 1; i <= 5000; ++i) timeline.Fail(timeline.Reserve(), Internal("fault {}", i));
  SetSignal(*timeline.signal(), 5000);
  EXPECT_TRUE(timeline.Wait(1, absl::InfiniteFuture()).ok());
  EXPECT_EQ(Message(timeline.Wait(4500, absl::InfiniteFuture())), "fault 4500");
}

}  // namespace
}  // namespace tensord::hcq
