#include "core/tensor/user_kernel.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/eval.h"
#include "core/ir/text.h"
#include "core/ir/user_kernel.h"
#include "core/rules/user_kernel.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/reduce.h"
#include "core/tensor/weak.h"

namespace tensord {
namespace {

// Ops on integers that are the same on indices, as long as nothing overflows.
constexpr OpSet kIndexArithmetic = OpBit(Op::kNeg) | OpBit(Op::kAdd) | OpBit(Op::kSub) |
                                   OpBit(Op::kMul) | OpBit(Op::kFloorDiv) | OpBit(Op::kFloorMod) |
                                   OpBit(Op::kMax) | OpBit(Op::kMin);
constexpr OpSet kComparisons = OpBit(Op::kCmpLt) | OpBit(Op::kCmpEq) | OpBit(Op::kCmpNe);
// Values that mean something to derivatives only.
constexpr OpSet kTransparent =
    OpBit(Op::kDetach) | OpBit(Op::kWithSlope) | OpBit(Op::kContiguous) | OpBit(Op::kCustom);

bool IsIndexable(const Node* node) { return CheckDim(node).ok(); }

// What was computed from ranges as integers, as arithmetic on indices, of which bounds can be
// proven.
class Indexer {
 public:
  explicit Indexer(Graph& graph) : graph_(graph) {}

  // An integer as an index. Null if arithmetic on it might overflow.
  const Node* ToIndex(const Node* node) {
    if (const auto found = indices_.find(node); found != indices_.end()) return found->second;
    if (depth_ == kMaxDepth) return nullptr;
    ++depth_;
    const Node* index = NewIndex(node);
    --depth_;
    return indices_[node] = index;
  }

  // A condition with comparisons of indices in the place of those of integers.
  const Node* ToGate(const Node* node) {
    if (const auto found = gates_.find(node); found != gates_.end()) return found->second;
    if (depth_ == kMaxDepth) return node;
    ++depth_;
    const Node* gate = NewGate(node);
    --depth_;
    return gates_[node] = gate;
  }

 private:
  static constexpr int kMaxDepth = 256;  // deeper kernels are refused anyhow

  const Node* NewIndex(const Node* node) {
    if (node->dtype == DType::kIndex) return node;
    if (node->IsConst()) {
      const Node* constant = graph_.Index(node->Int());
      return node->dtype != DType::kUint64 && IsIndexable(constant) ? constant : nullptr;
    }
    if (node->op == Op::kCast && node->lo == node->src[0]->lo && node->hi == node->src[0]->hi &&
        (node->src[0]->dtype == DType::kIndex || IsInt(node->src[0]->dtype))) {
      return ToIndex(node->src[0]);
    }
    if (const Node* extreme = AsExtreme(node); extreme != node) return ToIndex(extreme);
    if (const Node* made = Arithmetic(node)) return made;
    const Node* made = graph_.Cast(node, DType::kIndex);
    return IsIndexable(made) ? made : nullptr;
  }

  // Clamp chooses by comparisons. Of the larger or smaller one of two, bounds are known.
  const Node* AsExtreme(const Node* node) {
    if (node->op != Op::kWhere || node->src[0]->op != Op::kCmpLt) return node;
    const Node *less = node->src[0]->src[0], *more = node->src[0]->src[1];
    const bool is_min = node->src[1] == less && node->src[2] == more;
    const bool is_max = node->src[1] == more && node->src[2] == less;
    if ((!is_min && !is_max) || depth_ == kMaxDepth) return node;
    if (const auto found = extremes_.find(node); found != extremes_.end()) return found->second;
    ++depth_;
    const Node* extreme =
        graph_.Make(is_min ? Op::kMin : Op::kMax, {AsExtreme(less), AsExtreme(more)});
    --depth_;
    return extremes_[node] = extreme;
  }

