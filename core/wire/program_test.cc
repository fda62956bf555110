#include "core/wire/program.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/user_kernel.h"

namespace tensord {
namespace {

constexpr auto kF32 = static_cast<uint32_t>(DType::kFloat32);
constexpr auto kI32 = static_cast<uint32_t>(DType::kInt32);

// Output 0 is a fresh sum over axis 1, output 1 overwrites input 0.
Program SmallProgram() {
  Program program;
  Graph& graph = program.graph;
  program.name = "small";
  const Node* x = graph.Param(0, DType::kFloat32, {2, 3});
  const Node* y = graph.Param(1, DType::kFloat32, {2, 3});
  const Node* n = graph.Variable("n", 1, 8, DType::kInt32);
  const Node* scale = graph.Cast(n, DType::kFloat32);
  const Node* wide = graph.Make(Op::kReshape, {scale}, {1, 1});
  const Node* product =
      graph.Make(Op::kMul, {graph.Make(Op::kAdd, {x, y}), graph.Make(Op::kExpand, {wide}, {2, 3})});
  program.inputs = {x, y};
  program.variables = {n};
  program.outputs = {
      {.value = graph.Make(Op::kReduce, {product}, {0, 1})},
      {.value = product, .overwrites = 0},
  };
  return program;
}

v1::Node MakeNode(Op op, std::vector<uint32_t> src, std::vector<int64_t> ints, uint32_t dtype = 0) {
  v1::Node node;
  node.set_op(static_cast<uint32_t>(op));
  node.set_dtype(dtype);
  node.mutable_src()->Add(src.begin(), src.end());
  node.mutable_ints()->Add(ints.begin(), ints.end());
  return node;
}

// 0: Param 0 float32[2, 3], 1: Param 1 float32[2, 3], 2: Add; output 0 is node 2.
v1::Program AddMessage() {
  v1::Program message;
  *message.add_nodes() = MakeNode(Op::kParam, {}, {0, 2, 3}, kF32);
  *message.add_nodes() = MakeNode(Op::kParam, {}, {1, 2, 3}, kF32);
  *message.add_nodes() = MakeNode(Op::kAdd, {0, 1}, {});
  message.add_inputs(0);
  message.add_inputs(1);
  message.add_outputs()->set_node(2);
  return message;
}

TEST(ProgramWireTest, RoundTripKeepsTheProgram) {
  const Program program = SmallProgram();
  const v1::Program message = Encode(program);
  absl::StatusOr<Program> back = Decode(message, {});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(StructuralHash(*back), StructuralHash(program));
  EXPECT_EQ(back->name, "small");
  ASSERT_EQ(back->variables.size(), 1u);
  EXPECT_EQ(back->variables[0]->text, "n");
  ASSERT_EQ(back->outputs.size(), 2u);
  EXPECT_EQ(back->outputs[0].overwrites, Program::kFresh);
  EXPECT_EQ(back->outputs[1].overwrites, 0);
  EXPECT_EQ(Encode(*back).SerializeAsString(), message.SerializeAsString());
}

// x[n:n + 4, :] as [2, 2 * m], where x is [12, m].
Program VaryingProgram() {
  Program program;
  Graph& graph = program.graph;
  const auto size = [&](std::string_view name, int64_t min, int64_t max) {
    program.variables.push_back(graph.Variable(name, min, max, DType::kInt32));
    return DimOf(graph.Cast(program.variables.back(), DType::kIndex));
  };
  const Dim m = size("m", 0, 3), n = size("n", 1, 8);
  const Node* x = graph.SizedParam(0, DType::kFloat32, Sizes{{12}, m});
  const SizedOp shrink({x}, {n, Plus(graph, n, {4}), {0}, m});
  const Node* rows = graph.Make({.op = Op::kShrink, .src = shrink.src, .ints = shrink.ints});
  const SizedOp reshape({rows}, {{2}, TimesAll(graph, {{2}, m})});
  program.inputs = {x};
  program.outputs = {
      {.value = graph.Make({.op = Op::kReshape, .src = reshape.src, .ints = reshape.ints})}};
  return program;
}

TEST(ProgramWireTest, RoundTripKeepsSizesThatVary) {
  const Program program = VaryingProgram();
  absl::StatusOr<Program> back = Decode(Encode(program), {});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(StructuralHash(*back), StructuralHash(program));
  EXPECT_EQ(ShapeText(back->outputs[0].value), "[2, 2*m]");
  EXPECT_EQ(ShapeText(back->inputs[0]), "[12, m]");
}

// A kernel by hand: output 0 is x * 2 where its neighbour to the left is positive, output 1 the
// sums of rows of y.
constexpr std::string_view kBody = R"(%0 = Param float32 [6] slot=0
%1 = Range index id=0 size=2 loop
%2 = Const index 3
%3 = Mul index %1 %2
%4 = Range index id=1 size=3 loop
%5 = Add index %3 %4
%6 = Param float32 [6] slot=2
%7 = Const index -1
%8 = Add index %5 %7
%9 = Const index 0
%10 = CmpLt bool %9 %4
%11 = Load float32 %6 %8 %10
%12 = Load float32 %6 %5
%13 = Mul float32 %11 %12
%14 = Store %0 %5 %13
%15 = Param float32 [2] slot=1
%16 = Param float32 [6] slot=3
%17 = Range index id=2 size=3 reduce
%18 = Add index %3 %17
%19 = Load float32 %16 %18
%20 = Fold float32 %19 %17 add
%21 = Store %15 %1 %20
%22 = Sink %14 %21
return %22
)";

Program KernelProgram() {
  Program program;
  Graph& graph = program.graph;
  const Node* x = graph.Param(0, DType::kFloat32, {2, 3});
  const Node* y = graph.Param(1, DType::kFloat32, {2, 3});
  const int64_t matrix[] = {2, 3}, rows[] = {2};
  const user_kernel::Output outputs[] = {{DType::kFloat32, matrix}, {DType::kFloat32, rows}};
  const std::string text = user_kernel::TextOf("both", kBody);
  const Node* call = graph.Make(
      {.op = Op::kUserKernel, .src = {x, y}, .ints = user_kernel::IntsOf(outputs), .text = text});
  program.inputs = {x, y};
  for (int64_t k = 0; k < 2; ++k) {
    program.outputs.push_back(
        {.value = graph.Make(
             {.op = Op::kUserKernelResult, .src = {call}, .ints = {k}, .dtype = DType::kFloat32})});
  }
  return program;
}

TEST(ProgramWireTest, RoundTripKeepsKernels) {
  const Program program = KernelProgram();
  absl::StatusOr<Program> back = Decode(Encode(program), {});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(StructuralKey(*back), StructuralKey(program));
  Program other = KernelProgram();
  v1::Program message = Encode(other);
  std::string* text = message.mutable_nodes(2)->mutable_text();
  text->replace(text->find("size=3 reduce"), 6, "size=4");
  EXPECT_NE(Message(Decode(message, {}).status()).find("node 2 (UserKernel): kernel 'both': "),
            std::string_view::npos)
      << Decode(message, {}).status();
  text->replace(text->find("size=4 reduce"), 6, "size=2");
  EXPECT_NE(StructuralKey(*Decode(message, {})), StructuralKey(program));
}

// Bodies with characters, numbers or lines changed: refused, or a program like any other.
TEST(ProgramWireTest, SurvivesMutatedKernels) {
  const v1::Program seed_message = Encode(KernelProgram());
  int accepted = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    v1::Program message = seed_message;
    std::string& text = *message.mutable_nodes(2)->mutable_text();
    for (size_t change = 0; change <= pick(3); ++change) {
      const size_t at = pick(text.size());
      const size_t digit = text.find_first_of("0123456789", at);
      switch (pick(5)) {
        case 0:
          text[at] = static_cast<char>(pick(256));
          break;
        case 1:
        case 2:
          if (digit != std::string::npos) text[digit] = static_cast<char>('0' + pick(10));
          break;
        case 3:
          if (digit != std::string::npos) {
            const char* const numbers[] = {"9223372036854775807", "-", "281474976710656", "99999"};
            text.insert(digit, numbers[pick(4)]);
          }
          break;
        case 4: {
          static constexpr const char* kOps[] = {"Mul", "Add",      "Load",     "Store", "Fold",
                                                 "Max", "FloorDiv", "FloorMod", "Cast",  "Sub"};
          const char* from = kOps[pick(10)];
          if (const size_t place = text.find(from, at); place != std::string::npos) {
            text.replace(place, std::string_view(from).size(), kOps[pick(10)]);
          }
          break;
        }
      }
      if (text.empty()) text = "k";
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    absl::StatusOr<Program> program = Decode(message, {});
    if (!program.ok()) continue;
    ++accepted;
    ASSERT_TRUE(Decode(Encode(*program), {}).ok()) << text;
  }
  EXPECT_GT(accepted, 100);
}

// Nodes behind those of AddMessage: 3 is the variable n of [1, 8], 4 is n as an index.
TEST(ProgramWireTest, IndicesAreSizesOnly) {
  constexpr auto kIndex = static_cast<uint32_t>(DType::kIndex);
  constexpr int64_t kMark = std::numeric_limits<int64_t>::min();
  const struct {
    std::vector<v1::Node> nodes;
    std::string_view error;
  } cases[] = {
      {{MakeNode(Op::kConst, {}, {int64_t{1} << 50}, kIndex)}, "beyond 2^48"},
      {{MakeNode(Op::kConst, {}, {int64_t{1} << 47}, kIndex), MakeNode(Op::kMul, {4, 5}, {})},
       "Mul of sizes n and 140737488355328 may be beyond"},
      {{MakeNode(Op::kExp, {4}, {})}, "an index serves as a size"},
      {{MakeNode(Op::kContiguous, {4}, {})}, "an index serves as a size"},
      {{MakeNode(Op::kCmpLt, {4, 4}, {})}, "an index serves as a size"},
      {{MakeNode(Op::kReshape, {4}, {1})}, "an index"},
      {{MakeNode(Op::kCast, {0}, {}, kIndex)}, "an index serves as a size"},
      {{MakeNode(Op::kIota, {0}, {kMark}, kI32)}, "needs an index made of variables"},
      {{MakeNode(Op::kIota, {}, {kMark}, kI32)}, "0 operands, needs 1"},
      {{MakeNode(Op::kIota, {4, 4}, {kMark}, kI32)}, "2 operands, needs 1"},
      {{MakeNode(Op::kReduce, {0}, {0, kMark})}, "axis"},
      {{MakeNode(Op::kShrink, {0, 4}, {0, kMark, 0, 3})}, "outside of axis 0"},
      {{MakeNode(Op::kSub, {4, 4}, {}), MakeNode(Op::kFloorDiv, {4, 5}, {}),
        MakeNode(Op::kIota, {6}, {kMark}, kI32)},
       ""},
  };
  for (const auto& c : cases) {
    v1::Program message = AddMessage();
    *message.add_nodes() = MakeNode(Op::kVariable, {}, {1, 8}, kI32);
    message.mutable_nodes(3)->set_text("n");
    message.add_variables(3);
    *message.add_nodes() = MakeNode(Op::kCast, {3}, {}, kIndex);
    for (const v1::Node& node : c.nodes) *message.add_nodes() = node;
    const absl::Status status = Decode(message, {}).status();
    EXPECT_EQ(status.ok(), c.error.empty()) << status;
    EXPECT_NE(Message(status).find(c.error), std::string_view::npos) << status;
  }
  v1::Program output = AddMessage();
  *output.add_nodes() = MakeNode(Op::kConst, {}, {5}, kIndex);
  output.add_outputs()->set_node(3);
  EXPECT_NE(Message(Decode(output, {}).status()).find("not legal in memory"),
            std::string_view::npos);
}

TEST(ProgramWireTest, FastMathIsPartOfTheProgram) {
  Program strict = SmallProgram(), fast = SmallProgram();
  fast.fast_math = true;
  EXPECT_FALSE(Decode(Encode(strict), {})->fast_math);
  EXPECT_TRUE(Decode(Encode(fast), {})->fast_math);
  EXPECT_NE(StructuralKey(strict), StructuralKey(fast));
  EXPECT_NE(StructuralHash(strict), StructuralHash(fast));
}

TEST(ProgramWireTest, RoundTripKeepsConstants) {
  const std::pair<DType, double> cases[] = {
      {DType::kFloat32, 0.1},  {DType::kFloat64, 1e300},
      {DType::kFloat16, -0.0}, {DType::kBFloat16, 3.14},
      {DType::kInt8, -128},    {DType::kUint64, 12345},
      {DType::kBool, 1},       {DType::kFloat32, std::numeric_limits<double>::infinity()},
  };
  for (const auto& [dtype, value] : cases) {
    Program program;
    const Node* constant = program.graph.Value(dtype, value);
    program.outputs = {{.value = constant}};
    absl::StatusOr<Program> back = Decode(Encode(program), {});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->outputs[0].value->dtype, dtype);
    EXPECT_EQ(back->outputs[0].value->ints[0], constant->ints[0]) << Name(dtype);
  }
}

