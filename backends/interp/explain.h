// Where a node comes from, for a person: the node, and what it computes as an expression over the
// loops, variables and loads below it with the values that they have.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/ir/eval.h"
#include "core/ir/node.h"

namespace tensord::interp {

// "%12 = Load float32 %1 %9; index = 8*r0 + r1 - 1, where r0=2, r1=0". `value_of` gives the present
// value of a node, if it has one.
std::string Explain(const Node* node,
                    const std::function<std::optional<Scalar>(const Node*)>& value_of);

}  // namespace tensord::interp
