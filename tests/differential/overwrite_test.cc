// Outputs that overwrite inputs, which other outputs read: in every order, at other indices, twice.
// Whatever the scheduler does in place, results are as if every input were read first.
#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>

#include "tests/differential/check.h"

namespace tensord {
namespace {

struct Row {
  std::string_view name;
  std::string_view text;  // N stands for the size
};

constexpr Row kRows[] = {
    {"increment", R"(# overwrites 0
%0 = Param float32 [N] slot=0
%1 = Add float32 [N] %0 %0
return %1)"},
    {"swap", R"(# overwrites 1 0
%0 = Param float32 [N] slot=0
%1 = Param float32 [N] slot=1
return %0 %1)"},
    {"swap_computed", R"(# overwrites 1 0
%0 = Param float32 [N] slot=0
%1 = Param float32 [N] slot=1
%2 = Add float32 [N] %0 %1
%3 = Sub float32 [N] %0 %1
return %2 %3)"},
    {"rotate_three", R"(# overwrites 1 2 0
%0 = Param int32 [N] slot=0
%1 = Param int32 [N] slot=1
%2 = Param int32 [N] slot=2
return %0 %1 %2)"},
    {"rotate_three_with_reader", R"(# overwrites 1 2 0 -1
%0 = Param int32 [N] slot=0
%1 = Param int32 [N] slot=1
%2 = Param int32 [N] slot=2
%3 = Add int32 [N] %0 %1
%4 = Add int32 [N] %3 %2
return %0 %1 %2 %4)"},
    {"transpose_in_place", R"(# overwrites 0
%0 = Param float32 [N,N] slot=0
%1 = Permute float32 [N,N] %0 axes=1,0
return %1)"},
    {"flip_in_place", R"(# overwrites 0
%0 = Param float32 [N] slot=0
%1 = Flip float32 [N] %0 axes=0
return %1)"},
    {"add_transposed", R"(# overwrites 0
%0 = Param float32 [N,N] slot=0
%1 = Permute float32 [N,N] %0 axes=1,0
%2 = Add float32 [N,N] %0 %1
return %2)"},
    {"transposed_elsewhere", R"(# overwrites 0 -1
%0 = Param float32 [N,N] slot=0
%1 = Permute float32 [N,N] %0 axes=1,0
%2 = Neg float32 [N,N] %0
return %2 %1)"},
    {"reduced_elsewhere", R"(# overwrites 0 -1
%0 = Param float32 [N] slot=0
%1 = Reduce float32 [1] %0 add axes=0
%2 = Neg float32 [N] %0
return %2 %1)"},
    {"normalized", R"(# overwrites 0
%0 = Param float32 [N,3] slot=0
%1 = Reduce float32 [1,3] %0 add axes=0
%2 = Expand float32 [N,3] %1
%3 = Sub float32 [N,3] %0 %2
return %3)"},
    {"read_by_a_later_kernel", R"(# overwrites 0 -1
%0 = Param float32 [N] slot=0
%1 = Reduce float32 [1] %0 max axes=0
%2 = Contiguous float32 [1] %1
%3 = Expand float32 [N] %2
%4 = Mul float32 [N] %0 %3
%5 = Neg float32 [N] %0
return %5 %4)"},
    {"overwritten_and_returned", R"(# overwrites 0 -1
%0 = Param float32 [N] slot=0
%1 = Exp float32 [N] %0
return %1 %1)"},
    {"two_inputs_get_one_value", R"(# overwrites 0 1 -1
%0 = Param float32 [N] slot=0
%1 = Param float32 [N] slot=1
%2 = Add float32 [N] %0 %1
return %2 %2 %2)"},
    {"input_itself", R"(# overwrites 0 -1
%0 = Param float32 [N] slot=0
return %0 %0)"},
    {"constant", R"(# overwrites 0 -1
%0 = Param float32 [N] slot=0
%1 = Const float32 2
%2 = Reshape float32 [1] %1
%3 = Expand float32 [N] %2
%4 = Neg float32 [N] %0
return %3 %4)"},
    {"unread_input", R"(# overwrites 1
%0 = Param float32 [N] slot=0
%1 = Exp float32 [N] %0
return %1)"},
    {"other_shape_reads", R"(# overwrites 1 -1
%0 = Param float32 [N] slot=0
%1 = Param float32 [1,N] slot=1
%2 = Reshape float32 [1,N] %0
%3 = Sub float32 [1,N] %2 %1
return %2 %3)"},
    {"shifted_window", R"(# overwrites 0
%0 = Param float32 [N] slot=0
%1 = Pad float32 [65] %0 pairs=0:R
%2 = Shrink float32 [N] %1 pairs=1:E
%3 = Add float32 [N] %0 %2
return %3)"},
    {"state_and_moments", R"(# overwrites 0 1 2
%0 = Param float32 [N] slot=0
%1 = Param float32 [N] slot=1
%2 = Param float32 [N] slot=2
%3 = Param float32 [N] slot=3
%4 = Add float32 [N] %1 %3
%5 = Mul float32 [N] %3 %3
%6 = Add float32 [N] %2 %5
%7 = Div float32 [N] %4 %6
%8 = Sub float32 [N] %0 %7
return %8 %4 %6)"},
    {"matmul_in_place", R"(# overwrites 0
%0 = Param float32 [N,N] slot=0
%1 = Reshape float32 [N,1,N] %0
%2 = Expand float32 [N,N,N] %1
%3 = Permute float32 [N,N] %0 axes=1,0
%4 = Reshape float32 [1,N,N] %3
%5 = Expand float32 [N,N,N] %4
%6 = Mul float32 [N,N,N] %2 %5
%7 = Reduce float32 [N,N,1] %6 add axes=2
%8 = Reshape float32 [N,N] %7
return %8)"},
    {"gathered_from_itself", R"(# overwrites 0
%0 = Param float32 [N,2] slot=0
%1 = Param int32 [N] slot=1
%2 = Gather float32 [N,2] %0 %1
return %2)"},
};

class Overwrite : public testing::TestWithParam<Row> {};

TEST_P(Overwrite, IsAsIfReadFirst) {
  static ProgramRunner& runner = *new ProgramRunner("cpu,interp");
  for (const int64_t size : {1, 2, 7, 16, 33}) {
    const std::string number = std::to_string(size);
    const std::string text = absl::StrReplaceAll(std::string(GetParam().text),
                                                 {{"N", number},
                                                  {"0:R", "0:" + std::to_string(65 - size)},
                                                  {"1:E", "1:" + std::to_string(size + 1)},
                                                  {"Neg", "Neg"}});  // the longest match wins
    absl::StatusOr<Case> test = ParseCase(text);
    ASSERT_TRUE(test.ok()) << test.status() << "\n" << text;
    EXPECT_EQ(Check(*test, runner), "") << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Overwrite, testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensord
