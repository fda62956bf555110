// Constants that have a shape or lanes. The IR's Const is a scalar; at tensor level a constant of a
// shape is spelled Expand(Reshape(Const)), at linear level a vector of one is Broadcast(Const).
#pragma once

#include <optional>

#include "core/ir/eval.h"
#include "core/ir/graph.h"

namespace tensord {

// The value that every element of the node has, if it is such a constant.
std::optional<Scalar> ConstantOf(const Node* node);

// The constant of that shape, in its one canonical spelling.
const Node* MakeConstant(Graph& graph, const Scalar& value, Shape shape);
// The constant that can stand where `like` stands, but for its dtype.
const Node* MakeConstantLike(Graph& graph, const Scalar& value, const Node* like);

// The ops under which ConstantOf finds constants; a source that is none of them is none.
inline constexpr OpSet kConstantOps =
    OpBit(Op::kConst) | OpBit(Op::kReshape) | OpBit(Op::kExpand) | OpBit(Op::kBroadcast);

}  // namespace tensord
