#include "core/device/device.h"

#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/paced/paced_backend.h"
#include "backends/paced/settings.h"
#include "core/base/status.h"

namespace tensord::paced {
namespace {

std::unique_ptr<tensord::Device> OpenOne(const BackendSettings& settings) {
  auto devices = Open(1, {.settings = settings});
  EXPECT_TRUE(devices.ok()) << devices.status();
  return std::move(devices->front());
}

// One list: launches of `kernels` and a copy of `bytes`, in between two stamps.
struct List {
  Signal begin, end;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  KernelArgs args;
  std::vector<char> bytes;
  uint64_t done = 0;

  List(tensord::Device& device, const std::vector<std::string>& names, size_t copied = 0,
       int64_t grid = 1)
      : bytes(2 * copied) {
    CommandList list;
    done = device.timeline().Reserve();
    list.Wait(device.timeline().signal(), done - 1);
    list.Timestamp(&begin);
    for (const std::string& name : names) {
      kernels.push_back(*device.Load("", name));
      list.Exec(kernels.back().get(), &args, grid);
    }
    if (copied > 0) list.Copy(bytes.data(), bytes.data() + copied, copied);
    list.Timestamp(&end);
    list.Signal(device.timeline().signal(), done);
    EXPECT_TRUE(device.Submit(std::move(list)).ok());
  }
  uint64_t Ns() const { return end.timestamp_ns.load() - begin.timestamp_ns.load(); }
};

TEST(PacedDeviceTest, WorkLastsAsLongAsTheSettingsSay) {
  struct Case {
    std::string name;
    BackendSettings settings;
    std::vector<std::string> kernels;
    size_t copied;
    int64_t grid;
    uint64_t expected_ns;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing set", {}, {"a", "b"}, 64, 7, 0},
           {"launches", {{"launch_us", "20"}}, {"a", "b", "c"}, 64, 7, 60'000},
           {"workgroups", {{"launch_us", "1"}, {"workgroup_ns", "500"}}, {"a", "b"}, 0, 8, 10'000},
           {"copies", {{"copy_us", "3"}, {"byte_ns", "0.5"}}, {"a"}, 1000, 1, 3'500}}) {
    const auto device = OpenOne(c.settings);
    for (int i = 0; i < 3; ++i) {
      const List list(*device, c.kernels, c.copied, c.grid);
      ASSERT_TRUE(device->Synchronize().ok()) << c.name;
      EXPECT_EQ(list.Ns(), c.expected_ns) << c.name;
    }
  }
}

TEST(PacedDeviceTest, ListsInARowLeaveNoGap) {
  const auto device = OpenOne({{"launch_us", "200"}});
  std::vector<std::unique_ptr<List>> lists;
  for (int i = 0; i < 5; ++i) {
    lists.push_back(std::make_unique<List>(*device, std::vector<std::string>{"a"}));
  }
  ASSERT_TRUE(device->Synchronize().ok());
  for (const auto& list : lists) EXPECT_EQ(list->Ns(), 200'000u);
  for (size_t i = 1; i < lists.size(); ++i) {
    EXPECT_GE(lists[i]->begin.timestamp_ns.load(), lists[i - 1]->end.timestamp_ns.load());
  }
}

TEST(PacedDeviceTest, FailsTheLaunchesThatTheSettingsMeanAndNoOthers) {
  struct Case {
    BackendSettings settings;
    std::vector<std::string> kernels;
    std::string expected;  // empty: it succeeds
  };
  for (const Case& c :
       std::vector<Case>{{{{"fault_launch", "2"}},
                          {"a", "b"},
                          "PACED:0: kernel 'b', launch 2, failed as the settings ask"},
                         {{{"fault_launch", "3"}}, {"a", "b"}, ""},
                         {{{"fault_kernel", "soft"}},
                          {"matmul", "my_softmax"},
                          "PACED:0: kernel 'my_softmax', launch 2, failed as the settings ask"},
                         {{{"fault_kernel", "soft"}}, {"matmul"}, ""}}) {
    const auto device = OpenOne(c.settings);
    const List list(*device, c.kernels);
    EXPECT_EQ(Message(device->timeline().Wait(list.done, absl::InfiniteFuture())), c.expected);
    // The next one is not touched.
    const List next(*device, {"c", "d"});
    EXPECT_EQ(Message(device->timeline().Wait(next.done, absl::InfiniteFuture())),
              c.settings[0].second == "3" ? "PACED:0: kernel 'c', launch 3, failed as the settings "
                                            "ask"
                                          : "");
  }
}

TEST(PacedDeviceTest, AHungLaunchEndsWhenTheDeviceIsClosed) {
  for (const BackendSettings& settings :
       {BackendSettings{{"hang_kernel", "spin"}}, BackendSettings{{"hang_launch", "2"}}}) {
    auto device = OpenOne(settings);
    const List before(*device, {"a"});
    const List hung(*device, {"spin"});
    const List behind(*device, {"b"});
    EXPECT_TRUE(device->timeline().Wait(before.done, absl::InfiniteFuture()).ok());
    // However slow the machine is, this is true; a launch that ended would make it false.
    EXPECT_EQ(device->timeline().Wait(hung.done, absl::Now() + absl::Milliseconds(50)).code(),
              absl::StatusCode::kDeadlineExceeded);
    std::vector<std::string> told;
    for (const List* list : {&hung, &behind}) {
      device->timeline().OnReached(
          list->done, [&](const absl::Status& status) { told.emplace_back(Message(status)); });
    }
    device = nullptr;
    ASSERT_EQ(told.size(), 2u);
    for (const std::string& message : told)
      EXPECT_EQ(message.find("PACED:0: closed"), 0u) << message;
  }
}

TEST(PacedDeviceTest, AHungLaunchThatIsAbandonedLetsTheNextOnesRun) {
  const auto device = OpenOne({{"hang_kernel", "spin"}, {"launch_us", "1000"}});
  for (int round = 0; round < 3; ++round) {
    const uint64_t steps = device->progress().steps;
    const List hung(*device, {"a", "spin", "b"});
    const List behind(*device, {"b"});
    while (device->progress().steps < steps + 3) {  // "a" has begun and ended, "spin" has begun
    }
    device->Abandon(hung.done, DeadlineExceeded("it took too long"));
    EXPECT_TRUE(device->timeline().Wait(behind.done, absl::InfiniteFuture()).ok());
    EXPECT_EQ(behind.Ns(), 1'000'000u);
    const std::string message(Message(device->timeline().Wait(hung.done, absl::InfiniteFuture())));
    EXPECT_TRUE(message.ends_with("was stopped: it took too long")) << message;
  }
}

TEST(PacedDeviceTest, HasTheMemoryThatTheSettingsSay) {
  const auto device = OpenOne({{"memory_mib", "2"}});
  EXPECT_EQ(device->allocator().stats().capacity_bytes, 2u << 20);
  EXPECT_TRUE(device->allocator().Allocate(1 << 20).ok());
  EXPECT_EQ(device->allocator().Allocate(3 << 20).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(PacedSettingsTest, SayWhatIsWrong) {
  struct Case {
    BackendSettings settings;
    std::string expected;
  };
  for (const Case& c : std::vector<Case>{
           {{{"speed", "2"}},
            "no setting 'speed'; there are: launch_us, workgroup_ns, copy_us, byte_ns, memory_mib, "
            "fault_launch, hang_launch, fault_kernel, hang_kernel"},
           {{{"fault_launch", "1.5"}},
            "fault_launch=1.5: takes the number of a launch, 1, 2, ...; 0 for none"},
           {{{"launch_us", "-1"}}, "launch_us=-1: takes a number from 0 to 1e+12"},
           {{{"launch_us", "nan"}}, "launch_us=nan: takes a number from 0 to 1e+12"},
           {{{"copy_us", "fast"}}, "copy_us=fast: takes a number from 0 to 1e+12"}}) {
    EXPECT_EQ(Message(ParseSettings(c.settings).status()), c.expected);
  }
}

}  // namespace
}  // namespace tensord::paced
