// Guarding: an access of a linear program that is not proven to stay within its buffer gets a gate
// that keeps it there. So no fault of the compiler, and no gap in what it can prove, becomes a read
// or write of other memory; what is outside reads as zero.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "core/ir/graph.h"
#include "core/ir/linear.h"

namespace tensord {

// Gives these accesses of the program a gate; nodes are made in `graph`, which owns the program's.
// InvalidArgument if an access is of a kind that no gate can be made for.
absl::Status Guard(Graph& graph, absl::Span<const Node* const> accesses, LinearProgram& program);

}  // namespace tensord
