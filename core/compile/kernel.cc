#include "core/compile/kernel.h"

#include <absl/strings/cord.h>

namespace tensord {

constexpr const char* kLost = "tensord/compiler-lost";

absl::Status CompilerLost(absl::Status error) {
  error.SetPayload(kLost, absl::Cord());
  return error;
}

bool IsCompilerLost(const absl::Status& error) { return error.GetPayload(kLost).has_value(); }

}  // namespace tensord
