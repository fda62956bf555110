// What a kernel computes as text for people, as the kernel cache keeps it: compressed, because a
// text takes several times the bytes of the code.
//
//   kernel.source = PackSource(PrintLinear(program));
//   TD_ASSIGN_OR_RETURN(const std::string text, UnpackSource(kernel.source));
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace tensord {

// What is behind so many bytes is left out, and the last line says so.
inline constexpr size_t kMaxSourceBytes = 1 << 20;

std::string PackSource(std::string_view text);

// Anything may be given: DataLoss if it is not what PackSource made.
absl::StatusOr<std::string> UnpackSource(std::string_view packed);

}  // namespace tensord
