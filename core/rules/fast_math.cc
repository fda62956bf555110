#include "core/rewrite/letters.h"
#include "core/rules/rules.h"

namespace tensord {

using namespace letters;

// For programs that ask for it. Each row says what it forgets: NaN and infinities where a number
// becomes constant, the order of roundings where constants meet, the sign of zero in sums.
const RuleSet& FastMathRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      // name                    from                         to
      {"fast-mul-zero",          f * 0,                       0},           // inf, NaN, -0
      {"fast-sub-self",          f - f,                       0},           // inf, NaN
      {"fast-div-self",          f / f,                       1},           // 0, inf, NaN
      {"fast-zero-div",          0 / Pattern(f),              0},           // 0, NaN, -0
      {"fast-add-zero",          f + 0,                       f},           // -0
      {"fast-div-const",         f / c0,                      f * (1 / Pattern(c0))},  // rounding
      {"fast-add-sub",           (f + g) - g,                 f},           // rounding, inf, NaN
      {"fast-sub-add",           (f - g) + g,                 f},           // likewise
      {"fast-mul-div",           (f * g) / g,                 f},           // likewise, and 0
      {"fast-add-consts",        (f + c0) + c1,               f + (c0 + c1)},  // rounding
      {"fast-sub-consts",        (f - c0) - c1,               f - (c0 + c1)},  // rounding
      {"fast-mul-consts",        (f * c0) * c1,               f * (c0 * c1)},  // rounding, overflow
      {"fast-factor",            f * c0 + f * c1,             f * (c0 + c1)},  // rounding
      {"fast-factor-one",        f + f * c0,                  f * (c0 + 1)},   // rounding
      {"fast-factor-left",       f * g + f * x,               f * (g + Pattern(x))},  // rounding
      // clang-format on
  };
  return rules;
}

}  // namespace tensord
