#include "server/session/program_index.h"

#include <gtest/gtest.h>

#include "core/wire/program.h"

namespace tensord {
namespace {

struct Given {
  std::vector<int64_t> shape = {2, 3};
  DType dtype = DType::kFloat32;
  double constant = 1;
  bool fast_math = false;
  Op op = Op::kAdd;
  std::vector<std::string> devices = {"CPU:0"};
};

ProgramSketch Sketch(const Given& given, const std::string& name = "f") {
  Program program;
  program.name = name;
  program.fast_math = given.fast_math;
  const Node* x = program.graph.Param(0, given.dtype, given.shape);
  program.inputs = {x};
  const Node* y = program.graph.Make(given.op, {x, x});
  const Node* c = program.graph.Float(DType::kFloat32, given.constant);
  program.outputs = {{.value = y}, {.value = c}};
  return SketchOf(Encode(program), program, given.devices);
}

struct Case {
  const char* name;
  Given given;
  std::vector<std::string> differs;
  const char* text;
};

const Case kCases[] = {
    {"Shape", {.shape = {2, 4}}, {"shape"}, "float32[2, 4] instead of float32[2, 3]"},
    {"DType", {.dtype = DType::kInt32}, {"dtype"}, "int32[2, 3] instead of float32[2, 3]"},
    {"Constant", {.constant = 2}, {"constant"}, "program 'g' is 'f' with another constant"},
    {"Option", {.fast_math = true}, {"option"}, "program 'g' is 'f' with another option"},
    {"Device", {.devices = {"CPU:1"}}, {"device"}, "on CPU:1 instead of CPU:0"},
    {"Two", {.shape = {7}, .fast_math = true}, {"shape", "option"}, "another shape, option"},
    {"Same", {}, {}, "its plan is no longer kept"},
    {"Structure", {.op = Op::kMul}, {}, "program 'g' is new"},
};

class ProgramIndexTest : public testing::TestWithParam<Case> {};

TEST_P(ProgramIndexTest, NamesWhatDiffers) {
  ProgramIndex index;
  index.Add("alice", Sketch({}));
  const auto miss = index.Explain("alice", Sketch(GetParam().given, "g"));
  EXPECT_EQ(std::vector<std::string>(miss.differs().begin(), miss.differs().end()),
            GetParam().differs);
  EXPECT_NE(miss.text().find(GetParam().text), std::string::npos) << miss.text();
  // Nobody learns what others have.
  EXPECT_EQ(index.Explain("bob", Sketch(GetParam().given, "g")).nearest(), "");
}

INSTANTIATE_TEST_SUITE_P(All, ProgramIndexTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ProgramIndexTest, TheNearestCountsAndOldOnesAreForgotten) {
  ProgramIndex index;
  index.Add("alice", Sketch({.shape = {9}, .fast_math = true}, "far"));
  index.Add("alice", Sketch({.shape = {9}}, "near"));
  index.Add("alice", Sketch({.shape = {9}, .constant = 5}, "other"));
  EXPECT_EQ(index.Explain("alice", Sketch({})).nearest(), "near");
  for (size_t i = 0; i < ProgramIndex::kProgramsOfUser; ++i) {
    index.Add("alice", Sketch({.op = Op::kMul}));
  }
  EXPECT_EQ(index.Explain("alice", Sketch({})).nearest(), "");
}

}  // namespace
}  // namespace tensord
