#include "core/compile/kernel_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>

namespace tensord {

std::string KernelKey::Hex() const { return fmt::format("{:016x}{:016x}", hi, lo); }

std::optional<KernelKey> KernelKey::FromHex(std::string_view digits) {
  KernelKey key;
  const auto read = [](std::string_view half, uint64_t& number) {
    const auto [end, error] = std::from_chars(half.data(), half.data() + half.size(), number, 16);
    return error == std::errc() && end == half.data() + half.size();
  };
  if (digits.size() != 32 || !read(digits.substr(0, 16), key.hi) ||
      !read(digits.substr(16), key.lo)) {
    return std::nullopt;
  }
  return key;
}

KernelKey HashKernelKey(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

}  // namespace tensord
