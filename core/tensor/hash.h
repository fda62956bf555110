// Cryptographic hashes of bytes, as tensors.
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor/expr.h"

namespace tensord {

struct KeccakConfig {
  int64_t rate;    // bytes that a block takes up
  int64_t suffix;  // the byte that ends the message
};
// "sha3_224", "sha3_256" or "shake_128".
std::optional<KeccakConfig> KeccakFromName(std::string_view name);

// Keccak (FIPS 202) of the last axis of uint8: the first (200 - rate) / 2 bytes of the result.
Expr Keccak(const Expr& message, const KeccakConfig& config);

// 16 bytes: shake_128 over blocks of 4 KiB, over their hashes in pieces of 1 MiB, and so on until
// one piece is left; the data is padded with zeros.
Expr TreeHash(const Expr& bytes);

}  // namespace tensord
