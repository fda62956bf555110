// The rule tables, by subject. All but the last keep every value exactly, floats included
// (docs/numerics.md): no rule adds, loses or moves a rounding, an infinity, a NaN or the sign of a
// zero. So none of x * 0 -> 0, x / x -> 1, (x + a) + b -> x + (a + b) is there for floats.
#pragma once

#include "core/rewrite/rule_set.h"

namespace tensord {

// algebra.cc
const RuleSet& FloatRules();
const RuleSet& IntRules();
// logic.cc: booleans, comparisons, Where
const RuleSet& LogicRules();
// cast.cc
const RuleSet& CastRules();
// constant.cc: what has one known value
const RuleSet& ConstantRules();
// movement.cc: merges neighbours of one kind, removes those that move nothing
const RuleSet& MovementRules();

// All of the above, for scalars and for tensors.
const RuleSet& SimplifyRules();
// What scheduling removes, and the gradient must still see: Detach, Contiguous of Contiguous.
const RuleSet& LowerTensorRules();
// fast_math.cc: what floats would allow if they were real numbers.
const RuleSet& FastMathRules();

}  // namespace tensord
