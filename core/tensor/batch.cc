#include "core/tensor/batch.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>

#include <array>

#include "core/base/status.h"
#include "core/ir/loop.h"
#include "core/ir/user_kernel.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/placement.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

// What a node became: itself or over other nodes, with or without the axis of the batch.
struct Value {
  Expr x;
  bool batched = false;
};
using Values = absl::InlinedVector<Value, 4>;

class Batcher {
 public:
  Batcher(Graph& graph, int64_t size) : graph_(graph), size_(size) {}

  std::vector<Expr> Run(absl::Span<const Expr> roots,
                        absl::Span<const std::pair<Expr, Expr>> examples);

 private:
  // The node over sources of which at least one is batched.
  using Rule = Expr (Batcher::*)(const Node* node, const Values& src);
  struct Row {
    OpSet ops;
    Rule rule;
  };
  static const Row kRows[];

  Expr Elementwise(const Node* node, const Values& src);
  Expr Sized(const Node* node, const Values& src);   // dims or pairs: one more in front
  Expr ByAxes(const Node* node, const Values& src);  // axes among the ints move by one
  Expr Same(const Node* node, const Values& src);    // the axes do not matter
  Expr Gathered(const Node* node, const Values& src);
  Expr Scattered(const Node* node, const Values& src);
  Expr Placed(const Node* node, const Values& src);
  Expr Customised(const Node* node, const Values& src);
  Expr ByKernel(const Node* node, const Values& src);

  // Which nodes depend on an example. In a loop what becomes of a state decides, too.
  void FindBatched(absl::Span<const Node* const> order);
  bool IsBatched(const Node* node) const { return batched_.contains(node); }

  Value Make(const Node* node);
  Value MakeLoop(const Node* loop);
  Expr Remade(const Node* node, const Values& src);

  Expr ExprOf(const Node* node) { return Expr(&graph_, node); }
  // With the axis, repeated along it if it had none.
  Expr Whole(const Value& value);
  // With an axis of size 1 in its place.
  Expr WithAxisOf(const Value& value);
  Expr Over(const Node* node, std::initializer_list<Expr> src, absl::Span<const int64_t> ints);

  Graph& graph_;
  const int64_t size_;
  absl::flat_hash_set<const Node*> batched_;
  absl::flat_hash_map<const Node*, Value> made_;
};

const Batcher::Row Batcher::kRows[] = {
    {ElementwiseOps() | OpBit(Op::kWithSlope), &Batcher::Elementwise},
    {OpBit(Op::kReshape) | OpBit(Op::kExpand) | OpBit(Op::kPad) | OpBit(Op::kShrink),
     &Batcher::Sized},
    {OpBit(Op::kPermute) | OpBit(Op::kFlip) | OpBit(Op::kSlide) | OpBit(Op::kUnslide) |
         OpBit(Op::kReduce) | OpBit(Op::kScan),
     &Batcher::ByAxes},
    {OpBit(Op::kContiguous) | OpBit(Op::kDetach), &Batcher::Same},
    {OpBit(Op::kGather), &Batcher::Gathered},
    {OpBit(Op::kScatter), &Batcher::Scattered},
    {OpBit(Op::kPlace), &Batcher::Placed},
    {OpBit(Op::kCustom), &Batcher::Customised},
    {OpBit(Op::kUserKernel) | OpBit(Op::kUserKernelResult), &Batcher::ByKernel},
};

// ---- values

Expr Batcher::WithAxisOf(const Value& value) {
  return value.batched || !value.x.ok() ? value.x : Unsqueeze(value.x, 0);
}

Expr Batcher::Whole(const Value& value) {
  if (value.batched || !value.x.ok()) return value.x;
  return BroadcastTo(value.x, WithInserted(value.x.shape(), 0, size_));
}

Expr Batcher::Over(const Node* node, std::initializer_list<Expr> src,
                   absl::Span<const int64_t> ints) {
  absl::InlinedVector<const Node*, 4> nodes;
  for (const Expr& x : src) {
    if (!x.ok()) return x;
    nodes.push_back(x.node());
  }
  return Expr(
      &graph_,
      graph_.TryMake(
          {.op = node->op, .src = nodes, .ints = ints, .text = node->text, .dtype = node->dtype}));
}

// ---- rules

Expr Batcher::Elementwise(const Node* node, const Values& src) {
  absl::InlinedVector<const Node*, 4> nodes;
  for (const Value& value : src) {
    const Expr x = Whole(value);
    if (!x.ok()) return x;
    nodes.push_back(x.node());
  }
  return Expr(&graph_, graph_.TryMake({.op = node->op,
                                       .src = nodes,
                                       .ints = node->ints,
                                       .text = node->text,
                                       .dtype = node->dtype}));
}

