#include "backends/registry.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/device/device.h"

namespace tensord {
namespace {

TEST(RegistryTest, OpensWhatTheSpecNames) {
  struct Case {
    std::string spec;
    std::vector<std::string> expected;
  };
  for (const Case& c : {Case{"", {"CPU:0"}},
                        {"cpu", {"CPU:0"}},
                        {"cpu:2", {"CPU:0", "CPU:1"}},
                        {"null , cpu:1", {"NULL:0", "CPU:0"}},
                        {"paced:2(launch_us=1, copy_us=2),null", {"PACED:0", "PACED:1", "NULL:0"}},
                        {"null, paced()", {"NULL:0", "PACED:0"}}}) {
    auto devices = OpenDevices(c.spec, {.threads = 1, .memory_bytes = 1 << 20});
    ASSERT_TRUE(devices.ok()) << devices.status();
    std::vector<std::string> names;
    for (const auto& device : *devices) {
      names.push_back(device->name());
      EXPECT_EQ(device->target().cores, 1);
      EXPECT_EQ(device->allocator().stats().capacity_bytes, 1 << 20);
    }
    EXPECT_EQ(names, c.expected) << c.spec;
  }
}

TEST(RegistryTest, SharesTheMachinesMemoryByDefault) {
  auto one = OpenDevices("cpu", {.threads = 1}), four = OpenDevices("cpu:4", {.threads = 1});
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(four->front()->allocator().stats().capacity_bytes,
            one->front()->allocator().stats().capacity_bytes / 4);
}

TEST(RegistryTest, SaysWhatIsWrongWithASpec) {
  struct Case {
    std::string spec, expected;
  };
  for (const Case& c :
       {Case{"gpu", "devices 'gpu': no backend 'gpu'; there are: cpu, null, interp, paced"},
        {"cpu,", "devices 'cpu,': no backend ''; there are: cpu, null, interp, paced"},
        {"cpu:0", "devices 'cpu:0': 'cpu:0' must end in a count from 1 to 64, as in cpu:2"},
        {"cpu:x", "devices 'cpu:x': 'cpu:x' must end in a count from 1 to 64, as in cpu:2"},
        {"cpu:99", "devices 'cpu:99': 'cpu:99' must end in a count from 1 to 64, as in cpu:2"},
        {"cpu(a=1)", "devices 'cpu(a=1)': cpu takes no settings"},
        {"paced(a=1",
         "devices 'paced(a=1': parentheses must come in pairs, as in paced(launch_us=100)"},
        {"paced((a=1)",
         "devices 'paced((a=1)': parentheses must come in pairs, as in paced(launch_us=100)"},
        {"paced(launch_us)",
         "devices 'paced(launch_us)': paced: launch_us=: takes a number from 0 to 1e+12"},
        {"paced(a=1)x",
         "devices 'paced(a=1)x': no backend 'paced(a=1)x'; there are: cpu, null, "
         "interp, paced"},
        {"cpu,cpu", "devices 'cpu,cpu': cpu is named twice; write cpu:COUNT for several"}}) {
    const absl::Status status = OpenDevices(c.spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Message(status), c.expected);
  }
  EXPECT_EQ(OpenDevices("cpu", {.threads = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tensord
