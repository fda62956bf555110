"""Linear algebra under PyTorch's names (torch.linalg). Matrices are the last two axes, other axes are batches.

Dtypes below float32 are computed in float32 and come back. Where a matrix has no such thing (the inverse of a singular
one, the Cholesky factor of one that is not positive definite) the result holds infinities or NaN: data is not known
when the function is called, so nothing is raised. ValueError and RuntimeError (one exception that is both) if shapes do
not fit, or a matrix is larger than the method goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, Optional, Union

import _tensord
from _tensord import Tensor, multi_dot

from tensord import return_types
from tensord.errors import InvalidArgumentError
from tensord.out import all_take_out

det = Tensor.det
inv = Tensor.inverse
matmul = Tensor.matmul
matrix_exp = Tensor.matrix_exp
matrix_power = Tensor.matrix_power
vecdot = Tensor.vecdot


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product along an axis of three elements; operands broadcast."""
    return input.cross(other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The elements where indices along two axes differ by `offset`, as a last axis."""
    return A.diagonal(offset, dim1, dim2)


def slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """The sign and the logarithm of the absolute value of the determinant."""
    return return_types.linalg_slogdet(*A.slogdet())


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """x with A x = B, or x A = B. B is a matrix, or a vector where A has one axis more."""
    return _tensord._linalg_solve(A, B, left)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The same for a triangular A, whose other half is not read."""
    return _tensord._linalg_solve_triangular(A, B, upper, left, unitriangular)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """l with l l^T = A, or u with u^T u = A, of a symmetric positive definite matrix."""
    return A.cholesky(upper)


def _check(what: str, info: Tensor, check_errors: bool) -> None:
    if check_errors and (failed := int(info.abs().amax().item() if info.numel() else 0)):
        raise InvalidArgumentError(f"{what}: pivot {failed} of a matrix is zero, or not positive")


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> return_types.linalg_cholesky_ex:
    """cholesky, and int32 for each matrix the first pivot, from 1 on, that is not positive, or 0. With check_errors it
    is read, and RuntimeError if there is one; the same for the other functions in _ex."""
    factor = cholesky(A, upper=upper)
    info = _tensord._linalg_cholesky_info(factor)
    _check("cholesky_ex", info, check_errors)
    return return_types.linalg_cholesky_ex(factor, info)


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> return_types.linalg_lu_factor_ex:
    """lu_factor, and int32 for each matrix the first pivot, from 1 on, that is zero, or 0."""
    factors = lu_factor(A, pivot=pivot)
    info = _tensord._linalg_lu_info(factors.LU)
    _check("lu_factor_ex", info, check_errors)
    return return_types.linalg_lu_factor_ex(*factors, info)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> return_types.linalg_inv_ex:
    """inv, and the info of lu_factor_ex."""
    inverse = inv(A)
    return return_types.linalg_inv_ex(inverse, lu_factor_ex(A, check_errors=check_errors).info)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> return_types.linalg_solve_ex:
    """solve, and the info of lu_factor_ex."""
    result = solve(A, B, left=left)
    return return_types.linalg_solve_ex(result, lu_factor_ex(A, check_errors=check_errors).info)


def lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """A = P L U with rows exchanged for the largest pivot."""
    _needs_pivots("lu", pivot)
    return return_types.linalg_lu(*_tensord._linalg_lu(A))


def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """U with L below its diagonal, and the rows that were exchanged, int32 from 1 on."""
    _needs_pivots("lu_factor", pivot)
    return return_types.linalg_lu_factor(*_tensord._linalg_lu_factor(A))


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor) -> return_types.linalg_lu:
    """What lu gives, from what lu_factor gives."""
    return return_types.linalg_lu(*_tensord._linalg_lu_unpack(LU_data, LU_pivots))


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """x with A x = B, given what lu_factor gives for A."""
    return _tensord._linalg_lu_solve(LU, pivots, B, left, adjoint)


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """A = P L D L^T P^T of a symmetric matrix, of which the lower triangle is read, in LAPACK's form: D, of blocks 1 x 1
    and 2 x 2, with L below it, and pivots, int32 from 1 on. For real matrices `hermitian` says the same as symmetric. No
    derivative."""
    return return_types.linalg_ldl_factor(*_tensord._linalg_ldl_factor(A))


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> return_types.linalg_ldl_factor_ex:
    """ldl_factor, and int32 for each matrix the first block of D, from 1 on, that is zero, or 0."""
    factors = ldl_factor(A, hermitian=hermitian)
    info = _tensord._linalg_ldl_info(*factors)
    _check("ldl_factor_ex", info, check_errors)
    return return_types.linalg_ldl_factor_ex(*factors, info)


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """x with A x = B, given what ldl_factor gives for A. B is a matrix."""
    return _tensord._linalg_ldl_solve(LD, pivots, B)


def _needs_pivots(what: str, pivot: bool) -> None:
    if not pivot:
        raise InvalidArgumentError(f"{what}: elimination without pivots is unstable and not offered")


def qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """A = Q R: Q [m, k], R [k, n] with k = min(m, n), or "complete" Q [m, m], R [m, n]; "r" gives an empty Q."""
    if mode not in ("reduced", "complete", "r"):
        raise InvalidArgumentError(f"qr: mode is 'reduced', 'complete' or 'r', not '{mode}'")
    q, r = _tensord._linalg_qr(A, mode == "complete")
    return return_types.linalg_qr(q.reshape(-1)[:0] if mode == "r" else q, r)


def svd(A: Tensor, full_matrices: bool = True) -> return_types.linalg_svd:
    """A = U diag(S) Vh with S descending."""
    return return_types.linalg_svd(*A.svd(full_matrices))


def polar(A: Tensor) -> return_types.linalg_polar:
    """A [.., m, n] = U H for m >= n: U with orthonormal columns, H symmetric without negative eigenvalues."""
    if A.shape[-2] < A.shape[-1]:
        raise InvalidArgumentError(f"polar: a matrix of shape {list(A.shape[-2:])} is wider than high")
    u, s, vh = svd(A, full_matrices=False)
    return return_types.linalg_polar(u @ vh, (vh.mT * s.unsqueeze(-2)) @ vh)


def matrix_sqrth(A: Tensor) -> Tensor:
    """The symmetric positive definite x with x x = A, of which the lower triangle is read; NaN if A is not so."""
    values, vectors = eigh(A)
    return (vectors * values.sqrt().unsqueeze(-2)) @ vectors.mT


def svdvals(A: Tensor) -> Tensor:
    """Singular values, descending."""
    return _tensord._linalg_svdvals(A)


def eigh(A: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """Eigenvalues, ascending, and eigenvectors (columns) of a symmetric matrix, of which one triangle is read."""
    return return_types.linalg_eigh(*_tensord._linalg_eigh(A, _is_upper(UPLO)))


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


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflections 1 - tau v v^T whose vectors v stand below the diagonal of
    A [.., m, n], as geqrf gives them; tau [.., k] with k up to n."""
    return _tensord._linalg_householder_product(A, tau)


def pinv(A: Tensor, *, atol: Union[float, Tensor, None] = None, rtol: Union[float, Tensor, None] = None,
         hermitian: bool = False) -> Tensor:
    """The pseudo-inverse; singular values up to max(atol, rtol * largest) count as zero. Bounds are numbers, or tensors
    of one for each matrix. Of a hermitian (symmetric) matrix the lower triangle is read."""
    return _tensord._linalg_pinv(A, atol, rtol, hermitian)


def matrix_rank(A: Tensor, *, atol: Union[float, Tensor, None] = None, rtol: Union[float, Tensor, None] = None,
                hermitian: bool = False) -> Tensor:
    """How many singular values are above max(atol, rtol * largest); int32. Arguments as of pinv."""
    return _tensord._linalg_matrix_rank(A, atol, rtol, hermitian)


def lstsq(A: Tensor, B: Tensor, rcond: Optional[float] = None, *,
          driver: Optional[str] = None) -> return_types.linalg_lstsq:
    """The x of least norm among those with the least |A x - B|; the sums of squares that remain (empty unless A has
    more rows than columns), the rank of A and its singular values.

    One algorithm serves all drivers, which say what comes with the solution: "gels" no rank and no singular values,
    "gelsy" no singular values, "gelss" and "gelsd" (or None) both. What does not come is empty.
    """
    if driver not in (None, "gels", "gelsy", "gelss", "gelsd"):
        raise InvalidArgumentError(f"lstsq: driver is 'gels', 'gelsy', 'gelss' or 'gelsd', not '{driver}'")
    x = _tensord._linalg_lstsq(A, B, rcond)
    rows, columns = A.shape[-2:]
    if rows > columns:
        residuals = (A @ x - B).square().sum(-2 if B.ndim == A.ndim else -1)
    else:
        residuals = x.reshape(-1)[:0]
    rank = _tensord._full([0], 0, "int32") if driver == "gels" else matrix_rank(A, rtol=rcond)
    singular_values = x.reshape(-1)[:0] if driver in ("gels", "gelsy") else svdvals(A)
    return return_types.linalg_lstsq(x, residuals, rank, singular_values)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map from its axes ind.. to its first ind axes."""
    shape = A.shape
    first, rest = math.prod(shape[:ind]), math.prod(shape[ind:])
    if not 0 < ind < len(shape) or first != rest:
        raise InvalidArgumentError(f"tensorinv: the first {ind} axes of {list(shape)} and the rest differ in elements")
    return A.reshape(first, rest).inverse().reshape(*shape[ind:], *shape[:ind])


def tensorsolve(A: Tensor, B: Tensor, dims: Optional[tuple[int, ...]] = None) -> Tensor:
    """x with tensordot(A, x, x.ndim) = B in the order of its elements, where A begins with as many axes as B has, once
    the axes `dims` are moved to its end."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim:]
    if math.prod(A.shape[: B.ndim]) != math.prod(B.shape) or math.prod(shape) != math.prod(B.shape):
        raise InvalidArgumentError(f"tensorsolve: {list(A.shape)} and {list(B.shape)} do not fit")
    n = math.prod(shape)
    return solve(A.reshape(n, n), B.reshape(n)).reshape(*shape)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """The norm "fro", "nuc", inf, -inf, 1, -1, 2 or -2 of the matrices in two axes."""
    return _tensord._linalg_matrix_norm(A, _name(ord), list(dim), keepdim)


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """vector_norm over one axis, or of a vector; matrix_norm over two axes, or of a matrix. Without `ord` the root of
    the sum of squares over the axes, or all elements."""
    if ord is None and dim != () and dim != []:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    axes = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(axes) == 1:
        return vector_norm(A, ord, axes, keepdim, dtype=dtype)
    if len(axes) != 2:
        raise InvalidArgumentError(f"norm: ord {ord!r} over {len(axes)} axes; name one or two, or no ord")
    return matrix_norm(A if dtype is None else A.cast(dtype), ord, axes, keepdim)


def vander(x: Tensor, *, N: Optional[int] = None) -> Tensor:
    """Powers x^0 .. x^(N-1) of vectors [.., m] as columns, [.., m, N]; N is m unless given. Unlike tensord.vander."""
    x = x if x.ndim else x.reshape(1)
    columns = x.shape[-1] if N is None else N
    if columns < 1 or (N is not None and N < 2):
        raise InvalidArgumentError(f"vander: {columns} columns; it needs two or more")
    return _tensord._vander(x, columns, True)


def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Optional[Tensor] = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with U diag(S) V^T near A, or A - M, of rank q, from q random directions that `niter` multiplications
    by A A^T bring nearer. q is at most the lesser side."""
    if M is not None:
        A = A - M
    rows, columns = A.shape[-2:]
    if not 0 <= q <= min(rows, columns):
        raise InvalidArgumentError(f"svd_lowrank: rank {q} of {list(A.shape)}; it is at most the lesser side")
    basis = qr(A @ _tensord._randn([*A.shape[:-2], columns, q], A.dtype)).Q
    for _ in range(niter):
        basis = qr(A @ qr(A.mT @ basis).Q).Q
    u, s, vh = svd(basis.mT @ A, full_matrices=False)
    return basis @ u, s, vh.mT


def pca_lowrank(A: Tensor, q: Optional[int] = None, center: bool = True,
                niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """svd_lowrank of A [.., observations, variables], less the mean of each variable if `center`; q is 6 or the lesser
    side unless given."""
    rank = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, rank, niter)


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The ord-th root of the sum of ord-th powers, over axes or all elements."""
    norm: Callable[..., Tensor] = getattr(x, "norm")
    return norm(ord, dim, keepdim, dtype)


def lobpcg(A: Tensor, k: Optional[int] = None, B: Optional[Tensor] = None, X: Optional[Tensor] = None,
           n: Optional[int] = None, iK: Optional[Tensor] = None, niter: Optional[int] = None, tol: Optional[float] = None,
           largest: Optional[bool] = None, method: Optional[str] = None, tracker: Any = None,
           ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None) -> tuple[Tensor, Tensor]:
    """(E [.., k], V [.., n, k]): the k largest, or with largest=False least, eigenvalues of symmetric A [.., n, n], with
    A v = e B v where B is positive definite. k is 1, or the number of columns of X, unless given.

    They are those of eigh, to which PyTorch's iteration converges; what steers that changes nothing. ValueError if A has
    less than 3 k rows, as in PyTorch.
    """
    count = k if k is not None else 1 if X is None else X.shape[-1]
    size = A.shape[-1]
    if count < 1 or size < 3 * (count if n is None else n):
        raise InvalidArgumentError(f"lobpcg: {count} eigenvalues of a matrix of {size} rows; it needs 3 times as many")
    factor = None if B is None else cholesky(B)
    if factor is not None:
        half = solve_triangular(factor, A, upper=False)
        A = solve_triangular(factor, half.transpose(-1, -2), upper=False)
    values, vectors = eigh(A)
    if largest is False:
        values, vectors = values[..., :count], vectors[..., :count]
    else:
        values, vectors = values[..., size - count :].flip(-1), vectors[..., size - count :].flip(-1)
    if factor is not None:
        vectors = solve_triangular(factor.transpose(-1, -2), vectors, upper=True)
    return values, vectors


def cond(A: Tensor, p: Any = None) -> Tensor:
    """|A| |A^-1| by the norm p; the quotient of the largest and the least singular value unless given."""
    return _tensord._linalg_cond(A, "2" if p is None else _name(p))


def _name(ord: Any) -> str:
    if isinstance(ord, str):
        return ord
    return str(int(ord)) if float(ord).is_integer() else str(float(ord))


__all__ = [
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "lu_unpack", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_sqrth", "multi_dot", "norm", "pinv", "polar", "qr", "slogdet", "solve", "solve_ex", "solve_triangular",
    "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
all_take_out(globals(), __all__)
