#include "core/runtime/build_id.h"

#include <absl/time/clock.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace tensord {
namespace {

std::string Compute() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  std::vector<char> chunk(1 << 20);
  uint64_t size = 0;
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    XXH3_128bits_update(state, chunk.data(), static_cast<size_t>(file.gcount()));
    size += static_cast<uint64_t>(file.gcount());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  if (size == 0) return fmt::format("start-{}", absl::GetCurrentTimeNanos());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

const std::string& BuildId() {
  static const std::string& id = *new std::string(Compute());
  return id;
}

bool LastUsedByOtherBuild(const std::string& directory) {
  if (directory.empty()) return false;
  const std::string path = directory + "/last_build";
  std::string last;
  std::getline(std::ifstream(path), last);
  // By rename, because others may read it. What can't be written is only not explained later.
  const std::string temporary = fmt::format("{}.{}", path, getpid());
  std::ofstream file(temporary);
  file << BuildId() << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
  return !last.empty() && last != BuildId();
}

}  // namespace tensord
