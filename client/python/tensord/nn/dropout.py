"""Dropout layers: active in training only; see Module.training."""

from __future__ import annotations

from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.nn.module import Module


class _Dropout(Module):
    """`inplace` changes nothing: the input keeps its values, and memory is the compiler's matter."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise InvalidArgumentError(f"{type(self).__name__}: the probability p is in [0, 1], not {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Each element is zero with probability p, and the others grow by 1 / (1 - p). Any shape."""

    def forward(self, input: Tensor) -> Tensor:
        return input.dropout(self.p, self.training)


class _FeatureDropout(_Dropout):
    _without_batch = 0  # the rank of an input without batch

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim == self._without_batch:
            return input.unsqueeze(0).feature_dropout(self.p, self.training).squeeze(0)
        return input.feature_dropout(self.p, self.training)


class Dropout1d(_FeatureDropout):
    """Whole channels of [batch, channels, length], or without batch, are zero with probability p."""

    _without_batch = 2


class Dropout2d(_FeatureDropout):
    """Whole channels of [batch, channels, height, width] are zero with probability p."""


class Dropout3d(_FeatureDropout):
    """Whole channels of [batch, channels, depth, height, width], or without batch, are zero with probability p."""

    _without_batch = 4


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1, for SELU. Any shape."""

    def forward(self, input: Tensor) -> Tensor:
        return input.alpha_dropout(self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels of [batch, channels, ..]."""

    def forward(self, input: Tensor) -> Tensor:
        return input.feature_alpha_dropout(self.p, self.training)
