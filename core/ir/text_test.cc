#include "core/ir/text.h"

#include <gtest/gtest.h>

#include <random>

namespace tensord {
namespace {

// Every op at least once, each attribute form included.
constexpr std::string_view kTensorText = R"(%0 = Param float32 [2,3] slot=0
%1 = Reshape float32 [3,2] %0
%2 = Reshape float32 [6] %0
%3 = Permute float32 [2,3] %1 axes=1,0
%4 = Pad float32 [3,3] %3 pairs=1:0,0:0
%5 = Shrink float32 [2,3] %4 pairs=0:2,0:3
%6 = Flip float32 [2,3] %5 axes=0,1
%7 = Contiguous float32 [2,3] %6
%8 = Detach float32 [2,3] %7
%9 = Reduce float32 [2,1] %8 add axes=1
%10 = Expand float32 [2,3] %9
%11 = Iota int32 [4]
%12 = Gather float32 [4,3] %10 %11
%13 = Reduce float32 [4,1] %12 max axes=1
%14 = Const float32 1.5
%15 = Const float32 -inf
%16 = Const bool true
%17 = Where float32 %16 %14 %15
%18 = Cast int8 %17
%19 = Bitcast uint8 %18
%20 = Const uint64 18446744073709551615
%21 = Const float16 nan
%22 = Const bfloat16 -0
%23 = Const int64 -9223372036854775808
%24 = Const float64 0.1
%25 = Variable int32 "batch \"a\\\x07" min=1 max=512
%26 = Param float32 [1,8,3] slot=1
%27 = Slide float32 [1,6,3] %26 axis=1 along=2 stride=1 dilation=1 size=6
%28 = Unslide float32 [1,8,3] %27 axis=1 along=2 stride=1 dilation=1 size=8
%29 = Param float32 [0] slot=2
%30 = Reduce float32 [0] %29 mul
%56 = Scan float32 [4,1] %13 logadd axis=0 reverse=1 exclusive=0
%57 = Reshape int32 [4,1] %11
%58 = Scatter float32 [4,3] %12 %57 %12 set axis=0
%31 = Sink %2 %13 %19 %20 %21 %22 %23 %24 %25 %28 %30 %56 %58
%32 = Neg float32 %14
%33 = Exp float32 %14
%34 = Log float32 %14
%35 = Sin float32 %14
%36 = Sqrt float32 %14
%37 = Trunc float32 %14
%38 = Add float32 %32 %33
%39 = Sub float32 %34 %35
%40 = Mul float32 %36 %37
%41 = Div float32 %38 %39
%42 = Max float32 %40 %41
%43 = Min float32 %42 %41
%44 = FloorDiv int32 %25 %25
%45 = FloorMod int32 %44 %25
%46 = TruncDiv int32 %45 %25
%47 = TruncMod int32 %46 %25
%48 = And int32 %47 %25
%49 = Or int32 %48 %25
%50 = Xor int32 %49 %25
%51 = Shl int32 %50 %25
%52 = Shr int32 %51 %25
%53 = CmpLt bool %52 %25
%54 = CmpEq bool %52 %25
%55 = CmpNe bool %53 %54
%59 = Const int32 0
%60 = Carry int32 %59 level=0 number=0
%61 = CmpLt bool %60 %25
%62 = Add int32 %60 %25
%63 = Loop %61 %60 %62 level=0 most=12
%64 = LoopResult int32 %63 slot=0
%65 = WithSlope float32 %43 %40 %41
%66 = Custom float32 %65 %43
%67 = UserKernel %0 %11 outputs=float32[2,3],int8[] "k\n\"body\""
%68 = UserKernelResult float32 [2,3] %67 slot=0
%69 = Exchange float32 [4,2,3] %0 gather devices=4 shift=0
%70 = Place float32 [2,3] %0 places=0,2,-1,0,0,1
return %31 %55 %56 %58 %64 %66 %68 %69 %70
)";

constexpr std::string_view kKernelText = R"(%0 = Param float32 [16] slot=0
%1 = Range index id=0 size=4 grid
%2 = Range index id=1 size=4 reduce
%3 = Add index %1 %2
%4 = Const index 3
%5 = CmpLt bool %2 %4
%6 = Load float32 %0 %3 %5
%7 = Fma float32 %6 %6 %6
%8 = Fold float32 %7 %2 min
%9 = Param float32 [4] slot=1
%10 = Store %9 %1 %8
%12 = Range index id=2 size=4 loop
%13 = Running float32 %8 %12 max exclusive=1
%14 = Modify %9 %1 %13 %5 %12 add
%11 = Sink %10 %14
return %11
)";

