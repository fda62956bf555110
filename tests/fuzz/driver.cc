// A fuzz target as an ordinary test: its seeds, the inputs that once failed, and a number of
// inputs made of both, always the same. By hand for longer, or with other inputs:
//
//   session_test --seconds=300 --seed=7     # prints the input that failed, as a file in $TMPDIR
//   session_test FILE...                    # these only
#include <absl/strings/escaping.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace tensord::fuzz {
namespace {

namespace fs = std::filesystem;

struct Options {
  int seconds = 0;  // 0: a fixed number of inputs
  uint64_t seed = 1;
  int inputs = FUZZ_INPUTS;
  std::vector<std::string> files;
};
Options& TheOptions() {
  static Options& options = *new Options;
  return options;
}

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Those of tests/fuzz/corpus/NAME, in the order of their names.
std::vector<std::string> Corpus() {
  std::vector<fs::path> paths;
  const fs::path folder = fs::path("tests/fuzz/corpus") / FUZZ_NAME;
  if (!fs::exists(folder)) return {};
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const fs::path& path : paths) inputs.push_back(Contents(path));
  return inputs;
}

void Expect(const std::string& input, const std::string& what) {
  const std::string problem = Try(input);
  if (problem.empty()) return;
  const fs::path saved = fs::temp_directory_path() / (std::string(FUZZ_NAME) + "_failed");
  std::ofstream(saved, std::ios::binary) << input;
  ADD_FAILURE() << what << ": " << problem << "\nin " << saved << ": \""
                << absl::CEscape(input.substr(0, 400)) << '"';
}

TEST(Fuzz, WhatOnceFailed) {
  for (const std::string& file : TheOptions().files) Expect(Contents(file), file);
  for (const std::string& input : Corpus()) Expect(input, "an input of the corpus");
}

TEST(Fuzz, InputsMadeOfSeeds) {
  const Options& options = TheOptions();
  if (!options.files.empty()) return;
  std::vector<std::string> seeds = Seeds();
  for (const std::string& seed : seeds) Expect(seed, "a seed");
  for (std::string& input : Corpus()) seeds.push_back(std::move(input));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  uint64_t tried = 0;
  const auto more = [&] {
    return options.seconds > 0 ? std::chrono::steady_clock::now() < end
                               : tried < static_cast<uint64_t>(options.inputs);
  };
  for (; more() && !HasFailure(); ++tried) {
    std::mt19937_64 random(options.seed * 1'000'000'007 + tried);
    const std::string& from = seeds[random() % seeds.size()];
    Expect(Mutate(from, seeds, random), absl::StrCat("seed ", options.seed, ", input ", tried));
  }
  RecordProperty("inputs", absl::StrCat(tried));
  if (options.seconds > 0) printf("%llu inputs\n", static_cast<unsigned long long>(tried));
}

}  // namespace
}  // namespace tensord::fuzz

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& options = tensord::fuzz::TheOptions();
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value(argument.substr(std::min(argument.size(), argument.find('=') + 1)));
    const bool known =
        argument.starts_with("--seconds=")  ? absl::SimpleAtoi(value, &options.seconds)
        : argument.starts_with("--seed=")   ? absl::SimpleAtoi(value, &options.seed)
        : argument.starts_with("--inputs=") ? absl::SimpleAtoi(value, &options.inputs)
                                            : !argument.starts_with("--");
    if (!known) return fprintf(stderr, "%s: is not understood\n", argv[i]), 2;
    if (!argument.starts_with("--")) options.files.push_back(argv[i]);
  }
  return RUN_ALL_TESTS();
}
