// A linear program as text and back: what a target without a compiler keeps as its binary. Below a
// line of numbers it is the form of text.h; the roots are params, variables, then the body in
// order.
//
//   # linear sum_5 grid=2 params=2 variables=0 written=1
//   %0 = Param float32 [10] slot=0
//   ...
//   return %0 %1 %2 %4 %5 %6
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "core/ir/graph.h"
#include "core/ir/linear.h"

namespace tensord {

std::string PrintLinear(const LinearProgram& program);

// Reads what PrintLinear wrote; the nodes are made in `graph`. Anything may be given: errors name
// what is wrong. Whether the nodes are a linear program is for VerifyLinear to say.
absl::StatusOr<LinearProgram> ParseLinear(std::string_view text, Graph& graph);

}  // namespace tensord
