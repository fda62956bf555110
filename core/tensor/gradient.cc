#include "core/tensor/gradient.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>

#include <array>
#include <numeric>

#include "core/ir/loop.h"
#include "core/ir/substitute.h"
#include "core/ir/user_kernel.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/loop_gradient.h"
#include "core/tensor/movement.h"
#include "core/tensor/placement.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/scatter.h"
#include "core/tensor/views.h"

namespace tensord {
namespace {

// What a rule sees: y = op(x...), and g = d loss / d y.
struct Step {
  Expr y;
  Expr g;
  Expr x(int i) const { return Expr(&y.graph(), y.node()->src[i]); }
};

// d loss / d x[i].
using Rule = Expr (*)(const Step& s, int i);

Expr Extreme(const Step& s, int i, Op op) {
  const Expr mine = s.x(i), other = s.x(1 - i);
  const Expr wins = op == Op::kMax ? Lt(other, mine) : Lt(mine, other);
  return Where(wins, s.g, Where(Eq(mine, other), s.g * 0.5, 0));
}

Axes AxesOf(absl::Span<const int64_t> axes) { return Axes(axes); }

Expr OfReduce(const Step& s, int) {
  const Expr x = s.x(0);
  const Axes axes = AxesOf(s.y.node()->reduce_axes());
  const auto spread = [&](const Expr& reduced) { return BroadcastTo(reduced, x.shape()); };
  switch (s.y.node()->reduce_kind()) {
    case ReduceKind::kAdd:
      return spread(s.g);
    case ReduceKind::kMax:
    case ReduceKind::kMin: {
      const Expr here = Eq(x, spread(s.y));
      const Expr ties = Sum(Cast(here, x.dtype()), axes, kKeepDims);
      return Where(here, spread(s.g / ties), 0);
    }
    case ReduceKind::kMul: {
      // The product of the others: by division, but where x is 0 it is the product of what is not,
      // and only if there is no second 0.
      const Expr zero = Eq(x, 0);
      const Expr nonzero = Where(zero, 1, x);
      const Expr zeros = Sum(Cast(zero, DType::kInt32), axes, kKeepDims);
      const Expr rest = Where(Eq(zeros, 1), Prod(nonzero, axes, kKeepDims), 0);
      return spread(s.g) * Where(zero, spread(rest), spread(s.y) / nonzero);
    }
  }
  return s.g;
}

Expr OfSlope(const Step& s, int i) {
  if (i == 0) return s.g;
  const std::string_view reason = s.y.node()->text;
  if (reason.empty()) return s.g * s.x(2);
  return Expr(&s.y.graph(), Unimplemented("gradient: {}", reason));
}

// A rule per op through which derivatives flow; at others they end. Movement is in Backward.
Rule RuleOf(Op op) {
  static const auto& rules = *[] {
    auto* table = new std::array<Rule, kNumOps>{};
    const std::pair<Op, Rule> rows[] = {
        // clang-format off
        {Op::kCast, [](const Step& s, int i) { return Cast(s.g, s.x(i).dtype()); }},
        {Op::kContiguous, [](const Step& s, int) { return s.g; }},
        {Op::kNeg,  [](const Step& s, int) { return -s.g; }},
        {Op::kExp,  [](const Step& s, int) { return s.g * s.y; }},
        {Op::kLog,  [](const Step& s, int) { return s.g / s.x(0); }},
        {Op::kSin,  [](const Step& s, int) { return s.g * Cos(s.x(0)); }},
        {Op::kSqrt, [](const Step& s, int) { return s.g / (s.y * 2); }},
        {Op::kAdd,  [](const Step& s, int) { return s.g; }},
        {Op::kSub,  [](const Step& s, int i) { return i == 0 ? s.g : -s.g; }},
        {Op::kMul,  [](const Step& s, int i) { return s.g * s.x(1 - i); }},
        {Op::kDiv,  [](const Step& s, int i) {
           return i == 0 ? s.g / s.x(1) : -(s.g * s.y / s.x(1));
         }},
        {Op::kMax,  [](const Step& s, int i) { return Extreme(s, i, Op::kMax); }},
        {Op::kMin,  [](const Step& s, int i) { return Extreme(s, i, Op::kMin); }},
        {Op::kWhere, [](const Step& s, int i) {
           return i == 1 ? Where(s.x(0), s.g, 0) : Where(s.x(0), 0, s.g);
         }},
        {Op::kWithSlope, OfSlope},
        {Op::kReduce, OfReduce},
        {Op::kPlace,
         [](const Step& s, int) {
           return Place(s.g, TargetOf(s.y.node()), SourceOf(s.y.node()));
         }},
        {Op::kScan, [](const Step& s, int) { return ScanGradient(s.x(0), s.y, s.g); }},
        {Op::kGather, [](const Step& s, int) { return GatherGradient(s.x(0), s.x(1), s.g); }},
        {Op::kScatter, [](const Step& s, int i) {
           return ScatterGradient({s.x(0), s.x(1), s.x(2)}, s.y, s.g, i);
         }},
        // clang-format on
    };
    for (const auto& [of, rule] : rows) (*table)[static_cast<int>(of)] = rule;
    return table;
  }();
  return rules[static_cast<int>(op)];
}

constexpr OpSet kLoopOps = OpBit(Op::kCarry) | OpBit(Op::kLoop) | OpBit(Op::kLoopResult);

// Whether a derivative can flow to that source.
bool Flows(const Node* node, size_t source) {
  if (!IsFloat(node->dtype) || !IsFloat(node->src[source]->dtype)) return false;
  if (node->op == Op::kWithSlope && source == 2) return false;
  return In(node->op, MovementOps()) || RuleOf(node->op) != nullptr;
}

// The sources to which derivatives flow from a node, once for each time that they do.
absl::InlinedVector<const Node*, 3> FlowsTo(const Node* node) {
  absl::InlinedVector<const Node*, 3> sources;
  if (const auto custom = CustomGradient::Of(node)) {
    sources.assign(custom->inputs.begin(), custom->inputs.end());
    return sources;
  }
  if (node->op == Op::kUserKernelResult && IsFloat(node->dtype)) {
    for (const Node* input : node->src[0]->src) {
      if (IsFloat(input->dtype)) sources.push_back(input);
    }
    return sources;
  }
  for (size_t i = 0; i < node->src.size(); ++i) {
    if (Flows(node, i)) sources.push_back(node->src[i]);
  }
  return sources;
}

// Those below which a target makes a derivative arrive at the node. Those of loops are passed on by
// the Loop as a whole, to the initial values and to what the body captures.
absl::InlinedVector<const Node*, 3> Reaching(const Node* node) {
  if (!In(node->op, kLoopOps)) return FlowsTo(node);
  absl::InlinedVector<const Node*, 3> sources;
  for (const Node* source : node->src) {
    if (node->op == Op::kLoopResult || IsFloat(source->dtype)) sources.push_back(source);
  }
  return sources;
}

// A derivative in the making: the sum of `value` over its last axes, which come after those of the
// node. Sums that Expand calls for wait there while windows (Slide) follow, so that the derivative
// of a convolution is one sum over a product of views and not a sum for each spatial axis.
struct Partial {
  Expr value;
  int64_t waiting = 0;
};

class Backward {
 public:
  // With `ends_there`, no derivative goes on through a target.
  Backward(absl::Span<const Expr> losses, absl::Span<const Expr> targets, bool ends_there)
      : graph_(losses[0].graph()), ends_there_(ends_there) {
    for (const Expr& target : targets) targets_.insert(target.node());
    std::vector<const Node*> roots;
    for (const Expr& loss : losses) roots.push_back(loss.node());
    order_ = TopologicalOrder(roots);
    for (const Node* node : order_) {
      bool reached = targets_.contains(node);
      for (const Node* source : Reaching(node)) reached |= reached_.contains(source);
      if (reached) reached_.insert(node);
    }
    for (const Node* root : roots) ++users_[root];
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      if (!reached_.contains(*it) || !users_.contains(*it) || Ends(*it)) continue;
      for (const Node* receiver : Receivers(*it)) ++users_[receiver];
    }
  }

