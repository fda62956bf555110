// Losses. Those of probabilities and labels have the classes along axis 1, or 0 of a vector. Where
// they compute with integers these become floats first.
//
//   Expr loss = CrossEntropy(logits, labels, {.label_smoothing = 0.1});
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor/expr.h"

namespace tensord {

enum class Reduction { kMean, kSum, kNone };
std::optional<Reduction> ReductionFromName(std::string_view name);  // "mean", "sum", "none"

// Of numbers, elementwise; prediction and target have one shape.
Expr MseLoss(const Expr& x, const Expr& y, Reduction reduction = Reduction::kMean);
Expr L1Loss(const Expr& x, const Expr& y, Reduction reduction = Reduction::kMean);
// d^2 / (2 beta) for a difference d below beta, else |d| - beta / 2.
Expr SmoothL1Loss(const Expr& x, const Expr& y, double beta = 1,
                  Reduction reduction = Reduction::kMean);
// d^2 / 2 for a difference d below delta, else delta (|d| - delta / 2).
Expr HuberLoss(const Expr& x, const Expr& y, double delta = 1,
               Reduction reduction = Reduction::kMean);
// log(1 + exp(-x y)), for y of 1 and -1.
Expr SoftMarginLoss(const Expr& x, const Expr& y, Reduction reduction = Reduction::kMean);
// x for y = 1, max(0, margin - x) for y = -1.
Expr HingeEmbeddingLoss(const Expr& x, const Expr& y, double margin = 1,
                        Reduction reduction = Reduction::kMean);
// max(0, margin - y (a - b)).
Expr MarginRankingLoss(const Expr& a, const Expr& b, const Expr& y, double margin = 0,
                       Reduction reduction = Reduction::kMean);

// Of distributions. y log(y / p), for p by its logarithm x.
Expr KlDiv(const Expr& x, const Expr& y, bool log_target = false,
           Reduction reduction = Reduction::kMean);
struct PoissonOptions {
  bool log_input = true;  // x is the logarithm of the rate
  bool full = false;      // with Stirling's approximation of log(y!)
  double eps = 1e-8;      // beside a rate in a logarithm
};
Expr PoissonNllLoss(const Expr& x, const Expr& y, const PoissonOptions& options = {},
                    Reduction reduction = Reduction::kMean);
// `var` has the shape of x, or lacks the last axis or has size 1 there; below eps it counts as eps.
Expr GaussianNllLoss(const Expr& x, const Expr& y, const Expr& var, bool full = false,
                     double eps = 1e-6, Reduction reduction = Reduction::kMean);

struct BinaryOptions {
  std::optional<Expr> weight = std::nullopt;  // of each element, broadcasts
  // The least value of a logarithm. Without it, a certain and wrong prediction costs infinity.
  std::optional<double> least_log = std::nullopt;
};
Expr BinaryCrossEntropy(const Expr& probability, const Expr& target,
                        Reduction reduction = Reduction::kMean, const BinaryOptions& options = {});
Expr BinaryCrossEntropyWithLogits(const Expr& logits, const Expr& target,
                                  const std::optional<Expr>& positive_weight = std::nullopt,
                                  Reduction reduction = Reduction::kMean,
                                  const std::optional<Expr>& weight = std::nullopt);

// Of vectors along the last axis. `y` is 1 for pairs that should agree, -1 for others.
Expr CosineEmbeddingLoss(const Expr& a, const Expr& b, const Expr& y, double margin = 0,
                         Reduction reduction = Reduction::kMean);
struct TripletOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;  // also the distance between positive and negative counts
};
Expr TripletMarginLoss(const Expr& anchor, const Expr& positive, const Expr& negative,
                       const TripletOptions& options = {}, Reduction reduction = Reduction::kMean);

// Several classes. x [n, classes] or [classes].
struct MultiMarginOptions {
  int64_t p = 1;
  double margin = 1;
  std::optional<Expr> weight = std::nullopt;  // per class
};
Expr MultiMarginLoss(const Expr& x, const Expr& labels, const MultiMarginOptions& options = {},
                     Reduction reduction = Reduction::kMean);
// `labels` like x: those before the first negative one.
Expr MultilabelMarginLoss(const Expr& x, const Expr& labels,
                          Reduction reduction = Reduction::kMean);
// `y` like x: 1 for classes that apply, else 0.
Expr MultilabelSoftMarginLoss(const Expr& x, const Expr& y,
                              const std::optional<Expr>& weight = std::nullopt,
                              Reduction reduction = Reduction::kMean);

struct LabelOptions {
  double label_smoothing = 0;                 // CrossEntropy only
  std::optional<Expr> weight = std::nullopt;  // per class; the mean divides by the weights used
  std::optional<int64_t> ignore_index = std::nullopt;  // labels that cost nothing and don't count
  Reduction reduction = Reduction::kMean;
};
// Integer labels without the class axis.
Expr NllLoss(const Expr& log_probability, const Expr& labels, const LabelOptions& options = {});
// Integer labels without the class axis, or probabilities of the shape of the logits.
Expr CrossEntropy(const Expr& logits, const Expr& target, const LabelOptions& options = {});

struct CtcOptions {
  int64_t blank = 0;
  bool zero_infinity = false;  // what cannot be aligned costs nothing
};
// Connectionist temporal classification: log_probs [time, n, classes], targets [n, longest],
// lengths [n]. The mean divides by the lengths of the targets first. The derivative is that by the
// logits of which log_probs are the LogSoftmax, as in PyTorch.
Expr CtcLoss(const Expr& log_probs, const Expr& targets, const Expr& input_lengths,
             const Expr& target_lengths, const CtcOptions& options = {},
             Reduction reduction = Reduction::kMean);

}  // namespace tensord
