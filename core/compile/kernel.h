// CompiledKernel: what a device's Load wants, and what the kernel cache keeps.
#pragma once

#include <cstdint>
#include <string>

namespace tensord {

struct CompiledKernel {
  std::string name;    // for people
  std::string entry;   // symbol in the binary
  std::string binary;  // relocatable object code, or what else the target's device loads
  int64_t grid = 1;    // workgroups of a launch
};

}  // namespace tensord
