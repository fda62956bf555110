#include "core/rules/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace tensord {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
// Sums with larger numbers are left alone, so that nothing overflows.
constexpr int64_t kMaxCoefficient = int64_t{1} << 28;
constexpr int64_t kMaxConstant = int64_t{1} << 33;

bool IsSmall(const Affine& sum) {
  return std::abs(sum.constant) < kMaxConstant &&
         std::all_of(sum.terms.begin(), sum.terms.end(), [](const Affine::Term& term) {
           return term.coefficient > -kMaxCoefficient && term.coefficient < kMaxCoefficient;
         });
}

Affine Constant(int64_t value) {
  Affine sum;
  sum.constant = value;
  return sum;
}

// a - b + constant
Affine Difference(Affine a, const Affine& b, int64_t constant = 0) {
  a.Add(b, -1);
  a.constant += constant;
  return a;
}

bool IsIntegral(DType dtype) {
  return IsInt(dtype) || dtype == DType::kBool || dtype == DType::kIndex;
}

bool Same(const Affine& a, const Affine& b) {
  return a.constant == b.constant &&
         std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
                    [](const Affine::Term& x, const Affine::Term& y) {
                      return x.atom == y.atom && x.coefficient == y.coefficient;
                    });
}

// Shows that a sum is not positive, given others that are not: subtracts positive multiples of
// those so that one atom after the other goes, until the atoms' intervals tell. On the way the sum
// is scaled up; as it is an integer, scale * sum < scale is enough.
class Elimination {
 public:
  explicit Elimination(const std::vector<Affine>& not_positive)
      : not_positive_(not_positive), used_(not_positive.size()) {}

  bool NotPositive(const Affine& sum, int64_t scale = 1) {
    if (sum.hi() < scale) return true;
    if (!IsSmall(sum) || scale > kMaxCoefficient || ++steps_ > kMaxSteps) return false;
    for (size_t i = 0; i < not_positive_.size(); ++i) {
      if (used_[i]) continue;
      const Affine& given = not_positive_[i];
      for (const Affine::Term& term : given.terms) {
        const int64_t mine = sum.CoefficientOf(term.atom);
        if (mine == 0 || (mine > 0) != (term.coefficient > 0) || !IsSmall(given)) continue;
        const int64_t common = std::gcd(mine, term.coefficient);
        const int64_t factor = std::abs(term.coefficient / common);
        Affine rest = sum;
        rest.Scale(factor);
        rest.Add(given, -std::abs(mine / common));
        used_[i] = true;
        const bool done = NotPositive(rest, scale * factor);
        used_[i] = false;
        if (done) return true;
      }
    }
    return false;
  }

 private:
  static constexpr int kMaxSteps = 300;
  const std::vector<Affine>& not_positive_;
  std::vector<bool> used_;
  int steps_ = 0;
};

}  // namespace

namespace {

// Whether a Cast keeps the number: always, by the bounds of what is cast, or because it is none
// that the compiler reasons about.
bool KeepsValue(const Node& cast) {
  const Node& from = *cast.src[0];
  if (!IsIntegral(from.dtype) || !IsIntegral(cast.dtype)) return false;
  if (cast.dtype == DType::kIndex || IsLosslessCast(from.dtype, cast.dtype)) return true;
  return from.dtype != DType::kUint64 && cast.dtype != DType::kUint64 &&
         from.lo >= IntMin(cast.dtype) && from.hi <= IntMax(cast.dtype);
}

}  // namespace

int64_t AccessReader::Lanes(const Node* access) {
  return access->op == Op::kLoad ? access->lanes : access->src[2]->lanes;
}

AccessClaim AccessReader::Claim(const Node* access, int64_t lane) {
  const size_t gate = access->op == Op::kLoad ? 2 : 3;
  AccessClaim claim;
  claim.elements = access->src[0]->ints[1];
  const Node* index = access->src[1];
  claim.index = Value(index, index->lanes == 1 ? 0 : lane);
  if (index->lanes == 1) claim.index.constant += lane;
  if (access->src.size() > gate) {
    const Node* open = access->src[gate];
    claim.reachable = Include(open, open->lanes == 1 ? 0 : lane, false, claim.not_positive);
  }
  return claim;
}