constexpr std::string_view kLinearText = R"(%0 = Param float32 [64] slot=0
%1 = GridIndex index slot=0
%2 = Load float32x8 %0 %1
%3 = Const float32 0
%4 = Broadcast float32x8 %3
%5 = Accumulator float32x8 %4 slot=7
%6 = Read float32x8 %5 slot=1
%7 = Add float32x8 %6 %2
%8 = Update %5 %7
%9 = Ramp int32x8
%10 = Cast float32x8 %9
%11 = Horizontal float32 %10 add
%12 = Stack float32x2 %3 %11
%13 = Extract float32 %12 slot=1
%14 = Range index id=3 size=8 unroll
%15 = End %14
return %8 %13 %15
)";

TEST(TextTest, PrintedTextReadsBackUnchanged) {
  for (std::string_view text : {kTensorText, kKernelText, kLinearText}) {
    Graph graph;
    const auto roots = Parse(text, graph);
    ASSERT_TRUE(roots.ok()) << roots.status();
    // Print numbers nodes in the order in which the roots reach them, hence two rounds.
    const std::string printed = Print(*roots);
    Graph again;
    const auto copies = Parse(printed, again);
    ASSERT_TRUE(copies.ok()) << copies.status() << printed;
    EXPECT_EQ(Print(*copies), printed);
    ASSERT_EQ(copies->size(), roots->size());
    for (size_t i = 0; i < roots->size(); ++i) EXPECT_EQ((*copies)[i]->hash, (*roots)[i]->hash);
  }
}

TEST(TextTest, TheseTextsHoldEveryOp) {
  OpSet seen;
  for (std::string_view text : {kTensorText, kKernelText, kLinearText}) {
    Graph graph;
    const auto roots = Parse(text, graph);
    ASSERT_TRUE(roots.ok()) << roots.status();
    for (const Node* node : TopologicalOrder(*roots)) seen |= OpBit(node->op);
  }
  for (int i = 0; i < kNumOps; ++i) {
    EXPECT_TRUE(In(static_cast<Op>(i), seen)) << Name(static_cast<Op>(i));
  }
}

TEST(TextTest, PrintsOneNodeWithTheIdsOfItsGraph) {
  Graph graph;
  const Node* x = graph.Param(3, DType::kFloat32, {2, 4});
  const Node* y = graph.Make(Op::kReduce, {x}, {static_cast<int64_t>(ReduceKind::kMax), 0, 1});
  EXPECT_EQ(PrintNode(x), "%0 = Param float32 [2,4] slot=3");
  EXPECT_EQ(PrintNode(y), "%1 = Reduce float32 [1,1] %0 max axes=0,1");
  EXPECT_EQ(PrintList({y, x}), PrintNode(y) + "\n" + PrintNode(x) + "\n");
}

TEST(TextTest, ReadsCommentsBlankLinesAndSpaces) {
  Graph graph;
  const auto roots = Parse("# header\n\n  %5=Const float32 2 # two\r\n\treturn %5 %5", graph);
  ASSERT_TRUE(roots.ok()) << roots.status();
  ASSERT_EQ(roots->size(), 2u);
  EXPECT_EQ((*roots)[0]->Float(), 2.0);
}

