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

struct Case {
  const char* name;
  int64_t inputs;
  std::vector<Sum> whole;
  bool has_apart;
  // Of what is apart.
  std::vector<size_t> which_inputs;
  std::vector<size_t> which_outputs;
  std::vector<Sum> sums;
};

const Case kCases[] = {
    {"NothingOverwritten", 2, {{0, 1, kFresh}}, false, {}, {}, {}},
    {"AllOverwritten", 2, {{0, 1, 0}, {0, 1, 1}}, false, {0, 1}, {0, 1}, {{0, 1, 0}, {0, 1, 1}}},
    {"InputsOfOthersAreLeftOut", 4, {{0, 1, kFresh}, {2, 3, 3}}, true, {2, 3}, {1}, {{0, 1, 1}}},
    {"NumbersChangePlaces",
     4,
     {{3, 1, 1}, {0, 2, kFresh}, {1, 3, 3}},
     true,
     {1, 3},
     {0, 2},
     {{1, 0, 0}, {0, 1, 1}}},
    {"OverwrittenUnread", 3, {{0, 0, kFresh}, {2, 2, 1}}, true, {1, 2}, {1}, {{1, 1, 0}}},
};

class UpdatesTest : public testing::TestWithParam<Case> {};

TEST_P(UpdatesTest, AreWhatOverwrites) {
  const Program whole = SumsOf(GetParam().inputs, GetParam().whole);
  EXPECT_EQ(HasUpdatesApart(whole), GetParam().has_apart);
  if (GetParam().which_outputs.empty()) return;
  const Updates updates = UpdatesOf(whole);
  EXPECT_EQ(updates.inputs, GetParam().which_inputs);
  EXPECT_EQ(updates.outputs, GetParam().which_outputs);
  EXPECT_EQ(updates.program.name, "sums");
  const Program expected =
      SumsOf(static_cast<int64_t>(GetParam().which_inputs.size()), GetParam().sums);
  EXPECT_EQ(StructuralKey(updates.program), StructuralKey(expected));
}

INSTANTIATE_TEST_SUITE_P(All, UpdatesTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensord
