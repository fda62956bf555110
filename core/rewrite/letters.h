// The letters and ops that rules are written in. For .cc files with rule tables:
//   using namespace letters;
#pragma once

#include "core/rewrite/pattern.h"

namespace tensord::letters {

inline constexpr Var x{0, Domain::kAny}, y{1, Domain::kAny}, z{2, Domain::kAny};
inline constexpr Var i{3, Domain::kIndex}, j{4, Domain::kIndex}, k{5, Domain::kIndex};
inline constexpr Var m{6, Domain::kInt}, n{7, Domain::kInt};
inline constexpr Var f{8, Domain::kFloat}, g{9, Domain::kFloat};
inline constexpr Var p{10, Domain::kBool}, q{11, Domain::kBool};
inline constexpr Var c0{12, Domain::kConstant}, c1{13, Domain::kConstant},
    c2{14, Domain::kConstant};

#define TD_UNARY(name) \
  inline Pattern name(const Pattern& a) { return {Op::k##name, {a}}; }
TD_UNARY(Cast)  // on a right side: to the root's dtype
TD_UNARY(Bitcast)
TD_UNARY(Exp)
TD_UNARY(Log)
TD_UNARY(Sin)
TD_UNARY(Sqrt)
TD_UNARY(Trunc)
TD_UNARY(Reshape)  // movement and reductions stand on left sides only: their attribute takes a Call
TD_UNARY(Expand)
TD_UNARY(Permute)
TD_UNARY(Pad)
TD_UNARY(Shrink)
TD_UNARY(Flip)
TD_UNARY(Slide)
TD_UNARY(Unslide)
TD_UNARY(Reduce)
TD_UNARY(Contiguous)
TD_UNARY(Detach)
#undef TD_UNARY

#define TD_BINARY(name) \
  inline Pattern name(const Pattern& a, const Pattern& b) { return {Op::k##name, {a, b}}; }
TD_BINARY(Max)
TD_BINARY(Min)
TD_BINARY(FloorDiv)
TD_BINARY(FloorMod)
TD_BINARY(TruncDiv)
TD_BINARY(TruncMod)
TD_BINARY(CmpLt)
TD_BINARY(CmpEq)
TD_BINARY(CmpNe)
#undef TD_BINARY

inline Pattern Where(const Pattern& condition, const Pattern& a, const Pattern& b) {
  return {Op::kWhere, {condition, a, b}};
}

inline Pattern WithSlope(const Pattern& value, const Pattern& x, const Pattern& slope) {
  return {Op::kWithSlope, {value, x, slope}};
}

// Any op of the set, over these sources.
inline Pattern OneOf(OpSet ops, std::initializer_list<Pattern> src) { return {ops, src}; }
// Any op of the set, whatever its sources.
inline Pattern OneOf(OpSet ops) {
  Pattern pattern(ops, {});
  pattern.any_src = true;
  return pattern;
}

// A right side that needs code.
inline Pattern Call(Rewriter fn) { return Pattern(fn); }

}  // namespace tensord::letters
