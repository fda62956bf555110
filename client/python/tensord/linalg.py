"""Linear algebra under PyTorch's names (torch.linalg). Matrices are the last two axes, other axes are batches.

Dtypes below float32 are computed in float32 and come back. Where a matrix has no such thing (the inverse of a singular
one, the Cholesky factor of one that is not positive definite) the result holds infinities or NaN: data is not known
when the function is called, so nothing is raised. ValueError and RuntimeError (one exception that is both) if shapes do
not fit, or a matrix is larger than the method goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, Optional

import _tensord
from _tensord import Tensor, multi_dot

from tensord.errors import InvalidArgumentError

det = Tensor.det
inv = Tensor.inverse
matmul = Tensor.matmul
matrix_exp = Tensor.matrix_exp
matrix_power = Tensor.matrix_power
vecdot = Tensor.vecdot


class QR(NamedTuple):
    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class SlogDet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class LU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    LU: Tensor
    pivots: Tensor


class Lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product along an axis of three elements; operands broadcast."""
    return input.cross(other, dim)


def slogdet(A: Tensor) -> SlogDet:
    """The sign and the logarithm of the absolute value of the determinant."""
    return SlogDet(*A.slogdet())


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """x with A x = B, or x A = B. B is a matrix, or a vector where A has one axis more."""
    return _tensord._linalg_solve(A, B, left)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The same for a triangular A, whose other half is not read."""
    return _tensord._linalg_solve_triangular(A, B, upper, left, unitriangular)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """l with l l^T = A, or u with u^T u = A, of a symmetric positive definite matrix."""
    return A.cholesky(upper)


def lu(A: Tensor, *, pivot: bool = True) -> LU:
    """A = P L U with rows exchanged for the largest pivot."""
    _needs_pivots("lu", pivot)
    return LU(*_tensord._linalg_lu(A))


def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """U with L below its diagonal, and the rows that were exchanged, int32 from 1 on."""
    _needs_pivots("lu_factor", pivot)
    return LUFactor(*_tensord._linalg_lu_factor(A))


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor) -> LU:
    """What lu gives, from what lu_factor gives."""
    return LU(*_tensord._linalg_lu_unpack(LU_data, LU_pivots))


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """x with A x = B, given what lu_factor gives for A."""
    return _tensord._linalg_lu_solve(LU, pivots, B, left, adjoint)


def _needs_pivots(what: str, pivot: bool) -> None:
    if not pivot:
        raise InvalidArgumentError(f"{what}: elimination without pivots is unstable and not offered")


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R: Q [m, k], R [k, n] with k = min(m, n), or "complete" Q [m, m], R [m, n]; "r" gives an empty Q."""
    if mode not in ("reduced", "complete", "r"):
        raise InvalidArgumentError(f"qr: mode is 'reduced', 'complete' or 'r', not '{mode}'")
    q, r = _tensord._linalg_qr(A, mode == "complete")
    return QR(q.reshape(-1)[:0] if mode == "r" else q, r)


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """A = U diag(S) Vh with S descending."""
    return SVD(*A.svd(full_matrices))


def svdvals(A: Tensor) -> Tensor:
    """Singular values, descending."""
    return _tensord._linalg_svdvals(A)


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues, ascending, and eigenvectors (columns) of a symmetric matrix, of which one triangle is read."""
    return Eigh(*_tensord._linalg_eigh(A, _is_upper(UPLO)))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues, ascending, of a symmetric matrix."""
    return _tensord._linalg_eigh(A, _is_upper(UPLO))[0]


def _is_upper(uplo: str) -> bool:
    if uplo not in ("L", "U"):
        raise InvalidArgumentError(f"eigh: UPLO is 'L' or 'U', not '{uplo}'")
    return uplo == "U"


def eig(A: Tensor) -> NoReturn:
    """An error: eigenvalues of a general real matrix are complex, and there is no complex dtype. See eigh."""
    _tensord._linalg_eigvals(A)
    raise AssertionError("not reached")


def eigvals(A: Tensor) -> NoReturn:
    """An error, as eig."""
    eig(A)


def pinv(A: Tensor, *, atol: Optional[float] = None, rtol: Optional[float] = None) -> Tensor:
    """The pseudo-inverse; singular values up to max(atol, rtol * largest) count as zero."""
    return _tensord._linalg_pinv(A, atol, rtol)


def matrix_rank(A: Tensor, *, atol: Optional[float] = None, rtol: Optional[float] = None) -> Tensor:
    """How many singular values are above max(atol, rtol * largest); int32."""
    return _tensord._linalg_matrix_rank(A, atol, rtol)


def lstsq(A: Tensor, B: Tensor, rcond: Optional[float] = None) -> Lstsq:
    """The x of least norm among those with the least |A x - B|; the sums of squares that remain (empty unless A has
    more rows than columns), the rank of A and its singular values."""
    x = _tensord._linalg_lstsq(A, B, rcond)
    rows, columns = A.shape[-2:]
    if rows > columns:
        residuals = (A @ x - B).square().sum(-2 if B.ndim == A.ndim else -1)
    else:
        residuals = x.reshape(-1)[:0]
    return Lstsq(x, residuals, matrix_rank(A, rtol=rcond), svdvals(A))


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map from its axes ind.. to its first ind axes."""
    shape = A.shape
    first, rest = math.prod(shape[:ind]), math.prod(shape[ind:])
    if not 0 < ind < len(shape) or first != rest:
        raise InvalidArgumentError(f"tensorinv: the first {ind} axes of {list(shape)} and the rest differ in elements")
    return A.reshape(first, rest).inverse().reshape(*shape[ind:], *shape[:ind])


def tensorsolve(A: Tensor, B: Tensor) -> Tensor:
    """x with tensordot(A, x, x.ndim) = B, where A begins with the shape of B."""
    shape = A.shape[B.ndim:]
    if tuple(A.shape[: B.ndim]) != tuple(B.shape) or math.prod(shape) != math.prod(B.shape):
        raise InvalidArgumentError(f"tensorsolve: {list(A.shape)} and {list(B.shape)} do not fit")
    n = math.prod(shape)
    return solve(A.reshape(n, n), B.reshape(n)).reshape(*shape)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """The norm "fro", "nuc", inf, -inf, 1, -1, 2 or -2 of the matrices in two axes."""
    axes = [axis % A.ndim for axis in dim]
    if len(axes) != 2 or axes[0] == axes[1]:
        raise InvalidArgumentError(f"matrix_norm: dim {dim} is not two axes")
    rest = [axis for axis in range(A.ndim) if axis not in axes]
    norm = _tensord._linalg_matrix_norm(A.permute(*rest, *axes), _name(ord))
    for axis in sorted(axes) if keepdim else []:
        norm = norm.unsqueeze(axis)
    return norm


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The ord-th root of the sum of ord-th powers, over axes or all elements."""
    norm: Callable[..., Tensor] = getattr(x, "norm")
    return norm(ord, dim, keepdim, dtype)


def cond(A: Tensor, p: Any = None) -> Tensor:
    """|A| |A^-1| by the norm p; the quotient of the largest and the least singular value unless given."""
    return _tensord._linalg_cond(A, "2" if p is None else _name(p))


def _name(ord: Any) -> str:
    if isinstance(ord, str):
        return ord
    return str(int(ord)) if float(ord).is_integer() else str(float(ord))


__all__ = [
    "cholesky", "cond", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "lu", "lu_factor",
    "lu_solve", "lu_unpack", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "pinv",
    "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vecdot", "vector_norm",
]  # fmt: skip
