// Signals, waits, submission and the timeline.
#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backends/conformance/suite.h"
#include "core/device/device.h"

namespace tensord::conformance {
namespace {

using QueueTest = ConformanceTest;

TEST_F(QueueTest, DescribesItself) {
  EXPECT_NE(device(0).name(), device(1).name());
  EXPECT_FALSE(device().target().renderer.empty());
  EXPECT_GE(device().target().cores, 1);
}

TEST_F(QueueTest, SetsSignalsAndPassesSatisfiedWaits) {
  Signal signal;
  OrderedList list = Begin();
  list.commands.Wait(&signal, 0);
  list.commands.Signal(&signal, 5);
  list.commands.Wait(&signal, 5);
  list.commands.Wait(&signal, 3);
  list.commands.Signal(&signal, 6);
  EXPECT_TRUE(WaitFor(Submit(std::move(list))).ok());
  EXPECT_EQ(signal.value.load(std::memory_order_acquire), 6);
}

TEST_F(QueueTest, SignalsCarry64Bits) {
  constexpr uint64_t kStart = (uint64_t{1} << 32) - 20;
  Signal signal;
  for (uint64_t value = kStart; value < kStart + 40; ++value) {
    OrderedList list = Begin();
    list.commands.Wait(&signal, value == kStart ? 0 : value - 1);
    list.commands.Signal(&signal, value);
    ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
    ASSERT_EQ(signal.value.load(std::memory_order_acquire), value);
  }
}

TEST_F(QueueTest, AnEmptySubmissionCompletes) {
  EXPECT_TRUE(WaitFor(Submit(Begin())).ok());
  EXPECT_TRUE(device().Submit(CommandList()).ok());
  EXPECT_TRUE(device().Synchronize().ok());
}

TEST_F(QueueTest, ManyCommandsInOneSubmission) {
  Signal signal;
  OrderedList list = Begin();
  for (uint64_t i = 1; i <= 1000; ++i) {
    list.commands.Barrier();
    list.commands.Signal(&signal, i);
    list.commands.Wait(&signal, i);
  }
  EXPECT_TRUE(WaitFor(Submit(std::move(list))).ok());
  EXPECT_EQ(signal.value.load(std::memory_order_acquire), 1000);
}

TEST_F(QueueTest, ALateSignalTimesOutTheHostButNotTheDevice) {
  Signal late;
  OrderedList list = Begin();
  list.commands.Wait(&late, 1);
  const uint64_t done = Submit(std::move(list));
  EXPECT_EQ(WaitFor(done, 0, absl::Milliseconds(500)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(timeline().Reached(done));
  late.value.store(1, std::memory_order_release);  // by the host, without telling anybody
  EXPECT_TRUE(WaitFor(done).ok());
  EXPECT_TRUE(WaitFor(Submit(Begin())).ok());
}

TEST_F(QueueTest, ADeviceWaitsForAnotherOne) {
  Signal gate, crossing;
  OrderedList waits = Begin(1);
  waits.commands.Wait(&crossing, 1);
  const uint64_t waited = Submit(std::move(waits), 1);

  OrderedList sets = Begin(0);
  sets.commands.Wait(&gate, 1);
  sets.commands.Signal(&crossing, 1);
  Submit(std::move(sets), 0);

  // The second device's own queue isn't held up by the first one's.
  EXPECT_FALSE(timeline(1).Reached(waited));
  gate.value.store(1, std::memory_order_release);
  EXPECT_TRUE(WaitFor(waited, 1).ok());
}

TEST_F(QueueTest, ADeviceWaitsForAnothersTimeline) {
  uint64_t first = 0, second = 0;
  for (int round = 0; round < 200; ++round) {
    OrderedList a = Begin(0);
    a.commands.Wait(timeline(1).signal(), second);
    first = Submit(std::move(a), 0);
    OrderedList b = Begin(1);
    b.commands.Wait(timeline(0).signal(), first);
    second = Submit(std::move(b), 1);
  }
  EXPECT_TRUE(WaitFor(second, 1).ok());
  EXPECT_TRUE(timeline(0).Reached(first));
}

TEST_F(QueueTest, TimestampsGrow) {
  Signal start, end;
  OrderedList list = Begin();
  list.commands.Timestamp(&start);
  list.commands.Timestamp(&end);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(WaitFor(Submit(std::move(list))).ok());
  const std::chrono::nanoseconds window = std::chrono::steady_clock::now() - before;
  const uint64_t from = start.timestamp_ns.load(std::memory_order_acquire);
  const uint64_t to = end.timestamp_ns.load(std::memory_order_acquire);
  EXPECT_GT(from, 0);
  EXPECT_GE(to, from);
  EXPECT_LE(to - from, window.count());
}

TEST_F(QueueTest, CallbacksRunInTheTimelinesOrder) {
  constexpr uint64_t kLists = 50;
  Signal gate;
  std::vector<uint64_t> order;  // of the device's thread until `last` is notified
  absl::Notification last;
  std::vector<uint64_t> values;
  for (uint64_t i = 0; i < kLists; ++i) {
    OrderedList list = Begin();
    list.commands.Wait(&gate, 1);
    values.push_back(Submit(std::move(list)));
  }
  timeline().OnReached(values.back(), [&](absl::Status status) {
    EXPECT_TRUE(status.ok());
    EXPECT_TRUE(timeline().Reached(values.back()));
    last.Notify();
  });
  for (uint64_t i = 0; i + 1 < kLists; ++i) {
    const uint64_t value = values[(i * 5) % (kLists - 1)];
    timeline().OnReached(value, [&order, value](absl::Status) { order.push_back(value); });
  }
  EXPECT_TRUE(order.empty());
  gate.value.store(1, std::memory_order_release);
  last.WaitForNotification();
  ASSERT_EQ(order.size(), kLists - 1);
  for (size_t i = 0; i + 1 < order.size(); ++i) EXPECT_LT(order[i], order[i + 1]);
}

TEST_F(QueueTest, ACallbackForTheReachedComesAtOnce) {
  const uint64_t done = Submit(Begin());
  ASSERT_TRUE(WaitFor(done).ok());
  absl::Notification called;
  timeline().OnReached(done, [&](absl::Status status) {
    EXPECT_TRUE(status.ok());
    called.Notify();
  });
  called.WaitForNotification();
}

TEST_F(QueueTest, ThreadsSubmitAtTheSameTime) {
  constexpr int kThreads = 8, kRounds = 200;
  absl::Mutex mu;  // over Begin and Submit, as the timeline asks for
  Signal counter;
  uint64_t next = 0;  // guarded by mu
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        uint64_t done;
        {
          absl::MutexLock lock(&mu);
          OrderedList list = Begin();
          list.commands.Wait(&counter, next);  // passes only in the order of submission
          list.commands.Signal(&counter, ++next);
          done = Submit(std::move(list));
        }
        if (i % 10 == 0) {
          EXPECT_TRUE(WaitFor(done).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(device().Synchronize().ok());
  EXPECT_EQ(counter.value.load(std::memory_order_acquire), kThreads * kRounds);
}

TEST_F(QueueTest, KeepsObjectsAliveWhileTheListRuns) {
  auto object = std::make_shared<int>(0);
  std::weak_ptr<int> watch = object;
  Signal gate;
  OrderedList list = Begin();
  list.commands.Wait(&gate, 1);
  list.commands.Keep(std::move(object));
  Submit(std::move(list));
  EXPECT_FALSE(watch.expired());
  gate.value.store(1, std::memory_order_release);
  // The object goes between the end of its list and the begin of the next.
  EXPECT_TRUE(WaitFor(Submit(Begin())).ok());
  EXPECT_TRUE(watch.expired());
}

TEST_F(QueueTest, ClosingCancelsWhatCannotFinish) {
  Signal never;
  absl::Notification called;
  absl::Status status;
  OrderedList list = Begin();
  list.commands.Wait(&never, 1);
  const uint64_t done = Submit(std::move(list));
  timeline().OnReached(done, [&](absl::Status result) {
    status = std::move(result);
    called.Notify();
  });
  CloseDevices();
  ASSERT_TRUE(called.HasBeenNotified());
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace tensord::conformance
