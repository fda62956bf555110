#include "backends/hcq/event_count.h"

#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tensord::hcq {
namespace {

TEST(EventCountTest, WaitReturnsAtOnceWhenReady) {
  EventCount event;
  EXPECT_TRUE(event.Wait([] { return true; }, absl::InfinitePast()));
}

TEST(EventCountTest, WaitEndsAtTheDeadline) {
  EventCount event;
  const absl::Time deadline = absl::Now() + absl::Milliseconds(5);
  EXPECT_FALSE(event.Wait([] { return false; }, deadline));
  EXPECT_GE(absl::Now(), deadline);
}

TEST(EventCountTest, LooksAgainWithoutNotifyAfterTheLongestSleep) {
  EventCount event;
  int looks = 0;
  EXPECT_TRUE(
      event.Wait([&] { return ++looks > 200; }, absl::InfiniteFuture(), absl::Microseconds(100)));
}

// Two threads hand a number back and forth, each sleeping until it is its turn. A lost wake-up
// hangs the test.
TEST(EventCountTest, NoWakeUpIsLost) {
  EventCount event;
  std::atomic<int> turn{0};
  constexpr int kTurns = 20000;
  const auto play = [&](int parity) {
    for (int i = parity; i < kTurns; i += 2) {
      event.Wait([&] { return turn.load(std::memory_order_acquire) == i; });
      turn.store(i + 1, std::memory_order_release);
      event.Notify();
    }
  };
  std::thread odd(play, 1);
  play(0);
  odd.join();
  EXPECT_EQ(turn, kTurns);
}

TEST(EventCountTest, NotifyWakesEverybody) {
  EventCount event;
  std::atomic<bool> open{false};
  std::atomic<int> through{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      event.Wait([&] { return open.load(std::memory_order_acquire); });
      ++through;
    });
  }
  open.store(true, std::memory_order_release);
  event.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(through, 8);
}

}  // namespace
}  // namespace tensord::hcq
