#include "tests/differential/prove.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <z3++.h>

#include "core/ir/text.h"
#include "core/rules/bounds.h"

namespace tensord {
namespace {

class Prover {
 public:
  explicit Prover(const AccessReader& reader) : reader_(reader), solver_(context_) {
    z3::params params(context_);
    params.set("rlimit", 200'000u);  // less than a second, and the same on every machine
    solver_.set(params);
  }

  // A counterexample; "" if there is none, or none was found.
  std::string Prove(const AccessClaim& claim) {
    const z3::expr index = Sum(claim.index);
    for (const Affine& sum : claim.not_positive) solver_.add(Sum(sum) <= 0);
    // A chain of a hundred views makes an index that keeps Z3 busy for minutes.
    constexpr size_t kMaxAtoms = 60;
    if (atoms_.size() > kMaxAtoms) return "";
    solver_.add(index < 0 || index >= Number(claim.elements));
    if (solver_.check() != z3::sat) return "";
    const z3::model model = solver_.get_model();
    std::string text = "index " + model.eval(index, true).to_string() + " of " +
                       std::to_string(claim.elements) + " where";
    for (const auto& [atom, value] : atoms_) {
      text += fmt::format(" {}={}", atom->text, model.eval(value, true).to_string());
    }
    return text;
  }

 private:
  z3::expr Number(int64_t value) { return context_.int_val(value); }

  z3::expr Sum(const Affine& sum) {
    z3::expr result = Number(sum.constant);
    for (const Affine::Term& term : sum.terms) {
      result = result + Number(term.coefficient) * Atom(term.atom);
    }
    return result;
  }

  z3::expr Atom(const Node* atom) {
    if (const auto found = atoms_.find(atom); found != atoms_.end()) return found->second;
    const z3::expr value = context_.int_const(std::string(atom->text).c_str());
    atoms_.emplace(atom, value);
    solver_.add(value >= Number(atom->lo) && value <= Number(atom->hi));
    if (const AccessReader::Definition* definition = reader_.DefinitionOf(atom)) {
      const z3::expr a = Sum(definition->a), b = Sum(definition->b);
      switch (definition->op) {
        case Op::kRange:
          solver_.add(value < a);
          break;
        case Op::kMax:
          solver_.add(value == z3::max(a, b));
          break;
        case Op::kMin:
          solver_.add(value == z3::min(a, b));
          break;
        case Op::kFloorDiv:  // Z3's remainder is never negative, so for b > 0 these are floors
          solver_.add(z3::implies(b > 0, value == a / b));
          break;
        case Op::kFloorMod:
          solver_.add(z3::implies(b > 0, value == z3::mod(a, b)));
          break;
        default:
          break;
      }
    }
    return value;
  }

  const AccessReader& reader_;
  z3::context context_;
  z3::solver solver_;
  absl::flat_hash_map<const Node*, z3::expr> atoms_;
};

}  // namespace

std::string ProveBounds(const LinearProgram& program) {
  AccessReader reader(program);
  for (const Node* access : UnprovenAccesses(program)) {
    for (int64_t lane = 0; lane < AccessReader::Lanes(access); ++lane) {
      const AccessClaim claim = reader.Claim(access, lane);
      if (Proves(reader, claim)) continue;
      const std::string problem = Prover(reader).Prove(claim);
      if (!problem.empty()) {
        return fmt::format("kernel '{}': lane {} may be out of bounds: {}: {}", program.name, lane,
                           PrintNode(access), problem);
      }
    }
  }
  return "";
}

}  // namespace tensord
