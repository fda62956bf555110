#include "core/tensor/loss.h"

#include <cmath>
#include <numbers>

#include "core/tensor/activation.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/distance.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"
#include "core/tensor/special.h"

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

// Operands of one shape, as floats.
std::optional<Expr> Prepare(std::string_view name, Expr& x, Expr& y) {
  if (auto error = AsFloats({&x, &y})) return error;
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

Expr MseLoss(const Expr& prediction, const Expr& target, Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = Prepare("mse_loss", x, y)) return *error;
  return Reduced(Square(x - y), reduction);
}

Expr L1Loss(const Expr& prediction, const Expr& target, Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = Prepare("l1_loss", x, y)) return *error;
  return Reduced(Abs(x - y), reduction);
}

Expr SmoothL1Loss(const Expr& prediction, const Expr& target, double beta, Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = Prepare("smooth_l1_loss", x, y)) return *error;
  if (!(beta >= 0)) return Fail(x, "smooth_l1_loss: beta {} is negative", beta);
  if (beta == 0) return L1Loss(x, y, reduction);
  const Expr d = x - y;
  return Reduced(Where(Lt(Abs(d), beta), d * d * (0.5 / beta), Abs(d) - beta * 0.5), reduction);
}

Expr HuberLoss(const Expr& prediction, const Expr& target, double delta, Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = Prepare("huber_loss", x, y)) return *error;
  if (!(delta > 0)) return Fail(x, "huber_loss: delta {} is not positive", delta);
  const Expr d = x - y;
  return Reduced(Where(Le(Abs(d), delta), d * d * 0.5, (Abs(d) - delta * 0.5) * delta), reduction);
}

Expr SoftMarginLoss(const Expr& prediction, const Expr& target, Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = Prepare("soft_margin_loss", x, y)) return *error;
  return Reduced(Softplus(-(x * y)), reduction);
}

Expr HingeEmbeddingLoss(const Expr& prediction, const Expr& target, double margin,
                        Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = AsFloats({&x, &y})) return *error;
  const Expr far = Relu(margin - x);
  // A target that is neither counts as both, as in PyTorch.
  return Reduced(Where(Ne(y, -1), x, 0) + Where(Ne(y, 1), far, 0), reduction);
}

Expr MarginRankingLoss(const Expr& first, const Expr& second, const Expr& target, double margin,
                       Reduction reduction) {
  Expr a = first, b = second, y = target;
  if (auto error = AsFloats({&a, &b, &y})) return *error;
  return Reduced(Relu(-y * (a - b) + margin), reduction);
}

Expr KlDiv(const Expr& prediction, const Expr& target, bool log_target, Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = AsFloats({&x, &y})) return *error;
  if (log_target) return Reduced(Exp(y) * (y - x), reduction);
  return Reduced(XLogY(y, y) - y * x, reduction);
}

Expr PoissonNllLoss(const Expr& prediction, const Expr& target, const PoissonOptions& options,
                    Reduction reduction) {
  Expr x = prediction, y = target;
  if (auto error = AsFloats({&x, &y})) return *error;
  Expr loss = options.log_input ? Exp(x) - y * x : x - y * Log(x + options.eps);
  if (options.full) {
    const Expr large = Gt(y, 1);
    const Expr safe = Where(large, y, 2);
    const Expr stirling = safe * Log(safe) - safe + Log(safe * (2 * std::numbers::pi)) * 0.5;
    loss = loss + Where(large, stirling, 0);
  }
  return Reduced(loss, reduction);
}

Expr GaussianNllLoss(const Expr& prediction, const Expr& target, const Expr& var, bool full,
                     double eps, Reduction reduction) {
  Expr x = prediction, y = target, spread = var;
  if (auto error = AsFloats({&x, &y, &spread})) return *error;
  if (spread.rank() + 1 == x.rank()) spread = Unsqueeze(spread, -1);
  // The derivative passes where the variance is below eps too.
  spread = spread + Detach(Clamp(spread, eps, std::nullopt) - spread);
  const Expr d = x - y;
  Expr loss = (Log(spread) + d * d / spread) * 0.5;
  if (full) loss = loss + std::log(2 * std::numbers::pi) * 0.5;
  return Reduced(loss, reduction);
}

Expr BinaryCrossEntropy(const Expr& prediction, const Expr& labels, Reduction reduction,
                        const BinaryOptions& options) {
  Expr probability = prediction, target = labels;
  if (auto error = Prepare("binary_cross_entropy", probability, target)) return *error;
  const auto log = [&](const Expr& x) {
    return options.least_log ? Clamp(Log(x), *options.least_log, std::nullopt) : Log(x);
  };
  Expr loss = -target * log(probability) - (1 - target) * log(1 - probability);
  if (options.weight) loss = loss * *options.weight;
  return Reduced(loss, reduction);
}

Expr BinaryCrossEntropyWithLogits(const Expr& prediction, const Expr& labels,
                                  const std::optional<Expr>& positive_weight, Reduction reduction,
                                  const std::optional<Expr>& weight) {
  Expr logits = prediction, target = labels;
  if (auto error = Prepare("binary_cross_entropy", logits, target)) return *error;
  // log(1 + exp(-x)) without overflow.
  const Expr cost = Softplus(-logits);
  const Expr positive = positive_weight ? target * *positive_weight : target;
  // (1 - y) x + (1 + (w - 1) y) cost
  Expr loss = (1 - target) * logits + (positive + 1 - target) * cost;
  if (weight) loss = loss * *weight;
  return Reduced(loss, reduction);
}

Expr CosineEmbeddingLoss(const Expr& first, const Expr& second, const Expr& y, double margin,
                         Reduction reduction) {
  constexpr double kEps = 1e-12;
  Expr a = first, b = second;
  if (auto error = AsFloats({&a, &b})) return *error;
  const auto size = [](const Expr& x) { return Sum(x * x, -1) + kEps; };
  const Expr cosine = Sum(a * b, -1) / Sqrt(size(a) * size(b));
  const Expr far = Relu(cosine - margin);
  return Reduced(Where(Eq(y, 1), 1 - cosine, Where(Eq(y, -1), far, 0)), reduction);
}

Expr TripletMarginLoss(const Expr& anchor, const Expr& positive, const Expr& negative,
                       const TripletOptions& options, Reduction reduction) {
  const auto distance = [&](const Expr& a, const Expr& b) {
    return PairwiseDistance(a, b, options.p, options.eps);
  };
  Expr far = distance(anchor, negative);
  if (options.swap) far = Minimum(far, distance(positive, negative));
  return Reduced(Relu(distance(anchor, positive) - far + options.margin), reduction);
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
