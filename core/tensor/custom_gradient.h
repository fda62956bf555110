// Derivatives said by hand, and values that are computed again for them instead of being kept.
//
//   Expr y = WithGradient(Floor(x), {x}, [](const Expr& g) { return std::vector{g}; });
//
// A value with a derivative of its own is a node of a session's graph only: what is sent to be
// computed is the value, see CustomGradient::Of.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/tensor/expr.h"

namespace tensord {

// From the gradient that comes in, of the value's shape and dtype, those of the inputs, in theirs.
using GradientRule = std::function<std::vector<Expr>(const Expr& incoming)>;

// `value`, whose derivatives with respect to `inputs` are what the rule makes, and zero with
// respect to anything else, whatever it was made of. Values and inputs are floats. The rule is
// called at once, with a stand-in, and its results can be differentiated again.
Expr WithGradient(const Expr& value, absl::Span<const Expr> inputs, const GradientRule& rule);

// The same for front ends that cannot write the rule as a function of Expr: what the gradients are
// made of in place of the incoming one. No other stand-in is equal to it.
Expr StandIn(const Expr& like);
Expr WithGradient(const Expr& value, absl::Span<const Expr> inputs, const Expr& stand_in,
                  absl::Span<const Expr> gradients);

// Several values that have one rule, which takes and gives all gradients at once.
using GradientsRule = std::function<std::vector<Expr>(absl::Span<const Expr> incoming)>;
std::vector<Expr> WithGradients(absl::Span<const Expr> values, absl::Span<const Expr> inputs,
                                const GradientsRule& rule);

// `results` of a computation that began at `arguments`. Nothing between the two is kept for the
// derivative: when it is needed, the results are computed again from the arguments. Tensors that
// are read on the way without being arguments have derivatives if they are inputs of the program.
std::vector<Expr> Checkpoint(absl::Span<const Expr> results, absl::Span<const Expr> arguments);

// What such a node holds.
struct CustomGradient {
  const Node* value;
  const Node* stand_in;
  std::vector<const Node*> inputs;
  std::vector<const Node*> gradients;

  // Nothing for a node of any other kind.
  static std::optional<CustomGradient> Of(const Node* node);
};
// Whether the node stands for a gradient that comes in: it has no data.
bool IsStandIn(const Node* node);

}  // namespace tensord