TEST(ProgramWireTest, ConstantsAreBroughtIntoTheirDType) {
  v1::Program message;
  *message.add_nodes() = MakeNode(Op::kConst, {}, {300}, static_cast<uint32_t>(DType::kUint8));
  message.add_outputs()->set_node(0);
  absl::StatusOr<Program> program = Decode(message, {});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->outputs[0].value->Int(), 44);
}

TEST(ProgramWireTest, UnusedInputsSurvive) {
  v1::Program message = AddMessage();
  *message.add_nodes() = MakeNode(Op::kParam, {}, {2, 5}, kI32);
  message.add_inputs(3);
  absl::StatusOr<Program> program = Decode(message, {});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->inputs.size(), 3u);
}

struct Malformed {
  const char* name;
  void (*spoil)(v1::Program& message);
  const char* error;  // a part of the message
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

const Malformed kMalformed[] = {
    {"UnknownOp", [](v1::Program& m) { m.mutable_nodes(2)->set_op(200); },
     "node 2 (?): op number 200 is unknown"},
    {"KernelOp",
     [](v1::Program& m) { m.mutable_nodes(2)->set_op(static_cast<uint32_t>(Op::kLoad)); },
     "node 2 (Load): the op is not legal in a tensor graph"},
    {"SinkOp", [](v1::Program& m) { m.mutable_nodes(2)->set_op(static_cast<uint32_t>(Op::kSink)); },
     "node 2 (Sink): the op is not legal"},
    {"SelfReference", [](v1::Program& m) { m.mutable_nodes(2)->set_src(0, 2); },
     "node 2 (Add): source 2 does not come before it: the graph has a cycle or is out of order"},
    {"ForwardReference",
     [](v1::Program& m) {
       *m.add_nodes() = MakeNode(Op::kNeg, {2}, {});
       m.mutable_nodes(2)->set_src(0, 3);
     },
     "node 2 (Add): source 3 does not come before it: the graph has a cycle or is out of order"},
    {"DanglingSource", [](v1::Program& m) { m.mutable_nodes(2)->set_src(0, 77); },
     "node 2 (Add): source 77 does not exist: the graph has 3 nodes"},
    {"TooFewSources", [](v1::Program& m) { m.mutable_nodes(2)->mutable_src()->Truncate(1); },
     "node 2 (Add): Add: 1 operands, needs 2"},
    {"TooManySources", [](v1::Program& m) { m.mutable_nodes(2)->add_src(1); },
     "node 2 (Add): Add: 3 operands, needs 2"},
    {"UnknownDType", [](v1::Program& m) { m.mutable_nodes(0)->set_dtype(99); },
     "node 0 (Param): dtype number 99 is unknown"},
    {"VoidDType", [](v1::Program& m) { m.mutable_nodes(0)->set_dtype(0); },
     "node 0 (Param): dtype void is not legal"},
    {"IndexDType",
     [](v1::Program& m) { m.mutable_nodes(0)->set_dtype(static_cast<uint32_t>(DType::kIndex)); },
     "node 0 (Param): dtype index is not legal"},
    {"DTypeWhereItFollows", [](v1::Program& m) { m.mutable_nodes(2)->set_dtype(kF32); },
     "node 2 (Add): the dtype follows from the operands"},
    {"DTypesDiffer", [](v1::Program& m) { m.mutable_nodes(1)->set_dtype(kI32); },
     "node 2 (Add): Add: operands are float32 and int32"},
    {"ShapesDiffer", [](v1::Program& m) { m.mutable_nodes(1)->set_ints(1, 7); },
     "node 2 (Add): Add: shapes [2, 3] and [7, 3] differ"},
    {"NegativeSize", [](v1::Program& m) { m.mutable_nodes(0)->set_ints(1, -2); },
     "node 0 (Param): Param: size -2"},
    {"ShapeOverflow",
     [](v1::Program& m) {
       m.mutable_nodes(0)->set_ints(1, int64_t{1} << 40);
       m.mutable_nodes(0)->set_ints(2, int64_t{1} << 40);
     },
     "node 0 (Param): Param: shape [1099511627776, 1099511627776] overflows"},
    {"TensorTooLarge", [](v1::Program& m) { m.mutable_nodes(0)->set_ints(1, int64_t{1} << 42); },
     "node 0 (Param): float32[4398046511104, 3] is larger than the limit",
     absl::StatusCode::kResourceExhausted},
    {"AttributeWhereNone", [](v1::Program& m) { m.mutable_nodes(2)->add_ints(1); },
     "node 2 (Add): Add: 1 numbers in the attribute, needs 0"},
    {"TextWhereNone", [](v1::Program& m) { m.mutable_nodes(2)->set_text("hello"); },
     "node 2 (Add): only a Variable and a UserKernel have a text"},
    {"AttributeTooLong",
     [](v1::Program& m) {
       for (int i = 0; i < 100; ++i) m.mutable_nodes(0)->add_ints(1);
     },
     "node 0 (Param): 103 numbers in the attribute: rank is limited to 32"},
    {"RankTooLarge",
     [](v1::Program& m) {
       for (int i = 0; i < 40; ++i) m.mutable_nodes(0)->add_ints(1);
     },
     "node 0 (Param): rank 42 is above the limit of 32"},
    {"NegativeSlot", [](v1::Program& m) { m.mutable_nodes(0)->set_ints(0, -1); },
     "node 0 (Param): Param: slot -1 is negative"},
    {"ConstWithoutValue",
     [](v1::Program& m) { *m.add_nodes() = MakeNode(Op::kConst, {}, {}, kF32); },
     "node 3 (Const): 0 operands and 0 numbers, needs 0 and 1"},
    {"InputIsNoParam", [](v1::Program& m) { m.set_inputs(1, 2); },
     "input 1: node 2 is a Add, needs a Param"},
    {"InputDangles", [](v1::Program& m) { m.set_inputs(1, 9); }, "input 1: node 9 does not exist"},
    {"SlotTwice", [](v1::Program& m) { m.set_inputs(1, 0); },
     "input 1: node 0 has slot 0: each slot must stand once, in order"},
    {"SlotMissing", [](v1::Program& m) { m.mutable_inputs()->Truncate(1); },
     "node 1 (Param): slot 1 is not among the 1 inputs"},
    {"SlotWithTwoShapes",
     [](v1::Program& m) {
       *m.add_nodes() = MakeNode(Op::kParam, {}, {0, 4}, kF32);
     },
     "node 3 (Param): input 0 is float32[2, 3], not float32[4]"},
    {"NoOutputs", [](v1::Program& m) { m.clear_outputs(); }, "the program has no outputs"},
    {"OutputDangles", [](v1::Program& m) { m.mutable_outputs(0)->set_node(3); },
     "output 0: node 3 does not exist: the graph has 3 nodes"},
    {"OverwritesDangles", [](v1::Program& m) { m.mutable_outputs(0)->set_overwrites_plus_one(3); },
     "output 0: overwrites input 2, but there are 2 inputs"},
    {"OverwritesOtherShape",
     [](v1::Program& m) {
       *m.add_nodes() = MakeNode(Op::kReduce, {2}, {0, 1});
       m.mutable_outputs(0)->set_node(3);
       m.mutable_outputs(0)->set_overwrites_plus_one(1);
     },
     "output 0: float32[2, 1] cannot overwrite input 0, which is float32[2, 3]"},
    {"OverwritesTwice",
     [](v1::Program& m) {
       m.mutable_outputs(0)->set_overwrites_plus_one(1);
       *m.add_outputs() = m.outputs(0);
     },
     "output 1: input 0 is overwritten by an earlier output already"},
    {"UnlistedVariable",
     [](v1::Program& m) {
       v1::Node* node = m.add_nodes();
       *node = MakeNode(Op::kVariable, {}, {0, 4}, kI32);
       node->set_text("n");
     },
     "node 3 (Variable): 'n' is not among the program's variables"},
    {"VariableWithOtherBounds",
     [](v1::Program& m) {
       for (int max : {4, 5}) {
         v1::Node* node = m.add_nodes();
         *node = MakeNode(Op::kVariable, {}, {0, max}, kI32);
         node->set_text("n");
       }
       m.add_variables(3);
     },
     "node 4 (Variable): 'n' has other bounds"},
    {"VariableTwice",
     [](v1::Program& m) {
       v1::Node* node = m.add_nodes();
       *node = MakeNode(Op::kVariable, {}, {0, 4}, kI32);
       node->set_text("n");
       m.add_variables(3);
       m.add_variables(3);
     },
     "variable 1: the name 'n' stands twice"},
    {"VariableOutOfItsDType",
     [](v1::Program& m) {
       v1::Node* node = m.add_nodes();
       *node = MakeNode(Op::kVariable, {}, {0, 400}, static_cast<uint32_t>(DType::kInt8));
       node->set_text("n");
       m.add_variables(3);
     },
     "node 3 (Variable): bounds [0, 400] are outside of int8"},
    {"LongName", [](v1::Program& m) { m.set_name(std::string(5000, 'x')); },
     "the program's name has 5000 bytes"},
};

class MalformedProgramTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedProgramTest, IsRefusedWithNodeAndRule) {
  v1::Program message = AddMessage();
  ASSERT_TRUE(Decode(message, {}).ok());
  GetParam().spoil(message);
  const absl::Status status = Decode(message, {}).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_NE(Message(status).find(GetParam().error), std::string_view::npos) << status;
}