  void Run(absl::Span<const Expr> losses, absl::Span<const Expr> seeds,
           absl::Span<const std::pair<Expr, Expr>> given = {}) {
    absl::flat_hash_map<const Node*, Expr> said;
    for (const auto& [value, gradient] : given) said.insert({value.node(), gradient});
    for (size_t k = 0; k < losses.size(); ++k) {
      if (reached_.contains(losses[k].node())) Accumulate(losses[k].node(), {seeds[k]});
    }
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const auto other = said.empty() ? said.end() : said.find(*it);
      if (other != said.end() && partials_.contains(*it)) partials_.at(*it) = {other->second};
      if ((*it)->op == Op::kLoop) {
        PassLoop(*it);
      } else if (partials_.contains(*it) && !Ends(*it)) {
        Pass(*it);
      }
    }
  }

  // Of a target, after Run.
  Expr Result(const Expr& target) {
    const auto found = partials_.find(target.node());
    return found == partials_.end() ? FullLike(target, 0)
                                    : Finished(target.node(), found->second).value;
  }

 private:
  // Whether derivatives that arrive at the node stay there.
  bool Ends(const Node* node) const {
    return node->op == Op::kCarry || (ends_there_ && targets_.contains(node));
  }

  // Where the node sends a derivative, once for each time that it does.
  std::vector<const Node*> Receivers(const Node* node) {
    std::vector<const Node*> receivers;
    const auto add = [&](const Node* receiver) {
      if (IsFloat(receiver->dtype) && reached_.contains(receiver)) receivers.push_back(receiver);
    };
    if (node->op == Op::kLoop) {
      for (size_t k = 0; k < loop::NumStates(node); ++k) add(loop::InitOf(node, k));
      for (const Node* value : loop::Captured(node, targets_)) add(value);
    } else if (node->op == Op::kLoopResult) {
      receivers.push_back(node->src[0]);
    } else {
      for (const Node* source : FlowsTo(node)) add(source);
    }
    return receivers;
  }

