#include "core/rules/reference_eval.h"

#include <absl/container/flat_hash_map.h>

#include <array>

#include "core/base/check.h"
#include "core/ir/loop.h"
#include "core/ir/user_kernel.h"
#include "core/rules/user_kernel.h"

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

// Values of one node, from its operands' by `of`.
class NodeEvaluator {
 public:
  NodeEvaluator(const ReferenceInputs& inputs, ValuesOf of) : inputs_(inputs), of_(of) {}

  Values Run(const Node& node) const {
    Values values(NumElements(node.shape));
    if (node.op == Op::kReduce) {
      Reduce(node, values);
    } else if (node.op == Op::kScan) {
      Scan(node, values);
    } else if (node.op == Op::kScatter) {
      Scatter(node, values);
    } else {
      for (size_t e = 0; e < values.size(); ++e) values[e] = Element(node, e);
    }
    return values;
  }

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
      case Op::kWithSlope:
        return of_(node.src[0])[e];
      case Op::kGather:
        return Gathered(node, e);
      default:
        break;
    }
    if (In(node.op, MovementOps())) {
      Index index = IndexAt(e, node.shape);
      if (!SourceIndex(node, index)) return Scalar::Of(node.dtype, 0);
      return of_(node.src[0])[Offset(index, node.src[0]->shape)];
    }
    std::array<Scalar, 3> src;
    for (size_t s = 0; s < node.src.size(); ++s) src[s] = of_(node.src[s])[e];
    const auto result = EvalOp(node.op, node.dtype, {src.data(), node.src.size()});
    TD_CHECK(result.has_value(), Name(node.op));
    return *result;
  }

  Scalar Gathered(const Node& node, int64_t e) const {
    const Node *x = node.src[0], *index = node.src[1];
    const int64_t row = NumElements(x->shape.subspan(1));
    const Scalar at = of_(index)[e / row];
    const bool inside = at.i >= 0 && at.i < x->shape[0];  // beyond 2^63, uint64 is negative here
    return inside ? of_(x)[at.i * row + e % row] : Scalar::Of(node.dtype, 0);
  }

  void Reduce(const Node& node, Values& values) const {
    const Values& from = of_(node.src[0]);
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

  void Scan(const Node& node, Values& values) const {
    const Values& from = of_(node.src[0]);
    const int64_t size = node.shape[node.scan_axis()];
    for (size_t first = 0; first < from.size(); ++first) {
      Index index = IndexAt(static_cast<int64_t>(first), node.shape);
      if (index[node.scan_axis()] != 0) continue;
      Scalar total = ScanIdentity(node.scan_kind(), node.dtype);
      for (int64_t step = 0; step < size; ++step) {
        index[node.scan_axis()] = node.scan_reverse() ? size - 1 - step : step;
        const int64_t at = Offset(index, node.shape);
        const Scalar before = total;
        total = EvalScan(node.scan_kind(), total, from[at]);
        values[at] = node.scan_exclusive() ? before : total;
      }
    }
  }

  void Scatter(const Node& node, Values& values) const {
    const Node &x = *node.src[0], &index = *node.src[1], &from = *node.src[2];
    values = of_(&x);
    const int64_t axis = node.scatter_axis(), rest = x.rank() - axis - 1;
    for (size_t e = 0; e < of_(&from).size(); ++e) {
      const Index at = IndexAt(static_cast<int64_t>(e), from.shape);
      Index where = at;
      for (size_t i = 0; i < where.size(); ++i) {
        if (index.shape[i] == 1) where[i] = 0;
      }
      const int64_t row = of_(&index)[Offset(where, index.shape)].i;
      if (row < 0 || row >= x.shape[axis]) continue;  // beyond 2^63, uint64 is negative here
      Index target(at.begin(), at.begin() + axis);
      target.push_back(row);
      target.insert(target.end(), at.end() - rest, at.end());
      Scalar& value = values[Offset(target, x.shape)];
      const Scalar both[] = {value, of_(&from)[e]};
      const auto kind = static_cast<ReduceKind>(node.scatter_kind());
      value = node.scatter_kind() == ScatterKind::kSet ? both[1]
                                                       : *EvalOp(CombineOp(kind), node.dtype, both);
    }
  }

  const ReferenceInputs& inputs_;
  const ValuesOf of_;
};

class Evaluator {
 public:
  using ByNode = absl::flat_hash_map<const Node*, Values>;

  // `known` values of the nodes outside of the loop whose body this is for.
  Evaluator(const ReferenceInputs& inputs, ByNode known)
      : inputs_(inputs), values_(std::move(known)) {}

  void Run(absl::Span<const Node* const> roots) {
    const auto known = [&](const Node* node) {
      return values_.contains(node) || results_.contains(node);
    };
    for (const Node* node : loop::EvaluationOrder(roots, known)) Visit(*node);
  }

