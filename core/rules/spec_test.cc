#include "core/rules/spec.h"

#include <gtest/gtest.h>

#include "core/ir/graph.h"
#include "core/ir/text.h"

namespace tensord {
namespace {

struct Case {
  std::string_view text, expected;  // "": accepted
};

using Verify = absl::Status (*)(absl::Span<const Node* const>);

void ExpectVerdicts(absl::Span<const Case> cases, Verify verify) {
  for (const Case& c : cases) {
    Graph graph;
    const auto roots = Parse(c.text, graph);
    ASSERT_TRUE(roots.ok()) << roots.status() << c.text;
    const absl::Status status = verify(*roots);
    if (c.expected.empty()) {
      EXPECT_TRUE(status.ok()) << status << c.text;
    } else {
      ASSERT_FALSE(status.ok()) << c.text;
      EXPECT_NE(status.message().find({c.expected.data(), c.expected.size()}),
                absl::string_view::npos)
          << status << c.text;
    }
  }
}

TEST(SpecTest, TensorLevel) {
  const Case kCases[] = {
      {R"(
%0 = Param float32 [2,3] slot=0
%1 = Reduce float32 [2,1] %0 add axes=1
%2 = Sink %1
return %1 %2
)",
       ""},
      {"%0 = Range index id=0 size=4 loop\nreturn %0",
       "tensor spec, level: wants ops of this level only: %0 = Range index id=0 size=4 loop"},
      {"%0 = Param int32 [] slot=0\n%1 = Cast index %0\nreturn %1", "tensor spec, no-index"},
      {"%0 = Param float32 [2] slot=0\n%1 = Param float32 [3] slot=0\nreturn %0 %1",
       "tensor spec, one-param-per-slot: wants one dtype and shape for the slot: %1 = Param"},
      {"%0 = Variable int32 \"n\" min=0 max=4\n%1 = Variable int32 \"n\" min=0 max=5\nreturn %0 %1",
       "one-variable-per-name"},
      {"%0 = Sink\n%1 = Sink %0\nreturn %1", "tensor spec, values"},
  };
  ExpectVerdicts(kCases, VerifyTensor);
}

TEST(SpecTest, KernelLevel) {
  const Case kCases[] = {
      {R"(
%0 = Param float32 [12] slot=0
%1 = Param float32 [4] slot=1
%2 = Range index id=0 size=4 loop
%3 = Range index id=1 size=3 reduce
%4 = Const index 3
%5 = Mul index %2 %4
%6 = Add index %5 %3
%7 = CmpLt bool %3 %4
%8 = Load float32 %0 %6 %7
%9 = Fold float32 %8 %3 add
%10 = Store %1 %2 %9
%11 = Sink %10
return %11
)",
       ""},
      {R"(
%0 = Param float32 [12] slot=0
%1 = Range index id=1 size=3 reduce
%2 = Load float32 %0 %1
%3 = Const index 0
%4 = Store %0 %3 %2
return %4
)",
       "kernel spec, reduce-ranges-close: wants a Fold over range 1: %4 = Store"},
      {R"(
%0 = Param float32 [12] slot=0
%1 = Param float32 [1] slot=1
%2 = Range index id=1 size=12 reduce
%3 = Load float32 %0 %2
%4 = Exp float32 %3
%5 = Store %0 %2 %4
%6 = Fold float32 %4 %2 add
%7 = Const index 0
%8 = Store %1 %7 %6
%9 = Sink %5 %8
return %9
)",
       ""},
      {"%0 = Param float32 [2,3] slot=0\nreturn %0", "kernel spec, buffer"},
      {"%0 = Param float32 [2] slot=0\n%1 = Exp float32 [2] %0\nreturn %1", "param-use"},
      {"%0 = Const index 1\n%1 = Load index %0 %0\nreturn %1", "load-operands"},
      {"%0 = Param float32 [2] slot=0\n%1 = Const int32 1\n%2 = Load float32 %0 %1\nreturn %2",
       "load-operands"},
      {"%0 = Param float32 [2] slot=0\n%1 = Load float32 %0\nreturn %1", "load-operands"},
      {R"(
%0 = Param float32 [2] slot=0
%1 = Const index 1
%2 = Const int32 7
%3 = Store %0 %1 %2
return %3
)",
       "store-operands"},
      {"%0 = Const float32 1\n%1 = Fold float32 %0 add\nreturn %1", "fold-operands"},
      {"%0 = Const float32 1\n%1 = Fold float32 %0 %0 add\nreturn %1", "fold-operands"},
      {"%0 = Const float32 1\n%1 = Range index id=0 size=2 reduce\n"
       "%2 = Running float32 %0 %1 add exclusive=0\nreturn %2",
       "running-operands"},
      {"%0 = Param int32 [4] slot=0\n%1 = Const index 0\n%2 = Const int32 1\n"
       "%3 = Modify %0 %1 %2 %2 add\nreturn %3",
       "modify-operands"},
      {"%0 = Const float32 1\n%1 = Sink %0\nreturn %1", "sink-operands"},
      {"%0 = Range index id=0 size=4 loop\n%1 = Range index id=0 size=5 loop\nreturn %0 %1",
       "one-range-per-id"},
      {"%0 = GridIndex index slot=0\nreturn %0", "kernel spec, level"},
  };
  ExpectVerdicts(kCases, VerifyKernel);
}

