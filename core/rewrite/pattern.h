// Pattern: one side of a rewrite rule, a plain value built by operators over letters.
//
//   using namespace letters;                    // letters.h: x y z m n f p c0 ..., Where, FloorDiv
//   ... Pattern from = Where(p, m + 0, n);          // 0 matches a constant of that value
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/ir/eval.h"
#include "core/ir/node.h"

namespace tensord {

class Match;

// What a letter may stand for.
enum class Domain : uint8_t {
  kAny,
  kIndex,  // index integers: bounded, they never overflow
  kInt,    // integers that wrap
  kFloat,
  kBool,
  kConstant,  // a constant of any dtype, see ConstantOf
};

// A letter. It binds the first node that it meets, and afterwards matches only that node.
struct Var {
  uint8_t slot;
  Domain domain;
};
inline constexpr int kMaxVars = 16;

// Computes a right side; null: the rule does not apply.
using Rewriter = const Node* (*)(const Match&);

struct Pattern {
  enum class Kind : uint8_t { kVar, kInt, kFloat, kOp, kCall };

  Kind kind = Kind::kVar;
  Var var = {};
  int64_t int_value = 0;
  double float_value = 0;
  OpSet ops;             // as a mask; one alone on a right side
  bool any_src = false;  // whatever the sources are; `src` is empty then
  std::vector<Pattern> src;
  Rewriter call = nullptr;

  Pattern(Var letter) : kind(Kind::kVar), var(letter) {}             // NOLINT: implicit
  Pattern(int value) : kind(Kind::kInt), int_value(value) {}         // NOLINT: implicit
  Pattern(double value) : kind(Kind::kFloat), float_value(value) {}  // NOLINT: implicit
  Pattern(Op op, std::initializer_list<Pattern> sources)
      : kind(Kind::kOp), ops(OpBit(op)), src(sources) {}
  Pattern(OpSet op_set, std::initializer_list<Pattern> sources)
      : kind(Kind::kOp), ops(op_set), src(sources) {}
  explicit Pattern(Rewriter fn) : kind(Kind::kCall), call(fn) {}

  bool IsLiteral() const { return kind == Kind::kInt || kind == Kind::kFloat; }
  // Literal only: its value in a dtype. Integers wrap, so that -1 is all ones in an unsigned type.
  Scalar ValueIn(DType dtype) const {
    if (kind == Kind::kFloat) return Scalar::Of(dtype, float_value);
    if (IsFloat(dtype)) return Scalar::Float(dtype, static_cast<double>(int_value));
    return Scalar::Int(dtype, int_value);
  }
};

inline Pattern operator+(const Pattern& a, const Pattern& b) { return {Op::kAdd, {a, b}}; }
inline Pattern operator-(const Pattern& a, const Pattern& b) { return {Op::kSub, {a, b}}; }
inline Pattern operator*(const Pattern& a, const Pattern& b) { return {Op::kMul, {a, b}}; }
inline Pattern operator/(const Pattern& a, const Pattern& b) { return {Op::kDiv, {a, b}}; }
inline Pattern operator&(const Pattern& a, const Pattern& b) { return {Op::kAnd, {a, b}}; }
inline Pattern operator|(const Pattern& a, const Pattern& b) { return {Op::kOr, {a, b}}; }
inline Pattern operator^(const Pattern& a, const Pattern& b) { return {Op::kXor, {a, b}}; }
inline Pattern operator<<(const Pattern& a, const Pattern& b) { return {Op::kShl, {a, b}}; }
inline Pattern operator>>(const Pattern& a, const Pattern& b) { return {Op::kShr, {a, b}}; }
inline Pattern operator-(const Pattern& a) { return {Op::kNeg, {a}}; }

}  // namespace tensord
