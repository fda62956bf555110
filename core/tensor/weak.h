// What weak types become in a program. While a graph of the tensor language grows, a weak node is a
// plain number, or was computed from tensors that did not decide a type (an int tensor times 2.5).
// A program has none: there they are the default types, or int64 where a default integer may not
// hold the value.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <vector>

#include "core/ir/graph.h"

namespace tensord {

// The dtype that a node has in a program.
DType StrongDType(const Node* node);

// The node in a program's graph, over sources that are there already; they may be wider than
// StrongDType says, and the node then is, too.
absl::StatusOr<const Node*> CopyStrong(Graph& to, const Node* node,
                                       absl::Span<const Node* const> src);

// CopyTo without weak types; the roots become of their StrongDType.
std::vector<const Node*> CopyStrong(Graph& to, absl::Span<const Node* const> roots);

}  // namespace tensord
