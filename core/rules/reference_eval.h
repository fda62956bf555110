// A tensor graph's values by definition: one element after the other, with EvalOp on scalars. Slow
// and obvious; for tests of rules and passes.
#pragma once

#include <absl/functional/function_ref.h>

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

// One node's elements from those of its operands. No loop's, and no kernel's that a user wrote.
using ValuesOf = absl::FunctionRef<const std::vector<Scalar>&(const Node*)>;
std::vector<Scalar> ReferenceEvalNode(const Node& node, ValuesOf of, const ReferenceInputs& inputs);

}  // namespace tensord
