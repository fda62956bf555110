// Guards: a kernel whose accesses are not proven to be in bounds touches nothing else, compiled or
// interpreted, and what it computes inside is right.
#include "core/codegen/guard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "backends/interp/interpreter.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/compile/compiler.h"
#include "core/compile/llvm_host.h"
#include "core/compile/llvm_loader.h"
#include "core/ir/linear_text.h"
#include "core/ir/text.h"
#include "core/rules/bounds.h"
#include "core/rules/spec.h"
#include "core/schedule/schedule.h"
#include "tests/differential/prove.h"
#include "tools/bench/models.h"

namespace tensord {
namespace {

constexpr size_t kElements = 8;  // of each buffer; as many more lie around it

struct Case {
  std::string_view name, body;
  size_t accesses;                // that get a guard
  std::vector<int32_t> expected;  // in buffer 1; buffer 0 is 10, 11, ..., buffer 1 was 0
};

const Case kCases[] = {
    {"a loop that begins too early and ends too late",
     R"(
%2 = Range index id=0 size=12 loop
%3 = Const index -2
%4 = Add index %2 %3
%5 = Load int32 %0 %4
%6 = Store %1 %4 %5
%7 = End %2
return %0 %1 %2 %4 %5 %6 %7
)",
     2,
     {10, 11, 12, 13, 14, 15, 16, 17}},
    {"lanes over both ends, one of them gated already",
     R"(
%2 = Const index -1
%3 = Load int32x4 %0 %2
%4 = Const index 5
%5 = Const bool true
%6 = Const bool false
%7 = Stack boolx4 %5 %6 %5 %5
%8 = Load int32x4 %0 %4 %7
%9 = Add int32x4 %3 %8
%10 = Store %1 %2 %9
%11 = Store %1 %4 %8 %7
return %0 %1 %3 %7 %8 %9 %10 %11
)",
     4,
     {10, 28, 12, 0, 0, 15, 0, 17}},
    {"an index that was read, in a loop",
     R"(
%2 = Range index id=0 size=8 loop
%3 = Load int32 %0 %2
%4 = Const int32 12
%5 = Sub int32 %3 %4
%6 = Cast index %5
%7 = Load int32 %0 %6
%8 = Store %1 %2 %7
%9 = Load int32 %0 %6
%10 = End %2
return %0 %1 %2 %3 %5 %6 %7 %8 %10
)",
     1,
     {0, 0, 10, 11, 12, 13, 14, 15}},
    {"an accumulator whose start and steps are guarded loads",
     R"(
%2 = Const index 9
%3 = Load int32 %0 %2
%4 = Accumulator int32 %3 slot=0
%5 = Range index id=0 size=9 loop
%6 = Load int32 %0 %5
%7 = Read int32 %4 slot=0
%8 = Add int32 %7 %6
%9 = Update %4 %8
%10 = End %5
%11 = Read int32 %4 slot=1
%12 = Const index 0
%13 = Store %1 %12 %11
return %0 %1 %3 %4 %5 %6 %7 %8 %9 %10 %11 %13
)",
     2,
     {10 + 11 + 12 + 13 + 14 + 15 + 16 + 17, 0, 0, 0, 0, 0, 0, 0}},
};

TEST(Guard, KeepsAccessesInside) {
  for (const Case& test : kCases) {
    Graph graph;
    absl::StatusOr<LinearProgram> program = ParseLinear(
        "# linear k grid=1 params=2 variables=0 written=1\n"
        "%0 = Param int32 [8] slot=0\n%1 = Param int32 [8] slot=1" +
            std::string(test.body),
        graph);
    ASSERT_TRUE(program.ok()) << test.name << ": " << program.status();
    const std::vector<const Node*> unproven = UnprovenAccesses(*program);
    EXPECT_EQ(unproven.size(), test.accesses) << test.name;
    EXPECT_NE(ProveBounds(*program), "") << test.name;
    ASSERT_TRUE(Guard(graph, unproven, *program).ok());
    const absl::Status sound = VerifyLinear(program->body);
    ASSERT_TRUE(sound.ok()) << test.name << ": " << sound << "\n" << PrintList(program->body);
    EXPECT_TRUE(UnprovenAccesses(*program).empty()) << test.name << "\n" << PrintLinear(*program);
    EXPECT_EQ(ProveBounds(*program), "") << test.name;

    std::vector<int32_t> from(3 * kElements, 99), to(3 * kElements, 99);
    const auto reset = [&] {
      for (size_t i = 0; i < kElements; ++i) {
        from[kElements + i] = static_cast<int32_t>(10 + i);
        to[kElements + i] = 0;
      }
    };
    const auto check = [&](std::string_view how) {
      const std::vector<int32_t> around(kElements, 99);
      const std::vector<int32_t> inside(&to[kElements], &to[2 * kElements]);
      EXPECT_EQ(inside, test.expected) << test.name << ", " << how;
      EXPECT_EQ(std::vector<int32_t>(&to[0], &to[kElements]), around) << test.name << ", " << how;
      EXPECT_EQ(std::vector<int32_t>(&to[2 * kElements], to.data() + to.size()), around)
          << test.name << ", " << how;
    };
    reset();
    const auto view = [&](std::vector<int32_t>& values) {
      return interp::BufferView{.data = reinterpret_cast<std::byte*>(&values[kElements]),
                                .bytes = kElements * sizeof(int32_t)};
    };
    const absl::Status status = interp::Interpreter(*program).Run({view(from), view(to)}, {});
    EXPECT_TRUE(status.ok()) << test.name << ": " << status;
    check("interpreted");

    reset();
    const auto kernel = CompileKernel(*program, LlvmHostTarget());
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const auto object = LlvmObject::Load(kernel->binary, kernel->entry);
    ASSERT_TRUE(object.ok()) << object.status();
    void* const buffers[] = {&from[kElements], &to[kElements]};
    reinterpret_cast<LlvmKernelFunction*>((*object)->entry())(buffers, nullptr, 0);
    check("compiled");
  }
}

// What people run needs no guard: the compiler's own arithmetic proves it.
TEST(Guard, ModelsNeedNone) {
  for (const Model& model : Models()) {
    const Program program = model.make();
    const auto schedule = MakeSchedule(program);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    for (const auto& kernel : schedule->kernels) {
      Target target = {.vector_bytes = 64, .vector_registers = 32, .has_fma = true, .cores = 4};
      target.checks_bounds = true;  // leave the program as it is
      const auto linear = LowerKernel(*kernel, target);
      ASSERT_TRUE(linear.ok()) << linear.status();
      for (const Node* access : UnprovenAccesses((*linear)->program)) {
        ADD_FAILURE() << model.name << ", " << kernel->name << ": " << PrintNode(access);
      }
    }
  }
}

}  // namespace
}  // namespace tensord