Affine AccessReader::Value(const Node* node, int64_t lane) {
  const auto src = [&](int i) { return node->src[i]; };
  switch (node->op) {
    case Op::kConst:
      return Constant(node->Int());
    case Op::kBroadcast:
      return Value(src(0), 0);
    case Op::kRamp:
      return Constant(lane);
    case Op::kStack:
      return Value(src(static_cast<int>(lane)), 0);
    case Op::kExtract:
      return Value(src(0), node->slot());
    case Op::kCast:
      if (KeepsValue(*node)) return Value(src(0), lane);
      break;
    default:
      break;
  }
  if (node->dtype == DType::kIndex) {  // never overflows
    switch (node->op) {
      case Op::kAdd:
      case Op::kSub: {
        Affine sum = Value(src(0), lane);
        sum.Add(Value(src(1), lane), node->op == Op::kAdd ? 1 : -1);
        return sum;
      }
      case Op::kNeg:
      case Op::kMul: {
        Affine product = Value(src(0), lane);
        Affine factor = node->op == Op::kNeg ? Constant(-1) : Value(src(1), lane);
        if (product.IsConstant()) std::swap(product, factor);
        if (!factor.IsConstant()) break;
        product.Scale(factor.constant);
        return product;
      }
      default:
        break;
    }
  }
  Affine sum;
  sum.AddTerm(Atom(node, lane), 1);
  return sum;
}

const Node* AccessReader::Atom(const Node* node, int64_t lane) {
  if (const auto found = atoms_.find({node, lane}); found != atoms_.end()) return found->second;
  int64_t lo = kMin, hi = kMax;
  if (IsIntegral(node->dtype) && node->dtype != DType::kUint64) {
    lo = node->lo;
    hi = node->hi;
  }
  if (node->op == Op::kGridIndex) {
    lo = 0;
    hi = program_.grid - 1;
  }
  Place place = {};
  // What a kernel doesn't write is the same wherever it is read.
  if (node->op == Op::kLoad && node->src.size() == 2 &&
      !program_.written[static_cast<size_t>(node->src[0]->slot())]) {
    place = {node->src[0], Value(node->src[1], 0), nullptr};
    place.index.constant += lane;
    for (const Place& known : loads_) {
      if (known.param == place.param && Same(known.index, place.index)) {
        return atoms_[{node, lane}] = known.atom;
      }
    }
  }
  const Node* atom = graph_.Variable(fmt::format("a{}", atoms_.size()), lo, hi, DType::kIndex);
  atoms_[{node, lane}] = atom;
  if (place.param != nullptr) {
    place.atom = atom;
    loads_.push_back(std::move(place));
  }
  constexpr OpSet kDefined =
      OpBit(Op::kFloorDiv) | OpBit(Op::kFloorMod) | OpBit(Op::kMax) | OpBit(Op::kMin);
  if (node->dtype == DType::kIndex && In(node->op, kDefined)) {
    Definition definition = {node->op, Value(node->src[0], lane), Value(node->src[1], lane)};
    definitions_[atom] = std::move(definition);
  } else if (node->op == Op::kRange && !node->src.empty()) {
    Definition definition = {Op::kRange, Value(node->src[0], 0), Affine()};
    definitions_[atom] = std::move(definition);
  }
  return atom;
}

const AccessReader::Definition* AccessReader::DefinitionOf(const Node* atom) const {
  const auto found = definitions_.find(atom);
  return found == definitions_.end() ? nullptr : &found->second;
}

bool AccessReader::Include(const Node* gate, int64_t lane, bool negated,
                           std::vector<Affine>& not_positive) {
  switch (gate->op) {
    case Op::kConst:
      return (gate->Int() != 0) != negated;
    case Op::kBroadcast:
      return Include(gate->src[0], 0, negated, not_positive);
    case Op::kStack:
      return Include(gate->src[static_cast<size_t>(lane)], 0, negated, not_positive);
    case Op::kExtract:
      return Include(gate->src[0], gate->slot(), negated, not_positive);
    case Op::kXor:
      for (const size_t s : {0, 1}) {
        const Node* constant = gate->src[s];
        if (constant->op == Op::kBroadcast) constant = constant->src[0];
        if (!constant->IsConst()) continue;
        return Include(gate->src[1 - s], lane, negated != (constant->Int() != 0), not_positive);
      }
      return true;
    case Op::kAnd:
    case Op::kOr:
    case Op::kMul:
    case Op::kAdd:
    case Op::kMin:
    case Op::kMax: {
      const bool both = gate->op == Op::kAnd || gate->op == Op::kMul || gate->op == Op::kMin;
      if (both == negated) return true;  // one of two, which nothing is made of
      const bool first = Include(gate->src[0], lane, negated, not_positive);
      return Include(gate->src[1], lane, negated, not_positive) && first;
    }
    case Op::kCmpLt:
    case Op::kCmpEq:
      if (IsIntegral(gate->src[0]->dtype)) IncludeComparison(gate, lane, negated, not_positive);
      return true;
    default:
      return true;
  }
}

