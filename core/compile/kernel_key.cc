#include "core/compile/kernel_key.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace tensord {

std::string KernelKey::Hex() const { return fmt::format("{:016x}{:016x}", hi, lo); }

KernelKey HashKernelKey(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

}  // namespace tensord
