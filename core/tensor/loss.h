// Losses. Those of probabilities and labels have the classes along axis 1, or 0 of a vector.
//
//   Expr loss = CrossEntropy(logits, labels, {.label_smoothing = 0.1});
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor/expr.h"

namespace tensord {

enum class Reduction { kMean, kSum, kNone };
std::optional<Reduction> ReductionFromName(std::string_view name);  // "mean", "sum", "none"

Expr MseLoss(const Expr& x, const Expr& y, Reduction reduction = Reduction::kMean);
Expr L1Loss(const Expr& x, const Expr& y, Reduction reduction = Reduction::kMean);

// The logarithms are not bounded: a certain and wrong prediction costs infinity.
Expr BinaryCrossEntropy(const Expr& probability, const Expr& target,
                        Reduction reduction = Reduction::kMean);
Expr BinaryCrossEntropyWithLogits(const Expr& logits, const Expr& target,
                                  const std::optional<Expr>& positive_weight = std::nullopt,
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

}  // namespace tensord
