// The compiler and the loader on their own, with text written by hand.
#include "core/compile/llvm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/compile/llvm_host.h"
#include "core/compile/llvm_loader.h"

namespace tensord {
namespace {

// Stores `value` + variables[0] at buffers[0].
std::string StoreText(int value) {
  return fmt::format(R"(
define void @store(ptr %buffers, ptr %variables, i64 %grid_index) {{
  %p = load ptr, ptr %buffers
  %x = load i64, ptr %variables
  %y = add i64 %x, {}
  store i64 %y, ptr %p
  ret void
}})",
                     value);
}

int64_t Call(const LlvmObject& object, int64_t variable) {
  int64_t result = 0;
  void* buffers[] = {&result};
  reinterpret_cast<LlvmKernelFunction*>(object.entry())(buffers, &variable, 0);
  return result;
}

TEST(LlvmTest, CompilesLoadsAndRuns) {
  auto object = CompileLlvm(StoreText(5), LlvmHostTarget());
  ASSERT_TRUE(object.ok()) << object.status();
  auto loaded = LlvmObject::Load(*object, "store");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Call(**loaded, 37), 42);
}

TEST(LlvmTest, OutputIsTheSameEveryTime) {
  EXPECT_EQ(CompileLlvm(StoreText(5), LlvmHostTarget()).value(),
            CompileLlvm(StoreText(5), LlvmHostTarget()).value());
}

struct BadText {
  const char* name;
  const char* text;
  absl::StatusCode code;
  const char* message;
};
const BadText kBadTexts[] = {
    {"Nonsense", "define nonsense", absl::StatusCode::kInvalidArgument, "can't parse"},
    {"Type", "define i32 @f(i64 %x) { ret i32 %x }", absl::StatusCode::kInvalidArgument,
     "'%x' defined with type 'i64' but expected 'i32'"},
    {"Broken block", "define void @f() { entry:\n br label %entry }",
     absl::StatusCode::kInvalidArgument, "Entry block"},
    {"Foreign call", "declare void @system()\ndefine void @f() { call void @system() ret void }",
     absl::StatusCode::kInternal, "'system'"},
};

TEST(LlvmTest, BadTextIsAStatusWithLlvmsMessage) {
  for (const BadText& bad : kBadTexts) {
    const absl::Status status = CompileLlvm(bad.text, LlvmHostTarget()).status();
    EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status;
    EXPECT_NE(Message(status).find(bad.message), std::string_view::npos)
        << bad.name << ": " << status;
  }
}

TEST(LlvmTest, UnknownArchitectureIsUnavailable) {
  Target target = LlvmHostTarget();
  target.arch = "pdp-11";
  EXPECT_EQ(CompileLlvm(StoreText(1), target).status().code(), absl::StatusCode::kUnavailable);
}

TEST(LlvmTest, CompilesForAnotherArchitecture) {
  Target target = {.renderer = "llvm-cpu", .arch = "aarch64", .cpu = "generic", .has_fma = true};
  const auto object = CompileLlvm(StoreText(1), target);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(object->substr(0, 4),
            "\x7f"
            "ELF");
  if (LlvmHostTarget().arch == "x86-64") {
    EXPECT_EQ(LlvmObject::Load(*object, "store").status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(LlvmLoaderTest, RefusesWhatItCantLoad) {
  const std::string object = CompileLlvm(StoreText(1), LlvmHostTarget()).value();
  for (const std::string& bad : {std::string(), std::string("not an object"), object.substr(0, 64),
                                 object.substr(0, object.size() / 2)}) {
    EXPECT_EQ(LlvmObject::Load(bad, "store").status().code(), absl::StatusCode::kInvalidArgument);
  }
  const absl::Status missing = LlvmObject::Load(object, "other").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Message(missing).find("other"), std::string_view::npos) << missing;
}

// Kernels of one name live side by side, and each dies without the others.
TEST(LlvmLoaderTest, EqualNamesDontMeet) {
  std::vector<std::unique_ptr<LlvmObject>> objects;
  for (int i = 0; i < 20; ++i) {
    objects.push_back(
        LlvmObject::Load(CompileLlvm(StoreText(i), LlvmHostTarget()).value(), "store").value());
    if (i % 2 != 0) objects[i - 1].reset();
  }
  for (int i = 1; i < 20; i += 2) EXPECT_EQ(Call(*objects[i], 100), 100 + i);
}

TEST(LlvmLoaderTest, CallsTheFunctionsOnTheList) {
  const std::string text = R"(
declare double @fma(double, double, double)
define void @call(ptr %buffers, ptr %variables, i64 %grid_index) {
  %p = load ptr, ptr %buffers
  %x = load double, ptr %p
  %y = call double @fma(double %x, double %x, double 1.0)
  store double %y, ptr %p
  ret void
})";
  auto loaded = LlvmObject::Load(CompileLlvm(text, LlvmHostTarget()).value(), "call");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  double x = 3;
  void* buffers[] = {&x};
  reinterpret_cast<LlvmKernelFunction*>((*loaded)->entry())(buffers, nullptr, 0);
  EXPECT_EQ(x, 10);
}

TEST(LlvmTest, ManyThreadsCompileLoadAndUnloadAtOnce) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const int value = 100 * t + i;
        auto object = CompileLlvm(StoreText(value), LlvmHostTarget());
        if (!object.ok()) return;
        auto loaded = LlvmObject::Load(*object, "store");
        if (loaded.ok() && Call(**loaded, 1) == value + 1) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
}

TEST(LlvmHostTest, DescribesThisMachine) {
  const Target& target = LlvmHostTarget();
  EXPECT_EQ(target.renderer, "llvm-cpu");
  EXPECT_FALSE(target.cpu.empty());
  EXPECT_GE(target.vector_bytes, 16);
  EXPECT_GE(target.cores, 1);
  EXPECT_GT(target.l1_bytes, 0);
  EXPECT_GT(target.l2_bytes, 0);
}

TEST(LlvmHostTest, CacheKeySeesEveryField) {
  const Target base;
  void (*const changes[])(Target&) = {
      [](Target& t) { t.renderer = "x"; },    [](Target& t) { t.arch = "x"; },
      [](Target& t) { t.cpu = "x"; },         [](Target& t) { t.features = "x"; },
      [](Target& t) { t.vector_bytes = 99; }, [](Target& t) { t.vector_registers = 99; },
      [](Target& t) { t.has_fma = true; },    [](Target& t) { t.cores = 99; },
      [](Target& t) { t.l1_bytes = 99; },     [](Target& t) { t.l2_bytes = 99; },
  };
  for (auto* change : changes) {
    Target changed = base;
    change(changed);
    EXPECT_NE(changed.CacheKey(), base.CacheKey());
  }
}

}  // namespace
}  // namespace tensord