TEST(TextTest, MakesNodesAsWritten) {
  Graph graph;
  const auto roots =
      Parse("%0 = Const int32 1\n%1 = Const int32 2\n%2 = Add int32 %0 %1\nreturn %2", graph);
  ASSERT_TRUE(roots.ok()) << roots.status();
  EXPECT_EQ((*roots)[0]->op, Op::kAdd);
}

TEST(TextTest, ErrorsNamePlaceAndRule) {
  const struct {
    std::string_view text, expected;
  } kCases[] = {
      {"", "no 'return' line"},
      {"%0 = Foo float32", "line 1, column 6: unknown op 'Foo'"},
      {"%0 = Const float33 1", "line 1, column 12: unknown dtype 'float33'"},
      {"%0 = Const float32x0 1", "line 1, column 12: expected lanes"},
      {"%0 = Const int8 300", "line 1, column 17: expected an integer that int8 can hold"},
      {"%0 = Const float32 x", "line 1, column 20: expected a number"},
      {"%0 = Const bool 1", "expected true or false"},
      {"\n%0 = Neg float32 %1", "line 2, column 18: %1 is not defined"},
      {"%0 = Const int32 1\n%0 = Const int32 2", "line 2, column 3: %0 is defined twice"},
      {"%0 = Param float32 [2 slot=0", "line 1, column 23: expected ',' or ']'"},
      {"%0 = Param float32 [-2] slot=0", "is negative"},
      {"%0 = Param float32 [2]", "expected 'slot='"},
      {"%0 = Param float32 [2] slot=0 %0", "unexpected text"},
      {"%0 = Param float32 [2] slot=0\n%1 = Add float32 [2] %0", "1 operands, needs 2"},
      {"%0 = Param float32 [2] slot=0\n%1 = Neg float32 [3] %0",
       "written with shape [3], but it is [2]"},
      {"%0 = Param float32 [2] slot=0\n%1 = Neg float64 [2] %0",
       "written as float64x1, but it is float32x1"},
      {"%0 = Param float32 [2] slot=0\n%1 = Reduce float32 [1] %0 mean axes=0",
       "'mean' is no kind of reduction"},
      {"%0 = Variable int32 \"n min=1 max=2", "no closing quote"},
      {"%0 = Range index id=0 size=0 loop", "out of range"},
      {"return\nreturn", "line 2, column 1: nothing may follow"},
      {"hello", "line 1, column 1: expected '%number = ...' or 'return ...'"},
  };
  for (const auto& c : kCases) {
    Graph graph;
    const auto roots = Parse(c.text, graph);
    ASSERT_FALSE(roots.ok()) << c.text;
    EXPECT_NE(roots.status().message().find({c.expected.data(), c.expected.size()}),
              absl::string_view::npos)
        << c.text << "\n"
        << roots.status();
  }
}

// Texts with bytes changed, lines dropped, doubled and spliced are read or refused, and what is
// read prints and reads back.
TEST(TextTest, MutatedTextNeverBreaksTheParser) {
  std::mt19937 random(20240611);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  constexpr std::string_view kBytes = "%=[],:\"\\x# \n-+.0123456789einfaslotAC\0\xff";
  constexpr std::string_view kTexts[] = {kTensorText, kKernelText, kLinearText};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text(kTexts[below(3)]);
    for (size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = kBytes[below(kBytes.size())];
          break;
        case 1:
          text.erase(at, 1 + below(6));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), 1 + below(30)));
          break;
        case 3:
          text.insert(at, 1, kBytes[below(kBytes.size())]);
          break;
      }
    }
    Graph graph;
    const auto roots = Parse(text, graph);
    if (!roots.ok()) continue;
    ++accepted;
    Graph again;
    const auto copies = Parse(Print(*roots), again);
    ASSERT_TRUE(copies.ok()) << copies.status() << "\nround " << round << "\n" << text;
    ASSERT_EQ(Print(*copies), Print(*roots)) << "round " << round;
  }
  EXPECT_GT(accepted, 100) << "mutations are too wild to reach far into the parser";
}

}  // namespace
}  // namespace tensord
