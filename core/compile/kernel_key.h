// KernelKey: the name of a kernel's content, the same in every process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tensord {

struct KernelKey {
  uint64_t hi = 0, lo = 0;

  friend bool operator==(const KernelKey&, const KernelKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const KernelKey& key) {
    return H::combine(std::move(h), key.hi, key.lo);
  }
  std::string Hex() const;  // 32 digits
  static std::optional<KernelKey> FromHex(std::string_view digits);
};

// xxh3-128 of the text.
KernelKey HashKernelKey(std::string_view text);

}  // namespace tensord
