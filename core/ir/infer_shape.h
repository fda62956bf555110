// The shape rules of the tensor level: what Infer (infer.h) says of shapes.
#pragma once

#include <absl/status/status.h>

#include "core/ir/dims.h"
#include "core/ir/graph.h"

namespace tensord {

// The shape of what `spec`, whose attribute and dtypes fit, gives; errors as of Infer.
absl::Status InferShape(Graph& graph, const NodeSpec& spec, Sizes& shape);

}  // namespace tensord
