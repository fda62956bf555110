"""Weights of a given norm, and orthogonal ones, as torch.nn.utils.parametrizations; see parametrize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from _tensord import Tensor

from tensord.autograd import no_grad
from tensord.creation import eye, randn
from tensord.dtypes import finfo
from tensord.errors import InvalidArgumentError, UnimplementedError
from tensord.linalg import householder_product, matrix_exp, solve
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
    dim = _output_axis(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def _output_axis(module: Module) -> int:
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def _orthogonal(x: Tensor) -> Tensor:
    """The q of x = q r whose r has a positive diagonal."""
    a, tau = x.geqrf()
    return householder_product(a, tau) * a.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _by_exponential(x: Tensor) -> Tensor:
    return matrix_exp(x)


def _by_cayley(x: Tensor) -> Tensor:
    identity = eye(x.shape[-1], dtype=x.dtype)
    return solve(identity - x * 0.5, identity + x * 0.5)


#: What makes an orthogonal matrix of a skew-symmetric one.
_OF_SKEW: dict[str, Callable[[Tensor], Tensor]] = {"matrix_exp": _by_exponential, "cayley": _by_cayley}


class _Orthogonal(Module):
    """Of the lower triangle of a matrix [.., n, k], or of its transpose if that is wide."""

    base: Optional[Tensor]

    def __init__(self, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.orthogonal_map, self.use_trivialization = orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        n, k = x.shape[-2:]
        if self.orthogonal_map in _OF_SKEW:
            x = x.tril()
            if n != k:
                x = Tensor.cat([x, x.new_zeros((*x.shape[:-1], n - k))], dim=-1)
            q = _OF_SKEW[self.orthogonal_map](x - x.mT)[..., :k]
        else:
            below = x.tril(-1)
            q = householder_product(below, 2.0 / (1.0 + below.square().sum(-2)))
            # The diagonal holds signs, which are not learned.
            q = q * x.diagonal(dim1=-2, dim2=-1).detach().trunc().unsqueeze(-2)
        if self.use_trivialization and self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, Q: Tensor) -> Tensor:
        wide = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if wide else Q
        n, k = q.shape[-2:]
        if not self.use_trivialization:
            if self.orthogonal_map in _OF_SKEW:
                raise UnimplementedError(f"orthogonal: a value can't be assigned with {self.orthogonal_map} unless "
                                         "use_trivialization")
            a, tau = q.geqrf()
            signs = a.diagonal(dim1=-2, dim2=-1).sign()
            signs = (tau == 0).where(-signs, signs)
            below = a.tril(-1)
            made = below + Tensor.cat([signs.diag_embed(), below.new_zeros((*below.shape[:-2], n - k, k))], dim=-2)
            return made.mT if wide else made
        if n == k:
            epsilon = 10.0 * n * finfo(q.dtype).eps
            off = (q.mT @ q - eye(k, dtype=q.dtype)).abs()
            base = q.clone() if bool((off <= epsilon + 1e-5 * eye(k, dtype=q.dtype)).all().item()) else _orthogonal(q)
        else:
            more = randn(*q.shape[:-2], n, n - k, dtype=q.dtype)
            base = _orthogonal(Tensor.cat([q, more], dim=-1))
        self.base = base.detach().realize()
        return -eye(*Q.shape[-2:], dtype=Q.dtype).expand(*Q.shape).clone()


def orthogonal(module: Module, name: str = "weight", orthogonal_map: Optional[str] = None, *,
               use_trivialization: bool = True) -> Module:
    """Keeps a weight [.., n, k] orthogonal: its columns are orthonormal, or its rows if it is wide.

    orthogonal_map: "matrix_exp" and "cayley" of a skew-symmetric matrix, or a product of reflections, "householder";
    matrix_exp for square weights unless given, else householder. With use_trivialization what is learned stands for a
    change of the weight that was there, and values can be assigned with any map.
    """
    weight = module.get_parameter(name)
    if weight.ndim < 2:
        raise InvalidArgumentError(f"orthogonal: '{name}' of shape {list(weight.shape)} is no matrix, or batch of them")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in (*_OF_SKEW, "householder"):
        raise InvalidArgumentError(f"orthogonal: the map is 'matrix_exp', 'cayley' or 'householder', not "
                                   f"'{orthogonal_map}'")
    return register_parametrization(module, name, _Orthogonal(orthogonal_map, use_trivialization))
