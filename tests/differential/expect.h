// What a compiled graph may give: the reference evaluator's values, each with a bound on how far a
// correct compiler may be off. Sums may be reassociated and contracted (one rounding for a * b +
// c), Exp, Log and Sin may err by a few units in the last place; everything else is exact. The
// bounds are carried through the graph, so that a comparison of two sums that might be equal says
// nothing about its result, and an integer that depends on nothing inexact must be right to the
// bit. A loop's states are followed through its iterations, and are unknown once its condition is.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/rules/reference_eval.h"

namespace tensord {

struct Expected {
  std::vector<Scalar> values;
  std::vector<double> error;  // per element; kUnknown if anything goes
};
inline constexpr double kUnknown = std::numeric_limits<double>::infinity();

std::vector<Expected> Expect(absl::Span<const Node* const> roots, const ReferenceInputs& inputs);

// "" if the values fit, else which element does not.
std::string Compare(absl::Span<const Scalar> actual, const Expected& expected);

}  // namespace tensord
