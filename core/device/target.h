// Target: what codegen may know of a device. Plain data: backends fill it in, codegen reads it and
// never asks which backend it is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/ir/dtype.h"

namespace tensord {

// A set of dtypes, one bit each.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> dtypes) {
    for (DType dtype : dtypes) bits_ |= Bit(dtype);
  }
  static constexpr DTypeSet OfBits(uint32_t bits) {
    DTypeSet set;
    set.bits_ = bits;
    return set;
  }
  constexpr bool contains(DType dtype) const { return (bits_ & Bit(dtype)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr uint32_t bits() const { return bits_; }

 private:
  static constexpr uint32_t Bit(DType dtype) { return uint32_t{1} << static_cast<int>(dtype); }
  uint32_t bits_ = 0;
};

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
  // Dtypes that the renderer has no words for: codegen writes them in others
  // (codegen/decompose.h).
  DTypeSet lacks;
  bool checks_bounds = false;  // the device checks each access itself: kernels need no guards

  // Everything above as text; part of every kernel's cache key.
  std::string CacheKey() const;
};

}  // namespace tensord
