// Makes a failing case smaller for as long as it fails.
#pragma once

#include <functional>

#include "tests/differential/case.h"

namespace tensord {

// The smallest case found for which `fails` holds; it holds for `test`. Tries at most `budget`
// cases.
Case Shrink(const Case& test, const std::function<bool(Case&)>& fails, int budget = 600);

}  // namespace tensord
