#include "core/tensor/custom_gradient.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <atomic>

#include "core/ir/substitute.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/join.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// Stand-ins are inputs with numbers that no session gives.
constexpr int64_t kStandIns = int64_t{1} << 60;

Expr Failed(absl::Span<const Expr> exprs) {
  for (const Expr& x : exprs) {
    if (!x.ok()) return x;
  }
  return exprs[0];
}
bool AllOk(absl::Span<const Expr> exprs) {
  return std::all_of(exprs.begin(), exprs.end(), [](const Expr& x) { return x.ok(); });
}

// Computed no sooner than `after`, and not the same node as x: what is made of it is made again.
Expr Again(const Expr& x, const Expr& after) {
  if (!x.ok()) return x;
  if (!after.ok()) return after;
  // Whether the first element is a number and is none. It never is, but who knows that?
  const Expr first = Reshape(Shrink(Reshape(after, {-1}), 0, 0, 1), {});
  const Expr never = LogicalAnd(Ne(first, first), Eq(first, first));
  return Contiguous(Where(BroadcastTo(never, x.shape()), FullLike(x, 0), x));
}

// Floats that the results depend on: those arguments that do, and the inputs of the program that
// are reached without passing an argument.
std::vector<Expr> Influences(absl::Span<const Expr> results, absl::Span<const Expr> arguments) {
  absl::flat_hash_set<const Node*> seen, ends;
  for (const Expr& argument : arguments) ends.insert(argument.node());
  std::vector<const Node*> stack;
  std::vector<Expr> found;
  for (const Expr& result : results) {
    if (seen.insert(result.node()).second) stack.push_back(result.node());
  }
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    const bool end = ends.contains(node) || node->op == Op::kParam;
    if (end && IsFloat(node->dtype) && !IsStandIn(node)) {
      found.emplace_back(&results[0].graph(), node);
    }
    if (end) continue;
    for (const Node* source : node->src) {
      if (seen.insert(source).second) stack.push_back(source);
    }
  }
  return found;
}

}  // namespace

bool IsStandIn(const Node* node) { return node->op == Op::kParam && node->slot() >= kStandIns; }

Expr StandIn(const Expr& like) {
  static std::atomic<int64_t> serial = 0;  // relaxed: only has to differ
  if (!like.ok()) return like;
  const int64_t slot = kStandIns + serial.fetch_add(1, std::memory_order_relaxed);
  return Expr(&like.graph(), like.graph().Param(slot, like.dtype(), like.shape()));
}

Expr WithGradient(const Expr& value, absl::Span<const Expr> inputs, const Expr& stand_in,
                  absl::Span<const Expr> gradients) {
  if (!value.ok()) return value;
  if (!stand_in.ok()) return stand_in;
  if (!AllOk(inputs)) return Failed(inputs);
  if (!AllOk(gradients)) return Failed(gradients);
  if (inputs.size() != gradients.size()) {
    return Fail(value, "custom gradient: {} gradients for {} inputs", gradients.size(),
                inputs.size());
  }
  if (!IsFloat(value.dtype())) {
    return Fail(value, "custom gradient: the value is {}, only floats have gradients",
                Name(value.dtype()));
  }
  if (!IsStandIn(stand_in.node()) || stand_in.shape() != value.shape() ||
      stand_in.dtype() != value.dtype()) {
    return Fail(value, "custom gradient: the stand-in was not made for this value");
  }
  std::vector<const Node*> parts = {value.node(), stand_in.node()};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!IsFloat(inputs[i].dtype())) {
      return Fail(value, "custom gradient: input {} is {}, only floats have gradients", i,
                  Name(inputs[i].dtype()));
    }
    if (gradients[i].shape() != inputs[i].shape()) {
      return Fail(value, "custom gradient: input {} is {}, its gradient {}", i,
                  ShapeText(inputs[i].shape()), ShapeText(gradients[i].shape()));
    }
    parts.push_back(inputs[i].node());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(Cast(gradients[i], inputs[i].dtype()).node());
  }
  Graph& graph = value.graph();
  return Expr(&graph, graph.TryMake({.op = Op::kCustom, .src = parts, .lanes = 1}));
}

