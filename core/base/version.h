// What this build calls itself: daemon, client and packages. Here and nowhere else.
#pragma once

#include <string_view>

namespace tensord {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace tensord
