#include "core/tensor/gradient.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <array>
#include <numbers>
#include <numeric>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"
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

// Adds each row of g to the row of x that it came from, by comparing all with all.
Expr OfGather(const Step& s, int) {
  const Expr x = s.x(0), index = s.x(1);
  const int64_t rows = x.shape()[0], count = NumElements(index.shape());
  Dims taken = {1, count}, each = {rows, count}, row = {rows, 1}, numbers = {1, count};
  for (int64_t dim : x.shape().subspan(1)) {
    taken.push_back(dim);
    each.push_back(dim);
    row.push_back(1);
    numbers.push_back(1);
  }
  const Expr row_number = Reshape(Arange(x.graph(), 0, rows, 1, DType::kInt64), row);
  const Expr here = Eq(row_number, Reshape(index, numbers));
  return Sum(Where(here, BroadcastTo(Reshape(s.g, taken), each), 0), 1);
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
        {Op::kSin,  [](const Step& s, int) { return s.g * Sin(s.x(0) + std::numbers::pi / 2); }},
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
        {Op::kReduce, OfReduce},
        {Op::kGather, OfGather},
        // clang-format on
    };
    for (const auto& [of, rule] : rows) (*table)[static_cast<int>(of)] = rule;
    return table;
  }();
  return rules[static_cast<int>(op)];
}

// Whether a derivative can flow to that source.
bool Flows(const Node* node, size_t source) {
  if (!IsFloat(node->dtype) || !IsFloat(node->src[source]->dtype)) return false;
  return In(node->op, MovementOps()) || RuleOf(node->op) != nullptr;
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
  Backward(const Expr& loss, absl::Span<const Expr> targets) : graph_(loss.graph()) {
    for (const Expr& target : targets) targets_.insert(target.node());
    const Node* const roots[] = {loss.node()};
    order_ = TopologicalOrder(roots);
    for (const Node* node : order_) {
      bool reached = targets_.contains(node);
      for (size_t i = 0; i < node->src.size(); ++i) {
        reached |= Flows(node, i) && reached_.contains(node->src[i]);
      }
      if (reached) reached_.insert(node);
    }
    users_[loss.node()] = 1;
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node* node = *it;
      if (!reached_.contains(node) || !users_.contains(node)) continue;
      for (size_t i = 0; i < node->src.size(); ++i) {
        if (Flows(node, i) && reached_.contains(node->src[i])) ++users_[node->src[i]];
      }
    }
  }

  void Run(const Expr& loss, const Expr& seed) {
    if (!reached_.contains(loss.node())) return;
    partials_.insert({loss.node(), {seed}});
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      if (partials_.contains(*node)) Pass(*node);
    }
  }

  // Of a target, after Run.
  Expr Result(const Expr& target) {
    const auto found = partials_.find(target.node());
    return found == partials_.end() ? FullLike(target, 0) : found->second.value;
  }

 private:
  void Pass(const Node* node) {
    Partial& partial = partials_.at(node);
    const bool moves = In(node->op, MovementOps());
    if (targets_.contains(node) || !moves) partial = Finished(node, partial);
    if (moves) {
      const Node* source = node->src[0];
      if (reached_.contains(source)) Accumulate(source, Moved(node, partial));
      return;
    }
    const Step step = {Expr(&graph_, node), partial.value};
    for (size_t i = 0; i < node->src.size(); ++i) {
      const Node* source = node->src[i];
      if (!Flows(node, i) || !reached_.contains(source)) continue;
      Accumulate(source, {RuleOf(node->op)(step, static_cast<int>(i))});
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
    const Expr& g = partial.value;
    if (!g.ok()) return partial;
    const Shape waiting = g.shape().last(partial.waiting);
    Dims ints;
    Op op = node->op;
    switch (node->op) {
      case Op::kExpand:
        return Repeated(node, partial);
      case Op::kReshape:
        ints.assign(source->shape.begin(), source->shape.end());
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
          const int64_t before = node->ints[2 * i];
          ints.insert(ints.end(), {before, before + source->shape[i]});
        }
        for (int64_t dim : waiting) ints.insert(ints.end(), {0, dim});
        break;
      case Op::kShrink:
        op = Op::kPad;
        for (int64_t i = 0; i < node->rank(); ++i) {
          const int64_t begin = node->ints[2 * i], end = node->ints[2 * i + 1];
          ints.insert(ints.end(), {begin, source->shape[i] - end});
        }
        ints.insert(ints.end(), 2 * waiting.size(), 0);
        break;
      case Op::kSlide:
      case Op::kUnslide:
        op = node->op == Op::kSlide ? Op::kUnslide : Op::kSlide;
        ints.assign(node->ints.begin(), node->ints.end());
        ints[4] = source->shape[node->ints[0]];
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
    const Expr& g = partial.value;
    Dims repeated, order, dims(source->shape.begin(), source->shape.end());
    for (int64_t i = 0; i < node->rank(); ++i) {
      if (source->shape[i] == node->shape[i]) {
        order.push_back(i);
      } else {
        repeated.push_back(i);
      }
    }
    if (partial.waiting == 0 && !HasWindows(source)) {
      return {Sum(g, AxesOf(repeated), kKeepDims)};
    }
    order.insert(order.end(), repeated.begin(), repeated.end());
    for (int64_t axis : repeated) dims.push_back(node->shape[axis]);
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
  absl::flat_hash_set<const Node*> targets_;
  std::vector<const Node*> order_;
  absl::flat_hash_set<const Node*> reached_;     // a target is at or below it
  absl::flat_hash_map<const Node*, int> users_;  // edges by which derivatives arrive
  absl::flat_hash_map<const Node*, Partial> partials_;
};

std::optional<Expr> Check(const Expr& loss, absl::Span<const Expr> targets,
                          const std::optional<Expr>& seed) {
  if (!loss.ok()) return loss;
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
  }
  return std::nullopt;
}

}  // namespace

std::vector<Expr> Gradient(const Expr& loss, absl::Span<const Expr> targets,
                           const std::optional<Expr>& seed) {
  if (auto error = Check(loss, targets, seed)) return std::vector<Expr>(targets.size(), *error);
  Backward backward(loss, targets);
  backward.Run(loss, seed ? Cast(*seed, loss.dtype()) : FullLike(loss, 1));
  std::vector<Expr> results;
  for (const Expr& target : targets) results.push_back(backward.Result(target));
  return results;
}

}  // namespace tensord
