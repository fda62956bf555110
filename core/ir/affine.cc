#include "core/ir/affine.h"

#include <absl/numeric/int128.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/check.h"

namespace tensord {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t Saturate(absl::int128 value) {
  if (value < kMin) return kMin;
  if (value > kMax) return kMax;
  return static_cast<int64_t>(value);
}

int64_t FloorDiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

bool IsAtomOf(const Node* node, Op op) { return node->op == op && node->src[1]->IsConst(); }

struct Quotient {
  Affine div, mod;
};

Affine Constant(int64_t value) {
  Affine result;
  result.constant = value;
  return result;
}

// x = period * c + (a value in [0, c)) for one period: then both results are linear.
bool InOnePeriod(const Affine& x, int64_t c, Quotient& result) {
  const int64_t q = FloorDiv(x.lo(), c);
  if (x.lo() == kMin || x.hi() == kMax || q != FloorDiv(x.hi(), c)) return false;
  result.div = Constant(q);
  result.mod = x;
  result.mod.constant -= q * c;
  return true;
}

Quotient DivMod(Graph& graph, const Affine& x, int64_t c);

// An atom whose own division folds: (y // d) // c = y // (d c); (y % m) % c = y % c and
// (y % m) // c = (y // c) % (m / c) where c divides m.
bool SingleAtom(Graph& graph, const Affine& x, int64_t c, Quotient& result) {
  if (x.terms.size() != 1 || x.constant != 0 || x.terms[0].coefficient != 1) return false;
  const Node* atom = x.terms[0].atom;
  if (IsAtomOf(atom, Op::kFloorDiv)) {
    const int64_t d = atom->src[1]->Int();
    if (d <= 0 || d > kMax / c) return false;
    result.div = DivMod(graph, ToAffine(atom->src[0]), d * c).div;
    result.mod = x;
    result.mod.Add(result.div, -c);
    // Keep the modulo as an atom of its own unless the quotient is a constant: it bounds better.
    if (!result.div.IsConstant()) {
      result.mod = Affine{};
      result.mod.AddTerm(graph.Intern({.op = Op::kFloorMod, .src = {{atom, graph.Index(c)}}}), 1);
    }
    return true;
  }
  if (IsAtomOf(atom, Op::kFloorMod)) {
    const int64_t m = atom->src[1]->Int();
    if (m <= 0 || m % c != 0) return false;
    const Affine y = ToAffine(atom->src[0]);
    result.mod = DivMod(graph, y, c).mod;
    result.div = DivMod(graph, DivMod(graph, y, c).div, m / c).mod;
    return true;
  }
  return false;
}

// Terms that are multiples of d, and a rest in [0, d), where d divides c: the rest does not matter
// for the quotient.
bool NestedDivisor(Graph& graph, const Affine& x, int64_t c, Quotient& result) {
  for (const Affine::Term& candidate : x.terms) {
    const int64_t d = std::gcd(candidate.coefficient, c);
    if (d <= 1 || d == c) continue;
    Affine multiple, rest;
    for (const Affine::Term& term : x.terms) {
      if (term.coefficient % d == 0) {
        multiple.AddTerm(term.atom, term.coefficient / d);
      } else {
        rest.AddTerm(term.atom, term.coefficient);
      }
    }
    multiple.constant = FloorDiv(x.constant, d);
    rest.constant = FloorMod(x.constant, d);
    if (rest.lo() < 0 || rest.hi() >= d) continue;
    Quotient inner = DivMod(graph, multiple, c / d);
    result.div = inner.div;
    result.mod = inner.mod;
    result.mod.Scale(d);
    result.mod.Add(rest);
    return true;
  }
  return false;
}

void AddAtom(Graph& graph, Op op, const Affine& x, int64_t c, Affine& result) {
  const Node* divisor = graph.Index(c);
  const Node* numerator = FromAffine(graph, x);
  result.AddTerm(graph.Intern({.op = op, .src = {{numerator, divisor}}}), 1);
}

// x = c * multiple + rest; see the call for how the rest is resolved.
Quotient DivMod(Graph& graph, const Affine& x, int64_t c) {
  TD_CHECK(c > 0);
  Quotient result;
  if (c == 1) {
    result.div = x;
    return result;
  }
  if (InOnePeriod(x, c, result)) return result;

  // Take out what is a multiple of c; bring the other coefficients nearest to zero, so that the
  // rest spans as few periods as possible.
  Affine multiple, positive, nearest;
  for (const Affine::Term& term : x.terms) {
    const int64_t r = FloorMod(term.coefficient, c);
    if (term.coefficient - r != 0) multiple.AddTerm(term.atom, FloorDiv(term.coefficient, c));
    if (r != 0) positive.AddTerm(term.atom, r);
  }
  multiple.constant = FloorDiv(x.constant, c);
  positive.constant = FloorMod(x.constant, c);
  Affine nearest_multiple = multiple;
  nearest.constant = positive.constant;
  for (const Affine::Term& term : positive.terms) {
    const bool negate = term.coefficient > c - term.coefficient;
    nearest.AddTerm(term.atom, negate ? term.coefficient - c : term.coefficient);
    if (negate) nearest_multiple.AddTerm(term.atom, 1);
  }
  for (auto* choice : {&positive, &nearest}) {
    const Affine& taken = choice == &positive ? multiple : nearest_multiple;
    if (InOnePeriod(*choice, c, result) || SingleAtom(graph, *choice, c, result) ||
        NestedDivisor(graph, *choice, c, result)) {
      result.div.Add(taken);
      return result;
    }
  }

  Affine rest = positive;
  // A modulo drops inner modulos by a multiple of its own divisor: (f * (y % m)) % c = (f * y) % c
  // where c divides f * m.
  Affine stripped;
  stripped.constant = rest.constant;
  bool stripped_any = false;
  for (const Affine::Term& term : rest.terms) {
    const Node* atom = term.atom;
    if (IsAtomOf(atom, Op::kFloorMod) &&
        (absl::int128(term.coefficient) * atom->src[1]->Int()) % c == 0) {
      stripped.Add(ToAffine(atom->src[0]), term.coefficient);
      stripped_any = true;
    } else {
      stripped.AddTerm(atom, term.coefficient);
    }
  }

  // A common factor of the coefficients and c leaves numerator and divisor.
  const int64_t g = std::gcd(rest.Gcd(), c);
  if (g > 1) {
    Affine reduced;
    for (const Affine::Term& term : rest.terms) reduced.AddTerm(term.atom, term.coefficient / g);
    reduced.constant = FloorDiv(rest.constant, g);
    Quotient inner = DivMod(graph, reduced, c / g);
    result.div = inner.div;
    result.mod = inner.mod;
    result.mod.Scale(g);
    result.mod.constant += FloorMod(rest.constant, g);
  } else {
    AddAtom(graph, Op::kFloorDiv, rest, c, result.div);
    if (stripped_any) {
      result.mod = DivMod(graph, stripped, c).mod;
    } else {
      AddAtom(graph, Op::kFloorMod, rest, c, result.mod);
    }
  }
  result.div.Add(multiple);
  return result;
}

// Whether `div` is y // c: as it stands, or as z // (d c) where y is z // d.
bool IsQuotient(const Node* div, const Node* y, int64_t c) {
  if (!IsAtomOf(div, Op::kFloorDiv)) return false;
  const int64_t divisor = div->src[1]->Int();
  if (div->src[0] == y) return divisor == c;
  return IsAtomOf(y, Op::kFloorDiv) && div->src[0] == y->src[0] &&
         absl::int128(divisor) == absl::int128(y->src[1]->Int()) * c;
}

// a * (y % c) + (a c) * (y // c) = a * y.
bool Recombine(Affine& affine) {
  for (const Affine::Term& mod : affine.terms) {
    if (!IsAtomOf(mod.atom, Op::kFloorMod)) continue;
    const int64_t c = mod.atom->src[1]->Int();
    for (const Affine::Term& div : affine.terms) {
      if (c <= 0 || !IsQuotient(div.atom, mod.atom->src[0], c) ||
          absl::int128(mod.coefficient) * c != absl::int128(div.coefficient)) {
        continue;
      }
      const Affine::Term mod_term = mod, div_term = div;
      affine.AddTerm(mod_term.atom, -mod_term.coefficient);
      affine.AddTerm(div_term.atom, -div_term.coefficient);
      affine.Add(ToAffine(mod_term.atom->src[0]), mod_term.coefficient);
      return true;
    }
  }
  return false;
}

const Node* CompareLess(Graph& graph, const Node* a, const Node* b) {
  Affine difference = ToAffine(a);
  difference.Add(ToAffine(b), -1);
  if (difference.hi() < 0) return graph.Bool(true);
  if (difference.lo() >= 0) return graph.Bool(false);
  // sum < bound; a common factor g leaves: sum / g < ceil(bound / g).
  const int64_t g = difference.Gcd();
  int64_t bound = -difference.constant;
  difference.constant = 0;
  if (g > 1) {
    for (Affine::Term& term : difference.terms) term.coefficient /= g;
    bound = FloorDiv(bound + g - 1, g);
  }
  const Node* left = FromAffine(graph, difference);
  const Node* right = graph.Index(bound);
  return graph.Intern({.op = Op::kCmpLt, .src = {{left, right}}});
}

const Node* CompareEqual(Graph& graph, const Node* a, const Node* b) {
  Affine difference = ToAffine(a);
  difference.Add(ToAffine(b), -1);
  if (difference.IsConstant()) return graph.Bool(difference.constant == 0);
  if (difference.lo() > 0 || difference.hi() < 0) return graph.Bool(false);
  const int64_t g = difference.Gcd();
  int64_t bound = -difference.constant;
  if (bound % g != 0) return graph.Bool(false);
  // The leading coefficient is made positive, so that a = b and b = a are one node.
  const int64_t sign = difference.terms[0].coefficient < 0 ? -g : g;
  difference.constant = 0;
  for (Affine::Term& term : difference.terms) term.coefficient /= sign;
  bound /= sign;
  const Node* left = FromAffine(graph, difference);
  const Node* right = graph.Index(bound);
  return graph.Intern({.op = Op::kCmpEq, .src = {{left, right}}});
}

}  // namespace

