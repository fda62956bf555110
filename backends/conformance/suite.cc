#include "backends/conformance/suite.h"

#include <cstdio>
#include <utility>

#include "backends/registry.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/compile/llvm.h"

namespace tensord::conformance {
namespace {

std::string& BackendName() {
  static std::string& name = *new std::string;
  return name;
}

// In the calling convention of core/compile's LLVM kernels.
std::string_view LlvmText(KernelKind kind) {
  switch (kind) {
    case KernelKind::kIncrement:
      return R"(define void @increment(ptr %buffers, ptr %variables, i64 %index) {
  %p = load ptr, ptr %buffers
  %old = load i32, ptr %p
  %new = add i32 %old, 1
  store i32 %new, ptr %p
  ret void
})";
    case KernelKind::kWriteIndex:
      return R"(define void @write_index(ptr %buffers, ptr %variables, i64 %index) {
  %p = load ptr, ptr %buffers
  %offset = load i64, ptr %variables
  %value = add i64 %index, %offset
  %at = getelementptr i64, ptr %p, i64 %index
  store i64 %value, ptr %at
  ret void
})";
    case KernelKind::kAddArray:
      return R"(define void @add_array(ptr %buffers, ptr %variables, i64 %index) {
  %p = load ptr, ptr %buffers
  %distance = load i64, ptr %variables
  %from = add i64 %index, %distance
  %source = getelementptr i64, ptr %p, i64 %from
  %target = getelementptr i64, ptr %p, i64 %index
  %a = load i64, ptr %source
  %b = load i64, ptr %target
  %sum = add i64 %a, %b
  store i64 %sum, ptr %target
  ret void
})";
    case KernelKind::kFault:
      return R"(define void @fault(ptr %buffers, ptr %variables, i64 %index) {
  %p = inttoptr i64 64 to ptr
  store volatile i32 1, ptr %p
  ret void
})";
  }
  return {};
}

// In the form of core/ir/linear_text.h.
std::string_view LinearText(KernelKind kind) {
  switch (kind) {
    case KernelKind::kIncrement:
      return R"(# linear increment grid=1 params=1 variables=0 written=0
%0 = Param int32 [1] slot=0
%1 = Const index 0
%2 = Load int32 %0 %1
%3 = Const int32 1
%4 = Add int32 %2 %3
%5 = Store %0 %1 %4
return %0 %2 %4 %5
)";
    case KernelKind::kWriteIndex:
      return R"(# linear write_index grid=1 params=1 variables=1 written=0
%0 = Param int64 [100000] slot=0
%1 = Variable int64 "offset" min=0 max=100000
%2 = GridIndex index slot=0
%3 = Cast int64 %2
%4 = Add int64 %3 %1
%5 = Store %0 %2 %4
return %0 %1 %2 %3 %4 %5
)";
    case KernelKind::kAddArray:
      return R"(# linear add_array grid=1 params=1 variables=1 written=0
%0 = Param int64 [100000] slot=0
%1 = Variable index "distance" min=0 max=100000
%2 = GridIndex index slot=0
%3 = Add index %1 %2
%4 = Load int64 %0 %3
%5 = Load int64 %0 %2
%6 = Add int64 %5 %4
%7 = Store %0 %2 %6
return %0 %1 %2 %3 %4 %5 %6 %7
)";
    case KernelKind::kFault:
      return R"(# linear fault grid=1 params=1 variables=0 written=0
%0 = Param int8 [1] slot=0
%1 = Const index 0
%2 = Load int8 %0 %1
%3 = Const index 64
%4 = Store %0 %3 %2
return %0 %2 %4
)";
  }
  return {};
}

std::string_view EntryOf(KernelKind kind) {
  switch (kind) {
    case KernelKind::kIncrement:
      return "increment";
    case KernelKind::kWriteIndex:
      return "write_index";
    case KernelKind::kAddArray:
      return "add_array";
    case KernelKind::kFault:
      return "fault";
  }
  return {};
}

}  // namespace

void ConformanceTest::SetUp() {
  auto devices = OpenDevices(BackendName() + ":2", {.memory_bytes = 256 << 20});
  ASSERT_TRUE(devices.ok()) << devices.status();
  devices_ = *std::move(devices);
  ASSERT_EQ(devices_.size(), 2);
}

ConformanceTest::OrderedList ConformanceTest::Begin(int i) {
  OrderedList list{.commands = {}, .done = timeline(i).Reserve()};
  list.commands.Wait(timeline(i).signal(), list.done - 1);
  return list;
}

uint64_t ConformanceTest::Submit(OrderedList list, int i) {
  list.commands.Signal(timeline(i).signal(), list.done);
  const absl::Status status = device(i).Submit(std::move(list.commands));
  EXPECT_TRUE(status.ok()) << status;
  return list.done;
}

std::shared_ptr<DeviceMemory> ConformanceTest::Allocate(size_t bytes, int i) {
  auto memory = device(i).allocator().Allocate(bytes);
  TD_CHECK(memory.ok(), Message(memory.status()));
  return *std::move(memory);
}

void ConformanceTest::Upload(DeviceMemory& memory, const void* data, size_t bytes) {
  OrderedList list = Begin();
  list.commands.Copy(memory.address(), data, bytes);
  EXPECT_TRUE(WaitFor(Submit(std::move(list))).ok());
}

void ConformanceTest::Download(void* data, const DeviceMemory& memory, size_t bytes) {
  OrderedList list = Begin();
  list.commands.Copy(data, memory.address(), bytes);
  EXPECT_TRUE(WaitFor(Submit(std::move(list))).ok());
}

std::unique_ptr<LoadedKernel> ConformanceTest::Load(KernelKind kind, int i) {
  const auto skip = [](std::string_view reason) -> std::unique_ptr<LoadedKernel> {
    [&] { GTEST_SKIP() << reason; }();
    return nullptr;
  };
  if (!device(i).executes()) return skip("the device executes nothing");
  const Target& target = device(i).target();
  absl::StatusOr<std::string> binary;
  if (target.renderer == "llvm-cpu") {
    binary = CompileLlvm(LlvmText(kind), target);
  } else if (target.renderer == "linear") {
    binary = std::string(LinearText(kind));
  } else {
    return skip("no kernels for renderer " + target.renderer);
  }
  TD_CHECK(binary.ok(), Message(binary.status()));
  auto kernel = device(i).Load(*binary, std::string(EntryOf(kind)));
  TD_CHECK(kernel.ok(), Message(kernel.status()));
  return *std::move(kernel);
}

}  // namespace tensord::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFlag = "--backend=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kFlag.size()) == kFlag) {
      tensord::conformance::BackendName() = argument.substr(kFlag.size());
    }
  }
  if (tensord::conformance::BackendName().empty()) {
    std::fprintf(stderr, "usage: %s --backend=NAME, a name in backends/registry.cc\n", argv[0]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
