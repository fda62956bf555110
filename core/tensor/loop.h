// Loops with carried state that run on the device, however often their body is to run:
//
//   // x -> 2x until it is above 100
//   std::vector<Expr> last = WhileLoop({x}, [](Span<const Expr> s) { return Lt(s[0], 100); },
//                                      [](Span<const Expr> s) { return {s[0] * 2}; });
//
// The functions are called once, on stand-ins for the state as an iteration finds it; what they
// return is the graph of the body. Other tensors may be used freely inside: what does not depend on
// the state is computed once, before the loop. Each state keeps its shape and dtype.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "core/tensor/expr.h"

namespace tensord {

inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

using LoopBody = std::function<std::vector<Expr>(absl::Span<const Expr> states)>;
using LoopCondition = std::function<Expr(absl::Span<const Expr> states)>;
using CountedBody = std::function<std::vector<Expr>(const Expr& i, absl::Span<const Expr> states)>;

// The states after `while (condition(states)) states = body(states)`, which ends after `most`
// iterations in any case. The condition is a bool of one element. There is no gradient: how often
// the body runs is not known before.
std::vector<Expr> WhileLoop(absl::Span<const Expr> initial, const LoopCondition& condition,
                            const LoopBody& body, int64_t most = kUnlimited);

// The states after `for (i = 0; i < count; ++i) states = body(i, states)`; i is an int32 without
// axes. Has a gradient with respect to the initial states and whatever floats the body uses.
std::vector<Expr> ForLoop(int64_t count, absl::Span<const Expr> initial, const CountedBody& body);

// The carried states, and what each iteration returned besides, one after the other on a new first
// axis: `for (i = 0; i < count; ++i) (states, out[i]) = body(i, states, rows x[i] of xs)`. With
// `reverse`, i runs from count - 1 down to 0.
struct Scanned {
  std::vector<Expr> states, stacked;
};
struct ScanStep {
  std::vector<Expr> next, out;
};
using ScanBody = std::function<ScanStep(const Expr& i, absl::Span<const Expr> states,
                                        absl::Span<const Expr> rows)>;
Scanned ScanLoop(int64_t count, absl::Span<const Expr> initial, absl::Span<const Expr> xs,
                 const ScanBody& body, bool reverse = false);

// x[i], and x with the row `value` at i; i is an integer without axes that is within x.
Expr Row(const Expr& x, const Expr& i);
Expr WithRow(const Expr& x, const Expr& i, const Expr& value);

// The same in two steps, for front ends whose functions work on tensors of their own: stand-ins for
// the states, then the loop around what was made of them. Levels and stand-ins are settled in the
// second step; a stand-in outside of its loop is an error where the program is made.
std::vector<Expr> BeginLoop(absl::Span<const Expr> initial);
// More states of a loop that has begun and not ended.
std::vector<Expr> AddStates(absl::Span<const Expr> stand_ins, absl::Span<const Expr> initial);
std::vector<Expr> EndLoop(absl::Span<const Expr> stand_ins, const Expr& condition,
                          absl::Span<const Expr> next, int64_t most);

// The same for nodes, to copy graphs in which values may take the place of inputs: a loop that
// comes into the body of another by that raises the other's level. UnfinishedCarry gives the
// stand-in for the copy of a Carry; FinishLoop makes the Loop, whose `next` are the states' new
// values and whose condition has no axes.
const Node* UnfinishedCarry(Graph& graph, const Node* carry, const Node* init);
absl::StatusOr<const Node*> FinishLoop(Graph& graph, const Node* condition,
                                       absl::Span<const Node* const> carries,
                                       absl::Span<const Node* const> next, int64_t most);

}  // namespace tensord
