// Cases that once failed, and some hundred random ones: always the same, so that a failure here is
// one of the change under test. The fuzz binary looks for new ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/differential/generate.h"
#include "tests/differential/shrink.h"
#include "tests/differential/worker.h"

namespace tensord {
namespace {

// A process of its own for the compiler: made before this one has threads.
Worker& TheWorker() {
  static Worker& worker = *new Worker;
  return worker;
}

TEST(Differential, CasesThatOnceFailed) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/differential/cases")) {
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(TheWorker().Check(text), "") << entry.path() << "\n" << text;
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(Differential, RandomGraphs) {
  constexpr uint64_t kGraphs = 500;
  for (uint64_t seed = 1; seed <= kGraphs; ++seed) {
    const Case test = Generate(seed);
    const std::string problem = TheWorker().Check(PrintCase(test));
    if (problem.empty()) continue;
    const Case small = Shrink(
        test, [&](Case& candidate) { return !TheWorker().Check(PrintCase(candidate)).empty(); },
        200);
    ADD_FAILURE() << "seed " << seed << ": " << problem << "\n" << PrintCase(small);
  }
}

TEST(Differential, TextKeepsTheCase) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string text = PrintCase(Generate(seed));
    EXPECT_EQ(text, PrintCase(Generate(seed))) << "the same seed gives the same case";
    absl::StatusOr<Case> parsed = ParseCase(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(PrintCase(*parsed), text);
  }
}

}  // namespace
}  // namespace tensord