void AccessReader::IncludeComparison(const Node* comparison, int64_t lane, bool negated,
                                     std::vector<Affine>& not_positive) {
  const Affine a = Value(comparison->src[0], lane), b = Value(comparison->src[1], lane);
  // An atom for a uint64 stands for its bits as an int64.
  if (comparison->src[0]->dtype == DType::kUint64) {
    if (comparison->op != Op::kCmpLt || negated || !b.IsConstant() || b.constant < 0) return;
    not_positive.push_back(Difference(Constant(0), a));
  }
  if (comparison->op == Op::kCmpLt) {
    not_positive.push_back(negated ? Difference(b, a) : Difference(a, b, 1));
  } else if (!negated) {
    not_positive.push_back(Difference(a, b));
    not_positive.push_back(Difference(b, a));
  }
}

namespace {

// Sums that are never positive because an atom is what it is.
void AddFacts(const AccessReader& reader, const Node* atom, std::vector<Affine>& not_positive) {
  const AccessReader::Definition* definition = reader.DefinitionOf(atom);
  if (definition == nullptr) return;
  const auto& [op, a, b] = *definition;
  Affine self;
  self.AddTerm(atom, 1);
  if (op == Op::kRange) {
    not_positive.push_back(Difference(self, a, 1));
  } else if (op == Op::kMax || op == Op::kMin) {
    for (const Affine* operand : {&a, &b}) {
      not_positive.push_back(op == Op::kMax ? Difference(*operand, self)
                                            : Difference(self, *operand));
    }
  } else if (b.IsConstant() && b.constant > 0) {
    if (op == Op::kFloorDiv) {  // 0 <= a - self * b < b
      self.Scale(b.constant);
      not_positive.push_back(Difference(self, a));
      not_positive.push_back(Difference(a, self, 1 - b.constant));
    } else if (a.lo() >= 0) {
      not_positive.push_back(Difference(self, a));
    }
  }
}

}  // namespace

bool Proves(const AccessReader& reader, const AccessClaim& claim) {
  if (!claim.reachable) return true;
  const Affine below = Difference(Constant(0), claim.index);
  const Affine above = Difference(claim.index, Constant(claim.elements - 1));
  if (below.hi() <= 0 && above.hi() <= 0) return true;
  std::vector<Affine> given = claim.not_positive;
  std::vector<const Node*> atoms;
  const auto add_atoms = [&](const Affine& sum) {
    for (const Affine::Term& term : sum.terms) {
      if (std::find(atoms.begin(), atoms.end(), term.atom) != atoms.end()) continue;
      atoms.push_back(term.atom);
    }
  };
  add_atoms(claim.index);
  for (const Affine& sum : given) add_atoms(sum);
  for (size_t i = 0; i < atoms.size(); ++i) {
    const size_t first = given.size();
    AddFacts(reader, atoms[i], given);
    for (size_t g = first; g < given.size(); ++g) add_atoms(given[g]);
  }
  if (Elimination(given).NotPositive(below) && Elimination(given).NotPositive(above)) return true;
  // Anything holds behind a gate that is never open.
  return std::any_of(claim.not_positive.begin(), claim.not_positive.end(), [&](const Affine& sum) {
    return Elimination(given).NotPositive(Difference(Constant(1), sum));
  });
}

std::vector<const Node*> UnprovenAccesses(const LinearProgram& program) {
  AccessReader reader(program);
  std::vector<const Node*> unproven;
  for (const Node* node : program.body) {
    if (node->op != Op::kLoad && node->op != Op::kStore) continue;
    bool proven = true;
    for (int64_t lane = 0; proven && lane < AccessReader::Lanes(node); ++lane) {
      proven = Proves(reader, reader.Claim(node, lane));
    }
    if (!proven) unproven.push_back(node);
  }
  return unproven;
}

}  // namespace tensord
