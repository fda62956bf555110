// A tensor graph's values by definition: one element after the other, with EvalOp on scalars. Slow
// and obvious; for tests of rules and passes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/ir/eval.h"
#include "core/ir/graph.h"

namespace tensord {

// What the leaves stand for: elements by slot, row-major, and values of variables by name.
struct ReferenceInputs {
  std::map<int64_t, std::vector<Scalar>> params;
  std::map<std::string, int64_t, std::less<>> variables;
};

// The elements of each root, row-major.
std::vector<std::vector<Scalar>> ReferenceEval(absl::Span<const Node* const> roots,
                                               const ReferenceInputs& inputs);

}  // namespace tensord
