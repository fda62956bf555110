#include "core/rules/bounds.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/ir/linear_text.h"
#include "core/rules/spec.h"

namespace tensord {
namespace {

struct Case {
  std::string_view name;
  std::string_view
      body;  // after buffer 0 of 40 floats, 1 of 40 floats, 2 of 10 int32, 3 of 10 uint64
  int64_t grid;
  size_t unproven;
};

TEST(BoundsTest, ProvesWhatArithmeticCan) {
  const Case kCases[] = {
      {"loops that cover the buffer", R"(
%4 = Range index id=0 size=5 loop
%5 = Range index id=1 size=8 loop
%6 = Const index 8
%7 = Mul index %4 %6
%8 = Add index %7 %5
%9 = Load float32 %0 %8
%10 = Store %1 %8 %9
%11 = End %5
%12 = End %4
return %0 %1 %2 %3 %4 %5 %7 %8 %9 %10 %11 %12)",
       1, 0},
      {"one step too far", R"(
%4 = Range index id=0 size=41 loop
%5 = Load float32 %0 %4
%6 = End %4
return %0 %1 %2 %3 %4 %5 %6)",
       1, 1},
      {"one step too early", R"(
%4 = Range index id=0 size=40 loop
%5 = Const index -1
%6 = Add index %4 %5
%7 = Load float32 %0 %6
%8 = Store %1 %4 %7
%9 = End %4
return %0 %1 %2 %3 %4 %6 %7 %8 %9)",
       1, 1},
      {"a gate in front", R"(
%4 = Range index id=0 size=40 loop
%5 = Const index -1
%6 = Add index %4 %5
%7 = Const index 0
%8 = CmpLt bool %7 %4
%9 = Load float32 %0 %6 %8
%10 = End %4
return %0 %1 %2 %3 %4 %6 %8 %9 %10)",
       1, 0},
      {"a gate on a narrower integer that holds the number", R"(
%4 = Range index id=0 size=100 loop
%5 = Cast int8 %4
%6 = Const int8 40
%7 = CmpLt bool %5 %6
%8 = Load float32 %0 %4 %7
%9 = End %4
return %0 %1 %2 %3 %4 %5 %7 %8 %9)",
       1, 0},
      {"a gate on an integer that the number wraps in", R"(
%4 = Range index id=0 size=300 loop
%5 = Cast int8 %4
%6 = Const int8 40
%7 = CmpLt bool %5 %6
%8 = Load float32 %0 %4 %7
%9 = End %4
return %0 %1 %2 %3 %4 %5 %7 %8 %9)",
       1, 1},
      {"a gate that is one off", R"(
%4 = Range index id=0 size=41 loop
%5 = Const index 41
%6 = CmpLt bool %4 %5
%7 = Load float32 %0 %4 %6
%8 = End %4
return %0 %1 %2 %3 %4 %6 %7 %8)",
       1, 1},
      {"two gates over two axes", R"(
%4 = Range index id=0 size=7 loop
%5 = Range index id=1 size=10 loop
%6 = Const index 8
%7 = Mul index %4 %6
%8 = Add index %7 %5
%9 = Const index -9
%10 = Add index %8 %9
%11 = Const index 0
%12 = CmpLt bool %11 %4
%13 = Const index 6
%14 = CmpLt bool %4 %13
%15 = CmpLt bool %11 %5
%16 = Const index 9
%17 = CmpLt bool %5 %16
%18 = And bool %12 %14
%19 = And bool %15 %17
%20 = And bool %18 %19
%21 = Load float32 %0 %10 %20
%22 = End %5
%23 = End %4
return %0 %1 %2 %3 %4 %5 %7 %8 %10 %12 %14 %15 %17 %18 %19 %20 %21 %22 %23)",
       1, 0},
      {"a negated gate", R"(
%4 = Range index id=0 size=50 loop
%5 = Const index 39
%6 = CmpLt bool %5 %4
%7 = Const bool true
%8 = Xor bool %6 %7
%9 = Load float32 %0 %4 %8
%10 = Load float32 %0 %4 %6
%11 = End %4
return %0 %1 %2 %3 %4 %6 %8 %9 %10 %11)",
       1, 1},
      {"either of two gates says nothing", R"(
%4 = Range index id=0 size=50 loop
%5 = Const index 40
%6 = CmpLt bool %4 %5
%7 = Const index 45
%8 = CmpLt bool %4 %7
%9 = Or bool %6 %8
%10 = Load float32 %0 %4 %9
%11 = End %4
return %0 %1 %2 %3 %4 %6 %8 %9 %10 %11)",
       1, 1},
      {"lanes up to the end", R"(
%4 = Range index id=0 size=10 loop
%5 = Const index 4
%6 = Mul index %4 %5
%7 = Load float32x4 %0 %6
%8 = Store %1 %6 %7
%9 = End %4
return %0 %1 %2 %3 %4 %6 %7 %8 %9)",
       1, 0},
      {"lanes beyond the end", R"(
%4 = Const index 37
%5 = Load float32x4 %0 %4
return %0 %1 %2 %3 %5)",
       1, 1},
      {"workgroups", R"(
%4 = GridIndex index slot=0
%5 = Const index 10
%6 = Mul index %4 %5
%7 = Load float32 %0 %6
return %0 %1 %2 %3 %4 %6 %7)",
       4, 0},
      {"one workgroup too many", R"(
%4 = GridIndex index slot=0
%5 = Const index 10
%6 = Mul index %4 %5
%7 = Load float32 %0 %6
return %0 %1 %2 %3 %4 %6 %7)",
       5, 1},
      {"a quotient under a gate on its number", R"(
%4 = Range index id=0 size=100 loop
%5 = Const index 2
%6 = FloorDiv index %4 %5
%7 = Const index 80
%8 = CmpLt bool %4 %7
%9 = Load float32 %0 %6 %8
%10 = End %4
return %0 %1 %2 %3 %4 %6 %8 %9 %10)",
       1, 0},
      {"an index from memory, compared", R"(
%4 = Const index 3
%5 = Load int32 %2 %4
%6 = Cast index %5
%7 = Const int32 -1
%8 = CmpLt bool %7 %5
%9 = Const int32 40
%10 = CmpLt bool %5 %9
%11 = And bool %8 %10
%12 = Load float32 %0 %6 %11
%13 = Load float32 %0 %6 %10
return %0 %1 %2 %3 %5 %6 %8 %10 %11 %12 %13)",
       1, 1},
      {"an unsigned index from memory, compared", R"(
%4 = Const index 3
%5 = Load uint64 %3 %4
%6 = Cast index %5
%7 = Const uint64 40
%8 = CmpLt bool %5 %7
%9 = Load float32 %0 %6 %8
%10 = Const uint64 18446744073709551615
%11 = CmpLt bool %5 %10
%12 = Load float32 %0 %6 %11
return %0 %1 %2 %3 %5 %6 %8 %9 %11 %12)",
       1, 1},
      {"lanes of indices from memory, read again one by one", R"(
%4 = Const index 0
%5 = Load int32x2 %2 %4
%6 = Const int32 -1
%7 = Broadcast int32x2 %6
%8 = CmpLt boolx2 %7 %5
%9 = Const int32 40
%10 = Broadcast int32x2 %9
%11 = CmpLt boolx2 %5 %10
%12 = And boolx2 %8 %11
%13 = Extract bool %12 slot=1
%14 = Const index 1
%15 = Load int32 %2 %14
%16 = Cast index %15
%17 = Load float32 %0 %16 %13
%18 = Extract bool %12 slot=0
%19 = Load float32 %0 %16 %18
return %0 %1 %2 %3 %5 %7 %8 %10 %11 %12 %13 %15 %16 %17 %18 %19)",
       1, 1},
      {"an access that never happens", R"(
%4 = Const bool false
%5 = Const index 77
%6 = Load float32 %0 %5 %4
return %0 %1 %2 %3 %6)",
       1, 0},
      {"gates that exclude each other", R"(
%4 = Range index id=0 size=50 loop
%5 = Const index 10
%6 = CmpLt bool %4 %5
%7 = Const index 20
%8 = CmpLt bool %7 %4
%9 = And bool %6 %8
%10 = Const index 77
%11 = Load float32 %0 %10 %9
%12 = End %4
return %0 %1 %2 %3 %4 %6 %8 %9 %11 %12)",
       1, 0},
  };
  for (const Case& test : kCases) {
    const std::string text = "# linear k grid=" + std::to_string(test.grid) +
                             " params=4 variables=0 written=1\n"
                             "%0 = Param float32 [40] slot=0\n%1 = Param float32 [40] slot=1\n"
                             "%2 = Param int32 [10] slot=2\n%3 = Param uint64 [10] slot=3" +
                             std::string(test.body);
    Graph graph;
    const absl::StatusOr<LinearProgram> program = ParseLinear(text, graph);
    ASSERT_TRUE(program.ok()) << test.name << ": " << program.status();
    ASSERT_TRUE(VerifyLinear(program->body).ok()) << test.name;
    EXPECT_EQ(UnprovenAccesses(*program).size(), test.unproven) << test.name;
  }
}

}  // namespace
}  // namespace tensord
