"""How far apart two tensors are."""

from __future__ import annotations

from _tensord import Tensor

from tensord.nn.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between x1 and x2 along `dim`, which goes."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return x1.cosine_similarity(x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps over the last axis, which goes unless keepdim."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return x1.pairwise_distance(x2, self.norm, self.eps, self.keepdim)
