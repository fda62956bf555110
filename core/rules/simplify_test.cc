// What the tables do together on graphs that front ends make.
#include "core/rules/simplify.h"

#include <gtest/gtest.h>

#include "core/ir/text.h"

namespace tensord {
namespace {

struct Case {
  std::string_view name, text, expected;
};

constexpr Case kCases[] = {
    {"KeepsFloatZeroAndSelfDivision", R"(
%0 = Param float32 [4] slot=0
%1 = Const float32 0
%2 = Reshape float32 [1] %1
%3 = Expand float32 [4] %2
%4 = Mul float32 [4] %0 %3
%5 = Add float32 [4] %4 %3
%6 = Div float32 [4] %5 %5
return %6
)",
     R"(%0 = Param float32 [4] slot=0
%1 = Const float32 0
%2 = Reshape float32 [1] %1
%3 = Expand float32 [4] %2
%4 = Mul float32 [4] %0 %3
%5 = Add float32 [4] %4 %3
%6 = Div float32 [4] %5 %5
return %6
)"},
    {"ScalesByAReciprocalPowerOfTwo", R"(
%0 = Param float32 [4] slot=0
%1 = Const float32 8
%2 = Reshape float32 [1] %1
%3 = Expand float32 [4] %2
%4 = Div float32 [4] %0 %3
return %4
)",
     R"(%0 = Param float32 [4] slot=0
%1 = Const float32 0.125
%2 = Reshape float32 [1] %1
%3 = Expand float32 [4] %2
%4 = Mul float32 [4] %0 %3
return %4
)"},
    {"FoldsShapedConstants", R"(
%0 = Param int32 [2,2] slot=0
%1 = Const int32 3
%2 = Reshape int32 [1,1] %1
%3 = Expand int32 [2,2] %2
%4 = Permute int32 [2,2] %3 axes=1,0
%5 = Mul int32 [2,2] %4 %3
%6 = Reduce int32 [2,1] %5 add axes=1
%7 = Expand int32 [2,2] %6
%8 = Add int32 [2,2] %7 %0
return %8
)",
     R"(%0 = Param int32 [2,2] slot=0
%1 = Const int32 18
%2 = Reshape int32 [1,1] %1
%3 = Expand int32 [2,2] %2
%4 = Add int32 [2,2] %0 %3
return %4
)"},
    {"MergesMovement", R"(
%0 = Param float32 [2,3] slot=0
%1 = Reshape float32 [6] %0
%2 = Reshape float32 [1,6] %1
%3 = Permute float32 [6,1] %2 axes=1,0
%4 = Pad float32 [10,1] %3 pairs=2:2,0:0
%5 = Shrink float32 [5,1] %4 pairs=3:8,0:1
%6 = Flip float32 [5,1] %5 axes=0,1
%7 = Flip float32 [5,1] %6 axes=0
return %7
)",
     R"(%0 = Param float32 [2,3] slot=0
%1 = Reshape float32 [6,1] %0
%2 = Shrink float32 [5,1] %1 pairs=1:6,0:1
return %2
)"},
    {"KeepsNarrowingCasts", R"(
%0 = Param float32 slot=0
%1 = Cast float16 %0
%2 = Cast float32 %1
%3 = Cast float64 %2
%4 = Cast float32 %3
return %4
)",
     R"(%0 = Param float32 slot=0
%1 = Cast float16 %0
%2 = Cast float32 %1
return %2
)"},
    {"ResolvesMasksThatBoundsDecide", R"(
%0 = Param float32 [4] slot=0
%1 = Iota int32 [4]
%2 = Const int32 4
%3 = Reshape int32 [1] %2
%4 = Expand int32 [4] %3
%5 = CmpLt bool [4] %1 %4
%6 = Neg float32 [4] %0
%7 = Where float32 [4] %5 %0 %6
return %7
)",
     R"(%0 = Param float32 [4] slot=0
return %0
)"},
    {"EmptiesWhatHasNoElements", R"(
%0 = Param float32 [0,3] slot=0
%1 = Exp float32 [0,3] %0
%2 = Reduce float32 [1,3] %1 max axes=0
return %2
)",
     R"(%0 = Const float32 -inf
%1 = Reshape float32 [1,1] %0
%2 = Expand float32 [1,3] %1
return %2
)"},
    {"KeepsDetachAndContiguous", R"(
%0 = Param float32 slot=0
%1 = Contiguous float32 %0
%2 = Contiguous float32 %1
%3 = Detach float32 %2
return %3
)",
     R"(%0 = Param float32 slot=0
%1 = Contiguous float32 %0
%2 = Contiguous float32 %1
%3 = Detach float32 %2
return %3
)"},
};

TEST(SimplifyTest, SimplifiesGraphs) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.name));
    Graph graph;
    const auto roots = Parse(c.text, graph);
    ASSERT_TRUE(roots.ok()) << roots.status();
    const auto simple = Simplify(graph, *roots);
    ASSERT_TRUE(simple.ok()) << simple.status();
    EXPECT_EQ(Print(*simple), c.expected);
  }
}

TEST(SimplifyTest, SchedulingDropsDetachAndRepeatedContiguous) {
  Graph graph;
  const Node* x = graph.Param(0, DType::kFloat32, {2});
  const Node* once = graph.Make(Op::kContiguous, {x});
  const Node* twice = graph.Make(Op::kContiguous, {graph.Make(Op::kDetach, {once})});
  const auto simple = SimplifyForSchedule(graph, {twice, graph.Make(Op::kDetach, {x})});
  ASSERT_TRUE(simple.ok()) << simple.status();
  EXPECT_EQ((*simple)[0], once);
  EXPECT_EQ((*simple)[1], x);
}

}  // namespace
}  // namespace tensord
