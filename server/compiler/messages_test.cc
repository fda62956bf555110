#include "server/compiler/messages.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/base/status.h"
#include "core/ir/dtype.h"

namespace tensord::compiler {
namespace {

using google::protobuf::util::MessageDifferencer;

TEST(Messages, TargetComesBackWhole) {
  const tensord::Target target{.renderer = "llvm-cpu",
                               .arch = "x86-64",
                               .cpu = "znver4",
                               .features = "+avx2,-avx512f",
                               .vector_bytes = 32,
                               .vector_registers = 17,
                               .has_fma = true,
                               .cores = 6,
                               .l1_bytes = 48 << 10,
                               .l2_bytes = 3 << 20,
                               .lacks = {DType::kFloat16, DType::kFloat64},
                               .checks_bounds = true};
  Target message;
  Encode(target, &message);
  EXPECT_EQ(Decode(message).CacheKey(), target.CacheKey());
}

// Two inputs, an output, a temporary; a loop around a kernel, a copy, an exchange.
Plan Example() {
  tensord::Plan plan;
  plan.kernels = {{"add", "00ff", {"n", "#device"}}, {"sum", "01", {}}};
  plan.schedule.scratch_bytes = 128;
  using Kind = Schedule::Kind;
  plan.schedule.buffers = {{Kind::kInput, 0, DType::kFloat32, 4},
                           {Kind::kInput, 1, DType::kBool, 1},
                           {Kind::kOutput, 0, DType::kFloat32, 4},
                           {Kind::kTemporary, 0, DType::kFloat32, 16, 64}};
  plan.schedule.steps = {{.kernel = Schedule::Step::kLoop, .buffers = {1}, .most = 9, .body = 1},
                         {.kernel = 1, .buffers = {2, 0, 3}},
                         {.kernel = Schedule::Step::kCopy, .buffers = {2, 0}},
                         {.kernel = Schedule::Step::kExchange,
                          .buffers = {2, 0},
                          .exchange = ExchangeKind::kShift,
                          .shift = 1,
                          .meets = true}};
  plan.schedule.outputs = {2};
  Plan message;
  Encode(plan, &message);
  return message;
}

TEST(Messages, PlanComesBackWhole) {
  const Plan message = Example();
  const absl::StatusOr<tensord::Plan> plan = Decode(message, 2, 1);
  ASSERT_TRUE(plan.ok()) << plan.status();
  Plan again;
  Encode(*plan, &again);
  EXPECT_TRUE(MessageDifferencer::Equals(message, again)) << again.DebugString();
}

TEST(Messages, PlanThatReachesOutsideIsRefused) {
  const struct {
    const char* what;
    std::function<void(Plan&)> spoil;
  } cases[] = {
      {"kernel", [](Plan& p) { p.mutable_steps(1)->set_kernel(2); }},
      {"kernel", [](Plan& p) { p.mutable_steps(1)->set_kernel(-4); }},
      {"buffer", [](Plan& p) { p.mutable_steps(1)->set_buffers(0, 4); }},
      {"buffer", [](Plan& p) { p.mutable_steps(1)->set_buffers(0, -1); }},
      {"buffer", [](Plan& p) { p.mutable_steps(2)->mutable_buffers()->Truncate(1); }},
      {"buffer", [](Plan& p) { p.mutable_steps(0)->clear_buffers(); }},
      {"body of a loop", [](Plan& p) { p.mutable_steps(0)->set_body(4); }},
      {"body of a loop", [](Plan& p) { p.mutable_steps(0)->set_body(-1); }},
      {"input", [](Plan& p) { p.mutable_buffers(0)->set_index(2); }},
      {"output", [](Plan& p) { p.mutable_buffers(2)->set_index(1); }},
      {"output", [](Plan& p) { p.clear_outputs(); }},
      {"buffer", [](Plan& p) { p.set_outputs(0, 4); }},
      {"kind of buffer", [](Plan& p) { p.mutable_buffers(0)->set_kind(3); }},
      {"dtype or size", [](Plan& p) { p.mutable_buffers(0)->set_dtype(21); }},
      {"dtype or size", [](Plan& p) { p.mutable_buffers(0)->set_elements(-1); }},
      {"scratch", [](Plan& p) { p.mutable_buffers(3)->set_offset(65); }},
      {"scratch", [](Plan& p) { p.mutable_buffers(3)->set_offset(~uint64_t{0}); }},
      {"scratch", [](Plan& p) { p.set_scratch_bytes(127); }},
  };
  for (const auto& test : cases) {
    Plan message = Example();
    test.spoil(message);
    const absl::StatusOr<tensord::Plan> plan = Decode(message, 2, 1);
    ASSERT_FALSE(plan.ok()) << test.what;
    EXPECT_NE(std::string(Message(plan.status())).find(test.what), std::string::npos)
        << plan.status();
  }
}

}  // namespace
}  // namespace tensord::compiler