int64_t Affine::lo() const {
  absl::int128 sum = constant;
  for (const Term& term : terms) {
    sum += absl::int128(term.coefficient) * (term.coefficient > 0 ? term.atom->lo : term.atom->hi);
  }
  return Saturate(sum);
}

int64_t Affine::hi() const {
  absl::int128 sum = constant;
  for (const Term& term : terms) {
    sum += absl::int128(term.coefficient) * (term.coefficient > 0 ? term.atom->hi : term.atom->lo);
  }
  return Saturate(sum);
}

int64_t Affine::CoefficientOf(const Node* atom) const {
  for (const Term& term : terms) {
    if (term.atom == atom) return term.coefficient;
  }
  return 0;
}

int64_t Affine::Gcd() const {
  int64_t result = 0;
  for (const Term& term : terms) result = std::gcd(result, term.coefficient);
  return result;
}

void Affine::AddTerm(const Node* atom, int64_t coefficient) {
  if (coefficient == 0) return;
  auto place = std::lower_bound(terms.begin(), terms.end(), atom->id,
                                [](const Term& term, uint32_t id) { return term.atom->id < id; });
  if (place != terms.end() && place->atom == atom) {
    place->coefficient += coefficient;
    if (place->coefficient == 0) terms.erase(place);
  } else {
    terms.insert(place, Term{atom, coefficient});
  }
}

