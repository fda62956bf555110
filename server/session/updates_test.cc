#include "server/session/updates.h"

#include <gtest/gtest.h>

#include "core/ir/dtype.h"
#include "core/ir/op.h"

namespace tensord {
namespace {

// Each input is float32[2]; outputs are sums of two inputs.
struct Sum {
  int64_t a, b;
  int64_t overwrites;
};

Program SumsOf(int64_t inputs, const std::vector<Sum>& sums) {
  Program program;
  program.name = "sums";
  program.fast_math = true;
  for (int64_t i = 0; i < inputs; ++i) {
    program.inputs.push_back(program.graph.Param(i, DType::kFloat32, {2}));
  }
  for (const Sum& sum : sums) {
    const Node* value =
        program.graph.Make(Op::kAdd, {program.inputs[sum.a], program.inputs[sum.b]});
    program.outputs.push_back({.value = value, .overwrites = sum.overwrites});
  }
  return program;
}

constexpr int64_t kFresh = Program::kFresh;

struct Part {
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
  std::vector<Sum> sums;
};

struct Case {
  const char* name;
  int64_t inputs;
  std::vector<Sum> whole;
  bool has_apart;
  std::vector<Part> parts;
};

const Case kCases[] = {
    {"NothingOverwritten", 2, {{0, 1, kFresh}, {0, 0, kFresh}}, false, {}},
    {"OneIsTheWhole", 2, {{0, 1, 0}}, false, {{{0, 1}, {0}, {{0, 1, 0}}}}},
    {"InputsOfOthersAreLeftOut",
     4,
     {{0, 1, kFresh}, {2, 3, 3}},
     true,
     {{{2, 3}, {1}, {{0, 1, 1}}}}},
    {"OverwrittenUnread", 3, {{0, 0, kFresh}, {2, 2, 1}}, true, {{{1, 2}, {1}, {{1, 1, 0}}}}},
    {"ReadersComeFirst",
     3,
     {{0, 0, 0}, {0, 1, 1}, {1, 2, 2}},
     true,
     {{{1, 2}, {2}, {{0, 1, 1}}}, {{0, 1}, {1}, {{0, 1, 1}}}, {{0}, {0}, {{0, 0, 0}}}}},
    {"CirclesStayTogether",
     4,
     {{3, 1, 1}, {0, 2, kFresh}, {1, 3, 3}, {0, 1, 0}},
     true,
     {{{0, 1}, {3}, {{0, 1, 0}}}, {{1, 3}, {0, 2}, {{1, 0, 0}, {0, 1, 1}}}}},
};

class UpdatesTest : public testing::TestWithParam<Case> {};

TEST_P(UpdatesTest, AreWhatOverwrites) {
  const Program whole = SumsOf(GetParam().inputs, GetParam().whole);
  EXPECT_EQ(HasUpdatesApart(whole), GetParam().has_apart);
  const std::vector<Updates> parts = UpdatesOf(whole);
  ASSERT_EQ(parts.size(), GetParam().parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& expected = GetParam().parts[i];
    EXPECT_EQ(parts[i].inputs, expected.inputs);
    EXPECT_EQ(parts[i].outputs, expected.outputs);
    EXPECT_EQ(parts[i].program.name, "sums");
    const Program made = SumsOf(static_cast<int64_t>(expected.inputs.size()), expected.sums);
    EXPECT_EQ(StructuralKey(parts[i].program), StructuralKey(made)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, UpdatesTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensord
