// What follows from an op and its sources: result dtype, lanes and shape, and the interval of its
// value. The shape rules of the tensor level are here (infer_shape.cc) and nowhere else.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace tensord {

struct Inferred {
  DType dtype = DType::kVoid;
  uint16_t lanes = 1;
  std::vector<int64_t> shape;     // upper bounds
  std::vector<const Node*> dims;  // as in Node
};

// InvalidArgument names the op, the rule and the values that break it.
// Sizes that vary may need new nodes in the graph.
absl::Status Infer(Graph& graph, const NodeSpec& spec, Inferred& result);

// Bounds of the value of a node whose other fields are set; the limits of int64 if unknown.
void InferInterval(const Node& node, int64_t& lo, int64_t& hi);

}  // namespace tensord
