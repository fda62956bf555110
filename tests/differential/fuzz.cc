// Checks random cases until its time is over, and prints each failure as the smallest case found.
//
//   fuzz [--kind=graph] [--seconds=60] [--seed=1] [--compile=false] [--out=FOLDER]
//   fuzz case.txt...                    these cases only
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/differential/generate.h"
#include "tests/differential/index_case.h"
#include "tests/differential/shrink.h"
#include "tests/differential/wire_case.h"
#include "tests/differential/worker.h"

ABSL_FLAG(std::string, kind, "graph", "of cases: graph, movement, casts, division, wire or index");
ABSL_FLAG(int, seconds, 60, "how long to go on");
ABSL_FLAG(uint64_t, seed, 1, "of the first case; the next ones count up");
ABSL_FLAG(int, cases, 0, "how many cases at most; 0: no limit");
ABSL_FLAG(bool, compile, true, "run compiled kernels; else only interpret linear programs");
ABSL_FLAG(bool, shrink, true, "make failing cases smaller");
ABSL_FLAG(std::string, out, "", "where failing cases are written; empty: nowhere");

namespace tensord {
namespace {

// Problems of one kind: the text without its numbers.
std::string Kind(std::string_view problem) {
  std::string kind;
  for (char c : problem.substr(0, 60)) {
    if (c < '0' || c > '9') kind += c;
  }
  return kind.rfind("output", 0) == 0 ? "output" : kind;
}

void Report(const Case& test, uint64_t seed, const std::string& problem, Worker& worker) {
  fmt::print("seed {}: {}\n", seed, problem);
  std::fflush(stdout);
  std::string text = PrintCase(test);
  if (absl::GetFlag(FLAGS_shrink)) {
    const Case small = Shrink(test, [&](Case& candidate) {
      return Kind(worker.Check(PrintCase(candidate))) == Kind(problem);
    });
    text = PrintCase(small);
    fmt::print("{}\n  {}\n\n", text, worker.Check(text));
    std::fflush(stdout);
  }
  const std::string folder = absl::GetFlag(FLAGS_out);
  if (folder.empty()) return;
  std::ofstream(fmt::format("{}/seed_{}.txt", folder, seed)) << text;
}

int Fuzz(const std::vector<char*>& files) {
  Worker worker({.compile = absl::GetFlag(FLAGS_compile)});
  int failures = 0, cases = 0;
  for (const char* name : files) {
    std::ifstream file(name);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string problem = worker.Check(text);
    fmt::print("{}: {}\n", name, problem.empty() ? "ok" : problem);
    failures += !problem.empty();
  }
  if (!files.empty()) return failures;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(absl::GetFlag(FLAGS_seconds));
  const std::string name = absl::GetFlag(FLAGS_kind);
  const auto* kind = std::find(std::begin(kCaseKinds), std::end(kCaseKinds), name);
  if (kind == std::end(kCaseKinds) && name != "index" && name != "wire") {
    fmt::print("there is no kind '{}'\n", name);
    return 1;
  }
  uint64_t seed = absl::GetFlag(FLAGS_seed);
  const int most = absl::GetFlag(FLAGS_cases);
  for (; std::chrono::steady_clock::now() < end && (most == 0 || cases < most); ++seed, ++cases) {
    if (name == "index") {
      const std::string problem = CheckIndex(seed);
      if (!problem.empty()) fmt::print("seed {}: {}\n", seed, problem);
      failures += !problem.empty();
      continue;
    }
    if (name == "wire") {
      const absl::StatusOr<Case> test = GenerateWire(seed);
      if (!test.ok() && IsNoCase(test.status())) continue;
      const std::string problem =
          test.ok() ? worker.Check(PrintCase(*test)) : test.status().ToString();
      if (problem.empty()) continue;
      ++failures;
      if (test.ok()) Report(*test, seed, problem, worker);
      if (!test.ok()) fmt::print("seed {}: {}\n", seed, problem);
      continue;
    }
    const Case test = Generate(seed, static_cast<CaseKind>(kind - std::begin(kCaseKinds)));
    const std::string problem = worker.Check(PrintCase(test));
    if (problem.empty()) continue;
    ++failures;
    Report(test, seed, problem, worker);
  }
  fmt::print("{} cases, {} failures; next seed {}\n", cases, failures, seed);
  return failures;
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "compares the compiler with the reference evaluator on random graphs");
  std::vector<char*> files = absl::ParseCommandLine(argc, argv);
  files.erase(files.begin());
  return tensord::Fuzz(files) == 0 ? 0 : 1;
}
