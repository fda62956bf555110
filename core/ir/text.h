// The IR as text and back: for tests, error messages and people. One node a line, sources first:
//
//   %0 = Param float32 [2,3] slot=0
//   %1 = Const float32 1.5
//   %2 = Exp float32 [2,3] %0
//   %3 = Reduce float32 [2,1] %2 add axes=1
//   return %3
//
// After the op stand the dtype (with lanes, "float32x16"; nothing for ops without a value), the
// shape unless it is [], the sources, and the attribute as its kind wants (see ops.inc). For
// Reshape, Expand, Param and Iota the shape is the attribute. A size that varies (dims.h) is
// written as an expression, or '?' in a pair; its node is a further source. '#' starts a comment.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace tensord {

// What the roots reach; numbers depend on structure only.
std::string Print(absl::Span<const Node* const> roots);
// These nodes in this order, each with its id in the graph: a linear program, for one.
std::string PrintList(absl::Span<const Node* const> nodes);
// The node's line, with ids in the graph: for errors.
std::string PrintNode(const Node* node);

// Reads what Print wrote into `graph` and returns the roots. Nodes are made exactly as written: the
// smart constructor does not touch them. Anything may be given: errors name line and column.
absl::StatusOr<std::vector<const Node*>> Parse(std::string_view text, Graph& graph);

}  // namespace tensord