Expr Batcher::Sized(const Node* node, const Values& src) {
  Dims ints;
  switch (node->op) {
    case Op::kPad:
      ints = {0, 0};
      break;
    case Op::kShrink:
      ints = {0, size_};
      break;
    default:
      ints = {size_};
      break;
  }
  for (const Dim& dim : AttributeOf(node)) ints.push_back(SizeOf(dim));
  return Apply(node->op, {src[0].x}, ints);
}

Expr Batcher::ByAxes(const Node* node, const Values& src) {
  Dims ints(node->ints.begin(), node->ints.end());
  // The ints that are axes.
  size_t first = 0, last = ints.size();
  switch (node->op) {
    case Op::kReduce:
      first = 1;
      break;
    case Op::kScan:
      first = 1;
      last = 2;
      break;
    case Op::kSlide:
    case Op::kUnslide:
      last = 2;
      break;
    default:
      break;
  }
  for (size_t i = first; i < last; ++i) ++ints[i];
  if (node->op == Op::kPermute) ints.insert(ints.begin(), 0);
  return Over(node, {src[0].x}, ints);
}

Expr Batcher::Same(const Node* node, const Values& src) {
  return Over(node, {src[0].x}, node->ints);
}

// Rows of x [n, rest] by index [dims]: [dims, rest].
Expr Batcher::Gathered(const Node* node, const Values& src) {
  const Expr &x = src[0].x, &index = src[1].x;
  if (!src[0].batched) return Over(node, {x, index}, {});
  if (!src[1].batched) {
    const Expr rows = Over(node, {MoveAxis(x, 0, 1), index}, {});
    return rows.ok() ? MoveAxis(rows, index.rank(), 0) : rows;
  }
  // Each example has rows of its own: those of all lie behind each other.
  if (auto error = NeedsNumber("vmap of an index", x, 1)) return *error;
  const int64_t n = x.shape()[1];
  const Expr wide = Cast(index, DType::kInt64);
  Dims first(index.rank(), 1);
  first[0] = size_;
  const Expr begin = BroadcastTo(
      Reshape(Arange(graph_, 0, size_ * n, std::max<int64_t>(n, 1), DType::kInt64), first),
      index.shape());
  const Expr inside = LogicalAnd(Ge(wide, 0), Lt(wide, n));
  Dims rows(x.shape().begin() + 1, x.shape().end());
  rows[0] = size_ * n;
  return Over(node, {Reshape(x, rows), Where(inside, wide + begin, -1)}, {});
}

// The axis of the batch is one more before the indexed one.
Expr Batcher::Scattered(const Node* node, const Values& src) {
  Dims ints(node->ints.begin(), node->ints.end());
  ++ints[1];
  return Over(node, {Whole(src[0]), WithAxisOf(src[1]), Whole(src[2])}, ints);
}

Expr Batcher::Placed(const Node* node, const Values& src) {
  Placement from = SourceOf(node), to = TargetOf(node);
  for (Placement* place : {&from, &to}) {
    if (place->axis != kWhole) ++place->axis;
  }
  return Place(src[0].x, from, to);
}

// value, stand-in, inputs..., gradients...: the gradients are those of examples.
Expr Batcher::Customised(const Node* node, const Values& src) {
  const auto custom = CustomGradient::Of(node);
  if (!custom) return Fail(src[0].x, "vmap: a custom gradient is not one");
  const size_t count = custom->inputs.size();
  std::vector<Expr> inputs, gradients;
  for (size_t i = 0; i < count; ++i) {
    const Value &input = src[2 + i], &gradient = src[2 + count + i];
    inputs.push_back(input.x);
    // An input that all examples share has the sum of their gradients.
    gradients.push_back(input.batched ? Whole(gradient) : Sum(Whole(gradient), 0));
    if (!input.batched && gradients.back().ok()) {
      gradients.back() = Cast(gradients.back(), input.x.dtype());
    }
  }
  return WithGradient(Whole(src[0]), inputs, src[1].x, gradients);
}

Expr Batcher::ByKernel(const Node* node, const Values& src) {
  const Node* kernel = node->op == Op::kUserKernel ? node : node->src[0];
  return Fail(src[0].x,
              "vmap: kernel '{}' has no rule for a batch; call it on all examples at once",
              user_kernel::NameOf(kernel));
}

// ---- the walk

void Batcher::FindBatched(absl::Span<const Node* const> order) {
  for (bool changed = true; changed;) {
    changed = false;
    const auto add = [&](const Node* node) { changed |= batched_.insert(node).second; };
    for (const Node* node : order) {
      if (node->op == Op::kLoopResult) {
        if (IsBatched(loop::CarryOf(node->src[0], node->slot()))) add(node);
        continue;
      }
      if (node->op == Op::kLoop) {
        // Examples that are done keep their states while others go on.
        const bool all = IsBatched(loop::Condition(node));
        for (size_t k = 0; k < loop::NumStates(node); ++k) {
          if (all || IsBatched(loop::NextOf(node, k))) add(loop::CarryOf(node, k));
        }
        continue;
      }
      // A rule that reads an example makes a custom gradient another one.
      if (const auto custom = CustomGradient::Of(node)) {
        for (const Node* source : node->src) {
          if (IsBatched(source)) add(node), add(custom->stand_in);
        }
        continue;
      }
      for (const Node* source : node->src) {
        if (IsBatched(source)) add(node);
      }
    }
  }
}

