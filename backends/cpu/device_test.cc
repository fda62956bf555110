// What the conformance suite can't ask of every backend.
#include "backends/cpu/device.h"

#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <string_view>
#include <vector>

#include "backends/cpu/kernel.h"
#include "core/base/status.h"

namespace tensord::cpu {
namespace {

class CpuDeviceTest : public testing::Test {
 protected:
  // Submits the commands that `record` adds, in the timeline's order; the value to wait for.
  template <typename Record>
  uint64_t Submit(Record record) {
    const uint64_t value = device_.timeline().Reserve();
    CommandList list;
    list.Wait(device_.timeline().signal(), value - 1);
    record(list);
    list.Signal(device_.timeline().signal(), value);
    EXPECT_TRUE(device_.Submit(std::move(list)).ok());
    return value;
  }
  absl::Status WaitFor(uint64_t value) {
    return device_.timeline().Wait(value, absl::InfiniteFuture());
  }

  Device device_{{.name = "CPU:7", .threads = 3, .memory_bytes = 64 << 20}, Target()};
};

void WriteIndex(void* const* buffers, const int64_t* variables, int64_t grid_index) {
  static_cast<int64_t*>(buffers[0])[grid_index] = grid_index + variables[0];
}

TEST_F(CpuDeviceTest, RunsAFunctionOfThisProcess) {
  const Kernel kernel("write", WriteIndex);
  std::vector<int64_t> values(1000);
  const KernelArgs args{.buffers = {values.data()}, .variables = {5}};
  const uint64_t done = Submit([&](CommandList& list) { list.Exec(&kernel, &args, 1000); });
  ASSERT_TRUE(WaitFor(done).ok());
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(values[i], i + 5);
}

void Dereference(void* const* buffers, const int64_t*, int64_t) {
  *static_cast<volatile int*>(buffers[0]) = 1;
}

TEST_F(CpuDeviceTest, AFaultNamesKernelAndAddressAndSparesTheOthers) {
  const Kernel bad("bad_kernel", Dereference), good("write", WriteIndex);
  int64_t value = 0;
  const KernelArgs bad_args{.buffers = {reinterpret_cast<void*>(0xDEA0)}, .variables = {}};
  const KernelArgs good_args{.buffers = {&value}, .variables = {42}};
  for (int round = 0; round < 10; ++round) {
    value = 0;
    const uint64_t failed = Submit([&](CommandList& list) { list.Exec(&bad, &bad_args, 2); });
    const uint64_t done = Submit([&](CommandList& list) { list.Exec(&good, &good_args, 1); });
    ASSERT_TRUE(WaitFor(done).ok());
    EXPECT_EQ(value, 42);
    const absl::Status status = WaitFor(failed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(Message(status).substr(0, Message(status).rfind(' ')),
              "CPU:7: kernel 'bad_kernel' of 2 workgroups stopped by a segmentation fault at "
              "address 0xdea0 in workgroup");
  }
}

TEST_F(CpuDeviceTest, ACopyFromABadAddressIsContained) {
  char target[64];
  const uint64_t failed = Submit(
      [&](CommandList& list) { list.Copy(target, reinterpret_cast<void*>(0x100), sizeof target); });
  EXPECT_EQ(Message(WaitFor(failed)),
            "CPU:7: copy of 64 bytes stopped by a segmentation fault at address 0x100 in workgroup "
            "0");
}

// Some workgroups of it never end, as a kernel may that nobody has proven to.
void Spin(void* const* buffers, const int64_t*, int64_t grid_index) {
  auto* begun = static_cast<volatile int64_t*>(buffers[0]);
  begun[grid_index] = 1;
  while (begun[grid_index] == 1 && grid_index % 2 == 0) {  // of volatile reads, so it is no error
  }
}

// A volatile read of what is not volatile may be taken out of a loop.
bool HasBegun(std::vector<int64_t>& begun) {
  return __atomic_load_n(&begun[0], __ATOMIC_RELAXED) != 0;
}

TEST_F(CpuDeviceTest, AKernelThatNeverEndsIsStoppedAndSparesTheOthers) {
  const Kernel endless("endless", Spin), good("write", WriteIndex);
  for (const int64_t grid : {1, 2, 3, 100}) {
    std::vector<int64_t> begun(grid), values(1000);
    const KernelArgs spin_args{.buffers = {begun.data()}, .variables = {}};
    const KernelArgs good_args{.buffers = {values.data()}, .variables = {5}};
    const uint64_t hung = Submit([&](CommandList& list) {
      list.Exec(&endless, &spin_args, grid);
      list.Exec(&good, &good_args, 1000);
    });
    const uint64_t done = Submit([&](CommandList& list) { list.Exec(&good, &good_args, 500); });
    while (device_.progress().list != hung || !HasBegun(begun)) {
    }
    device_.Abandon(hung, DeadlineExceeded("it took too long"));
    ASSERT_TRUE(WaitFor(done).ok());
    EXPECT_EQ(Message(WaitFor(hung)), "CPU:7: kernel 'endless' was stopped: it took too long");
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(values[i], i < 500 ? i + 5 : 0);
  }
}

TEST(CpuDeviceCloseTest, AKernelThatNeverEndsDoesNotKeepTheDeviceOpen) {
  const Kernel endless("endless", Spin);
  std::vector<int64_t> begun(8);
  const KernelArgs args{.buffers = {begun.data()}, .variables = {}};
  Device device({.name = "CPU:0", .threads = 3, .memory_bytes = 1 << 20}, Target());
  CommandList list;
  list.Exec(&endless, &args, 8);
  list.Signal(device.timeline().signal(), device.timeline().Reserve());
  ASSERT_TRUE(device.Submit(std::move(list)).ok());
  while (!HasBegun(begun)) {
  }
}

void ReadRounding(void* const* buffers, const int64_t*, int64_t grid_index) {
  static_cast<int*>(buffers[0])[grid_index] = std::fegetround();
}

TEST(CpuDeviceFloatTest, KernelsRoundToNearestWhateverTheOpenerSet) {
  std::fesetround(FE_DOWNWARD);  // threads inherit it
  {
    Device device({.name = "CPU:0", .threads = 4, .memory_bytes = 1 << 20}, Target());
    std::fesetround(FE_TONEAREST);
    const Kernel kernel("rounding", ReadRounding);
    std::vector<int> modes(64, -1);
    const KernelArgs args{.buffers = {modes.data()}, .variables = {}};
    CommandList list;
    list.Exec(&kernel, &args, 64);
    list.Signal(device.timeline().signal(), device.timeline().Reserve());
    ASSERT_TRUE(device.Submit(std::move(list)).ok());
    ASSERT_TRUE(device.Synchronize().ok());
    for (const int mode : modes) EXPECT_EQ(mode, FE_TONEAREST);
  }
}

TEST_F(CpuDeviceTest, LoadRefusesWhatIsNoObject) {
  const auto kernel = device_.Load("not an object", "entry");
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Message(kernel.status()).find("CPU:7: kernel 'entry'"), std::string_view::npos);
}

}  // namespace
}  // namespace tensord::cpu
