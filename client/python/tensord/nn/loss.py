"""Losses as modules. reduction is "mean", "sum" or "none"; unlike in PyTorch it and what follows it are keywords, since
PyTorch has two arguments there that it deprecates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.nn import functional as F
from tensord.nn.module import Module


class _Loss(Module):
    def __init__(self, reduction: str, *others: str) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none", *others):
            raise InvalidArgumentError(f"{type(self).__name__}: reduction is 'mean', 'sum' or 'none', not '{reduction}'")
        self.reduction = reduction


class _Plain(_Loss):
    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)


class L1Loss(_Plain):
    """|input - target|, both of any shape."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.l1_loss(target, self.reduction)


class MSELoss(_Plain):
    """(input - target) ** 2, both of any shape."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.mse_loss(target, self.reduction)


class SoftMarginLoss(_Plain):
    """log(1 + exp(-target * input)) for targets 1 and -1, of any shape."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.soft_margin_loss(target, self.reduction)


class MultiLabelMarginLoss(_Plain):
    """input [batch, classes] or [classes]; target of that shape has the labels, and -1 behind them."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.multilabel_margin_loss(target, self.reduction)


class SmoothL1Loss(_Loss):
    """Half the square over beta where |input - target| < beta, else |input - target| - beta / 2."""

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.smooth_l1_loss(target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """Half the square where |input - target| < delta, else delta * (|input - target| - delta / 2)."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.huber_loss(target, self.reduction, self.delta)


class KLDivLoss(_Loss):
    """target * (log(target) - input), where input is a logarithm, and with log_target the target too. The reduction
    "batchmean" is the sum over the batch's size."""

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, "batchmean")
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.kl_div(target, self.reduction, self.log_target)


class PoissonNLLLoss(_Loss):
    """exp(input) - target * input with log_input, else input - target * log(input + eps); `full` adds Stirling's term."""

    def __init__(self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8,
                 reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return log_input.poisson_nll_loss(target, self.log_input, self.full, self.eps, self.reduction)


class GaussianNLLLoss(_Loss):
    """Of normal distributions with mean input and variance var, which is of the input's shape, or 1 or none in the last
    axis; `full` adds the constant."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return input.gaussian_nll_loss(target, var, self.full, self.eps, self.reduction)


class _Weighted(_Loss):
    weight: Optional[Tensor]

    def __init__(self, weight: Optional[Tensor], reduction: str) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class NLLLoss(_Weighted):
    """input [batch, classes, ..] or [classes] of logarithms, target [batch, ..] of labels; weight [classes]."""

    def __init__(self, weight: Optional[Tensor] = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class NLLLoss2d(NLLLoss):
    """NLLLoss under its old name for images."""


class CrossEntropyLoss(_Weighted):
    """input [batch, classes, ..] or [classes] of logits; target [batch, ..] of labels, or of the input's shape of
    probabilities; weight [classes]."""

    def __init__(self, weight: Optional[Tensor] = None, *, ignore_index: int = -100, reduction: str = "mean",
                 label_smoothing: float = 0.0) -> None:
        super().__init__(weight, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class BCELoss(_Weighted):
    """Of probabilities and targets in [0, 1] of one shape; weight is broadcast to it."""

    def __init__(self, weight: Optional[Tensor] = None, *, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.binary_cross_entropy(target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """BCELoss of sigmoid(input); pos_weight is the weight of the positive part."""

    pos_weight: Optional[Tensor]

    def __init__(self, weight: Optional[Tensor] = None, *, reduction: str = "mean",
                 pos_weight: Optional[Tensor] = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class MultiLabelSoftMarginLoss(_Weighted):
    """Binary cross entropy of logits [batch, classes] with targets 0 and 1, averaged over the classes."""

    def __init__(self, weight: Optional[Tensor] = None, *, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.multilabel_soft_margin_loss(target, self.weight, self.reduction)


class MultiMarginLoss(_Weighted):
    """Hinge loss of input [batch, classes] or [classes] with labels; p is 1 or 2, weight [classes]."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Optional[Tensor] = None, *,
                 reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        if p not in (1, 2):
            raise InvalidArgumentError(f"MultiMarginLoss: the power p is 1 or 2, not {p}")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.multi_margin_loss(target, self.p, self.margin, self.weight, self.reduction)


class _Margin(_Loss):
    def __init__(self, margin: float, reduction: str) -> None:
        super().__init__(reduction)
        self.margin = margin


class HingeEmbeddingLoss(_Margin):
    """input where the target is 1, max(0, margin - input) where it is -1."""

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(margin, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return input.hinge_embedding_loss(target, self.margin, self.reduction)


class CosineEmbeddingLoss(_Margin):
    """1 - cos of input1 and input2 [batch, size] where the target is 1, max(0, cos - margin) where it is -1."""

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(margin, reduction)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return input1.cosine_embedding_loss(input2, target, self.margin, self.reduction)


class MarginRankingLoss(_Margin):
    """max(0, margin - target * (input1 - input2)) for targets 1 and -1."""

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(margin, reduction)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return input1.margin_ranking_loss(input2, target, self.margin, self.reduction)


class TripletMarginLoss(_Margin):
    """max(0, margin + |anchor - positive| - |anchor - negative|), all [batch, size] or [size], in the p-norm."""

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, *,
                 reduction: str = "mean") -> None:
        super().__init__(margin, reduction)
        self.p, self.eps, self.swap = p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return anchor.triplet_margin_loss(positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction)


class TripletMarginWithDistanceLoss(_Margin):
    """TripletMarginLoss by any distance, a function of two tensors."""

    def __init__(self, *, distance_function: Optional[Callable[[Tensor, Tensor], Tensor]] = None, margin: float = 1.0,
                 swap: bool = False, reduction: str = "mean") -> None:
        super().__init__(margin, reduction)
        self.distance_function, self.swap = distance_function, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=self.distance_function,
                                                   margin=self.margin, swap=self.swap, reduction=self.reduction)


class CTCLoss(_Loss):
    """Connectionist temporal classification: forward(log_probs [time, batch, classes], targets [batch, longest] or all
    in a row, input_lengths [batch], target_lengths [batch])."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
                          self.zero_infinity)
