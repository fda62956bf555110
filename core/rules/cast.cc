#include "core/rewrite/letters.h"
#include "core/rules/rules.h"

namespace tensord {
namespace {

using namespace letters;

bool IsIntegral(DType dtype) { return !IsFloat(dtype); }

bool ChangesNothing(const Match& match) { return match[x]->dtype == match.root()->dtype; }

// A cast a -> b -> c is a -> c where b holds every value of a. But an integer that passes through a
// float would saturate at c, and directly it wraps: then c must hold all of a too.
bool MiddleIsLossless(const Match& match) {
  const DType a = match[x]->dtype, b = match.root()->src[0]->dtype, c = match.root()->dtype;
  if (!IsLosslessCast(a, b)) return false;
  if (IsIntegral(a) && IsFloat(b) && IsIntegral(c)) return IsLosslessCast(a, c);
  return true;
}

// Integers wrap modulo 2^bits, so a wider stop on the way does not matter.
bool OnlyWraps(const Match& match) {
  const DType a = match[x]->dtype, b = match.root()->src[0]->dtype, c = match.root()->dtype;
  const auto wraps = [](DType d) { return IsInt(d) || d == DType::kIndex; };
  return wraps(a) && wraps(b) && wraps(c) && BitSize(c) <= BitSize(b);
}

// The bounds say that the integer in the middle holds this value.
bool FitsTheMiddle(const Match& match) {
  const DType a = match[x]->dtype, b = match.root()->src[0]->dtype;
  if (!IsInt(a) || a == DType::kUint64 || !IsInt(b)) return false;
  if (match[x]->lo < IntMin(b)) return false;
  return b == DType::kUint64 || match[x]->hi <= IntMax(b);
}

// Not through a float, where all NaNs become one, nor through bool, where all numbers do.

const Node* BitcastOnce(const Match& match) {
  if (!IsInt(match.root()->src[0]->dtype)) return nullptr;
  const DType dtype = match.root()->dtype;
  if (match[x]->dtype == dtype) return match[x];
  return match.graph().Make({.op = Op::kBitcast, .src = {match[x]}, .dtype = dtype});
}

}  // namespace

const RuleSet& CastRules() {
  static const RuleSet& rules = *new RuleSet{
      // clang-format off
      // name                    from                         to                    when
      {"cast-to-same",           Cast(x),                     x,                    ChangesNothing},
      {"cast-lossless-middle",   Cast(Cast(x)),               Cast(x),              MiddleIsLossless},
      {"cast-wrapping",          Cast(Cast(x)),               Cast(x),              OnlyWraps},
      {"cast-bounded",           Cast(Cast(x)),               Cast(x),              FitsTheMiddle},
      {"bitcast-to-same",        Bitcast(x),                  x,                    ChangesNothing},
      {"bitcast-bitcast",        Bitcast(Bitcast(x)),         Call(BitcastOnce)},
      // clang-format on
  };
  return rules;
}

}  // namespace tensord
