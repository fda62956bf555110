// Cases that once failed, and some hundred random ones: always the same, so that a failure here is
// one of the change under test. The fuzz binary looks for new ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/differential/generate.h"
#include "tests/differential/index_case.h"
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

void ExpectAllWell(CaseKind kind, uint64_t cases) {
  for (uint64_t seed = 1; seed <= cases; ++seed) {
    const Case test = Generate(seed, kind);
    const std::string problem = TheWorker().Check(PrintCase(test));
    if (problem.empty()) continue;
    const Case small = Shrink(
        test, [&](Case& candidate) { return !TheWorker().Check(PrintCase(candidate)).empty(); },
        200);
    ADD_FAILURE() << "seed " << seed << ": " << problem << "\n" << PrintCase(small);
  }
}

TEST(Differential, RandomGraphs) { ExpectAllWell(CaseKind::kGraph, 400); }
TEST(Differential, ChainsOfViews) { ExpectAllWell(CaseKind::kMovement, 60); }
TEST(Differential, Conversions) { ExpectAllWell(CaseKind::kCasts, 60); }
TEST(Differential, Divisions) { ExpectAllWell(CaseKind::kDivision, 60); }

TEST(Differential, IndexExpressions) {
  for (uint64_t seed = 1; seed <= 800; ++seed) ASSERT_EQ(CheckIndex(seed), "") << "seed " << seed;
}

TEST(Differential, TextKeepsTheCase) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto kind = static_cast<CaseKind>(seed % std::size(kCaseKinds));
    const std::string text = PrintCase(Generate(seed, kind));
    EXPECT_EQ(text, PrintCase(Generate(seed, kind))) << "the same seed gives the same case";
    absl::StatusOr<Case> parsed = ParseCase(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(PrintCase(*parsed), text);
  }
}

}  // namespace
}  // namespace tensord
