#include "tests/differential/index_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "core/ir/index_space.h"
#include "core/ir/linear.h"
#include "core/ir/text.h"
#include "core/rules/bounds.h"
#include "tests/differential/prove.h"

namespace tensord {

std::string CheckIndex(uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Graph graph;
  IndexSpace space(graph, random);
  const IndexSpace::Expression index = space.Random(1 + static_cast<int>(seed % 5));

  // Up to three conditions, some of them negated.
  constexpr Op kConditions[] = {Op::kCmpLt, Op::kCmpLt, Op::kCmpEq, Op::kCmpNe};
  bool exact = true;  // the claim says all that the gate does
  IndexSpace::Expression gate = {graph.Bool(true), IndexSpace::Values(space.points(), 1), "true"};
  for (size_t i = random() % 4; i > 0; --i) {
    const IndexSpace::Expression a = random() % 2 == 0 ? space.Leaf() : space.Random(2);
    const IndexSpace::Expression b = space.Constant(static_cast<int64_t>(random() % 13) - 4);
    const Op op = kConditions[random() % 4];
    const bool negated = random() % 4 == 0;
    IndexSpace::Expression condition =
        random() % 2 == 0 ? space.Combine(op, a, b) : space.Combine(op, b, a);
    exact &= op == Op::kCmpLt || (op == Op::kCmpEq && !negated);
    if (negated) {
      const IndexSpace::Expression yes = {graph.Bool(true), IndexSpace::Values(space.points(), 1),
                                          "true"};
      condition = space.Combine(Op::kXor, condition, yes);
    }
    gate = space.Combine(Op::kAnd, gate, condition);
  }
  for (const IndexSpace::Expression& expression : {index, gate}) {
    if (std::string problem = space.Problem(expression); !problem.empty()) return problem;
  }

  int64_t least = 0, most = -1;
  bool reached = false;
  for (size_t p = 0; p < space.points(); ++p) {
    if (gate.values[p] == 0) continue;
    least = reached ? std::min(least, index.values[p]) : index.values[p];
    most = reached ? std::max(most, index.values[p]) : index.values[p];
    reached = true;
  }
  // Just large enough, or one element too small.
  const int64_t elements = std::max<int64_t>(most + (random() % 4 == 0 ? 0 : 1), 1);
  const bool inside = !reached || (least >= 0 && most < elements);
  const Node* param = graph.Param(0, DType::kFloat32, {elements});
  const Node* load = graph.Make(Op::kLoad, {param, index.node, gate.node});
  LinearProgram program;
  program.name = "index";
  program.params = {param};
  program.written = {false};
  program.body = TopologicalOrder({load});
  const auto text = [&] {
    return fmt::format("{} in [0, {}) where {}; its values are {} to {}\n{}", index.text, elements,
                       gate.text, least, most, Print({load}));
  };
  const bool proven = UnprovenAccesses(program).empty();
  if (proven && !inside) return "proven, but it is false: " + text();
  const std::string counterexample = ProveBounds(program);
  // Z3 may give up, but may not find what isn't there.
  if (inside && exact && !counterexample.empty()) {
    return "Z3 has a counterexample to what is true: " + counterexample + "; " + text();
  }
  return "";
}

}  // namespace tensord
