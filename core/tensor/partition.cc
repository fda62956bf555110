#include "core/tensor/partition.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/loop.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/placement.h"

namespace tensord {
namespace {

// A value of the whole program as each device has it.
struct Local {
  const Node* node;
  int64_t axis = kWhole;
};
using Locals = absl::InlinedVector<Local, 4>;

DType BitsOfSize(int bytes) {
  using enum DType;
  return bytes == 1 ? kUint8 : bytes == 2 ? kUint16 : bytes == 4 ? kUint32 : kUint64;
}

class Partitioner {
 public:
  Partitioner(Graph& graph, int64_t devices, AllReduceKind all_reduce)
      : graph_(graph), devices_(devices), all_reduce_(all_reduce) {}

  // `node` of the whole program over what its sources became.
  // A value in a loop is whole: devices do not meet there.
  absl::StatusOr<Local> Make(const Node* node, const Locals& src, bool in_loop);
  absl::StatusOr<const Node*> Input(const Node* param, int64_t axis);

  // The value divided along `axis`, or whole.
  absl::StatusOr<const Node*> As(const Local& local, int64_t axis);

 private:
  using Rule = absl::StatusOr<std::optional<Local>> (Partitioner::*)(const Node*, const Locals&);
  struct Row {
    OpSet ops;
    Rule rule;
  };
  static const Row kRows[];

  // Rules: nothing if the operands have to be gathered first.
  absl::StatusOr<std::optional<Local>> Elementwise(const Node* node, const Locals& src);
  absl::StatusOr<std::optional<Local>> Reshaped(const Node* node, const Locals& src);
  absl::StatusOr<std::optional<Local>> Moved(const Node* node, const Locals& src);
  absl::StatusOr<std::optional<Local>> Reduced(const Node* node, const Locals& src);
  absl::StatusOr<std::optional<Local>> Scanned(const Node* node, const Locals& src);
  absl::StatusOr<std::optional<Local>> Gathered(const Node* node, const Locals& src);
  absl::StatusOr<std::optional<Local>> Scattered(const Node* node, const Locals& src);
  absl::StatusOr<std::optional<Local>> Kept(const Node* node, const Locals& src);

  int64_t Part(int64_t size) const { return size / devices_; }
  Expr ExprOf(const Node* node) { return Expr(&graph_, node); }
  absl::StatusOr<const Node*> Result(const Expr& expr) {
    TD_RETURN_IF_ERROR(expr.status());
    return expr.node();
  }
  absl::StatusOr<const Node*> Remake(const Node* node, absl::Span<const Node* const> src,
                                     absl::Span<const int64_t> ints) {
    return graph_.TryMake(
        {.op = node->op, .src = src, .ints = ints, .text = node->text, .dtype = node->dtype});
  }
  // The same attribute over the first source, and sizes that vary as they are.
  absl::StatusOr<std::optional<Local>> Over(const Node* node, const Locals& src,
                                            absl::Span<const int64_t> ints, int64_t axis) {
    absl::InlinedVector<const Node*, 4> nodes;
    for (const Local& local : src) nodes.push_back(local.node);
    TD_ASSIGN_OR_RETURN(const Node* made, Remake(node, nodes, ints));
    return Local{made, axis};
  }

