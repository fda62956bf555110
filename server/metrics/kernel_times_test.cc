#include "server/metrics/kernel_times.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tensord {
namespace {

const auto& kNames = *new auto(std::make_shared<const std::vector<std::string>>(
    std::vector<std::string>{"matmul", "loop", "add", "matmul"}));
const auto& kKernels = *new auto(std::make_shared<const std::vector<std::vector<std::string>>>(
    std::vector<std::vector<std::string>>{{"k1"}, {"k2", "k3"}, {"k4"}, {"k1"}}));

bool Anybody(const std::string&) { return true; }
bool Alice(const std::string& user) { return user == "alice"; }

// Each step takes so long; 0: it was not reached.
void Add(KernelTimes& times, const std::string& user, const std::string& program,
         const std::vector<uint64_t>& took) {
  StepTimes steps;
  steps.names = kNames;
  steps.kernels = kKernels;
  steps.times = std::make_unique<RunTimes[]>(took.size());
  for (size_t i = 0; i < took.size(); ++i) {
    if (took[i] == 0) continue;
    steps.times[i].begin.timestamp_ns = 1000;
    steps.times[i].end.timestamp_ns = 1000 + took[i];
  }
  times.Add(user, program, steps);
}

TEST(KernelTimesTest, AddsUpLaunchesAndTimes) {
  KernelTimes times;
  Add(times, "alice", "train", {100, 300, 10, 200});
  Add(times, "alice", "test", {50, 5, 10, 1});
  const auto rows = times.Largest(10, Anybody);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "matmul");
  EXPECT_EQ(rows[0].launches, 4u);
  EXPECT_EQ(rows[0].device_ns, 100 + 200 + 50 + 1);
  EXPECT_EQ(rows[0].programs, (std::vector<std::string>{"train", "test"}));
  EXPECT_EQ(rows[1].kernels, (std::vector<std::string>{"k2", "k3"}));
  EXPECT_EQ(rows[1].device_ns, 305);
  EXPECT_EQ(rows[2].device_ns, 20);
  EXPECT_EQ(times.Largest(1, Anybody).size(), 1u);
}

TEST(KernelTimesTest, ARunThatWasStoppedCountsWhatItCameTo) {
  KernelTimes times;
  Add(times, "alice", "train", {100, 0, 0, 0});
  const auto rows = times.Largest(10, Anybody);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].device_ns, 100);
}

TEST(KernelTimesTest, UsersHaveRowsOfTheirOwn) {
  KernelTimes times;
  Add(times, "bob", "theirs", {100, 0, 0, 0});
  EXPECT_TRUE(times.Largest(10, Alice).empty());
  EXPECT_FALSE(times.Has("k1", Alice));
  Add(times, "alice", "mine", {100, 0, 0, 0});
  const auto rows = times.Largest(10, Alice);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].programs, (std::vector<std::string>{"mine"}));
  EXPECT_EQ(rows[0].launches, 1u);
  EXPECT_TRUE(times.Has("k1", Alice));
  EXPECT_FALSE(times.Has("k4", Anybody));
}

TEST(KernelTimesTest, TheRowOfLongestAgoGoesFirst) {
  KernelTimes times(2);
  Add(times, "alice", "", {1, 1, 0, 0});  // matmul, loop
  Add(times, "alice", "", {9, 0, 0, 0});  // matmul
  Add(times, "alice", "", {0, 0, 3, 0});  // add
  const auto rows = times.Largest(10, Anybody);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "matmul");
  EXPECT_EQ(rows[1].name, "add");
}

TEST(KernelTimesTest, OnlySoManyProgramsAreNamed) {
  KernelTimes times;
  for (int i = 0; i < 9; ++i) Add(times, "alice", "p" + std::to_string(i), {1, 0, 0, 0});
  EXPECT_EQ(times.Largest(10, Anybody)[0].programs.size(), KernelTimes::kMaxPrograms);
}

}  // namespace
}  // namespace tensord
