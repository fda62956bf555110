// What the interpreter reports, kernel by kernel; that it computes is for the conformance suite and
// the compiler's tests.
#include "backends/interp/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/interp/interp_backend.h"
#include "core/base/status.h"
#include "core/ir/linear_text.h"

namespace tensord::interp {
namespace {

class InterpTest : public testing::Test {
 protected:
  InterpTest() : device_(std::move((*Open(1, {.memory_bytes = 1 << 20}))[0])) {}

  // Runs one kernel on fresh memory of these sizes, with these bytes in the first one.
  absl::Status Run(std::string_view text, const std::vector<size_t>& bytes,
                   const std::vector<uint8_t>& first, int64_t grid = 1) {
    auto kernel = device_->Load(std::string(text), "k");
    if (!kernel.ok()) return kernel.status();
    KernelArgs args{.buffers = {}, .variables = {3}};
    std::vector<std::shared_ptr<DeviceMemory>> memory;
    for (const size_t size : bytes) {
      memory.push_back(*device_->allocator().Allocate(size));
      args.buffers.push_back(memory.back()->address());
    }
    last_ = memory.back();
    const uint64_t done = device_->timeline().Reserve();
    CommandList list;
    list.Wait(device_->timeline().signal(), done - 1);
    list.Copy(args.buffers[0], first.data(), first.size());
    list.Exec(kernel->get(), &args, grid);
    list.Signal(device_->timeline().signal(), done);
    const absl::Status status = device_->Submit(std::move(list));
    return status.ok() ? device_->timeline().Wait(done, absl::InfiniteFuture()) : status;
  }

  std::unique_ptr<tensord::Device> device_;
  std::shared_ptr<DeviceMemory> last_;
};

struct FaultCase {
  std::string_view name, text;
  std::vector<size_t> bytes;
  size_t first_bytes;  // of the first buffer that are written
  int64_t grid;
  std::vector<std::string_view> says;
};

TEST_F(InterpTest, FaultsNameThePlace) {
  const FaultCase kCases[] = {
      {"a load behind the end",
       R"(# linear k grid=1 params=2 variables=1 written=1
%0 = Param int32 [4] slot=0
%1 = Param int32 [4] slot=1
%2 = Variable index "v" min=0 max=3
%3 = Range index id=7 size=4 loop
%4 = Add index %3 %2
%5 = Load int32 %0 %4
%6 = Store %1 %3 %5
%7 = End %3
return %0 %1 %2 %3 %4 %5 %6 %7
)",
       {16, 16},
       16,
       1,
       {"INTERP:0", "kernel 'k'", "workgroup 0", "element 4 (byte 0x10) of 4 is out of bounds",
        "Load int32", "index = (r7 + v), where r7=1, v=3"}},
      {"a store in front of the beginning",
       R"(# linear k grid=1 params=1 variables=0 written=0
%0 = Param int16 [4] slot=0
%1 = Const index -1
%2 = Const int16 5
%3 = Store %0 %1 %2
return %0 %3
)",
       {8},
       8,
       1,
       {"element -1", "Store", "value = 5"}},
      {"an element that the buffer is too small for",
       R"(# linear k grid=1 params=1 variables=0 written=0
%0 = Param float64 [4] slot=0
%1 = Const index 3
%2 = Const float64 0.5
%3 = Store %0 %1 %2
return %0 %3
)",
       {24},
       8,
       1,
       {"element 3 (byte 0x18) of 3 is out of bounds"}},
      {"a lane behind the end",
       R"(# linear k grid=1 params=2 variables=0 written=1
%0 = Param float32 [6] slot=0
%1 = Param float32 [6] slot=1
%2 = Const index 4
%3 = Load float32x4 %0 %2
%4 = Store %1 %2 %3
return %0 %1 %3 %4
)",
       {24, 24},
       24,
       1,
       {"lane 2", "element 6", "Load float32x4"}},
      {"a read of half an element",
       R"(# linear k grid=1 params=2 variables=0 written=1
%0 = Param int32 [2] slot=0
%1 = Param int32 [2] slot=1
%2 = Const index 1
%3 = Load int32 %0 %2
%4 = Store %1 %2 %3
return %0 %1 %3 %4
)",
       {8, 8},
       6,
       1,
       {"reads element 1, which nothing has written"}},
      {"workgroups that store one element",
       R"(# linear k grid=2 params=1 variables=0 written=0
%0 = Param int64 [2] slot=0
%1 = GridIndex index slot=0
%2 = Cast int64 %1
%3 = Const index 0
%4 = Store %0 %3 %2
return %0 %1 %2 %4
)",
       {16},
       16,
       2,
       {"workgroup 1", "stores element 0, which workgroup 0 has stored"}},
      {"a workgroup that reads what another one stores",
       R"(# linear k grid=2 params=1 variables=0 written=0
%0 = Param int64 [2] slot=0
%1 = GridIndex index slot=0
%2 = Const index 0
%3 = Load int64 %0 %2
%4 = Store %0 %1 %3
return %0 %1 %3 %4
)",
       {16},
       16,
       2,
       {"workgroup 1", "reads element 0, which workgroup 0 stores"}},
  };
  for (const FaultCase& test : kCases) {
    const absl::Status status =
        Run(test.text, test.bytes, std::vector<uint8_t>(test.first_bytes), test.grid);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << test.name << ": " << status;
    for (const std::string_view part : test.says) {
      EXPECT_NE(Message(status).find(part), std::string::npos)
          << test.name << ": '" << part << "' is not in: " << status;
    }
  }
}

TEST_F(InterpTest, AClosedGateReadsNothing) {
  const absl::Status status = Run(R"(# linear k grid=1 params=2 variables=0 written=1
%0 = Param int32 [1] slot=0
%1 = Param int32 [1] slot=1
%2 = Const index 9
%3 = Const bool false
%4 = Load int32 %0 %2 %3
%5 = Const index 0
%6 = Store %1 %5 %4
return %0 %1 %4 %6
)",
                                  {4, 4}, {1, 1, 1, 1});
  ASSERT_TRUE(status.ok()) << status;
  int32_t value = -1;
  std::memcpy(&value, last_->host_address(), 4);
  EXPECT_EQ(value, 0);
}

TEST_F(InterpTest, MemoryThatNothingWroteIsNotCopiedToTheHost) {
  const auto memory = *device_->allocator().Allocate(8);
  const uint32_t word = 7;
  uint64_t both = 0;
  for (const auto& [to, from, bytes, fine] :
       {std::tuple<void*, const void*, size_t, bool>{memory->address(), &word, 4, true},
        {&both, memory->address(), 4, true},
        {&both, memory->address(), 8, false}}) {
    const uint64_t done = device_->timeline().Reserve();
    CommandList list;
    list.Wait(device_->timeline().signal(), done - 1);
    list.Copy(to, from, bytes);
    list.Signal(device_->timeline().signal(), done);
    ASSERT_TRUE(device_->Submit(std::move(list)).ok());
    const absl::Status status = device_->timeline().Wait(done, absl::InfiniteFuture());
    EXPECT_EQ(status.ok(), fine) << status;
  }
  EXPECT_EQ(both, 7);
}

// What a kernel that should store all of a buffer leaves out is undefined, whatever was there
// before.
TEST_F(InterpTest, WhatAKernelLeavesOutIsUndefined) {
  const absl::Status status = Run(R"(# linear k grid=1 params=1 variables=0 written=0
%0 = Param int32 [2] slot=0
%1 = Const index 0
%2 = Const int32 5
%3 = Range index id=0 size=2 loop
%4 = Store %0 %1 %2
%5 = End %3
return %0 %3 %4 %5
)",
                                  {8}, std::vector<uint8_t>(8));
  ASSERT_TRUE(status.ok()) << status;
  std::vector<uint8_t> bytes(8);
  const uint64_t done = device_->timeline().Reserve();
  CommandList list;
  list.Wait(device_->timeline().signal(), done - 1);
  list.Copy(bytes.data(), last_->address(), 8);
  list.Signal(device_->timeline().signal(), done);
  ASSERT_TRUE(device_->Submit(std::move(list)).ok());
  const absl::Status read = device_->timeline().Wait(done, absl::InfiniteFuture());
  EXPECT_NE(Message(read).find("byte 4"), std::string::npos) << read;
}

}  // namespace
}  // namespace tensord::interp
