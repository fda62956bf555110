// Losses of several classes a sample, and of sequences.
#include "core/tensor/activation.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/join.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/pad.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

Expr Reduced(const Expr& loss, Reduction reduction) {
  return reduction == Reduction::kMean  ? Mean(loss)
         : reduction == Reduction::kSum ? Sum(loss)
                                        : loss;
}

// x as [n, classes]; nothing but an error in `x` if it is not.
std::optional<Expr> AsRows(std::string_view name, Expr& x) {
  if (!x.ok()) return x;
  if (x.rank() == 1) x = Unsqueeze(x, 0);
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
  return Reduced(x.rank() == 1 ? Reshape(loss, {}) : loss, reduction);
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
  return Reduced(x.rank() == 1 ? Reshape(loss, {}) : loss, reduction);
}

Expr MultilabelSoftMarginLoss(const Expr& x, const Expr& y, const std::optional<Expr>& weight,
                              Reduction reduction) {
  if (!x.ok()) return x;
  if (!y.ok()) return y;
  if (x.rank() == 0 || x.shape() != y.shape()) {
    return Fail(x, "multilabel_soft_margin_loss: prediction {} and target {} differ in shape",
                ShapeText(x.shape()), ShapeText(y.shape()));
  }
  Expr cost = -(y * LogSigmoid(x) + (1 - y) * LogSigmoid(-x));
  if (weight) cost = cost * *weight;
  return Reduced(Mean(cost, -1), reduction);
}

Expr CtcLoss(const Expr& log_probs, const Expr& targets, const Expr& input_lengths,
             const Expr& target_lengths, const CtcOptions& options, Reduction reduction) {
  constexpr std::string_view kName = "ctc_loss";
  for (const Expr* each : {&log_probs, &targets, &input_lengths, &target_lengths}) {
    if (!each->ok()) return *each;
  }
  if (log_probs.rank() != 3 || targets.rank() != 2 || log_probs.shape()[1] != targets.shape()[0]) {
    return Fail(log_probs,
                "{}: log_probs {} and targets {} are not [time, n, classes] and [n, longest]",
                kName, ShapeText(log_probs.shape()), ShapeText(targets.shape()));
  }
  const int64_t time = log_probs.shape()[0], n = log_probs.shape()[1];
  const int64_t classes = log_probs.shape()[2], longest = targets.shape()[1];
  if (options.blank < 0 || options.blank >= classes) {
    return Fail(log_probs, "{}: blank {} is none of {} classes", kName, options.blank, classes);
  }
  if (input_lengths.shape() != Shape({n}) || target_lengths.shape() != Shape({n})) {
    return Fail(log_probs, "{}: lengths {} and {} for {} samples", kName,
                ShapeText(input_lengths.shape()), ShapeText(target_lengths.shape()), n);
  }
  if (time == 0) return Fail(log_probs, "{}: log_probs have no time steps", kName);
  // States are the labels with a blank before, between and after: [n, 2 longest + 1].
  const int64_t states = 2 * longest + 1;
  const Expr labels = Cast(targets, DType::kInt64);
  const Expr blanks = FullLike(Unsqueeze(labels, 2), options.blank);
  const Expr last = Full(log_probs.graph(), {n, 1}, options.blank, DType::kInt64);
  const Expr pairs = Reshape(Cat({{blanks, Unsqueeze(labels, 2)}}, 2), {n, 2 * longest});
  const Expr state = Cat({{pairs, last}}, 1);
  const Expr emitted = InFloat32(log_probs, [&](const Expr& f) {
    return GatherAlong(f, 2, BroadcastTo(Unsqueeze(state, 0), Dims{time, n, states}));
  });
  const Expr scores = Cast(emitted, ComputeDType(log_probs.dtype()));
  // Impossible paths have a large number for minus infinity, which has derivatives.
  constexpr double kNever = -1e30;
  const auto shifted = [&](const Expr& alpha, int64_t by) {
    std::vector<PadAmount> amounts(2);
    amounts[1] = {by, -by};
    return Pad(alpha, amounts, kNever);
  };
  const Expr index = IndexAlong(state, 1);
  std::vector<PadAmount> two(2);
  two[1] = {2, -2};
  // A label may follow the one before without a blank if they differ.
  const Expr skips =
      LogicalAnd(Ne(state, options.blank), Ne(state, Pad(state, two, options.blank)));
  const Expr steps = Unsqueeze(input_lengths, 1);
  Expr alpha = Where(Lt(index, 2), Select(scores, 0, 0), kNever);
  for (int64_t t = 1; t < time; ++t) {
    const Expr skipped = Where(skips, shifted(alpha, 2), kNever);
    const Expr next =
        LogSumExp(Stack({{alpha, shifted(alpha, 1), skipped}}, 0), 0) + Select(scores, 0, t);
    // Materialised: each step reads the one before three times.
    alpha = Contiguous(Where(Gt(steps, t), Maximum(next, kNever), alpha));
  }
  const Expr end = Unsqueeze(target_lengths, 1) * 2;
  const Expr finals = Where(LogicalOr(Eq(index, end), Eq(index, end - 1)), alpha, kNever);
  Expr loss = -LogSumExp(finals, 1);
  const Expr impossible = Gt(loss, -kNever / 2);
  loss = options.zero_infinity ? Where(impossible, 0, loss)
                               : Where(impossible, std::numeric_limits<double>::infinity(), loss);
  loss = Cast(loss, LeastUpperFloat(log_probs.dtype()));
  if (reduction == Reduction::kMean) loss = loss / Maximum(target_lengths, 1);
  return Reduced(loss, reduction);
}

}  // namespace tensord
