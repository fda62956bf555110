// Random cases: tensor graphs from the whole tensor language and from its primitives, over all
// dtypes, with shapes, attributes and overwritten inputs at which a compiler goes wrong. The same
// seed gives the same case.
#pragma once

#include <cstdint>

#include "tests/differential/case.h"

namespace tensord {

Case Generate(uint64_t seed);

}  // namespace tensord
