// Random cases: tensor graphs from the whole tensor language and from its primitives, over all
// dtypes, with shapes, attributes and overwritten inputs at which a compiler goes wrong. The same
// seed gives the same case.
#pragma once

#include <cstdint>
#include <string_view>

#include "tests/differential/case.h"

namespace tensord {

// What a case is made of.
enum class CaseKind {
  kGraph,     // everything
  kMovement,  // chains of views
  kCasts,     // conversions, on values at which they go wrong
  kDivision,  // division, remainders and shifts of integers, mostly by constants
};
inline constexpr std::string_view kCaseKinds[] = {"graph", "movement", "casts", "division"};

Case Generate(uint64_t seed, CaseKind kind = CaseKind::kGraph);

}  // namespace tensord
