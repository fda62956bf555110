"""Weights of a given norm, as torch.nn.utils.parametrizations; see parametrize."""

from __future__ import annotations

from typing import Optional

from _tensord import Tensor

from tensord.autograd import no_grad
from tensord.creation import randn
from tensord.errors import InvalidArgumentError
from tensord.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tensord.nn.module import Module
from tensord.nn.utils.parametrize import register_parametrization


class _WeightNorm(Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def _norm(self, x: Tensor) -> Tensor:
        """Over all axes but one, which stays, or over all."""
        if self.dim == -1:
            return x.square().sum().sqrt()
        return x.square().sum(tuple(i for i in range(x.ndim) if i != self.dim), True).sqrt()

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / self._norm(weight_v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return self._norm(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: Optional[int] = 0) -> Module:
    """Learns a weight as its norms, original0, over all axes but `dim` (None: over all), and its direction, original1."""
    return register_parametrization(module, name, _WeightNorm(-1 if dim is None else dim))


class _SpectralNorm(Module):
    """Divides by the largest singular value, as it is nearly found by n_power_iterations at each use in training."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.n_power_iterations, self.eps, self.dim = n_power_iterations, eps, dim
        if weight.ndim > 1:
            rows, columns = self._matrix(weight).shape
            self.register_buffer("_u", randn(rows).normalize(dim=0, eps=eps).realize())
            self.register_buffer("_v", randn(columns).normalize(dim=0, eps=eps).realize())
            self._iterate(self._matrix(weight.detach()), 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            u, v = self._u, self._v
            for _ in range(count):
                u = matrix.matmul(v).normalize(dim=0, eps=self.eps)
                v = matrix.transpose(0, 1).matmul(u).normalize(dim=0, eps=self.eps)
            self._u.assign(u)
            self._v.assign(v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return weight.normalize(dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        return weight / (self._u.detach() * matrix.matmul(self._v.detach())).sum()

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: Optional[int] = None) -> Module:
    """Divides a weight by its largest singular value as a matrix [`dim`, rest]; dim is where the outputs are."""
    weight = module.get_parameter(name)
    if n_power_iterations < 1:
        raise InvalidArgumentError(f"spectral_norm: {n_power_iterations} power iterations; at least 1")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
