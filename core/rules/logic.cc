#include "core/rewrite/letters.h"
#include "core/rules/rules.h"

namespace tensord {
namespace {

using namespace letters;

bool IsBool(const Match& match) { return match.root()->dtype == DType::kBool; }

}  // namespace

// Not is spelled ^ true.
const RuleSet& LogicRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      // name                    from                         to                    when
      // The bool forms of arithmetic become logic.
      {"bool-mul",               p * q,                       p & q},
      {"bool-min",               Min(p, q),                   p & q},
      {"bool-add",               p + q,                       p | q},
      {"bool-max",               Max(p, q),                   p | q},
      {"and-true",               p & 1,                       p},
      {"and-self",               p & p,                       p},
      {"and-not",                p & (p ^ 1),                 0},
      {"and-or",                 p & (p | q),                 p},
      {"and-and",                p & (p & q),                 p & q},
      {"or-true",                p | 1,                       1},
      {"or-false",               p | 0,                       p},
      {"or-self",                p | p,                       p},
      {"or-not",                 p | (p ^ 1),                 1},
      {"or-and",                 p | (p & q),                 p},
      {"or-or",                  p | (p | q),                 p | q},
      {"xor-false",              p ^ 0,                       p},
      {"xor-self",               p ^ p,                       0},
      {"xor-twice",              (p ^ q) ^ q,                 p},

      {"bool-equal",             CmpEq(p, q),                 (p ^ q) ^ 1},
      {"bool-differ",            CmpNe(p, q),                 p ^ q},
      {"bool-less",              CmpLt(p, q),                 (p ^ 1) & q},
      {"less-self",              CmpLt(x, x),                 0},     // also NaN < NaN
      {"int-equal-self",         CmpEq(m, m),                 1},     // not for floats: NaN
      {"int-differ-self",        CmpNe(m, m),                 0},
      {"not-equal",              CmpEq(x, y) ^ 1,             CmpNe(x, y)},
      {"not-differ",             CmpNe(x, y) ^ 1,             CmpEq(x, y)},
      {"number-of-bool-is-0",    CmpEq(Cast(p), 0),           p ^ 1},
      {"number-of-bool-is-1",    CmpEq(Cast(p), 1),           p},
      {"number-of-bool-not-0",   CmpNe(Cast(p), 0),           p},
      {"number-of-bool-not-1",   CmpNe(Cast(p), 1),           p ^ 1},

      {"where-true",             Where(1, x, y),              x},
      {"where-false",            Where(0, x, y),              y},
      {"where-same",             Where(p, x, x),              x},
      {"where-not",              Where(p ^ 1, x, y),          Where(p, y, x)},
      {"where-bool-or",          Where(p, 1, q),              p | q},
      {"where-bool-and",         Where(p, q, 0),              p & q},
      {"where-bool-not",         Where(p, 0, 1),              p ^ 1,                IsBool},
      {"where-same-true",        Where(p, Where(p, x, y), z), Where(p, x, z)},
      {"where-same-false",       Where(p, x, Where(p, y, z)), Where(p, x, z)},
      {"where-both",             Where(p, Where(q, x, y), y), Where(p & q, x, y)},
      {"where-either",           Where(p, x, Where(q, x, y)), Where(p | q, x, y)},
      // Not for floats: Max and Min give NaN for one NaN, and order the zeros.
      {"where-max",              Where(CmpLt(m, n), n, m),    Max(m, n)},
      {"where-min",              Where(CmpLt(m, n), m, n),    Min(m, n)},
      // clang-format on
  };
  return rules;
}

}  // namespace tensord