  // Null where it is none, or not the same on indices.
  const Node* Arithmetic(const Node* node) {
    const bool divides = node->op == Op::kFloorDiv || node->op == Op::kFloorMod;
    if (!In(node->op, kIndexArithmetic)) return nullptr;
    if (divides && (!node->src[1]->IsConst() || node->src[1]->Int() <= 0)) return nullptr;
    std::vector<const Node*> src;
    for (const Node* operand : node->src) {
      src.push_back(ToIndex(operand));
      if (src.back() == nullptr) return nullptr;
    }
    if (!CheckDimOp(node->op, src.front(), src.back()).ok()) return nullptr;
    const Node* made = graph_.Make(node->op, src, {});
    const bool wraps = node->dtype == DType::kUint64 ||
                       (node->dtype != DType::kWeakInt &&
                        (made->lo < IntMin(node->dtype) || made->hi > IntMax(node->dtype)));
    return IsIndexable(made) && !wraps ? made : nullptr;
  }

  const Node* NewGate(const Node* node) {
    if (In(node->op, kComparisons)) {
      const DType dtype = node->src[0]->dtype;
      if (dtype == DType::kUint64 || (!IsInt(dtype) && dtype != DType::kWeakInt)) return node;
      const Node *a = ToIndex(node->src[0]), *b = ToIndex(node->src[1]);
      if (a == nullptr || b == nullptr || !CheckDimOp(Op::kSub, a, b).ok()) return node;
      return graph_.Make(node->op, {a, b});
    }
    constexpr OpSet kLogic =
        OpBit(Op::kAnd) | OpBit(Op::kOr) | OpBit(Op::kXor) | OpBit(Op::kMul) | OpBit(Op::kAdd);
    if (node->dtype != DType::kBool || !In(node->op, kLogic)) return node;
    return graph_.Make(node->op, {ToGate(node->src[0]), ToGate(node->src[1])});
  }

  Graph& graph_;
  int depth_ = 0;
  absl::flat_hash_map<const Node*, const Node*> indices_, gates_, extremes_;
};

// A reduce range without turns: nothing that depends on it is ever computed.
bool IsTurnless(const Node* range) { return range->range_id() < 0; }

bool DependsOnTurnless(absl::Span<const Node* const> nodes) {
  const std::vector<const Node*> order = TopologicalOrder(nodes);
  return std::any_of(order.begin(), order.end(),
                     [](const Node* node) { return node->op == Op::kRange && IsTurnless(node); });
}

std::string IndexText(absl::Span<const Node* const> axes) {
  std::string text;
  for (const Node* axis : axes) text += (text.empty() ? "" : ", ") + TextOf(Dim{0, axis});
  return "[" + text + "]";
}

// Copies what stores need from a session's graph into a body. Sources first, without recursion.
class BodyWriter {
 public:
  explicit BodyWriter(std::string_view name) : name_(name) {}

  absl::StatusOr<std::string> Write(absl::Span<const Node* const> stores) {
    // Terms of an index are in the order of their nodes: that of the ranges, whatever came first in
    // the session.
    std::vector<const Node*> order = Order(stores);
    const auto others = std::stable_partition(
        order.begin(), order.end(), [](const Node* node) { return node->op == Op::kRange; });
    std::sort(order.begin(), others,
              [](const Node* a, const Node* b) { return a->range_id() < b->range_id(); });
    for (const Node* node : order) {
      const size_t buffers = node->op == Op::kLoad || node->op == Op::kStore ? 1 : 0;
      for (const Node* source : Sources(node).subspan(buffers)) {
        if (source->op == Op::kParam) return Captured();
      }
    }
    for (const Node* node : order) {
      TD_ASSIGN_OR_RETURN(copies_[node], Copy(node));
    }
    std::vector<const Node*> copies;
    for (const Node* store : stores) copies.push_back(copies_.at(store));
    const Node* sink = graph_.Make(Op::kSink, copies, {});
    return Print({sink});
  }

 private:
  static absl::Span<const Node* const> Sources(const Node* node) {
    return In(node->op, kTransparent) ? node->src.first(1) : node->src;
  }

