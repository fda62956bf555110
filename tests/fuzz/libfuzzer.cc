// A fuzz target for libFuzzer. Where TENSORD_FUZZ_SEEDS names a folder, the seeds are written there
// first, for a start.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* folder = std::getenv("TENSORD_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const std::string& seed : tensord::fuzz::Seeds()) {
    std::ofstream(std::string(folder) + "/seed" + std::to_string(number++), std::ios::binary)
        << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string problem =
      tensord::fuzz::Try(std::string_view(reinterpret_cast<const char*>(data), size));
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s\n", problem.c_str());
  std::abort();
}
