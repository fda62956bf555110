// What the conformance tests share: two devices of the backend under test, lists in the timeline's
// order, and kernels for whatever target the backend has.
#pragma once

#include <absl/status/status.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"

namespace tensord::conformance {

// The kernels that tests launch. All take one buffer.
enum class KernelKind {
  kIncrement,   // buffer[0] += 1 (int32); grid 1
  kWriteIndex,  // buffer[i] = i + variable 0 (int64), for workgroup i
  kAddArray,    // buffer[i] += buffer[grid of variable 0 + i] (int64): reads what others wrote
  kFault,       // writes to address 0x40, or that far outside of the buffer
};

class ConformanceTest : public testing::Test {
 protected:
  // Opens two devices, with 256 MiB each.
  void SetUp() override;

  Device& device(int i = 0) { return *devices_[i]; }
  Timeline& timeline(int i = 0) { return devices_[i]->timeline(); }

  // A list that begins after everything submitted to the device so far.
  struct OrderedList {
    CommandList commands;
    uint64_t done;  // timeline value
  };
  OrderedList Begin(int i = 0);
  // Ends the list with its timeline value, submits it, and returns the value.
  uint64_t Submit(OrderedList list, int i = 0);
  absl::Status WaitFor(uint64_t value, int i = 0,
                       absl::Duration timeout = absl::InfiniteDuration()) {
    return timeline(i).Wait(value, absl::Now() + timeout);
  }

  void CloseDevices() { devices_.clear(); }

  std::shared_ptr<DeviceMemory> Allocate(size_t bytes, int i = 0);
  // Moves bytes by the device's own copies; waits.
  void Upload(DeviceMemory& memory, const void* data, size_t bytes);
  void Download(void* data, const DeviceMemory& memory, size_t bytes);

  // Null, with the test marked as skipped, where the suite can't make kernels for the target or
  // the device doesn't execute them.
  std::unique_ptr<LoadedKernel> Load(KernelKind kind, int i = 0);

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace tensord::conformance
