// Losses of several classes a sample.
#include "core/tensor/activation.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

Expr Reduced(const Expr& loss, Reduction reduction) {
  return reduction == Reduction::kMean  ? Mean(loss)
         : reduction == Reduction::kSum ? Sum(loss)
                                        : loss;
}

// x as floats [n, classes], or an error.
std::optional<Expr> AsRows(std::string_view name, Expr& x) {
  if (auto error = AsFloats({&x})) return error;
  if (x.rank() < 2) x = Reshape(x, {1, -1});
  if (x.rank() == 2 && x.shape()[1] > 0) return std::nullopt;
  return Fail(x, "{}: input {} is not [n, classes]", name, ShapeText(x.shape()));
}

}  // namespace

Expr MultiMarginLoss(const Expr& x, const Expr& labels, const MultiMarginOptions& options,
                     Reduction reduction) {
  constexpr std::string_view kName = "multi_margin_loss";
  Expr rows = x;
  if (auto error = AsRows(kName, rows)) return *error;
  if (!labels.ok()) return labels;
  if (options.p != 1 && options.p != 2) return Fail(x, "{}: p is {}, not 1 or 2", kName, options.p);
  const int64_t n = rows.shape()[0], classes = rows.shape()[1];
  if (!IsInt(labels.dtype()) || NumElements(labels.shape()) != n) {
    return Fail(x, "{}: {} samples need as many integer labels, has {} {}", kName, n,
                Name(labels.dtype()), ShapeText(labels.shape()));
  }
  const Expr here = Eq(IndexAlong(rows, 1), Reshape(labels, {n, 1}));
  const Expr own = Sum(Where(here, rows, 0), 1, kKeepDims);
  Expr cost = Relu(options.margin - own + rows);
  if (options.p == 2) cost = cost * cost;
  if (options.weight) {
    const Expr weight = Reshape(*options.weight, {1, classes});
    cost = cost * Sum(Where(here, BroadcastTo(weight, rows.shape()), 0), 1, kKeepDims);
  }
  const Expr loss = Sum(Where(here, 0, cost), 1) / static_cast<double>(classes);
  return Reduced(x.rank() < 2 ? Reshape(loss, {}) : loss, reduction);
}

Expr MultilabelMarginLoss(const Expr& x, const Expr& labels, Reduction reduction) {
  constexpr std::string_view kName = "multilabel_margin_loss";
  Expr rows = x;
  if (auto error = AsRows(kName, rows)) return *error;
  if (!labels.ok()) return labels;
  if (labels.shape() != x.shape() || !IsInt(labels.dtype())) {
    return Fail(x, "{}: input {} needs integer labels of its shape, has {} {}", kName,
                ShapeText(x.shape()), Name(labels.dtype()), ShapeText(labels.shape()));
  }
  const int64_t n = rows.shape()[0], classes = rows.shape()[1];
  const Expr given = Cast(Reshape(labels, {n, classes}), DType::kInt64);
  // A label counts if none before it is negative.
  const Expr negative = Cast(Lt(given, 0), DType::kInt32);
  const Expr index = IndexAlong(given, 1);
  const Expr first = Min(Where(AsBool(negative), index, classes), 1, kKeepDims);
  const Expr counts = Lt(index, first);  // [n, label]
  const Expr is =
      LogicalAnd(Unsqueeze(counts, 2),
                 Eq(Unsqueeze(given, 2), Arange(x.graph(), 0, classes, 1, DType::kInt64)));
  const Expr target = Any(is, 1);  // [n, class]
  const Expr own = GatherAlong(rows, 1, Where(counts, given, 0));
  // [n, label, class]
  const Expr cost = Relu(1 - Unsqueeze(own, 2) + Unsqueeze(rows, 1));
  const Expr used = LogicalAnd(Unsqueeze(counts, 2), LogicalNot(Unsqueeze(target, 1)));
  const Expr loss = Sum(Where(used, cost, 0), {1, 2}) / static_cast<double>(classes);
  return Reduced(x.rank() < 2 ? Reshape(loss, {}) : loss, reduction);
}

Expr MultilabelSoftMarginLoss(const Expr& prediction, const Expr& target,
                              const std::optional<Expr>& weight, Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = AsFloats({&x, &y})) return *error;
  if (x.rank() == 0 || x.shape() != y.shape()) {
    return Fail(x, "multilabel_soft_margin_loss: prediction {} and target {} differ in shape",
                ShapeText(x.shape()), ShapeText(y.shape()));
  }
  Expr cost = -(y * LogSigmoid(x) + (1 - y) * LogSigmoid(-x));
  if (weight) cost = cost * *weight;
  return Reduced(Mean(cost, -1), reduction);
}

}  // namespace tensord
