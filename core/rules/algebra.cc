#include <cmath>

#include "core/rewrite/constant.h"
#include "core/rewrite/letters.h"
#include "core/rules/rules.h"

namespace tensord {
namespace {

using namespace letters;

// x / 2^k is x * 2^-k: both round the same real number, if 2^-k is a number of the type.
const Node* MultiplyByReciprocal(const Match& match) {
  const Scalar divisor = match.Value(c0);
  int exponent = 0;
  if (std::abs(std::frexp(divisor.f, &exponent)) != 0.5) return nullptr;
  const Scalar reciprocal = Scalar::Float(divisor.dtype, 1 / divisor.f);
  if (reciprocal.f != 1 / divisor.f) return nullptr;
  const Node* constant = MakeConstantLike(match.graph(), reciprocal, match.root());
  return match.graph().Make(Op::kMul, {match[f], constant});
}

bool IsIntegral(const Match& match) { return !IsFloat(match[x]->dtype); }

// Bounds are not kept for uint64.
bool HasBounds(const Node* node) {
  return (IsInt(node->dtype) || node->dtype == DType::kIndex) && node->dtype != DType::kUint64;
}
bool AlwaysAtLeast(const Match& match) {
  return HasBounds(match[m]) && match[m]->lo >= match[n]->hi;
}
bool AlwaysAtMost(const Match& match) {
  return HasBounds(match[m]) && match[m]->hi <= match[n]->lo;
}
bool NeitherNegative(const Match& match) {
  return IsUnsigned(match[m]->dtype) || (match[m]->lo >= 0 && match[n]->lo >= 0);
}
// 0 <= m < n.
bool IsRemainder(const Match& match) {
  return HasBounds(match[m]) && match[m]->lo >= 0 && match[m]->hi < match[n]->lo;
}
// m // c0 // c1 is m // (c0 * c1) if the product is still a number of the type.
bool BothPositiveAndProductFits(const Match& match) {
  const int64_t a = match.Int(c0), b = match.Int(c1);
  int64_t product = 0;
  if (a <= 0 || b <= 0 || __builtin_mul_overflow(a, b, &product)) return false;
  return WrapTo(match[m]->dtype, product) == product;
}
// m mod c0 mod c1 is m mod c1.
bool SecondDividesFirst(const Match& match) {
  return match.Int(c0) > 0 && match.Int(c1) > 0 && match.Int(c0) % match.Int(c1) == 0;
}

}  // namespace

const RuleSet& FloatRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      // name                    from                         to                    when
      {"float-mul-one",          f * 1,                       f},
      {"float-mul-minus-one",    f * -1,                      -f},
      {"float-div-one",          f / 1,                       f},
      {"float-div-minus-one",    f / -1,                      -f},
      {"float-div-power-of-two", f / c0,                      Call(MultiplyByReciprocal)},
      {"float-add-minus-zero",   f + -0.0,                    f},     // f + 0 would turn -0 into 0
      {"float-sub-zero",         f - 0,                       f},     // f - -0 would too
      {"float-neg-neg",          -(-f),                       f},
      {"float-add-neg",          f + -g,                      f - g},
      {"float-sub-neg",          f - -g,                      f + g},
      {"float-mul-neg-neg",      -f * -g,                     f * g},
      {"float-div-neg-neg",      -f / -g,                     f / g},
      {"float-max-self",         Max(f, f),                   f},
      {"float-min-self",         Min(f, f),                   f},
      {"trunc-trunc",            Trunc(Trunc(f)),             Trunc(f)},
      {"trunc-of-integer",       Trunc(Cast(x)),              Cast(x),              IsIntegral},
      // clang-format on
  };
  return rules;
}