  void PassLoop(const Node* loop) {
    const auto seeds = of_loops_.find(loop);
    if (seeds == of_loops_.end() || !reached_.contains(loop)) return;
    std::vector<Expr> captured;
    for (const Node* value : loop::Captured(loop, targets_)) {
      if (IsFloat(value->dtype) && reached_.contains(value)) captured.emplace_back(&graph_, value);
    }
    const LoopGradient gradient = GradientOfLoop(graph_, loop, seeds->second, captured);
    for (size_t k = 0; k < loop::NumStates(loop); ++k) {
      const Node* initial = loop::InitOf(loop, k);
      if (IsFloat(initial->dtype) && reached_.contains(initial)) {
        Accumulate(initial, {*gradient.initial[k]});
      }
    }
    for (size_t j = 0; j < captured.size(); ++j) {
      Accumulate(captured[j].node(), {gradient.captured[j]});
    }
  }

  void Pass(const Node* node) {
    Partial& partial = partials_.at(node);
    const bool moves = In(node->op, MovementOps());
    if (targets_.contains(node) || !moves) partial = Finished(node, partial);
    if (node->op == Op::kLoopResult) {
      std::vector<std::optional<Expr>>& seeds = of_loops_[node->src[0]];
      seeds.resize(loop::NumStates(node->src[0]));
      seeds[node->slot()] = partial.value;
      return;
    }
    if (moves) {
      const Node* source = node->src[0];
      if (reached_.contains(source)) Accumulate(source, Moved(node, partial));
      return;
    }
    if (const auto custom = CustomGradient::Of(node)) {
      PassCustom(*custom, partial.value);
      return;
    }
    if (node->op == Op::kUserKernelResult) {
      const Expr error = Fail(partial.value,
                              "gradient: kernel '{}' has no gradient; give it one, or detach what "
                              "it is called with",
                              user_kernel::NameOf(node->src[0]));
      for (const Node* input : FlowsTo(node)) {
        if (reached_.contains(input)) Accumulate(input, {error});
      }
      return;
    }
    const Step step = {Expr(&graph_, node), partial.value};
    for (size_t i = 0; i < node->src.size(); ++i) {
      const Node* source = node->src[i];
      if (!Flows(node, i) || !reached_.contains(source)) continue;
      Accumulate(source, {RuleOf(node->op)(step, static_cast<int>(i))});
    }
  }