  static std::vector<const Node*> Order(absl::Span<const Node* const> roots) {
    std::vector<const Node*> order, stack(roots.rbegin(), roots.rend());
    absl::flat_hash_map<const Node*, bool> finished;
    while (!stack.empty()) {
      const Node* node = stack.back();
      if (finished.try_emplace(node, false).second) {
        const absl::Span<const Node* const> sources = Sources(node);
        for (size_t i = sources.size(); i-- > 0;) {
          if (!finished.contains(sources[i])) stack.push_back(sources[i]);
        }
        continue;
      }
      stack.pop_back();
      if (std::exchange(finished[node], true)) continue;
      order.push_back(node);
    }
    return order;
  }

  absl::Status Captured() const {
    return InvalidArgument(
        "kernel '{}' uses a tensor that is none of its inputs; pass it as an argument and read its "
        "elements",
        name_);
  }

  absl::StatusOr<const Node*> Copy(const Node* node) {
    std::vector<const Node*> src;
    for (const Node* source : Sources(node)) src.push_back(copies_.at(source));
    if (In(node->op, kTransparent)) return src[0];
    if (node->op == Op::kParam) return graph_.Param(node->slot(), node->dtype, node->shape);
    if ((Info(node->op).levels & kKernelLevel) == 0 || !node->shape.empty()) {
      return InvalidArgument(
          "kernel '{}' computes with single values, and {} works on whole tensors", name_,
          Name(node->op));
    }
    return CopyStrong(graph_, node, src);
  }

  std::string_view name_;
  Graph graph_;
  absl::flat_hash_map<const Node*, const Node*> copies_;
};

}  // namespace

bool UserKernelBody::IsEmpty() const {
  return std::all_of(outputs_.begin(), outputs_.end(),
                     [](const Operand& output) { return NumElements(output.shape) == 0; });
}

Expr UserKernelBody::MakeRange(Graph& graph, int64_t size, RangeKind kind) {
  const bool turnless = size == 0 && kind == RangeKind::kReduce;
  if (size < 1 && !turnless) {
    return Expr(&graph, InvalidArgument("kernel '{}': a loop of {} turns; it needs a number that "
                                        "is 1 at least, and sizes that vary are not supported",
                                        name_, size));
  }
  const int64_t id = next_range_++;
  const Node* range = graph.Range(turnless ? -1 - id : id, std::max<int64_t>(size, 1), kind);
  return Expr(&graph, graph.Cast(range, DType::kInt64));
}

std::optional<Expr> UserKernelBody::ReadIndex(Graph& graph, const Operand& operand,
                                              absl::Span<const Expr> index,
                                              std::vector<const Node*>& axes) const {
  if (index.size() != operand.shape.size()) {
    return Expr(&graph,
                InvalidArgument("kernel '{}': {} has shape {} and {} indices are given", name_,
                                operand.name, ShapeText(operand.shape), index.size()));
  }
  Indexer indexer(graph);
  for (const Expr& part : index) {
    if (!part.ok()) return part;
    const bool integer = IsInt(part.dtype()) || part.dtype() == DType::kWeakInt;
    if (!integer || !part.shape().empty()) {
      return Fail(part, "kernel '{}': an index of {} is {}{}, it must be an integer without axes",
                  name_, operand.name, Name(part.dtype()), ShapeText(part.shape()));
    }
    axes.push_back(indexer.ToIndex(part.node()));
    if (axes.back() == nullptr) {
      return Fail(part,
                  "kernel '{}': an index of {} has no bounds: clamp it to those of the axis, or "
                  "cast it to int32 and give the read a gate",
                  name_, operand.name);
    }
  }
  return std::nullopt;
}

Expr UserKernelBody::Load(Graph& graph, size_t input, absl::Span<const Expr> index,
                          const std::optional<Expr>& gate) const {
  const Operand& operand = inputs_[input];
  std::vector<const Node*> axes;
  if (auto error = ReadIndex(graph, operand, index, axes)) return *error;
  const Node* open = nullptr;
  if (gate) {
    if (!gate->ok()) return *gate;
    if (gate->dtype() != DType::kBool || !gate->shape().empty()) {
      return Fail(*gate, "kernel '{}': the gate of {} is {}{}, it must be a bool without axes",
                  name_, operand.name, Name(gate->dtype()), ShapeText(gate->shape()));
    }
    open = Indexer(graph).ToGate(gate->node());
    if (open->IsConst() && open->Int() == 1) open = nullptr;
  }
  const bool never = open != nullptr && open->IsConst();
  if (never || DependsOnTurnless(axes)) return Constant(graph, 0, operand.dtype);

  const auto read = [&](int64_t elements, const Node* at) {
    const Node* param = graph.Param(SlotOf(input), operand.dtype, {elements});
    std::vector<const Node*> src = {param, at};
    if (open != nullptr) src.push_back(open);
    return graph.Make(Op::kLoad, src, {});
  };
  // Axis by axis, so that the end of a row is not taken for the beginning of the next.
  const Node* flat = graph.Index(0);
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const int64_t size = operand.shape[axis];
    const Node* one[] = {read(size, axes[axis])};
    if (FirstUnproven(one) != nullptr) {
      return Expr(&graph, InvalidArgument(
                              "kernel '{}': {}{} may be outside: axis {} has size {}, and {} is "
                              "in [{}, {}]{}",
                              name_, operand.name, IndexText(axes), axis, size,
                              TextOf(Dim{0, axes[axis]}), axes[axis]->lo, axes[axis]->hi,
                              open != nullptr ? " and the gate does not prove that it is inside"
                                              : "; give the read a gate: at(..., where=...)"));
    }
    flat = graph.Make(Op::kAdd, {graph.Make(Op::kMul, {flat, graph.Index(size)}), axes[axis]});
  }
  return Expr(&graph, read(NumElements(operand.shape), flat));
}

