// Z3's verdict where the compiler's own arithmetic can't show that an access of a linear program
// stays within its buffer.
#pragma once

#include <string>

#include "core/ir/linear.h"

namespace tensord {

// "" if Z3 finds no inputs for which a Load or Store is out of bounds, else the first such access,
// with values.
std::string ProveBounds(const LinearProgram& program);

}  // namespace tensord
