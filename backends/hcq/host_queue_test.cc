#include "backends/hcq/host_queue.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/hcq/signal.h"
#include "core/base/status.h"

namespace tensord::hcq {
namespace {

class Named final : public LoadedKernel {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
};

constexpr int64_t kEndless = 1 << 20;

// Notes the grid of each launch; a negative grid fails, and one of kEndless ends when it is
// stopped.
class Recorder final : public Executor {
 public:
  absl::Status Exec(const ExecCommand& command) override {
    if (command.grid == kEndless) {
      SetSignal(begun, 1);
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&stopped_));
      return Cancelled("a launch that was stopped");
    }
    if (command.grid < 0) return Internal("launch {} failed", command.grid);
    launches.push_back(command.grid);
    return absl::OkStatus();
  }
  absl::Status Copy(const CopyCommand&) override { return absl::OkStatus(); }

  void Stop() override {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  void Restart() override {
    absl::MutexLock lock(&mu_);
    stopped_ = false;
  }

  std::vector<int64_t> launches;  // read after a wait for the timeline
  Signal begun;                   // of an endless launch

 private:
  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

class HostQueueTest : public testing::Test {
 protected:
  void Open(size_t max_lists = 4096) {
    queue_.emplace(HostQueueOptions{.device_name = "Q:0", .max_lists = max_lists}, timeline_,
                   recorder_);
  }

  // A list in the timeline's order around `grids`, after `gate` reaches 1 where there is one.
  absl::Status Submit(std::vector<int64_t> grids, Signal* gate = nullptr) {
    const uint64_t value = timeline_.Reserve();
    CommandList list;
    list.Wait(timeline_.signal(), value - 1);
    if (gate != nullptr) list.Wait(gate, 1);
    for (const int64_t grid : grids) list.Exec(&kernel_, nullptr, grid);
    list.Signal(timeline_.signal(), value);
    return queue_->Submit(std::move(list));
  }

  absl::Status WaitFor(uint64_t value) { return timeline_.Wait(value, absl::InfiniteFuture()); }

  const Named kernel_{"spin"};
  HostTimeline timeline_{"Q:0"};
  Recorder recorder_;
  std::optional<HostQueue> queue_;
};

TEST_F(HostQueueTest, RunsListsInOrder) {
  Open();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Submit({2 * i, 2 * i + 1}).ok());
  EXPECT_TRUE(WaitFor(100).ok());
  ASSERT_EQ(recorder_.launches.size(), 200);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(recorder_.launches[i], i);
}

TEST_F(HostQueueTest, AFailedListDoesNoMoreAndLaterListsRun) {
  Open();
  EXPECT_TRUE(Submit({1, -7, 2}).ok());
  EXPECT_TRUE(Submit({3}).ok());
  EXPECT_TRUE(WaitFor(2).ok());
  EXPECT_EQ(Message(WaitFor(1)), "launch -7 failed");
  EXPECT_EQ(recorder_.launches, (std::vector<int64_t>{1, 3}));
}

TEST_F(HostQueueTest, RefusesListsBeyondTheLimitAndKeepsTheTimelineGoing) {
  Open(/*max_lists=*/2);
  // The thread takes the gated list and waits in it; only then is the queue known to be empty.
  Signal gate, begun;
  CommandList first;
  first.Signal(&begun, 1);
  first.Wait(&gate, 1);
  first.Signal(timeline_.signal(), timeline_.Reserve());
  ASSERT_TRUE(queue_->Submit(std::move(first)).ok());
  EventFor(begun).Wait([&] { return Reached(begun, 1); });

  EXPECT_TRUE(Submit({2}).ok());
  EXPECT_TRUE(Submit({3}).ok());
  const absl::Status refused = Submit({4});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(Submit({5}).ok());
  SetSignal(gate, 1);
  EXPECT_EQ(WaitFor(4), refused);
  EXPECT_EQ(WaitFor(5).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Submit({6}).ok());
  EXPECT_TRUE(WaitFor(6).ok());
  EXPECT_EQ(recorder_.launches, (std::vector<int64_t>{2, 3, 6}));
}

TEST_F(HostQueueTest, KeepsObjectsUntilTheListHasRun) {
  Open();
  auto object = std::make_shared<int>(1);
  Signal gate;
  CommandList list;
  list.Wait(&gate, 1);
  list.Signal(timeline_.signal(), timeline_.Reserve());
  list.Keep(object);
  EXPECT_TRUE(queue_->Submit(std::move(list)).ok());
  EXPECT_EQ(object.use_count(), 2);
  SetSignal(gate, 1);
  EXPECT_TRUE(Submit({}).ok());
  EXPECT_TRUE(WaitFor(2).ok());  // the first list is gone before the second begins
  EXPECT_EQ(object.use_count(), 1);
}

TEST_F(HostQueueTest, AnAbandonedListStopsWhereItIsAndLaterOnesRun) {
  Open();
  for (uint64_t value = 1; value < 30; value += 3) {
    recorder_.launches.clear();
    recorder_.begun.value = 0;
    ASSERT_TRUE(Submit({1, kEndless, 2}).ok());
    ASSERT_TRUE(Submit({3}).ok());
    ASSERT_TRUE(Submit({4}).ok());
    EventFor(recorder_.begun).Wait([&] { return Reached(recorder_.begun, 1); });
    const Progress progress = queue_->progress();
    EXPECT_EQ(progress.list, value);
    EXPECT_TRUE(progress.works);
    queue_->Abandon(value + 1, Cancelled("nobody wants it"));  // it hasn't begun
    queue_->Abandon(value, DeadlineExceeded("it took too long"));
    EXPECT_TRUE(WaitFor(value + 2).ok());
    EXPECT_EQ(Message(WaitFor(value)), "Q:0: kernel 'spin' was stopped: it took too long");
    EXPECT_EQ(WaitFor(value).code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(Message(WaitFor(value + 1)), "Q:0: nobody wants it");
    EXPECT_EQ(recorder_.launches, (std::vector<int64_t>{1, 4}));
    // Too late, and never submitted.
    queue_->Abandon(value, Cancelled("late"));
    queue_->Abandon(value + 3, Cancelled("early"));
  }
  EXPECT_EQ(queue_->progress().steps % 2, 0u);
}

TEST_F(HostQueueTest, DestructionStopsALaunchThatDoesNotEnd) {
  Open();
  EXPECT_TRUE(Submit({kEndless}).ok());
  EXPECT_TRUE(Submit({2}).ok());
  EventFor(recorder_.begun).Wait([&] { return Reached(recorder_.begun, 1); });
  queue_.reset();
  EXPECT_EQ(Message(WaitFor(1)), "Q:0: closed while kernel 'spin' ran");
  EXPECT_EQ(WaitFor(2).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(recorder_.launches.empty());
}

TEST_F(HostQueueTest, DestructionCancelsAWaitThatNobodySatisfies) {
  Open();
  Signal never;
  EXPECT_TRUE(Submit({1}, &never).ok());
  EXPECT_TRUE(Submit({2}).ok());
  queue_.reset();
  EXPECT_EQ(WaitFor(1).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(WaitFor(2).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(recorder_.launches.empty());
}

}  // namespace
}  // namespace tensord::hcq