  void PassCustom(const CustomGradient& custom, Expr g) {
    std::vector<const Node*> gradients = custom.gradients;
    if (g.ok()) {
      ReplacementMap map;
      map[custom.stand_in] = {g.node()};
      gradients = Substitute(graph_, gradients, map);
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!reached_.contains(custom.inputs[i])) continue;
      Accumulate(custom.inputs[i], {g.ok() ? Expr(&graph_, gradients[i]) : g});
    }
  }

  void Accumulate(const Node* node, Partial partial) {
    if (users_.at(node) > 1) partial = Finished(node, partial);
    const auto [it, inserted] = partials_.insert({node, partial});
    if (!inserted) it->second.value = it->second.value + partial.value;
  }

  Partial Finished(const Node* node, const Partial& partial) const {
    if (partial.waiting == 0) return partial;
    Dims axes(partial.waiting);
    std::iota(axes.begin(), axes.end(), node->rank());
    return {Sum(partial.value, AxesOf(axes))};
  }

  // The inverse of a movement, on the first axes of the partial.
  Partial Moved(const Node* node, const Partial& partial) const {
    const Node* source = node->src[0];
    const Shape from = Expr(&graph_, source).shape();
    const Expr& g = partial.value;
    if (!g.ok()) return partial;
    const Shape waiting = g.shape().last(partial.waiting);
    Dims ints, given;
    if (HasSizes(node->op)) {
      for (const Dim& dim : AttributeOf(node)) given.push_back(SizeOf(dim));
    }
    Op op = node->op;
    switch (node->op) {
      case Op::kExpand:
        return Repeated(node, partial);
      case Op::kReshape:
        ints.assign(from.begin(), from.end());
        ints.insert(ints.end(), waiting.begin(), waiting.end());
        break;
      case Op::kPermute:
        ints.resize(g.rank());
        for (int64_t i = 0; i < g.rank(); ++i) ints[i < node->rank() ? node->ints[i] : i] = i;
        break;
      case Op::kFlip:
        ints.assign(node->ints.begin(), node->ints.end());
        break;
      case Op::kPad:
        op = Op::kShrink;
        for (int64_t i = 0; i < node->rank(); ++i) {
          const absl::StatusOr<int64_t> end = SizePlus(given[2 * i], from[i]);
          if (!end.ok()) return {Expr(&graph_, end.status())};
          ints.insert(ints.end(), {given[2 * i], *end});
        }
        for (int64_t dim : waiting) ints.insert(ints.end(), {0, dim});
        break;
      case Op::kShrink:
        op = Op::kPad;
        for (int64_t i = 0; i < node->rank(); ++i) {
          const absl::StatusOr<int64_t> after = SizeMinus(from[i], given[2 * i + 1]);
          if (!after.ok()) return {Expr(&graph_, after.status())};
          ints.insert(ints.end(), {given[2 * i], *after});
        }
        ints.insert(ints.end(), 2 * waiting.size(), 0);
        break;
      case Op::kSlide:
      case Op::kUnslide:
        op = node->op == Op::kSlide ? Op::kUnslide : Op::kSlide;
        ints.assign(node->ints.begin(), node->ints.end());
        ints[4] = from[node->ints[0]];
        break;
      default:
        break;
    }
    if (partial.waiting > 0) return {MoveBelow(op, ints, g), partial.waiting};
    if (op == Op::kReshape) return {Reshape(g, ints)};
    return {Apply(op, {g}, ints)};
  }

  // The derivative of Expand: the sum over repeated axes, or axes that wait for it.
  Partial Repeated(const Node* node, const Partial& partial) const {
    const Node* source = node->src[0];
    const Shape from = Expr(&graph_, source).shape(), to = Expr(&graph_, node).shape();
    const Expr& g = partial.value;
    Dims repeated, order, dims(from.begin(), from.end());
    for (int64_t i = 0; i < node->rank(); ++i) {
      if (from[i] == to[i]) {
        order.push_back(i);
      } else {
        repeated.push_back(i);
      }
    }
    if (partial.waiting == 0 && !HasWindows(source)) {
      return {Sum(g, AxesOf(repeated), kKeepDims)};
    }
    order.insert(order.end(), repeated.begin(), repeated.end());
    for (int64_t axis : repeated) dims.push_back(to[axis]);
    for (int64_t i = node->rank(); i < g.rank(); ++i) {
      order.push_back(i);
      dims.push_back(g.shape()[i]);
    }
    const Expr apart = MoveBelow(Op::kReshape, dims, MoveBelow(Op::kPermute, order, g));
    return {apart, partial.waiting + static_cast<int64_t>(repeated.size())};
  }

  // Whether windows follow on the way to the sources, before anything but movement.
  bool HasWindows(const Node* node) const {
    while (In(node->op, MovementOps()) && !targets_.contains(node) && users_.at(node) == 1) {
      if (node->op == Op::kSlide || node->op == Op::kUnslide) return true;
      node = node->src[0];
      if (!reached_.contains(node)) return false;
    }
    return false;
  }

  Graph& graph_;
  const bool ends_there_;
  absl::flat_hash_set<const Node*> targets_;
  std::vector<const Node*> order_;
  absl::flat_hash_set<const Node*> reached_;     // a target is at or below it
  absl::flat_hash_map<const Node*, int> users_;  // edges by which derivatives arrive
  absl::flat_hash_map<const Node*, Partial> partials_;
  // Of the states after a loop.
  absl::flat_hash_map<const Node*, std::vector<std::optional<Expr>>> of_loops_;
};

