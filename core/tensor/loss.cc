#include "core/tensor/loss.h"

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

Expr Reduced(const Expr& loss, Reduction reduction) {
  switch (reduction) {
    case Reduction::kMean:
      return Mean(loss);
    case Reduction::kSum:
      return Sum(loss);
    case Reduction::kNone:
      break;
  }
  return loss;
}

std::optional<Expr> CheckSameShape(std::string_view name, const Expr& x, const Expr& y) {
  if (!x.ok()) return x;
  if (!y.ok()) return y;
  if (x.shape() == y.shape()) return std::nullopt;
  return Fail(x, "{}: prediction {} and target {} differ in shape", name, ShapeText(x.shape()),
              ShapeText(y.shape()));
}

// Loss of integer labels given log probabilities, `smoothing` of it spread over all classes.
Expr LabelLoss(std::string_view name, const Expr& log_probability, const Expr& labels,
               double smoothing, const LabelOptions& options) {
  const Expr& x = log_probability;
  if (!x.ok()) return x;
  if (!labels.ok()) return labels;
  const int64_t axis = x.rank() > 1 ? 1 : 0;
  Dims expected(x.shape().begin(), x.shape().end());
  if (x.rank() > 0) expected.erase(expected.begin() + axis);
  if (x.rank() == 0 || !IsInt(labels.dtype()) || labels.shape() != Shape(expected)) {
    return Fail(x, "{}: input {} needs integer labels {}, has {} {}", name, ShapeText(x.shape()),
                ShapeText(expected), Name(labels.dtype()), ShapeText(labels.shape()));
  }
  const int64_t classes = x.shape()[axis];
  if (classes == 0) return Fail(x, "{}: input {} has no classes", name, ShapeText(x.shape()));
  std::optional<Expr> weight = options.weight;
  if (weight) {
    if (!weight->ok()) return *weight;
    if (weight->rank() != 1 || weight->shape()[0] != classes) {
      return Fail(x, "{}: weight {} for {} classes", name, ShapeText(weight->shape()), classes);
    }
    Dims dims(x.rank(), 1);
    dims[axis] = classes;
    weight = Reshape(*weight, dims);
  }
  const Expr here = Eq(IndexAlong(x, axis), Unsqueeze(labels, axis));
  const Expr costs = weight ? -x * *weight : -x;
  Expr loss = Sum(Where(here, costs, 0), axis);
  if (smoothing != 0) {
    const double spread = smoothing / static_cast<double>(classes);
    loss = loss * (1 - smoothing) + Sum(costs, axis) * spread;
  }
  if (options.ignore_index) loss = Where(Eq(labels, *options.ignore_index), 0, loss);
  if (options.reduction != Reduction::kMean || (!weight && !options.ignore_index)) {
    return Reduced(loss, options.reduction);
  }
  Expr counts =
      weight ? Sum(Where(here, BroadcastTo(*weight, x.shape()), 0), axis) : FullLike(loss, 1);
  if (options.ignore_index) counts = Where(Eq(labels, *options.ignore_index), 0, counts);
  return Sum(loss) / Sum(counts);
}

}  // namespace

std::optional<Reduction> ReductionFromName(std::string_view name) {
  if (name == "mean") return Reduction::kMean;
  if (name == "sum") return Reduction::kSum;
  if (name == "none") return Reduction::kNone;
  return std::nullopt;
}

Expr MseLoss(const Expr& x, const Expr& y, Reduction reduction) {
  if (auto error = CheckSameShape("mse_loss", x, y)) return *error;
  return Reduced(Square(x - y), reduction);
}

Expr L1Loss(const Expr& x, const Expr& y, Reduction reduction) {
  if (auto error = CheckSameShape("l1_loss", x, y)) return *error;
  return Reduced(Abs(x - y), reduction);
}

Expr BinaryCrossEntropy(const Expr& probability, const Expr& target, Reduction reduction) {
  if (auto error = CheckSameShape("binary_cross_entropy", probability, target)) return *error;
  return Reduced(-target * Log(probability) - (1 - target) * Log(1 - probability), reduction);
}

Expr BinaryCrossEntropyWithLogits(const Expr& logits, const Expr& target,
                                  const std::optional<Expr>& positive_weight, Reduction reduction) {
  if (auto error = CheckSameShape("binary_cross_entropy", logits, target)) return *error;
  // log(1 + exp(-x)) without overflow.
  const Expr cost = Log1p(Exp(-Abs(logits))) + Maximum(-logits, 0);
  const Expr positive = positive_weight ? target * *positive_weight : target;
  // (1 - y) x + (1 + (w - 1) y) cost
  return Reduced((1 - target) * logits + (positive + 1 - target) * cost, reduction);
}

Expr NllLoss(const Expr& log_probability, const Expr& labels, const LabelOptions& options) {
  return LabelLoss("nll_loss", log_probability, labels, 0, options);
}

Expr CrossEntropy(const Expr& logits, const Expr& target, const LabelOptions& options) {
  constexpr std::string_view kName = "cross_entropy";
  if (!logits.ok()) return logits;
  if (!target.ok()) return target;
  if (logits.rank() == 0) return Fail(logits, "{}: the input has no class axis", kName);
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return Fail(logits, "{}: label smoothing {} is outside of [0, 1]", kName, smoothing);
  }
  const int64_t axis = logits.rank() > 1 ? 1 : 0;
  const Expr x = LogSoftmax(logits, axis);
  if (!IsFloat(target.dtype())) return LabelLoss(kName, x, target, smoothing, options);

  if (target.shape() != logits.shape()) {
    return Fail(logits, "{}: probabilities {} and input {} differ in shape", kName,
                ShapeText(target.shape()), ShapeText(logits.shape()));
  }
  if (options.ignore_index) {
    return Fail(logits, "{}: ignore_index needs labels, the target is probabilities", kName);
  }
  const double spread = smoothing / static_cast<double>(logits.shape()[axis]);
  const Expr smooth = smoothing == 0 ? target : target * (1 - smoothing) + spread;
  Expr costs = -x * smooth;
  if (options.weight) {
    Dims dims(x.rank(), 1);
    dims[axis] = -1;
    costs = costs * Reshape(*options.weight, dims);
  }
  return Reduced(Sum(costs, axis), options.reduction);
}

}  // namespace tensord
