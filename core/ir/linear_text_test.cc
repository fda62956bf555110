#include "core/ir/linear_text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr std::string_view kText =
    R"(# linear sum_of_rows grid=3 params=2 variables=1 written=1
%0 = Param float32 [12] slot=0
%1 = Param float32 [3] slot=1
%2 = Variable index "v" min=0 max=3
%3 = GridIndex index slot=0
%4 = Const float32 -0
%5 = Accumulator float32 %4 slot=7
%6 = Range index id=1 size=4 loop
%7 = Const index 4
%8 = Mul index %3 %7
%9 = Add index %6 %8
%10 = Load float32 %0 %9
%11 = Read float32 %5 slot=0
%12 = Add float32 %11 %10
%13 = Update %5 %12
%14 = End %6
%15 = Read float32 %5 slot=1
%16 = Store %1 %3 %15
return %0 %1 %2 %3 %5 %6 %8 %9 %10 %11 %12 %13 %14 %15 %16
)";

TEST(LinearTextTest, KeepsTheProgram) {
  Graph graph;
  const absl::StatusOr<LinearProgram> program = ParseLinear(kText, graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name, "sum_of_rows");
  EXPECT_EQ(program->grid, 3);
  ASSERT_EQ(program->params.size(), 2);
  EXPECT_EQ(program->params[1]->slot(), 1);
  EXPECT_EQ(program->written, (std::vector<bool>{false, true}));
  ASSERT_EQ(program->variables.size(), 1);
  EXPECT_EQ(program->variables[0]->text, "v");
  ASSERT_EQ(program->body.size(), 12);
  EXPECT_EQ(program->body[0]->op, Op::kGridIndex);
  EXPECT_EQ(program->body[11]->op, Op::kStore);
  // Constants come where they are needed, so the numbers differ.
  Graph other;
  const absl::StatusOr<LinearProgram> again = ParseLinear(PrintLinear(*program), other);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(PrintLinear(*again).size(), PrintLinear(*program).size());
  ASSERT_EQ(again->body.size(), program->body.size());
  for (size_t i = 0; i < program->body.size(); ++i) {
    EXPECT_EQ(again->body[i]->hash, program->body[i]->hash) << i;
  }
}

TEST(LinearTextTest, ErrorsSayWhatIsWrong) {
  struct Case {
    std::string_view text, says;
  };
  const Case kCases[] = {
      {"", "begin with"},
      {"\x7f"
       "ELF",
       "begin with"},
      {"# linear k grid=1 params=0\nreturn\n", "no number 'variables'"},
      {"# linear k grid=x params=0 variables=0\nreturn\n", "no number 'grid'"},
      {"# linear k grid=1 params=1 variables=0\nreturn\n", "fewer than 1 params"},
      {"# linear k grid=1 params=1 variables=0\n%0 = Param int8 [1] slot=1\nreturn %0\n",
       "is not param 0"},
      {"# linear k grid=1 params=0 variables=1\n%0 = Const int8 1\nreturn %0\n", "no variable"},
      {"# linear k grid=1 params=0 variables=0\n%0 = Add int8 %1 %1\nreturn %0\n", "%1"},
  };
  for (const Case& test : kCases) {
    Graph graph;
    const absl::StatusOr<LinearProgram> program = ParseLinear(test.text, graph);
    EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument) << test.text;
    EXPECT_NE(Message(program.status()).find(test.says), std::string::npos)
        << "'" << test.says << "' is not in: " << program.status();
  }
}

}  // namespace
}  // namespace tensord
