"""Methods of Tensor as functions: tensord.exp(x) is x.exp().

All are here, but those that concern the tensor as an object. Functions of two operands take a number as the first one
too. functional.pyi, which make_stub.py writes, has their types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable

import _tensord
from _tensord import Tensor

import tensord.objects
import tensord.tinygrad  # noqa: F401: their methods are functions too
from tensord import return_types
from tensord.linalg import (
    householder_product as orgqr,
    lobpcg,
    lu_factor,
    lu_factor_ex,
    multi_dot,
    pca_lowrank,
    solve_triangular,
    svd_lowrank,
)
from tensord.linalg import lu_solve as _lu_solve
from tensord.linalg import lu_unpack as _lu_unpack
from tensord.out import all_take_out

# What belongs to a tensor as an object, or has another meaning as a function or a dtype.
_METHODS_ONLY = frozenset("""
    apply_ as_param assign backward bfloat16 bitcast bool byte callify cast char contiguous cpu cuda data data_ptr double element_size expand
    float gradient half int int16 is_pinned is_shared istft item long new_full numpy polygamma publish realize register_hook register_post_accumulate_grad_hook
    ndimension reshape_as retain_grad short size stft stride to
    to_ tolist trace type type_as view wait
""".split())

# What writes in place that PyTorch has as functions too.
_IN_PLACE = """
    abs_ absolute_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_ ceil_ celu_ clamp_
    clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ elu_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_
    frac_ gcd_ hardtanh_ i0_ index_put_ lcm_ ldexp_ leaky_relu_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_
    rad2deg_ reciprocal_ relu_ resize_as_ round_ rrelu_ rsqrt_ selu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_
    threshold_ trunc_ xlogy_ zero_
""".split()

# In PyTorch's order of arguments, unlike the methods of these names; found in tensord.nn.functional when asked for.
_IN_TORCH_ORDER = """
    adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    linear max_pool1d max_pool2d max_pool3d scaled_dot_product_attention
""".split()


def __getattr__(name: str) -> Any:
    if name not in _IN_TORCH_ORDER:
        raise AttributeError(f"module 'tensord.functional' has no attribute {name!r}")
    return getattr(import_module("tensord.nn.functional"), name)


def mirrored() -> list[str]:
    """The names of the methods that are functions here."""
    return [name for name, member in vars(Tensor).items()
            if not name.startswith("_") and callable(member) and name not in _METHODS_ONLY
            and (not name.endswith("_") or name in _IN_PLACE)]


def _of_operands(name: str) -> Callable[..., Tensor]:
    method = getattr(Tensor, name)

    def function(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor:
        if isinstance(input, Tensor) or not isinstance(other, Tensor):
            return method(input, other, *arguments, **keywords)  # type: ignore[no-any-return]
        return method(other, input, *arguments, reverse=True, **keywords)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


for _name in set(mirrored()).difference(_IN_TORCH_ORDER):
    globals()[_name] = _of_operands(_name) if _name in _tensord._binary_methods else getattr(Tensor, _name)



def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the shape and dtype of input that holds one number; a tensor without axes serves as one."""
    if isinstance(value, Tensor):
        return value.reshape(()).cast(input.dtype).expand(input.shape)
    return input.full_like(value)


def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """pad with a constant: amounts before and after, the last axis first."""
    return input.pad(pad, value=value)


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    return input.sub(other, True) if alpha == 1 else (input * alpha).sub(other, True)


def real(input: Tensor) -> Tensor:
    """The tensor itself: all numbers are real."""
    return input


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which tensors of these shapes broadcast; an int is a shape of one axis. ValueError if they don't."""
    return _tensord._broadcast_shapes([(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes])


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The index along each axis of elements that are given by their place in row-major order of that shape."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    places: list[Tensor] = []
    for size in reversed(sizes):
        places.append(indices % size)
        indices = indices // size
    return tuple(reversed(places))


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """bool: whether each element occurs among `test_elements`; both are tensors or numbers. See Tensor.isin.
    `assume_unique` changes nothing."""
    return _tensor(elements).isin(test_elements, invert=invert)


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = True, right: bool = False) -> Tensor:
    """int32, between which of the sorted boundaries each element lies, or a number does. See Tensor.bucketize."""
    return _tensor(input).bucketize(boundaries, out_int32=out_int32, right=right)


def einsum(formula: str, *operands: Any, dtype: Any = None) -> Tensor:
    """Einstein's summation over labels: "ij,jk->ik"; see Tensor.einsum."""
    return Tensor.einsum(formula, *operands, dtype=dtype)


def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma; see Tensor.polygamma."""
    return input.polygamma(n)


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN where that is negative."""
    sign, log = input.slogdet()
    return (sign < 0).where(float("nan"), log)


def triangular_solve(b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> return_types.triangular_solve:
    """x with A x = b (A^T x = b with transpose) for a triangular A, and A; see linalg.solve_triangular."""
    matrix = A.transpose(-1, -2) if transpose else A
    solution = solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    return return_types.triangular_solve(solution, A)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """(LU, pivots), with get_infos also info; see linalg.lu_factor_ex. (linalg.lu gives the parts apart.)"""
    return tuple(lu_factor_ex(A, pivot=pivot)) if get_infos else tuple(lu_factor(A, pivot=pivot))


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """x with A x = b, given what lu gives for A; see linalg.lu_solve."""
    return _lu_solve(LU_data, LU_pivots, b)


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True,
              unpack_pivots: bool = True) -> return_types.lu_unpack:
    """(P, L, U) from what lu gives; what is not asked for is empty."""
    p, l, u = _lu_unpack(LU_data, LU_pivots)
    empty = LU_data.reshape(-1)[:0]
    return return_types.lu_unpack(
        p if unpack_pivots else empty, l if unpack_data else empty, u if unpack_data else empty)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the order of least work; see linalg.multi_dot."""
    return multi_dot(matrices)


all_take_out(globals(), ("bucketize", "chain_matmul", "einsum", "fill", "isin", "logdet", "lu", "lu_solve", "lu_unpack",
                         "polygamma", "rsub", "triangular_solve"))  # fmt: skip
# Methods of PyTorch as well.
setattr(Tensor, "orgqr", orgqr)
for _function in (logdet, lu, lu_solve, triangular_solve):
    setattr(Tensor, _function.__name__, _function)

__all__ = sorted({*mirrored(), "broadcast_shapes", "chain_matmul", "constant_pad_nd", "einsum", "fill", "lobpcg", "logdet", "lu", "lu_solve",
                  "lu_unpack", "orgqr", "pca_lowrank", "polygamma", "real", "rsub", "svd_lowrank", "triangular_solve",
                  "unravel_index"} - {*_IN_TORCH_ORDER})
