// Launches, replays and faults.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/conformance/suite.h"
#include "core/base/status.h"
#include "core/device/device.h"

namespace tensord::conformance {
namespace {

using ExecTest = ConformanceTest;

TEST_F(ExecTest, RunsEveryWorkgroup) {
  const auto kernel = Load(KernelKind::kWriteIndex);
  if (kernel == nullptr) return;
  EXPECT_EQ(kernel->name(), "write_index");
  for (const int64_t grid : {1, 2, 3, 7, 64, 1000, 100'000}) {
    const auto memory = Allocate(grid * sizeof(int64_t));
    const KernelArgs args{.buffers = {memory->address()}, .variables = {grid}};
    OrderedList list = Begin();
    list.commands.Exec(kernel.get(), &args, grid);
    ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
    std::vector<int64_t> values(grid);
    Download(values.data(), *memory, grid * sizeof(int64_t));
    for (int64_t i = 0; i < grid; ++i) ASSERT_EQ(values[i], i + grid);
  }
}

TEST_F(ExecTest, AnEmptyGridRunsNothing) {
  const auto kernel = Load(KernelKind::kFault);
  if (kernel == nullptr) return;
  const KernelArgs args;
  OrderedList list = Begin();
  list.commands.Exec(kernel.get(), &args, 0);
  EXPECT_TRUE(WaitFor(Submit(std::move(list))).ok());
}

// Two launches a list, a hundred submissions without a wait of the host.
TEST_F(ExecTest, ReplaysOfOneListAddUp) {
  const auto kernel = Load(KernelKind::kIncrement);
  if (kernel == nullptr) return;
  const auto memory = Allocate(4);
  int32_t count = 0;
  Upload(*memory, &count, sizeof count);
  const KernelArgs args{.buffers = {memory->address()}, .variables = {}};
  CommandList recorded;
  recorded.Exec(kernel.get(), &args, 1);
  recorded.Exec(kernel.get(), &args, 1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(device().Submit(recorded).ok());
    Submit(Begin());
  }
  Download(&count, *memory, sizeof count);
  EXPECT_EQ(count, 200);
}

TEST_F(ExecTest, ALaunchSeesTheWritesOfTheOneBefore) {
  const auto write = Load(KernelKind::kWriteIndex);
  if (write == nullptr) return;
  const auto add = Load(KernelKind::kAddArray);
  constexpr int64_t kHalf = 512;
  const auto memory = Allocate(2 * kHalf * sizeof(int64_t));
  const KernelArgs write_args{.buffers = {memory->address()}, .variables = {0}};
  const KernelArgs add_args{.buffers = {memory->address()}, .variables = {kHalf}};
  for (int round = 0; round < 100; ++round) {
    OrderedList list = Begin();
    list.commands.Exec(write.get(), &write_args, 2 * kHalf);
    list.commands.Exec(add.get(), &add_args, kHalf);
    list.commands.Exec(add.get(), &add_args, kHalf);
    Submit(std::move(list));
    std::vector<int64_t> values(kHalf);
    Download(values.data(), *memory, kHalf * sizeof(int64_t));
    for (int64_t i = 0; i < kHalf; ++i) ASSERT_EQ(values[i], i + 2 * (i + kHalf));
  }
}

TEST_F(ExecTest, CopiesAndLaunchesTakeTurns) {
  const auto kernel = Load(KernelKind::kIncrement);
  if (kernel == nullptr) return;
  const auto a = Allocate(4), b = Allocate(4);
  int32_t count = 0;
  const KernelArgs args_a{.buffers = {a->address()}, .variables = {}};
  const KernelArgs args_b{.buffers = {b->address()}, .variables = {}};
  OrderedList list = Begin();
  list.commands.Copy(a->address(), &count, 4);
  for (int i = 0; i < 500; ++i) {
    list.commands.Exec(kernel.get(), &args_a, 1);
    list.commands.Copy(b->address(), a->address(), 4);
    list.commands.Exec(kernel.get(), &args_b, 1);
    list.commands.Copy(a->address(), b->address(), 4);
  }
  ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
  Download(&count, *a, 4);
  EXPECT_EQ(count, 1000);
}

TEST_F(ExecTest, TimestampsEncloseTheLaunch) {
  const auto kernel = Load(KernelKind::kWriteIndex);
  if (kernel == nullptr) return;
  constexpr int64_t kGrid = 100'000;
  const auto memory = Allocate(kGrid * sizeof(int64_t));
  const KernelArgs args{.buffers = {memory->address()}, .variables = {0}};
  Signal start, end;
  OrderedList list = Begin();
  list.commands.Timestamp(&start);
  list.commands.Exec(kernel.get(), &args, kGrid);
  list.commands.Timestamp(&end);
  ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
  EXPECT_GT(end.timestamp_ns.load(), start.timestamp_ns.load());
}

TEST_F(ExecTest, DevicesRunKernelsOfTheirOwn) {
  const auto first = Load(KernelKind::kIncrement, 0);
  if (first == nullptr) return;
  const auto second = Load(KernelKind::kIncrement, 1);
  const auto memory = Allocate(4);
  int32_t count = 0;
  Upload(*memory, &count, 4);
  if (memory->host_address() == nullptr) GTEST_SKIP() << "devices share no memory";
  const KernelArgs args{.buffers = {memory->address()}, .variables = {}};
  uint64_t done[2] = {timeline(0).last_reserved(), 0};
  for (int round = 0; round < 100; ++round) {
    for (const int i : {0, 1}) {
      OrderedList list = Begin(i);
      list.commands.Wait(timeline(1 - i).signal(), done[1 - i]);
      list.commands.Exec(i == 0 ? first.get() : second.get(), &args, 1);
      done[i] = Submit(std::move(list), i);
    }
  }
  ASSERT_TRUE(WaitFor(done[1], 1).ok());
  Download(&count, *memory, 4);
  EXPECT_EQ(count, 200);
}

TEST_F(ExecTest, AFaultFailsItsOwnSubmissionOnly) {
  const auto bad = Load(KernelKind::kFault);
  if (bad == nullptr) return;
  const auto good = Load(KernelKind::kIncrement);
  const auto memory = Allocate(4);
  int32_t count = 0;
  Upload(*memory, &count, 4);
  const KernelArgs args{.buffers = {memory->address()}, .variables = {}};
  for (int round = 1; round <= 20; ++round) {
    OrderedList before = Begin(), faulty = Begin(), after = Begin();
    before.commands.Exec(good.get(), &args, 1);
    faulty.commands.Exec(bad.get(), &args, round);
    faulty.commands.Exec(good.get(), &args, 1);  // doesn't run any more
    after.commands.Exec(good.get(), &args, 1);
    const uint64_t first = Submit(std::move(before)), failed = Submit(std::move(faulty)),
                   last = Submit(std::move(after));
    EXPECT_TRUE(WaitFor(last).ok());
    EXPECT_TRUE(WaitFor(first).ok());
    const absl::Status status = WaitFor(failed);
    const std::string message(Message(status));
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    for (const std::string& part : {device().name(), std::string("'fault'"), std::string("0x40")}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    }
    Download(&count, *memory, 4);
    EXPECT_EQ(count, 2 * round);
  }
}

TEST_F(ExecTest, LoadRefusesGarbage) {
  if (!device().executes()) GTEST_SKIP() << "the device executes nothing";
  EXPECT_EQ(device().Load("garbage", "entry").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device().Load("", "entry").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tensord::conformance