Expr UserKernelBody::Reduce(Graph& graph, ReduceKind kind, const Expr& value,
                            absl::Span<const Expr> ranges) const {
  if (!value.ok()) return value;
  if (!value.shape().empty()) {
    return Fail(value, "kernel '{}': a value of shape {} is reduced, it must be a single one",
                name_, ShapeText(value.shape()));
  }
  const Expr strong = Cast(value, Strong(value.dtype()));
  DType dtype = strong.dtype();
  if (kind == ReduceKind::kAdd) dtype = SumAccumulator(dtype);
  if (kind == ReduceKind::kMul && IsFloat(dtype)) dtype = ComputeDType(dtype);
  const DType result = IsFloat(strong.dtype()) ? strong.dtype() : dtype;
  std::vector<const Node*> src = {Cast(strong, dtype).node()};
  bool turnless = false;
  for (const Expr& range : ranges) {
    if (!range.ok()) return range;
    const Node* node = range.node()->op == Op::kCast ? range.node()->src[0] : range.node();
    if (node->op != Op::kRange || node->range_kind() != RangeKind::kReduce) {
      return Fail(value, "kernel '{}': it reduces over what is no reduce_range", name_);
    }
    turnless |= IsTurnless(node);
    src.push_back(node);
  }
  if (ranges.empty()) return Fail(value, "kernel '{}': it reduces over no range", name_);
  if (turnless) {
    const Scalar identity = ReduceIdentity(kind, dtype);
    return IsFloat(dtype) ? Constant(graph, identity.f, result)
                          : Cast(Expr(&graph, graph.Int(dtype, identity.i)), result);
  }
  const int64_t ints[] = {static_cast<int64_t>(kind)};
  return Cast(Expr(&graph, graph.TryMake({.op = Op::kFold, .src = src, .ints = ints})), result);
}