Expr WithGradient(const Expr& value, absl::Span<const Expr> inputs, const GradientRule& rule) {
  if (!value.ok()) return value;
  const Expr stand_in = StandIn(value);
  return WithGradient(value, inputs, stand_in, rule(stand_in));
}

std::vector<Expr> WithGradients(absl::Span<const Expr> values, absl::Span<const Expr> inputs,
                                const GradientsRule& rule) {
  if (!AllOk(values)) return std::vector<Expr>(values.size(), Failed(values));
  if (values.size() == 1) {
    return {WithGradient(values[0], inputs, [&](const Expr& g) { return rule({&g, 1}); })};
  }
  // All in a row are one value.
  std::vector<Expr> flat;
  for (const Expr& value : values) flat.push_back(Reshape(value, {-1}));
  const auto apart = [&](const Expr& row) {
    std::vector<Expr> parts;
    int64_t begin = 0;
    for (const Expr& value : values) {
      const int64_t end = begin + NumElements(value.shape());
      parts.push_back(Cast(Reshape(Shrink(row, 0, begin, end), value.shape()), value.dtype()));
      begin = end;
    }
    return parts;
  };
  return apart(WithGradient(Cat(flat, 0), inputs, [&](const Expr& g) { return rule(apart(g)); }));
}

std::vector<Expr> Checkpoint(absl::Span<const Expr> results, absl::Span<const Expr> arguments) {
  if (!AllOk(results)) return std::vector<Expr>(results.size(), Failed(results));
  if (!AllOk(arguments)) return std::vector<Expr>(results.size(), Failed(arguments));
  std::vector<Expr> floats;
  std::vector<size_t> places;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!IsFloat(results[i].dtype())) continue;
    floats.push_back(results[i]);
    places.push_back(i);
  }
  std::vector<Expr> all(results.begin(), results.end());
  if (floats.empty()) return all;
  const std::vector<Expr> inputs = Influences(floats, arguments);
  if (inputs.empty()) return all;
  Graph& graph = floats[0].graph();

  const auto rule = [&](absl::Span<const Expr> incoming) {
    // In memory, so that its first element is there when all of it is.
    std::vector<Expr> seeds;
    for (const Expr& g : incoming) seeds.push_back(Contiguous(g));
    const Expr* after = nullptr;
    for (const Expr& seed : seeds) {
      if (seed.ok() && NumElements(seed.shape()) > 0) after = &seed;
    }
    ReplacementMap map;
    for (const Expr& argument : arguments) {
      // A constant is no memory to be saved.
      if (after == nullptr || !(argument.node()->below_ops & OpBit(Op::kParam))) continue;
      const Expr again = Again(argument, *after);
      if (!again.ok()) return std::vector<Expr>(inputs.size(), again);
      map[argument.node()] = {again.node()};
    }
    std::vector<const Node*> roots;
    for (const Expr& value : floats) roots.push_back(value.node());
    std::vector<Expr> targets;
    for (const Expr& input : inputs) {
      const auto found = map.find(input.node());
      targets.emplace_back(&graph, found == map.end() ? input.node() : found->second.value);
    }
    std::vector<Expr> sums;
    const std::vector<const Node*> copies = Substitute(graph, roots, map);
    for (size_t i = 0; i < copies.size(); ++i) {
      const std::vector<Expr> gradients = Gradient(Expr(&graph, copies[i]), targets, seeds[i]);
      for (size_t k = 0; k < gradients.size(); ++k) {
        if (i == 0) {
          sums.push_back(gradients[k]);
        } else {
          sums[k] = sums[k] + gradients[k];
        }
      }
    }
    return sums;
  };
  const std::vector<Expr> kept = WithGradients(floats, inputs, rule);
  for (size_t i = 0; i < places.size(); ++i) all[places[i]] = kept[i];
  return all;
}

std::optional<CustomGradient> CustomGradient::Of(const Node* node) {
  if (node->op != Op::kCustom || node->src.size() < 2 || !IsStandIn(node->src[1])) {
    return std::nullopt;
  }
  const auto inputs = node->src.begin() + 2;
  const auto gradients = inputs + static_cast<std::ptrdiff_t>(node->src.size() - 2) / 2;
  return CustomGradient{.value = node->src[0],
                        .stand_in = node->src[1],
                        .inputs = {inputs, gradients},
                        .gradients = {gradients, node->src.end()}};
}

}  // namespace tensord
