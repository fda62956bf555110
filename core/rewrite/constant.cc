#include "core/rewrite/constant.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <vector>

#include "core/ir/dims.h"

namespace tensord {

std::optional<Scalar> ConstantOf(const Node* node) {
  while (In(node->op, kConstantOps & ~OpBit(Op::kConst))) node = node->src[0];
  if (!node->IsConst()) return std::nullopt;
  return Scalar::FromAttribute(node->dtype, node->ints[0]);
}

const Node* MakeConstant(Graph& graph, const Scalar& value, Shape shape) {
  const Node* scalar =
      graph.Make({.op = Op::kConst, .ints = {value.attribute()}, .dtype = value.dtype});
  if (shape.empty()) return scalar;
  const absl::InlinedVector<int64_t, 8> ones(shape.size(), 1);
  const Node* reshaped = graph.Make(Op::kReshape, {&scalar, 1}, ones);
  if (std::ranges::all_of(shape, [](int64_t dim) { return dim == 1; })) return reshaped;
  return graph.Make(Op::kExpand, {&reshaped, 1}, shape);
}

static const Node* MakeSizedConstant(Graph& graph, const Scalar& value,
                                     absl::Span<const Dim> shape) {
  const std::vector<int64_t> ones(shape.size(), 1);
  const Node* reshaped = MakeConstant(graph, value, ones);
  const SizedOp expand({reshaped}, shape);
  return graph.Make(Op::kExpand, expand.src, expand.ints);
}

const Node* MakeConstantLike(Graph& graph, const Scalar& value, const Node* like) {
  const Node* made = like->has_dims() ? MakeSizedConstant(graph, value, ShapeOf(like))
                                      : MakeConstant(graph, value, like->shape);
  if (like->lanes == 1) return made;
  return graph.Make({.op = Op::kBroadcast, .src = {&made, 1}, .lanes = like->lanes});
}

}  // namespace tensord