Expr Batcher::Remade(const Node* node, const Values& src) {
  for (const Value& value : src) {
    if (!value.x.ok()) return value.x;
  }
  for (const Row& row : kRows) {
    if (In(node->op, row.ops)) return (this->*row.rule)(node, src);
  }
  return Fail(src[0].x, "vmap: {} has no rule for a batch", Name(node->op));
}

Value Batcher::MakeLoop(const Node* loop) {
  const Value& condition = made_.at(loop::Condition(loop));
  std::vector<const Node*> parts(1);
  Expr going = condition.x;
  if (condition.batched && going.ok()) going = Any(going);
  if (!going.ok()) return {going};
  parts[0] = going.node();
  for (size_t k = 0; k < loop::NumStates(loop); ++k) {
    const Value& carry = made_.at(loop::CarryOf(loop, k));
    const Value& next = made_.at(loop::NextOf(loop, k));
    Expr after = carry.batched ? Whole(next) : next.x;
    if (condition.batched && carry.x.ok() && after.ok()) {
      Dims dims(after.rank(), 1);
      dims[0] = size_;
      after = Where(BroadcastTo(Reshape(condition.x, dims), after.shape()), after, carry.x);
    }
    for (const Expr* part : {&carry.x, &std::as_const(after)}) {
      if (!part->ok()) return {*part};
      parts.push_back(part->node());
    }
  }
  return {Expr(&graph_, graph_.TryMake({.op = Op::kLoop, .src = parts, .ints = loop->ints}))};
}

Value Batcher::Make(const Node* node) {
  if (node->op == Op::kLoop) return MakeLoop(node);
  Values src;
  bool changed = false, any = false;
  for (const Node* source : node->src) {
    src.push_back(made_.at(source));
    if (!src.back().x.ok()) return {src.back().x, IsBatched(node)};
    changed |= src.back().x.node() != source;
    any |= src.back().batched;
  }
  const bool batched = IsBatched(node);
  if (node->op == Op::kCarry && batched) {
    return {Over(node, {Whole(src[0])}, node->ints), true};
  }
  if (node->op == Op::kLoopResult) {
    return {changed ? Over(node, {src[0].x}, node->ints) : ExprOf(node), batched};
  }
  if (node->src.empty() && batched) return {StandIn(Whole({ExprOf(node)})), true};  // of a gradient
  if (any) return {Remade(node, src), true};
  if (!changed) return {ExprOf(node)};
  absl::InlinedVector<const Node*, 4> nodes;
  for (const Value& value : src) nodes.push_back(value.x.node());
  return {ExprOf(graph_.WithSources(node, nodes))};
}

std::vector<Expr> Batcher::Run(absl::Span<const Expr> roots,
                               absl::Span<const std::pair<Expr, Expr>> examples) {
  std::vector<const Node*> nodes;
  for (const Expr& root : roots) nodes.push_back(root.node());
  const std::vector<const Node*> order = TopologicalOrder(nodes);
  for (const auto& [one, all] : examples) {
    batched_.insert(one.node());
    made_.insert({one.node(), {all, true}});
  }
  FindBatched(order);
  for (const Node* node : order) {
    if (!made_.contains(node)) made_.insert({node, Make(node)});
  }
  std::vector<Expr> results;
  for (const Node* node : nodes) results.push_back(Whole(made_.at(node)));
  return results;
}

}  // namespace

std::vector<Expr> Batch(absl::Span<const Expr> roots,
                        absl::Span<const std::pair<Expr, Expr>> examples, int64_t size) {
  const auto failed = [&](const Expr& error) { return std::vector<Expr>(roots.size(), error); };
  if (roots.empty()) return {};
  for (const Expr& root : roots) {
    if (!root.ok()) return failed(root);
  }
  for (const auto& [one, all] : examples) {
    if (!one.ok()) return failed(one);
    if (!all.ok()) return failed(all);
    if (all.dtype() != one.dtype() || all.shape() != Shape(WithInserted(one.shape(), 0, size))) {
      return failed(Fail(all, "vmap: {} examples of {}{} are not {}{}", size, Name(one.dtype()),
                         ShapeText(one.shape()), Name(all.dtype()), ShapeText(all.shape())));
    }
  }
  return Batcher(roots[0].graph(), size).Run(roots, examples);
}

}  // namespace tensord