INSTANTIATE_TEST_SUITE_P(All, MalformedProgramTest, testing::ValuesIn(kMalformed),
                         [](const auto& info) { return std::string(info.param.name); });

struct Limited {
  const char* name;
  WireLimits limits;
  bool holds;  // what SmallProgram keeps
};

const Limited kLimited[] = {
    {"None", {}, true},
    {"Nodes", {.max_nodes = 2}, false},
    {"Inputs", {.max_inputs = 0}, false},
    {"Bytes", {.max_tensor_bytes = 3}, false},
    {"Rank", {.max_rank = 0}, false},
    {"Name", {.max_name_bytes = 0}, false},
};

class LimitedProgramTest : public testing::TestWithParam<Limited> {};

TEST_P(LimitedProgramTest, IsKnownBeforeItIsSent) {
  const Program program = SmallProgram();
  const absl::Status before = CheckLimits(program, GetParam().limits);
  const absl::Status after = Decode(Encode(program), GetParam().limits).status();
  EXPECT_EQ(before.ok(), GetParam().holds) << before;
  EXPECT_EQ(before.code(), after.code()) << before << " and " << after;
}

INSTANTIATE_TEST_SUITE_P(All, LimitedProgramTest, testing::ValuesIn(kLimited),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ProgramWireTest, NodeLimitHolds) {
  const absl::Status status = Decode(AddMessage(), {.max_nodes = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(status), "the graph has 3 nodes, more than the limit of 2");
}

TEST(ProgramWireTest, InputLimitHolds) {
  const absl::Status status = Decode(AddMessage(), {.max_inputs = 1}).status();
  EXPECT_EQ(Message(status), "the program has 2 inputs, more than the limit of 1");
}

// Whatever a mutated message holds, Decode ends with a status or a program that encodes again.
// Seeded, so that a failure repeats; prints the message that broke.
TEST(ProgramWireTest, SurvivesMutation) {
  const v1::Program seeds[] = {AddMessage(), Encode(SmallProgram()), Encode(VaryingProgram()),
                               Encode(KernelProgram())};
  int accepted = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    const auto number = [&]() -> int64_t {
      const int64_t values[] = {pick(8),
                                -pick(8),
                                pick(64),
                                int64_t{1} << pick(63),
                                -1 - pick(2),
                                INT64_MAX - pick(2),
                                INT64_MIN + pick(2)};
      return values[pick(7)];
    };
    v1::Program message = seeds[seed % 4];
    for (int64_t change = 0; change <= pick(4); ++change) {
      v1::Node* node = message.mutable_nodes(static_cast<int>(pick(message.nodes_size())));
      switch (pick(9)) {
        case 0:
          node->set_op(static_cast<uint32_t>(pick(kNumOps + 2)));
          break;
        case 1:
          node->set_dtype(static_cast<uint32_t>(pick(kNumDTypes + 2)));
          break;
        case 2:
          node->add_ints(number());
          break;
        case 3:
          if (node->ints_size() > 0) node->set_ints(pick(node->ints_size()), number());
          break;
        case 4:
          node->add_src(static_cast<uint32_t>(pick(message.nodes_size() + 1)));
          break;
        case 5:
          if (node->src_size() > 0) {
            node->set_src(pick(node->src_size()), static_cast<uint32_t>(pick(12)));
          }
          break;
        case 6:
          node->mutable_src()->Truncate(static_cast<int>(pick(node->src_size() + 1)));
          break;
        case 7:
          node->mutable_ints()->Truncate(static_cast<int>(pick(node->ints_size() + 1)));
          break;
        case 8: {
          v1::Output* output = message.add_outputs();
          output->set_node(static_cast<uint32_t>(pick(message.nodes_size() + 1)));
          output->set_overwrites_plus_one(static_cast<uint32_t>(pick(4)));
          break;
        }
      }
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    absl::StatusOr<Program> program = Decode(message, {.max_tensor_bytes = 1 << 30});
    if (!program.ok()) continue;
    ++accepted;
    absl::StatusOr<Program> again = Decode(Encode(*program), {});
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << message.DebugString();
    // Terms of a size are in the order of their nodes, which is another one in the new graph.
    if (seed % 4 == 2) continue;
    ASSERT_EQ(StructuralHash(*again), StructuralHash(*program)) << message.DebugString();
  }
  EXPECT_GT(accepted, 100);  // else the mutations are too wild to test anything behind the checks
}

}  // namespace
}  // namespace tensord
