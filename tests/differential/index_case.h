// One random index expression, and what is proven about an access at it, against all its values.
#pragma once

#include <cstdint>
#include <string>

namespace tensord {

// "" if all is well, else what is wrong with the smallest expression: the normal form has other
// values, an interval is too narrow, or an access is taken to be in bounds that isn't.
std::string CheckIndex(uint64_t seed);

}  // namespace tensord
