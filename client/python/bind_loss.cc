// Tensor: losses. They are methods of the prediction; their keywords are PyTorch's.
#include "client/python/bind.h"
#include "client/python/lift.h"
#include "core/base/status.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord::python {
namespace {

struct PairRow {
  const char* name;
  Expr (*function)(const Expr&, const Expr&, Reduction);
  const char* doc;
};
constexpr PairRow kPairs[] = {
    {"mse_loss", MseLoss, "The square of the difference."},
    {"l1_loss", L1Loss, "The size of the difference."},
    {"soft_margin_loss", SoftMarginLoss, "log(1 + exp(-x target)), for a target of 1 and -1."},
    {"multilabel_margin_loss", MultilabelMarginLoss,
     "x [n, classes]; target of that shape: the labels that apply, then -1."},
};

LabelOptions Labels(const std::optional<Expr>& weight, std::optional<int64_t> ignore_index,
                    Reduction reduction, double smoothing) {
  return {.label_smoothing = smoothing,
          .weight = weight,
          .ignore_index = ignore_index,
          .reduction = reduction};
}

Expr KlDivOf(const Expr& x, const Expr& target, const std::string& reduction, bool log_target) {
  if (reduction == "batchmean") {
    const double batch = x.rank() == 0 ? 1 : static_cast<double>(x.shape()[0]);
    return KlDiv(x, target, log_target, Reduction::kSum) / batch;
  }
  const std::optional<Reduction> parsed = ReductionFromName(reduction);
  if (!parsed) {
    return Fail(x, "kl_div: reduction is 'mean', 'batchmean', 'sum' or 'none', not '{}'",
                reduction);
  }
  return KlDiv(x, target, log_target, *parsed);
}

// The classes are the last axis.
Expr SparseCrossEntropy(const Expr& x, const Expr& labels, int64_t ignore_index, double smoothing,
                        Reduction reduction) {
  if (!x.ok() || x.rank() == 0) return x;
  std::optional<int64_t> ignored;
  if (ignore_index != -1) ignored = ignore_index;
  return CrossEntropy(x.rank() > 2 ? MoveAxis(x, -1, 1) : x, labels,
                      Labels(std::nullopt, ignored, reduction, smoothing));
}

void BindBinary(py::class_<Tensor>& tensor) {
  Method(
      tensor, "binary_cross_entropy",
      [](const Expr& x, const Expr& target, const std::optional<Expr>& weight,
         Reduction reduction) {
        return BinaryCrossEntropy(x, target, reduction, {weight, -100.0});
      },
      "Of probabilities; logarithms count as -100 at least.", py::arg("target"),
      py::arg("weight") = py::none(), py::arg("reduction") = "mean");
  Method(
      tensor, "binary_crossentropy",
      [](const Expr& x, const Expr& target, Reduction reduction) {
        return BinaryCrossEntropy(x, target, reduction);
      },
      "Of probabilities; a certain and wrong one costs infinity.", py::arg("target"),
      py::arg("reduction") = "mean");
  Method(
      tensor, "binary_cross_entropy_with_logits",
      [](const Expr& x, const Expr& target, const std::optional<Expr>& pos_weight,
         Reduction reduction, const std::optional<Expr>& weight) {
        return BinaryCrossEntropyWithLogits(x, target, pos_weight, reduction, weight);
      },
      "Of the logits of probabilities; pos_weight counts for positive targets.", py::arg("target"),
      py::arg("pos_weight") = py::none(), py::arg("reduction") = "mean",
      py::arg("weight") = py::none());
}

void BindClasses(py::class_<Tensor>& tensor) {
  Method(
      tensor, "cross_entropy",
      [](const Expr& x, const Expr& target, const std::optional<Expr>& weight,
         std::optional<int64_t> ignore_index, Reduction reduction, double label_smoothing) {
        return CrossEntropy(x, target, Labels(weight, ignore_index, reduction, label_smoothing));
      },
      "Of logits; the classes are axis 1 (0 of a vector). The target is integer labels without "
      "that "
      "axis, or probabilities of the shape of the logits.",
      py::arg("target"), py::arg("weight") = py::none(), py::arg("ignore_index") = py::none(),
      py::arg("reduction") = "mean", py::arg("label_smoothing") = 0.0);
  Method(tensor, "sparse_categorical_crossentropy", SparseCrossEntropy,
         "cross_entropy of labels, where the classes are the last axis; ignore_index -1 ignores "
         "nothing.",
         py::arg("target"), py::arg("ignore_index") = -1, py::arg("label_smoothing") = 0.0,
         py::arg("reduction") = "mean");
  Method(
      tensor, "nll_loss",
      [](const Expr& x, const Expr& target, const std::optional<Expr>& weight,
         std::optional<int64_t> ignore_index, Reduction reduction) {
        return NllLoss(x, target, Labels(weight, ignore_index, reduction, 0));
      },
      "Of logarithms of probabilities and integer labels; the mean divides by the weights of the "
      "labels.",
      py::arg("target"), py::arg("weight") = py::none(), py::arg("ignore_index") = py::none(),
      py::arg("reduction") = "mean");
  Method(
      tensor, "multi_margin_loss",
      [](const Expr& x, const Expr& target, int64_t p, double margin,
         const std::optional<Expr>& weight, Reduction reduction) {
        return MultiMarginLoss(x, target, {p, margin, weight}, reduction);
      },
      "x [n, classes] and integer labels [n].", py::arg("target"), py::arg("p") = 1,
      py::arg("margin") = 1.0, py::arg("weight") = py::none(), py::arg("reduction") = "mean");
  Method(
      tensor, "multilabel_soft_margin_loss",
      [](const Expr& x, const Expr& target, const std::optional<Expr>& weight,
         Reduction reduction) { return MultilabelSoftMarginLoss(x, target, weight, reduction); },
      "x [n, classes] and, for each class, whether it applies.", py::arg("target"),
      py::arg("weight") = py::none(), py::arg("reduction") = "mean");
  Method(
      tensor, "ctc_loss",
      [](const Expr& x, const Expr& targets, const Expr& input_lengths, const Expr& target_lengths,
         int64_t blank, Reduction reduction, bool zero_infinity) {
        return CtcLoss(x, targets, input_lengths, target_lengths, {blank, zero_infinity},
                       reduction);
      },
      "Of log_probs [time, n, classes] and padded targets [n, longest]; unrolled over time.",
      py::arg("targets"), py::arg("input_lengths"), py::arg("target_lengths"), py::arg("blank") = 0,
      py::arg("reduction") = "mean", py::arg("zero_infinity") = false);
}

void BindNumbers(py::class_<Tensor>& tensor) {
  Method(
      tensor, "smooth_l1_loss",
      [](const Expr& x, const Expr& target, Reduction reduction, double beta) {
        return SmoothL1Loss(x, target, beta, reduction);
      },
      "d^2 / (2 beta) for a difference d below beta, else |d| - beta / 2.", py::arg("target"),
      py::arg("reduction") = "mean", py::arg("beta") = 1.0);
  Method(
      tensor, "huber_loss",
      [](const Expr& x, const Expr& target, Reduction reduction, double delta) {
        return HuberLoss(x, target, delta, reduction);
      },
      "d^2 / 2 for a difference d below delta, else delta (|d| - delta / 2).", py::arg("target"),
      py::arg("reduction") = "mean", py::arg("delta") = 1.0);
  Method(tensor, "kl_div", KlDivOf,
         "target * (log(target) - x), for x the logarithm of a probability.", py::arg("target"),
         py::arg("reduction") = "mean", py::arg("log_target") = false);
  Method(
      tensor, "poisson_nll_loss",
      [](const Expr& x, const Expr& target, bool log_input, bool full, double eps,
         Reduction reduction) {
        return PoissonNllLoss(x, target, {log_input, full, eps}, reduction);
      },
      "exp(x) - target x, or x - target log(x) without log_input; full adds an approximation of "
      "log(target!).",
      py::arg("target"), py::arg("log_input") = true, py::arg("full") = false,
      py::arg("eps") = 1e-8, py::arg("reduction") = "mean");
  Method(
      tensor, "gaussian_nll_loss",
      [](const Expr& x, const Expr& target, const Expr& var, bool full, double eps,
         Reduction reduction) { return GaussianNllLoss(x, target, var, full, eps, reduction); },
      "(log(var) + (x - target)^2 / var) / 2.", py::arg("target"), py::arg("var"),
      py::arg("full") = false, py::arg("eps") = 1e-6, py::arg("reduction") = "mean");
  Method(
      tensor, "hinge_embedding_loss",
      [](const Expr& x, const Expr& target, double margin, Reduction reduction) {
        return HingeEmbeddingLoss(x, target, margin, reduction);
      },
      "x for a target of 1, max(0, margin - x) for -1.", py::arg("target"), py::arg("margin") = 1.0,
      py::arg("reduction") = "mean");
  Method(
      tensor, "margin_ranking_loss",
      [](const Expr& x, const Expr& other, const Expr& target, double margin, Reduction reduction) {
        return MarginRankingLoss(x, other, target, margin, reduction);
      },
      "max(0, margin - target (x - other)).", py::arg("other"), py::arg("target"),
      py::arg("margin") = 0.0, py::arg("reduction") = "mean");
  Method(
      tensor, "cosine_embedding_loss",
      [](const Expr& x, const Expr& other, const Expr& target, double margin, Reduction reduction) {
        return CosineEmbeddingLoss(x, other, target, margin, reduction);
      },
      "1 - cos for a target of 1, max(0, cos - margin) for -1.", py::arg("other"),
      py::arg("target"), py::arg("margin") = 0.0, py::arg("reduction") = "mean");
  Method(
      tensor, "triplet_margin_loss",
      [](const Expr& x, const Expr& positive, const Expr& negative, double margin, double p,
         double eps, bool swap, Reduction reduction) {
        return TripletMarginLoss(x, positive, negative, {margin, p, eps, swap}, reduction);
      },
      "max(0, margin + d(x, positive) - d(x, negative)).", py::arg("positive"), py::arg("negative"),
      py::arg("margin") = 1.0, py::arg("p") = 2.0, py::arg("eps") = 1e-6, py::arg("swap") = false,
      py::arg("reduction") = "mean");
}

}  // namespace

void BindLosses(py::class_<Tensor>& tensor) {
  for (const PairRow& row : kPairs) {
    Method(tensor, row.name, row.function, row.doc, py::arg("target"),
           py::arg("reduction") = "mean");
  }
  BindBinary(tensor);
  BindClasses(tensor);
  BindNumbers(tensor);
}

}  // namespace tensord::python
