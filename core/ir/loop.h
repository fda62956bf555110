// Loop nodes by part, and what their bodies read.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/functional/function_ref.h>

#include <cstddef>
#include <vector>

#include "core/ir/graph.h"

namespace tensord::loop {

inline size_t NumStates(const Node* loop) { return loop->src.size() / 2; }
inline const Node* Condition(const Node* loop) { return loop->src[0]; }
inline const Node* CarryOf(const Node* loop, size_t state) { return loop->src[1 + 2 * state]; }
inline const Node* NextOf(const Node* loop, size_t state) { return loop->src[2 + 2 * state]; }
inline const Node* InitOf(const Node* loop, size_t state) { return CarryOf(loop, state)->src[0]; }

// What the body of a loop reads and no state of it, or of a loop in it, has a part in; in an order
// that depends on structure only. Movement, and what reads no memory, belongs to the body: its
// sources are what is captured, except for values in `whole`.
std::vector<const Node*> Captured(const Node* loop,
                                  const absl::flat_hash_set<const Node*>& whole = {});

// Those of some nodes, sources before users, that depend on the state of a loop which they are in.
absl::flat_hash_set<const Node*> Inside(absl::Span<const Node* const> order);

// What gives `roots` their values, operands before users, but for what `is_known`. Of a loop that
// is the initial values only: what is in its body has a value only while the loop runs.
std::vector<const Node*> EvaluationOrder(absl::Span<const Node* const> roots,
                                         absl::FunctionRef<bool(const Node*)> is_known);

// How often the body runs, if that is known before: for loops whose first state counts from 0 up to
// a constant that is their condition's. -1 for others.
int64_t TripCount(const Node* loop);

}  // namespace tensord::loop
