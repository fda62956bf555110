"""Softmax over many classes, of which frequent ones come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from _tensord import Tensor

from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.nn.container import ModuleList, Sequential
from tensord.nn.linear import Linear
from tensord.nn.module import Module


class ASMOutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes below cutoffs[0] have a logit each in `head`, and those of a cluster between two cutoffs share one there,
    beside a network of their own in `tail`, which is narrower by div_value from cluster to cluster.

    forward(input [batch, in_features], target [batch]) gives the log-probabilities of the targets [batch], and the mean of
    their negatives; both may be without batch. All clusters are computed for all rows: which ones a batch needs is data.
    A target that is no class gives NaN.
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
                 head_bias: bool = False, device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or not 0 < cutoffs[0] <= cutoffs[-1] < n_classes or any(
                int(cutoff) != cutoff for cutoff in cutoffs):
            raise InvalidArgumentError(f"AdaptiveLogSoftmaxWithLoss: cutoffs {cutoffs} are integers that rise, from 1 to "
                                       f"{n_classes - 1}")
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(Linear(in_features, width, False, device, dtype),
                                        Linear(width, high - low, False, device, dtype)))

    def reset_parameters(self) -> None:
        for layer in [self.head, *(layer for cluster in self.tail for layer in cluster.children())]:
            assert isinstance(layer, Linear)
            layer.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """Of all classes: [batch, n_classes]."""
        head = self.head(input).log_softmax(-1)
        parts = [head[..., :self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(cluster(input).log_softmax(-1) + head[..., at:at + 1])
        return Tensor.cat(parts, dim=-1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row."""
        return self.log_prob(input).argmax(-1)

    def forward(self, input: Tensor, target: Tensor) -> ASMOutput:
        if target.ndim > 1 or input.ndim != target.ndim + 1 or tuple(input.shape[:-1]) != tuple(target.shape):
            raise InvalidArgumentError(f"AdaptiveLogSoftmaxWithLoss: an input of shape {list(input.shape)} and targets of "
                                       f"shape {list(target.shape)}; they are [batch, {self.in_features}] and [batch]")
        is_class = (target >= 0) & (target < self.n_classes)
        found = self.log_prob(input).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        output = is_class.where(found, float("nan"))
        return ASMOutput(output, -output.mean())
