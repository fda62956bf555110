// CompiledKernel: what a device's Load wants, and what the kernel cache keeps.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>

namespace tensord {

struct CompiledKernel {
  std::string name;    // for people
  std::string entry;   // symbol in the binary
  std::string binary;  // relocatable object code, or what else the target's device loads
  int64_t grid = 1;    // workgroups of a launch
  std::string source = {};  // the linear program as text, for people: see source.h
};

// Marks an error by which a compiler was lost to whatever it was at work on, perhaps by the fault
// of another kernel.
absl::Status CompilerLost(absl::Status error);
bool IsCompilerLost(const absl::Status& error);

}  // namespace tensord
