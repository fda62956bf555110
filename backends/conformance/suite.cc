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
  if (target.renderer != "llvm-cpu") return skip("no kernels for renderer " + target.renderer);
  const auto binary = CompileLlvm(LlvmText(kind), target);
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
