// Cases that once failed, and some hundred random ones: always the same, so that a failure here is
// one of the change under test. The fuzz binary looks for new ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/ir/loop.h"
#include "tests/differential/expect.h"
#include "tests/differential/generate.h"
#include "tests/differential/index_case.h"
#include "tests/differential/shrink.h"
#include "tests/differential/wire_case.h"
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

TEST(Differential, ProgramsThatNoClientOfOursSends) {
  int refused = 0, checked = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const absl::StatusOr<Case> test = GenerateWire(seed);
    if (!test.ok()) {
      EXPECT_TRUE(IsNoCase(test.status())) << "seed " << seed << ": " << test.status();
      EXPECT_NE(test.status().message(), "") << "seed " << seed;
      ++refused;
      continue;
    }
    ++checked;
    EXPECT_EQ(TheWorker().Check(PrintCase(*test)), "") << "seed " << seed << "\n"
                                                       << PrintCase(*test);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(checked, 100);
}

TEST(Differential, IndexExpressions) {
  for (uint64_t seed = 1; seed <= 800; ++seed) ASSERT_EQ(CheckIndex(seed), "") << "seed " << seed;
}

// What the cases above are made of: loops that run, loops in loops, and states of which something
// is known after the last iteration.
TEST(Differential, RandomGraphsHaveLoops) {
  int loops = 0, counted = 0, nested = 0, known = 0, unknown = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Case test = Generate(seed);
    std::vector<const Node*> results;
    const std::vector<const Node*> order = TopologicalOrder(test.outputs);
    const auto inside = loop::Inside(order);
    for (const Node* node : order) {
      if (node->op == Op::kLoop) {
        ++loops;
        counted += loop::TripCount(node) > 0;
        nested += node->ints[0] > 0;
      }
      if (node->op == Op::kLoopResult && !inside.contains(node)) results.push_back(node);
    }
    const auto params = ParamsOf(test);
    ASSERT_TRUE(params.ok()) << params.status();
    ReferenceInputs reference;
    for (const HostTensor& input : InputsOf(test, *params)) {
      reference.params[static_cast<int64_t>(reference.params.size())] = input.values;
    }
    for (const auto& [name, value] : VariablesOf(test)) reference.variables[name] = value;
    for (const Expected& result : Expect(results, reference)) {
      for (const double error : result.error) ++(error == kUnknown ? unknown : known);
    }
  }
  EXPECT_GT(counted, 20);
  EXPECT_GT(loops, counted + 20);
  EXPECT_GT(nested, 10);
  EXPECT_GT(known, 4 * unknown);
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
