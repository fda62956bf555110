// The smart constructor: identities so cheap and so safe that every node goes through them.
// Constants fold (with the semantics of eval.h), indices take their normal form (affine.h),
// booleans and selections with a known condition resolve, commutative operands take a fixed order.
#pragma once

#include "core/ir/graph.h"

namespace tensord {

// The simpler node that equals `spec`, or null if there is none. `spec` has passed Infer, which
// found `dtype`.
const Node* Fold(Graph& graph, const NodeSpec& spec, DType dtype);

}  // namespace tensord