  Graph& graph_;
  const int64_t devices_;
  const AllReduceKind all_reduce_;
  std::map<std::pair<const Node*, std::pair<int64_t, int64_t>>, const Node*> converted_;
};

const Partitioner::Row Partitioner::kRows[] = {
    {ElementwiseOps(), &Partitioner::Elementwise},
    {OpBit(Op::kReshape), &Partitioner::Reshaped},
    {MovementOps(), &Partitioner::Moved},
    {OpBit(Op::kReduce), &Partitioner::Reduced},
    {OpBit(Op::kScan), &Partitioner::Scanned},
    {OpBit(Op::kGather), &Partitioner::Gathered},
    {OpBit(Op::kScatter), &Partitioner::Scattered},
    {OpBit(Op::kContiguous) | OpBit(Op::kDetach), &Partitioner::Kept},
};

absl::StatusOr<const Node*> Partitioner::Input(const Node* param, int64_t axis) {
  Sizes sizes = ShapeOf(param);
  if (axis != kWhole) {
    if (axis < 0 || axis >= param->rank() || sizes[axis].node != nullptr ||
        sizes[axis].size % devices_ != 0) {
      return InvalidArgument("partition: {} devices do not divide axis {} of input {}, {}",
                             devices_, axis, param->slot(), ShapeText(param));
    }
    sizes[axis].size /= devices_;
  }
  return graph_.SizedParam(param->slot(), param->dtype, sizes);
}

absl::StatusOr<const Node*> Partitioner::As(const Local& local, int64_t axis) {
  if (local.axis == axis) return local.node;
  const Node*& known = converted_[{local.node, {local.axis, axis}}];
  if (known != nullptr) return known;
  const Expr x = ExprOf(local.node);
  Expr result = x;
  if (axis == kWhole) {
    result = AllGather(x, local.axis, devices_);
  } else if (local.axis != kWhole) {
    result = AllToAll(x, local.axis, axis, devices_);
  } else if (local.node->op == Op::kExpand && local.node->src[0]->dim(axis).IsOne()) {
    // What is repeated is repeated fewer times.
    absl::InlinedVector<int64_t, 8> ints(local.node->ints.begin(), local.node->ints.end());
    ints[axis] = Part(ints[axis]);
    TD_ASSIGN_OR_RETURN(known, Remake(local.node, local.node->src, ints));
    return known;
  } else {
    result = OwnPart(x, axis, devices_);
  }
  TD_ASSIGN_OR_RETURN(known, Result(result));
  return known;
}

absl::StatusOr<Local> Partitioner::Make(const Node* node, const Locals& src, bool in_loop) {
  const bool divided =
      std::ranges::any_of(src, [](const Local& local) { return local.axis != kWhole; });
  if (divided && !in_loop) {
    for (const Row& row : kRows) {
      if (!In(node->op, row.ops)) continue;
      TD_ASSIGN_OR_RETURN(const std::optional<Local> made, (this->*row.rule)(node, src));
      if (made) return *made;
      break;
    }
  }
  absl::InlinedVector<const Node*, 4> whole;
  for (const Local& local : src) {
    TD_ASSIGN_OR_RETURN(whole.emplace_back(), As(local, kWhole));
  }
  TD_ASSIGN_OR_RETURN(const Node* made, Remake(node, whole, node->ints));
  return Local{made};
}

// Along the axis along which most bytes are divided.
absl::StatusOr<std::optional<Local>> Partitioner::Elementwise(const Node* node, const Locals& src) {
  absl::flat_hash_map<int64_t, int64_t> bytes;
  int64_t best = kWhole;
  for (const Local& local : src) {
    if (local.axis == kWhole) continue;
    bytes[local.axis] += ItemSize(local.node->dtype);
    if (best == kWhole || bytes[local.axis] > bytes[best]) best = local.axis;
  }
  absl::InlinedVector<const Node*, 4> operands;
  for (const Local& local : src) {
    TD_ASSIGN_OR_RETURN(operands.emplace_back(), As(local, best));
  }
  TD_ASSIGN_OR_RETURN(const Node* made, Remake(node, operands, node->ints));
  return Local{made, best};
}

// The divided axis has to begin where an axis of the result begins, and be its outer part.
absl::StatusOr<std::optional<Local>> Partitioner::Reshaped(const Node* node, const Locals& src) {
  const Node* from = node->src[0];
  if (node->has_dims() || from->has_dims()) return std::nullopt;
  const int64_t axis = src[0].axis;
  const int64_t before = NumElements(from->shape.first(axis));
  int64_t product = 1;
  for (int64_t to = 0; to < node->rank(); ++to) {
    if (product == before && node->shape[to] > 1 && node->shape[to] % devices_ == 0) {
      Dims dims(node->shape.begin(), node->shape.end());
      dims[to] = Part(dims[to]);
      return Over(node, src, dims, to);
    }
    product *= node->shape[to];
    if (product > before) break;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Local>> Partitioner::Moved(const Node* node, const Locals& src) {
  const int64_t axis = src[0].axis;
  const int64_t size = node->src[0]->shape[axis];
  absl::InlinedVector<int64_t, 8> ints(node->ints.begin(), node->ints.end());
  switch (node->op) {
    case Op::kExpand:
      ints[axis] = Part(size);
      return Over(node, src, ints, axis);
    case Op::kPermute:
      return Over(node, src, ints, std::ranges::find(ints, axis) - ints.begin());
    case Op::kPad:
      if (ints[2 * axis] != 0 || ints[2 * axis + 1] != 0) return std::nullopt;
      return Over(node, src, ints, axis);
    case Op::kShrink:
      if (ints[2 * axis] != 0 || ints[2 * axis + 1] != size) return std::nullopt;
      ints[2 * axis + 1] = Part(size);
      return Over(node, src, ints, axis);
    case Op::kFlip:
      if (std::ranges::count(ints, axis) > 0) return std::nullopt;
      return Over(node, src, ints, axis);
    case Op::kSlide:
    case Op::kUnslide:
      if (ints[0] == axis || ints[1] == axis) return std::nullopt;
      return Over(node, src, ints, axis);
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::optional<Local>> Partitioner::Reduced(const Node* node, const Locals& src) {
  const int64_t axis = src[0].axis;
  if (std::ranges::count(node->reduce_axes(), axis) == 0) return Over(node, src, node->ints, axis);
  // Partial results are not rounded before they have met.
  const ReduceKind kind = node->reduce_kind();
  const bool wide = (kind == ReduceKind::kAdd || kind == ReduceKind::kMul) &&
                    IsFloat(node->dtype) && ItemSize(node->dtype) < 4;
  const Expr x = ExprOf(src[0].node);
  const Expr part = Apply(Op::kReduce, {wide ? Cast(x, DType::kFloat32) : x}, node->ints);
  const Expr all = Cast(AllReduce(part, kind, devices_, all_reduce_), node->dtype);
  TD_ASSIGN_OR_RETURN(const Node* made, Result(all));
  return Local{made};
}

absl::StatusOr<std::optional<Local>> Partitioner::Scanned(const Node* node, const Locals& src) {
  if (src[0].axis == node->scan_axis()) return std::nullopt;
  return Over(node, src, node->ints, src[0].axis);
}

// Of rows that devices have a part of each, each device finds those that it has, and zeros for the
// rest. Rows and indices that are both divided: the rows are gathered, or else the indices.
absl::StatusOr<std::optional<Local>> Partitioner::Gathered(const Node* node, const Locals& src) {
  Local x = src[0];
  if (x.axis != kWhole) {
    TD_ASSIGN_OR_RETURN(const Node* index, As(src[1], kWhole));
    if (x.axis > 0) {
      return Over(node, {x, {index}}, {}, node->src[1]->rank() + x.axis - 1);
    }
    const Expr wide = Cast(ExprOf(index), DType::kInt64);
    const Expr first =
        Cast(DeviceIndex(graph_, devices_), DType::kInt64) * Part(node->src[0]->shape[0]);
    const Expr found = Apply(Op::kGather, {ExprOf(x.node), wide - first});
    // One device has found it. By the bits, because 0 + -0 is 0.
    const DType bits = IsFloat(node->dtype) ? BitsOfSize(ItemSize(node->dtype)) : node->dtype;
    const Expr all = AllReduce(Bitcast(found, bits), ReduceKind::kAdd, devices_, all_reduce_);
    TD_ASSIGN_OR_RETURN(const Node* made, Result(Bitcast(all, node->dtype)));
    return Local{made};
  }
  return Over(node, src, {}, src[1].axis);
}

absl::StatusOr<std::optional<Local>> Partitioner::Scattered(const Node* node, const Locals& src) {
  const int64_t before = node->scatter_axis();
  const int64_t rank = node->src[2]->rank(), after = node->src[0]->rank() - before - 1;
  // An axis of x as one of the values: those before the indexed one, and those after.
  const auto divided = [&](int64_t axis) -> absl::StatusOr<std::optional<Local>> {
    const int64_t of_values = axis < before ? axis : axis - node->src[0]->rank() + rank;
    Locals parts(3);
    TD_ASSIGN_OR_RETURN(parts[0].node, As(src[0], axis));
    const bool repeated = node->src[1]->shape[of_values] == 1;
    TD_ASSIGN_OR_RETURN(parts[1].node, As(src[1], repeated ? kWhole : of_values));
    TD_ASSIGN_OR_RETURN(parts[2].node, As(src[2], of_values));
    return Over(node, parts, node->ints, axis);
  };
  if (src[0].axis != kWhole && src[0].axis != before) return divided(src[0].axis);
  const int64_t axis = src[2].axis;
  if (axis == kWhole || src[0].axis != kWhole) return std::nullopt;
  if (axis < before) return divided(axis);
  if (axis >= rank - after) return divided(axis - rank + node->src[0]->rank());
  // Each device adds up its values, and the sums meet.
  if (node->scatter_kind() != ScatterKind::kAdd || node->dtype == DType::kBool ||
      (IsFloat(node->dtype) && ItemSize(node->dtype) < 4)) {
    return std::nullopt;
  }
  TD_ASSIGN_OR_RETURN(const Node* index, As(src[1], axis));
  const Expr x = ExprOf(src[0].node);
  const Expr sums =
      Apply(Op::kScatter, {FullLike(x, 0), ExprOf(index), ExprOf(src[2].node)}, node->ints);
  TD_ASSIGN_OR_RETURN(const Node* made,
                      Result(x + AllReduce(sums, ReduceKind::kAdd, devices_, all_reduce_)));
  return Local{made};
}

absl::StatusOr<std::optional<Local>> Partitioner::Kept(const Node* node, const Locals& src) {
  return Over(node, src, node->ints, src[0].axis);
}

}  // namespace

absl::StatusOr<Partitioned> Partition(const Program& program, int64_t devices,
                                      absl::Span<const int64_t> input_axes,
                                      AllReduceKind all_reduce) {
  if (devices < 2 || devices > kMaxDevices) {
    return InvalidArgument("partition: {} devices, needs 2 to {}", devices, kMaxDevices);
  }
  Partitioned result;
  result.program.name = program.name;
  result.program.fast_math = program.fast_math;
  result.program.devices = devices;
  Graph& graph = result.program.graph;
  Partitioner partitioner(graph, devices, all_reduce);
  absl::flat_hash_map<const Node*, Local> made;

  std::vector<const Node*> roots = program.inputs;
  roots.insert(roots.end(), program.variables.begin(), program.variables.end());
  for (const Program::Output& output : program.outputs) roots.push_back(output.value);
  const std::vector<const Node*> order = TopologicalOrder(roots);
  const absl::flat_hash_set<const Node*> in_loops = loop::Inside(order);
  for (const Node* node : order) {
    Local& local = made[node];
    if (node->op == Op::kParam) {
      const int64_t axis = input_axes[static_cast<size_t>(node->slot())];
      TD_ASSIGN_OR_RETURN(local.node, partitioner.Input(node, axis));
      local.axis = axis;
      continue;
    }
    if (node->op == Op::kPlace) {
      const Local source = made.at(node->src[0]);
      const int64_t axis = TargetOf(node).axis;
      TD_ASSIGN_OR_RETURN(local.node, partitioner.As(source, axis));
      local.axis = axis;
      continue;
    }
    Locals src;
    for (const Node* each : node->src) src.push_back(made.at(each));
    TD_ASSIGN_OR_RETURN(made[node], partitioner.Make(node, src, in_loops.contains(node)));
  }
  for (const Node* input : program.inputs) result.program.inputs.push_back(made.at(input).node);
  for (const Program::Output& output : program.outputs) {
    Local value = made.at(output.value);
    if (output.overwrites != Program::kFresh) {
      const int64_t axis = input_axes[static_cast<size_t>(output.overwrites)];
      TD_ASSIGN_OR_RETURN(value.node, partitioner.As(value, axis));
      value.axis = axis;
    }
    result.program.outputs.push_back({value.node, output.overwrites});
    result.axes.push_back(value.axis);
  }
  // Variables by name; the number of the device among them, if something depends on it.
  std::vector<const Node*> reached;
  for (const Program::Output& output : result.program.outputs) reached.push_back(output.value);
  for (const Node* variable : program.variables) {
    result.program.variables.push_back(made.at(variable).node);
  }
  for (const Node* node : TopologicalOrder(reached)) {
    if (node->op == Op::kVariable && node->text == kDeviceIndex) {
      result.program.variables.push_back(node);
    }
  }
  std::ranges::sort(result.program.variables,
                    [](const Node* a, const Node* b) { return a->text < b->text; });
  return result;
}

}  // namespace tensord