const RuleSet& IntRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      // name                    from                         to                    when
      {"int-add-zero",           m + 0,                       m},
      {"int-sub-zero",           m - 0,                       m},
      {"int-sub-self",           m - m,                       0},
      {"int-mul-one",            m * 1,                       m},
      {"int-mul-zero",           m * 0,                       0},
      {"int-mul-minus-one",      m * -1,                      -m},
      {"int-neg-neg",            -(-m),                       m},
      {"int-zero-sub",           0 - m,                       -m},
      {"int-add-neg",            m + -n,                      m - n},
      {"int-sub-neg",            m - -n,                      m + n},
      {"int-sub-const",          m - c0,                      m + (0 - c0)},
      {"int-add-sub",            (m + n) - n,                 m},
      {"int-sub-add",            (m - n) + n,                 m},
      {"int-add-consts",         (m + c0) + c1,               m + (c0 + c1)},
      {"int-mul-consts",         (m * c0) * c1,               m * (c0 * c1)},
      {"int-factor",             m * c0 + m * c1,             m * (c0 + c1)},
      {"int-factor-one",         m + m * c0,                  m * (c0 + 1)},

      {"int-max-self",           Max(m, m),                   m},
      {"int-min-self",           Min(m, m),                   m},
      {"int-max-consts",         Max(Max(m, c0), c1),         Max(m, Max(c0, c1))},
      {"int-min-consts",         Min(Min(m, c0), c1),         Min(m, Min(c0, c1))},
      {"int-max-bounds",         Max(m, n),                   m,                    AlwaysAtLeast},
      {"int-min-bounds",         Min(m, n),                   m,                    AlwaysAtMost},

      {"floor-div-one",          FloorDiv(m, 1),              m},
      {"floor-mod-one",          FloorMod(m, 1),              0},
      {"trunc-div-one",          TruncDiv(m, 1),              m},
      {"trunc-mod-one",          TruncMod(m, 1),              0},
      {"zero-floor-div",         FloorDiv(0, m),              0},
      {"zero-floor-mod",         FloorMod(0, m),              0},
      {"zero-trunc-div",         TruncDiv(0, m),              0},
      {"zero-trunc-mod",         TruncMod(0, m),              0},
      {"floor-mod-bounds",       FloorMod(m, n),              m,                    IsRemainder},
      {"trunc-mod-bounds",       TruncMod(m, n),              m,                    IsRemainder},
      {"floor-div-div",          FloorDiv(FloorDiv(m, c0), c1), FloorDiv(m, c0 * c1), BothPositiveAndProductFits},
      {"trunc-div-div",          TruncDiv(TruncDiv(m, c0), c1), TruncDiv(m, c0 * c1), BothPositiveAndProductFits},
      {"floor-mod-mod",          FloorMod(FloorMod(m, c0), c1), FloorMod(m, c1),    SecondDividesFirst},
      {"trunc-mod-mod",          TruncMod(TruncMod(m, c0), c1), TruncMod(m, c1),    SecondDividesFirst},
      // Machines divide towards zero.
      {"floor-div-natural",      FloorDiv(m, n),              TruncDiv(m, n),       NeitherNegative},
      {"floor-mod-natural",      FloorMod(m, n),              TruncMod(m, n),       NeitherNegative},

      {"int-and-self",           m & m,                       m},
      {"int-and-zero",           m & 0,                       0},
      {"int-and-ones",           m & -1,                      m},
      {"int-and-consts",         (m & c0) & c1,               m & (c0 & c1)},
      {"int-or-self",            m | m,                       m},
      {"int-or-zero",            m | 0,                       m},
      {"int-or-ones",            m | -1,                      -1},
      {"int-or-consts",          (m | c0) | c1,               m | (c0 | c1)},
      {"int-xor-self",           m ^ m,                       0},
      {"int-xor-zero",           m ^ 0,                       m},
      {"int-xor-twice",          (m ^ n) ^ n,                 m},
      {"int-xor-consts",         (m ^ c0) ^ c1,               m ^ (c0 ^ c1)},
      {"shl-zero",               m << 0,                      m},
      {"shr-zero",               m >> 0,                      m},
      // clang-format on
  };
  return rules;
}

}  // namespace tensord