void Affine::Add(const Affine& other, int64_t factor) {
  if (factor == 0) return;
  constant += other.constant * factor;
  for (const Term& term : other.terms) AddTerm(term.atom, term.coefficient * factor);
}

void Affine::Scale(int64_t factor) {
  constant *= factor;
  if (factor == 0) terms.clear();
  for (Term& term : terms) term.coefficient *= factor;
}

Affine ToAffine(const Node* node) {
  TD_CHECK(node->dtype == DType::kIndex);
  Affine result;
  // Normal form: Add(Add(term, term), constant), a term being an atom or Mul(atom, constant).
  while (true) {
    if (node->op == Op::kAdd && node->src[1]->IsConst()) {
      result.constant += node->src[1]->Int();
      node = node->src[0];
      continue;
    }
    const Node* term = node->op == Op::kAdd ? node->src[1] : node;
    if (term->IsConst()) {
      result.constant += term->Int();
    } else if (term->op == Op::kMul && term->src[1]->IsConst()) {
      result.AddTerm(term->src[0], term->src[1]->Int());
    } else {
      result.AddTerm(term, 1);
    }
    if (node->op != Op::kAdd) return result;
    node = node->src[0];
  }
}

const Node* FromAffine(Graph& graph, const Affine& affine) {
  const Node* sum = nullptr;
  for (const Affine::Term& term : affine.terms) {
    const Node* product = term.atom;
    if (term.coefficient != 1) {
      product = graph.Intern({.op = Op::kMul, .src = {{term.atom, graph.Index(term.coefficient)}}});
    }
    sum = sum == nullptr ? product : graph.Intern({.op = Op::kAdd, .src = {{sum, product}}});
  }
  if (sum == nullptr) return graph.Index(affine.constant);
  if (affine.constant == 0) return sum;
  return graph.Intern({.op = Op::kAdd, .src = {{sum, graph.Index(affine.constant)}}});
}

