// Where live pictures go.
#pragma once

#include <absl/time/time.h>

#include <functional>
#include <string>

namespace tensord {

// Shows the picture, instead of the last one, for that long; false once nobody looks any more.
using Show = std::function<bool(const std::string& picture, absl::Duration how_long)>;

}  // namespace tensord
