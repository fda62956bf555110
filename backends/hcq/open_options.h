// Limits of the devices that a backend opens.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tensord {

// Key and value, as in NAME(KEY=VALUE,KEY=VALUE).
using BackendSettings = std::vector<std::pair<std::string, std::string>>;

struct OpenOptions {
  int threads = 0;            // of one device that computes on the host; 0: one a core
  uint64_t memory_bytes = 0;  // of one device; 0: the backend's default
  BackendSettings settings;   // of the backends that take some
};

}  // namespace tensord