void Product::Multiply(Graph& graph, const Node* node) {
  if (node->op == Op::kMul) {
    for (const Node* factor : node->src) Multiply(graph, factor);
    return;
  }
  Affine sum = ToAffine(node);
  if (sum.IsConstant()) {
    constant *= sum.constant;
    return;
  }
  const int64_t common = std::gcd(sum.Gcd(), sum.constant);
  if (common > 1) {
    constant *= common;
    sum.constant /= common;
    for (Affine::Term& term : sum.terms) term.coefficient /= common;
    node = FromAffine(graph, sum);
  }
  factors.insert(std::lower_bound(factors.begin(), factors.end(), node,
                                  [](const Node* a, const Node* b) { return a->id < b->id; }),
                 node);
}

const Node* FromProduct(Graph& graph, const Product& product) {
  if (product.factors.empty() || product.constant == 0) return graph.Index(product.constant);
  const Node* node = product.factors[0];
  for (const Node* factor : absl::MakeConstSpan(product.factors).subspan(1)) {
    node = graph.Intern({.op = Op::kMul, .src = {{node, factor}}});
  }
  Affine scaled = ToAffine(node);
  scaled.Scale(product.constant);
  return FromAffine(graph, scaled);
}

const Node* SimplifyIndexOp(Graph& graph, Op op, const Node* a, const Node* b) {
  switch (op) {
    case Op::kAdd:
    case Op::kSub: {
      Affine sum = ToAffine(a);
      sum.Add(ToAffine(b), op == Op::kAdd ? 1 : -1);
      while (Recombine(sum)) {
      }
      return FromAffine(graph, sum);
    }
    case Op::kNeg: {
      Affine product = ToAffine(a);
      product.Scale(-1);
      return FromAffine(graph, product);
    }
    case Op::kMul: {
      if (a->IsConst()) std::swap(a, b);
      if (!b->IsConst()) {
        Product product;
        product.Multiply(graph, a);
        product.Multiply(graph, b);
        return FromProduct(graph, product);
      }
      Affine product = ToAffine(a);
      product.Scale(b->Int());
      return FromAffine(graph, product);
    }
    case Op::kFloorDiv:
    case Op::kFloorMod: {
      if (!b->IsConst() || b->Int() <= 0) return nullptr;
      Quotient quotient = DivMod(graph, ToAffine(a), b->Int());
      return FromAffine(graph, op == Op::kFloorDiv ? quotient.div : quotient.mod);
    }
    case Op::kCmpLt:
      return CompareLess(graph, a, b);
    case Op::kCmpEq:
      return CompareEqual(graph, a, b);
    case Op::kCmpNe:
      return graph.Make(Op::kXor, {graph.Make(Op::kCmpEq, {a, b}), graph.Bool(true)});
    default:
      return nullptr;
  }
}

}  // namespace tensord
