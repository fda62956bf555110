#include "server/console/history.h"

#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>

namespace tensord {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class HistoryTest : public testing::Test {
 protected:
  void Add(std::vector<int64_t> busy_ns) {
    History::Readings readings;
    for (const int64_t ns : busy_ns) {
      readings.push_back({.busy_ns = ns, .in_use_bytes = 64, .queued = 2});
    }
    now_ += absl::Seconds(1);
    history_.Add(readings, absl::Seconds(1), now_);
  }
  std::vector<double> Busy(size_t device = 0) {
    std::vector<double> busy;
    for (const auto& sample : history_.After(0)) busy.push_back(sample.devices[device].busy);
    return busy;
  }

  absl::Time now_ = absl::UnixEpoch();
  History history_{nullptr};
};

TEST_F(HistoryTest, SaysWhichPartOfEachIntervalADeviceWasBusy) {
  Add({5 * kSecond, 0});  // from before it began
  Add({5 * kSecond + kSecond / 4, 0});
  Add({6 * kSecond + kSecond / 4, kSecond / 2});
  EXPECT_EQ(Busy(), (std::vector<double>{0, 0.25, 1}));
  EXPECT_EQ(Busy(1), (std::vector<double>{0, 0, 0.5}));
  const auto last = history_.After(2);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].number, 3u);
  EXPECT_EQ(last[0].time, now_);
  EXPECT_EQ(last[0].devices[0].in_use_bytes, 64u);
  EXPECT_EQ(last[0].devices[0].queued, 2u);
}

TEST_F(HistoryTest, ALongRunFillsTheIntervalsThatItTook) {
  Add({0});
  Add({0});
  Add({kSecond / 2});
  Add({kSecond / 2});
  Add({kSecond / 2});
  Add({3 * kSecond});  // a run of 2.5 s has ended
  EXPECT_EQ(Busy(), (std::vector<double>{0, 0, 0.5, 0.5, 1, 1}));
  Add({9 * kSecond});  // longer than there is room
  EXPECT_EQ(Busy(), (std::vector<double>{1, 1, 1, 1, 1, 1, 1}));
}

TEST_F(HistoryTest, KeepsSoMany) {
  for (size_t i = 0; i < History::kMaxSamples + 10; ++i) Add({0});
  const auto all = history_.After(0);
  EXPECT_EQ(all.size(), History::kMaxSamples);
  EXPECT_EQ(all.front().number, 11u);
  EXPECT_TRUE(history_.After(all.back().number).empty());
  EXPECT_TRUE(history_.After(1 << 20).empty());
}

TEST(History, ReadsByItselfUntilItDies) {
  absl::Notification read;
  std::atomic<int> reads = 0;
  {
    History history([&] {
      if (++reads == 1) read.Notify();
      return History::Readings{{.busy_ns = 1}};
    });
    read.WaitForNotification();
  }
  const int before = reads;
  EXPECT_GE(before, 1);
}

}  // namespace
}  // namespace tensord
