// Limits of the devices that a backend opens.
#pragma once

#include <cstdint>

namespace tensord {

struct OpenOptions {
  int threads = 0;            // of one device that computes on the host; 0: one a core
  uint64_t memory_bytes = 0;  // of one device; 0: the backend's default
};

}  // namespace tensord