// The 'return' line lists a body in order.
TEST(SpecTest, LinearLevel) {
  const Case kCases[] = {
      {R"(
%0 = Param float32 [64] slot=0
%1 = Const float32 0
%2 = Broadcast float32x8 %1
%3 = Accumulator float32x8 %2 slot=0
%4 = Range index id=0 size=8 loop
%5 = Load float32x8 %0 %4
%6 = Read float32x8 %3 slot=0
%7 = Add float32x8 %6 %5
%8 = Update %3 %7
%9 = End %4
%10 = Read float32x8 %3 slot=1
%11 = Horizontal float32 %10 add
%12 = Const index 0
%13 = Store %0 %12 %11
return %2 %3 %4 %5 %6 %7 %8 %9 %10 %11 %13
)",
       ""},
      {"%0 = Range index id=0 size=8 loop\nreturn %0",
       "linear spec, loops-end: wants an End for every Range: %0"},
      {"%0 = Range index id=0 size=8 loop\n%1 = End %0\nreturn %0 %1 %1", "source-before-use"},
      {R"(
%0 = Range index id=0 size=8 loop
%1 = Range index id=1 size=8 loop
%2 = End %0
%3 = End %1
return %0 %1 %2 %3
)",
       "linear spec, loops-nest"},
      {R"(
%0 = Param float32 [8] slot=0
%1 = Range index id=0 size=8 loop
%2 = Load float32 %0 %1
%3 = End %1
%4 = Exp float32 %2
return %1 %2 %3 %4
)",
       "source-before-use: wants source %2 earlier, in a loop that is still open: %4 = Exp"},
      {"%0 = GridIndex index slot=0\nreturn %0 %0", "listed-once"},
      {"%0 = Ramp int32x4\n%1 = GridIndex index slot=0\n%2 = Cast int32 %1\n"
       "%3 = Add int32x4 %0 %2\nreturn %0 %1 %2 %3",
       "linear spec, lanes"},
      {"%0 = Ramp int32x4\n%1 = Broadcast int32x8 %0\nreturn %0 %1", "scalar-sources"},
      {"%0 = Ramp int32x4\n%1 = Extract int32 %0 slot=4\nreturn %0 %1", "lane-number"},
      {"%0 = Ramp int32x4\n%1 = Read int32x4 %0 slot=0\nreturn %0 %1", "linear spec, accumulator"},
      {"%0 = Const int32 1\n%1 = Accumulator int32 %0 slot=0\n%2 = Const float32 1\n"
       "%3 = Update %1 %2\nreturn %1 %3",
       "update-type"},
      {"%0 = Const int32 1\n%1 = End %0\nreturn %1", "end-of-range"},
      {"%0 = Const int32 1\n%1 = Const float32 1\n%2 = Stack int32x2 %0 %1\nreturn %2",
       "one-stack"},
      {"%0 = Const float32 1\n%1 = Range index id=0 size=2 reduce\n%2 = Fold float32 %0 %1 add\n"
       "return %1 %2",
       "linear spec, level"},
  };
  ExpectVerdicts(kCases, VerifyLinear);
}

}  // namespace
}  // namespace tensord