std::optional<Expr> Check(const Expr& loss, absl::Span<const Expr> targets,
                          const std::optional<Expr>& seed,
                          absl::Span<const std::pair<Expr, Expr>> given) {
  if (!loss.ok()) return loss;
  for (const auto& [value, gradient] : given) {
    if (!value.ok()) return value;
    if (!gradient.ok()) return gradient;
    if (gradient.shape() != value.shape() || gradient.dtype() != value.dtype()) {
      return Fail(loss, "gradient: a value {}{} is given the gradient {}{}", Name(value.dtype()),
                  ShapeText(value.shape()), Name(gradient.dtype()), ShapeText(gradient.shape()));
    }
  }
  if (!IsFloat(loss.dtype())) {
    return Fail(loss, "gradient: the loss is {}, it must be a float", Name(loss.dtype()));
  }
  if (!seed && NumElements(loss.shape()) != 1) {
    return Fail(loss,
                "gradient: the loss has shape {}; reduce it to one element, or give the gradient "
                "with respect to it",
                ShapeText(loss.shape()));
  }
  if (seed) {
    if (!seed->ok()) return *seed;
    if (seed->shape() != loss.shape()) {
      return Fail(loss, "gradient: the gradient {} and the loss {} differ in shape",
                  ShapeText(seed->shape()), ShapeText(loss.shape()));
    }
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!targets[i].ok()) return targets[i];
    if (!IsFloat(targets[i].dtype())) {
      return Fail(loss, "gradient: target {} is {}, only floats have gradients", i,
                  Name(targets[i].dtype()));
    }
    // A constant is one node wherever it occurs, so what depends on it cannot be told.
    const OpSet kOfConstants = OpBit(Op::kConst) | MovementOps();
    if (IsWeak(targets[i].dtype()) && !(targets[i].node()->below_ops & ~kOfConstants)) {
      return Fail(loss,
                  "gradient: target {} is a plain number, not a tensor with data; give it a dtype, "
                  "or clone() it",
                  i);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Expr> Gradient(const Expr& loss, absl::Span<const Expr> targets,
                           const std::optional<Expr>& seed,
                           absl::Span<const std::pair<Expr, Expr>> given) {
  if (auto error = Check(loss, targets, seed, given))
    return std::vector<Expr>(targets.size(), *error);
  const Expr losses[] = {loss};
  const Expr seeds[] = {seed ? Cast(*seed, loss.dtype()) : FullLike(loss, 1)};
  Backward backward(losses, targets, false);
  backward.Run(losses, seeds, given);
  std::vector<Expr> results;
  for (const Expr& target : targets) results.push_back(backward.Result(target));
  return results;
}

std::vector<const Node*> DerivativesGoTo(const Node* node) {
  const auto reaching = Reaching(node);
  return {reaching.begin(), reaching.end()};
}

std::vector<Expr> Pullback(absl::Span<const Expr> outputs, absl::Span<const Expr> seeds,
                           absl::Span<const Expr> targets) {
  if (outputs.empty()) {
    std::vector<Expr> zeros;
    for (const Expr& target : targets) zeros.push_back(FullLike(target, 0));
    return zeros;
  }
  Backward backward(outputs, targets, true);
  backward.Run(outputs, seeds);
  std::vector<Expr> results;
  for (const Expr& target : targets) results.push_back(backward.Result(target));
  return results;
}

}  // namespace tensord
