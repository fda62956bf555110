#include "core/device/target.h"

#include <fmt/format.h>

namespace tensord {

std::string Target::CacheKey() const {
  return fmt::format(
      "renderer={} arch={} cpu={} features={} vector={}x{} fma={} cores={} l1={} l2={} "
      "lacks={:x} checks={}",
      renderer, arch, cpu, features, vector_registers, vector_bytes, has_fma, cores, l1_bytes,
      l2_bytes, lacks.bits(), checks_bounds);
}

}  // namespace tensord
