#include "core/rules/reference_eval.h"

#include <absl/container/flat_hash_map.h>

#include <array>

#include "core/base/check.h"

namespace tensord {
namespace {

using Index = std::vector<int64_t>;
using Values = std::vector<Scalar>;

int64_t Offset(const Index& index, Shape shape) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) offset = offset * shape[axis] + index[axis];
  return offset;
}

Index IndexAt(int64_t offset, Shape shape) {
  Index index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = offset % shape[axis];
    offset /= shape[axis];
  }
  return index;
}

// Where the element of a movement op comes from; false: it is padding.
bool SourceIndex(const Node& node, Index& index) {
  const absl::Span<const int64_t> ints = node.ints;
  const Shape from = node.src[0]->shape;
  switch (node.op) {
    case Op::kReshape:
      index = IndexAt(Offset(index, node.shape), from);
      return true;
    case Op::kExpand:
      for (size_t axis = 0; axis < from.size(); ++axis) {
        if (from[axis] == 1) index[axis] = 0;
      }
      return true;
    case Op::kPermute: {
      Index moved(index.size());
      for (size_t axis = 0; axis < index.size(); ++axis) moved[ints[axis]] = index[axis];
      index = moved;
      return true;
    }
    case Op::kPad:
      for (size_t axis = 0; axis < index.size(); ++axis) {
        index[axis] -= ints[2 * axis];
        if (index[axis] < 0 || index[axis] >= from[axis]) return false;
      }
      return true;
    case Op::kShrink:
      for (size_t axis = 0; axis < index.size(); ++axis) index[axis] += ints[2 * axis];
      return true;
    case Op::kFlip:
      for (const int64_t axis : ints) index[axis] = from[axis] - 1 - index[axis];
      return true;
    case Op::kSlide:
      index[ints[0]] = index[ints[0]] * ints[2] + index[ints[1]] * ints[3];
      return true;
    case Op::kUnslide: {
      const int64_t shifted = index[ints[0]] - index[ints[1]] * ints[3];
      if (shifted < 0 || shifted % ints[2] != 0 || shifted / ints[2] >= from[ints[0]]) return false;
      index[ints[0]] = shifted / ints[2];
      return true;
    }
    default:
      TD_CHECK(false, Name(node.op));
  }
}

class Evaluator {
 public:
  explicit Evaluator(const ReferenceInputs& inputs) : inputs_(inputs) {}

  void Visit(const Node& node) {
    Values values(NumElements(node.shape));
    if (node.op == Op::kReduce) {
      Reduce(node, values);
    } else {
      for (size_t e = 0; e < values.size(); ++e) values[e] = Element(node, e);
    }
    values_[&node] = std::move(values);
  }

  const Values& Of(const Node* node) const { return values_.at(node); }

 private:
  Scalar Element(const Node& node, int64_t e) const {
    switch (node.op) {
      case Op::kConst:
        return Scalar::FromAttribute(node.dtype, node.ints[0]);
      case Op::kParam:
        return inputs_.params.at(node.slot())[e];
      case Op::kVariable:
        return Scalar::Int(node.dtype, inputs_.variables.find(node.text)->second);
      case Op::kIota:
        return Scalar::Int(node.dtype, e);
      case Op::kContiguous:
      case Op::kDetach:
        return Of(node.src[0])[e];
      case Op::kGather:
        return Gathered(node, e);
      default:
        break;
    }
    if (In(node.op, MovementOps())) {
      Index index = IndexAt(e, node.shape);
      if (!SourceIndex(node, index)) return Scalar::Of(node.dtype, 0);
      return Of(node.src[0])[Offset(index, node.src[0]->shape)];
    }
    std::array<Scalar, 3> src;
    for (size_t s = 0; s < node.src.size(); ++s) src[s] = Of(node.src[s])[e];
    const auto result = EvalOp(node.op, node.dtype, {src.data(), node.src.size()});
    TD_CHECK(result.has_value(), Name(node.op));
    return *result;
  }

  Scalar Gathered(const Node& node, int64_t e) const {
    const Node *x = node.src[0], *index = node.src[1];
    const int64_t row = NumElements(x->shape.subspan(1));
    const Scalar at = Of(index)[e / row];
    const bool inside = at.i >= 0 && at.i < x->shape[0];  // beyond 2^63, uint64 is negative here
    return inside ? Of(x)[at.i * row + e % row] : Scalar::Of(node.dtype, 0);
  }

  void Reduce(const Node& node, Values& values) const {
    const Values& from = Of(node.src[0]);
    std::vector<bool> started(values.size());
    for (size_t e = 0; e < from.size(); ++e) {
      Index index = IndexAt(static_cast<int64_t>(e), node.src[0]->shape);
      for (const int64_t axis : node.reduce_axes()) index[axis] = 0;
      const int64_t at = Offset(index, node.shape);
      const Scalar both[] = {values[at], from[e]};
      values[at] = started[at] ? *EvalOp(CombineOp(node.reduce_kind()), node.dtype, both) : from[e];
      started[at] = true;
    }
    for (size_t at = 0; at < values.size(); ++at) {
      if (!started[at]) values[at] = ReduceIdentity(node.reduce_kind(), node.dtype);
    }
  }

  const ReferenceInputs& inputs_;
  absl::flat_hash_map<const Node*, Values> values_;
};

}  // namespace

std::vector<std::vector<Scalar>> ReferenceEval(absl::Span<const Node* const> roots,
                                               const ReferenceInputs& inputs) {
  Evaluator evaluator(inputs);
  for (const Node* node : TopologicalOrder(roots)) evaluator.Visit(*node);
  std::vector<std::vector<Scalar>> result;
  for (const Node* root : roots) result.push_back(evaluator.Of(root));
  return result;
}

}  // namespace tensord
