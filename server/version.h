// What this build calls itself.
#pragma once

#include <string_view>

namespace tensord {

inline constexpr std::string_view kServerVersion = "0.1.0";

}  // namespace tensord