Expr UserKernelBody::Store(Graph& graph, size_t output, absl::Span<const Expr> index,
                           const Expr& value) {
  const Operand& operand = outputs_[output];
  std::vector<const Node*> axes;
  if (auto error = ReadIndex(graph, operand, index, axes)) return *error;
  if (!value.ok()) return value;
  if (!value.shape().empty()) {
    return Fail(value, "kernel '{}': a value of shape {} is stored to {}, it must be a single one",
                name_, ShapeText(value.shape()), operand.name);
  }
  const Node* flat = graph.Index(0);
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const int64_t size = operand.shape[axis];
    if (axes[axis]->lo < 0 || axes[axis]->hi >= size) {
      return Fail(value,
                  "kernel '{}': {}{} may be outside: axis {} has size {}, and {} is in [{}, {}]",
                  name_, operand.name, IndexText(axes), axis, size, TextOf(Dim{0, axes[axis]}),
                  axes[axis]->lo, axes[axis]->hi);
    }
    flat = graph.Make(Op::kAdd, {graph.Make(Op::kMul, {flat, graph.Index(size)}), axes[axis]});
  }
  const Node* param =
      graph.Param(static_cast<int64_t>(output), operand.dtype, {NumElements(operand.shape)});
  return Expr(&graph, graph.Make(Op::kStore, {param, flat, Cast(value, operand.dtype).node()}));
}

std::vector<Expr> UserKernelBody::Call(Graph& graph, absl::Span<const Expr> inputs,
                                       absl::Span<const Expr> stored) const {
  const auto failed = [&](absl::Status status) {
    return std::vector<Expr>(outputs_.size(), Expr(&graph, std::move(status)));
  };
  std::vector<const Node*> sources, stores;
  for (const Expr& input : inputs) {
    if (!input.ok()) return failed(input.status());
    const Operand& operand = inputs_[sources.size()];
    sources.push_back(Cast(input, operand.dtype).node());
    if (input.node()->has_dims() || input.shape() != Shape(operand.shape)) {
      return failed(InvalidArgument("kernel '{}': {} has shape {}, not {}; sizes must be numbers",
                                    name_, operand.name, ShapeText(input.shape()),
                                    ShapeText(operand.shape)));
    }
  }
  for (const Expr& store : stored) {
    if (!store.ok()) return failed(store.status());
    stores.push_back(store.node());
  }
  std::vector<Expr> results;
  if (IsEmpty()) {
    for (const Operand& output : outputs_) {
      results.push_back(Zeros(graph, output.shape, output.dtype));
    }
    return results;
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const auto count = std::count_if(stores.begin(), stores.end(), [&](const Node* store) {
      return store->src[0]->slot() == static_cast<int64_t>(k);
    });
    if (count == 1) continue;
    return failed(InvalidArgument(
        "kernel '{}': {} is stored {} times, it must be once: {}", name_, outputs_[k].name, count,
        count == 0 ? "assign to its elements" : "choose between values with where"));
  }
  const absl::StatusOr<std::string> body = BodyWriter(name_).Write(stores);
  if (!body.ok()) return failed(body.status());
  std::vector<user_kernel::Output> outputs;
  for (const Operand& output : outputs_) outputs.push_back({output.dtype, output.shape});
  const absl::StatusOr<const Node*> call =
      graph.TryMake({.op = Op::kUserKernel,
                     .src = sources,
                     .ints = user_kernel::IntsOf(outputs),
                     .text = user_kernel::TextOf(name_, *body)});
  if (!call.ok()) return failed(call.status());
  if (const absl::Status legal = ReadUserKernel(*call).status(); !legal.ok()) return failed(legal);
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const Node* const operand[] = {*call};
    const int64_t number[] = {static_cast<int64_t>(k)};
    results.emplace_back(&graph, graph.TryMake({.op = Op::kUserKernelResult,
                                                .src = operand,
                                                .ints = number,
                                                .dtype = outputs_[k].dtype}));
  }
  return results;
}

}  // namespace tensord
