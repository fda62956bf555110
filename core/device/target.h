// Target: what codegen may know of a device. Plain data: backends fill it in, codegen reads it and
// never asks which backend it is.
#pragma once

#include <cstdint>
#include <string>

namespace tensord {

struct Target {
  std::string renderer;       // "llvm-cpu": which renderer and compiler make its binaries
  std::string arch;           // "x86-64": the family
  std::string cpu;            // "znver4": LLVM's name of the processor
  std::string features;       // LLVM feature string, "+avx2,+fma,..."
  int vector_bytes = 16;      // width of a vector register
  int vector_registers = 16;  // how many there are
  bool has_fma = false;
  int cores = 1;                // workgroups that run at the same time
  int64_t l1_bytes = 32 << 10;  // data cache of one core
  int64_t l2_bytes = 1 << 20;   // second-level cache of one core

  // Everything above as text; part of every kernel's cache key.
  std::string CacheKey() const;
};

}  // namespace tensord
