// Simplify: the rule tables applied to a tensor graph.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <vector>

#include "core/ir/graph.h"
#include "core/rewrite/rewrite.h"

namespace tensord {

// The roots in simplest form, with every value kept exactly. Detach and Contiguous stay.
absl::StatusOr<std::vector<const Node*>> Simplify(Graph& graph, absl::Span<const Node* const> roots,
                                                  const RewriteOptions& options = {});
// The same for scheduling: Detach and WithSlope go too, they mean something to the gradient only.
// With `fast_math`, floats are simplified as if they were real numbers.
absl::StatusOr<std::vector<const Node*>> SimplifyForSchedule(Graph& graph,
                                                             absl::Span<const Node* const> roots,
                                                             bool fast_math = false,
                                                             const RewriteOptions& options = {});

}  // namespace tensord