  const Values& Of(const Node* node) const { return values_.at(node); }

 private:
  void Visit(const Node& node) {
    if (node.op == Op::kLoop) return RunLoop(node);
    if (node.op == Op::kUserKernel) return RunUserKernel(node);
    if (node.op == Op::kLoopResult || node.op == Op::kUserKernelResult) {
      values_[&node] = results_.at(node.src[0])[node.slot()];
      return;
    }
    const auto of = [&](const Node* operand) -> const Values& { return Of(operand); };
    values_[&node] = ReferenceEvalNode(node, of, inputs_);
  }

  void RunLoop(const Node& node) {
    const size_t count = loop::NumStates(&node);
    std::vector<Values> states;
    std::vector<const Node*> roots = {loop::Condition(&node)};
    for (size_t k = 0; k < count; ++k) {
      states.push_back(Of(loop::InitOf(&node, k)));
      roots.push_back(loop::NextOf(&node, k));
    }
    for (int64_t iteration = 0; iteration < node.ints[1]; ++iteration) {
      ByNode around = values_;
      for (size_t k = 0; k < count; ++k) around[loop::CarryOf(&node, k)] = states[k];
      Evaluator body(inputs_, std::move(around));
      body.Run(roots);
      if (body.Of(roots[0])[0].i == 0) break;
      for (size_t k = 0; k < count; ++k) states[k] = body.Of(roots[1 + k]);
    }
    results_[&node] = std::move(states);
  }

  // Store by store and turn by turn.
  void RunUserKernel(const Node& call) {
    const absl::StatusOr<UserKernel> kernel = ReadUserKernel(&call);
    TD_CHECK(kernel.ok(), std::string(kernel.status().message()));
    std::vector<Values>& outputs = results_[&call];
    for (const Node* store : kernel->sink->src) {
      Values& values = outputs.emplace_back(store->src[0]->ints[1]);
      Turns turns;
      ForEachTurn(kernel->loops, turns, [&] {
        values[InKernel(call, store->src[1], turns).i] = InKernel(call, store->src[2], turns);
      });
    }
  }

  using Turns = absl::flat_hash_map<const Node*, int64_t>;  // what each Range counts

  template <typename Visit>
  static void ForEachTurn(absl::Span<const Node* const> ranges, Turns& turns, const Visit& visit) {
    if (ranges.empty()) return visit();
    const int64_t around = turns[ranges[0]];  // of a reduction over the same range
    for (int64_t turn = 0; turn < ranges[0]->range_size(); ++turn) {
      turns[ranges[0]] = turn;
      ForEachTurn(ranges.subspan(1), turns, visit);
    }
    turns[ranges[0]] = around;
  }

  // The value of a node of a kernel's body.
  Scalar InKernel(const Node& call, const Node* node, Turns& turns) const {
    if (node->IsConst()) return Scalar::FromAttribute(node->dtype, node->ints[0]);
    if (node->op == Op::kRange) return Scalar::Int(DType::kIndex, turns.at(node));
    if (node->op == Op::kFold) {
      std::optional<Scalar> total;
      ForEachTurn(node->src.subspan(1), turns, [&] {
        const Scalar value = InKernel(call, node->src[0], turns);
        const Scalar both[] = {total.value_or(value), value};
        total = total ? *EvalOp(CombineOp(node->reduce_kind()), node->dtype, both) : value;
      });
      return *total;
    }
    if (node->op == Op::kLoad) {
      if (node->src.size() > 2 && InKernel(call, node->src[2], turns).i == 0) {
        return Scalar::Of(node->dtype, 0);
      }
      const int64_t input =
          node->src[0]->slot() - static_cast<int64_t>(user_kernel::OutputsOf(&call).size());
      return Of(call.src[input])[InKernel(call, node->src[1], turns).i];
    }
    std::vector<Scalar> src;
    for (const Node* operand : node->src) src.push_back(InKernel(call, operand, turns));
    const auto result = EvalOp(node->op, node->dtype, src);
    TD_CHECK(result.has_value(), Name(node->op));
    return *result;
  }

  const ReferenceInputs& inputs_;
  ByNode values_;
  absl::flat_hash_map<const Node*, std::vector<Values>> results_;  // of what has several
};

}  // namespace

std::vector<Scalar> ReferenceEvalNode(const Node& node, ValuesOf of,
                                      const ReferenceInputs& inputs) {
  return NodeEvaluator(inputs, of).Run(node);
}

std::vector<std::vector<Scalar>> ReferenceEval(absl::Span<const Node* const> roots,
                                               const ReferenceInputs& inputs) {
  Evaluator evaluator(inputs, {});
  evaluator.Run(roots);
  std::vector<std::vector<Scalar>> result;
  for (const Node* root : roots) result.push_back(evaluator.Of(root));
  return result;
}

}  // namespace tensord
