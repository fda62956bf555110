"""torch.nn.init: new data for a tensor, in place; each returns the tensor.

Distributions are PyTorch's, the numbers are not. `fan`: a tensor [out, in, taps..] has in * taps inputs and out * taps
outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Optional, TypeVar, cast

from _tensord import Tensor

from tensord.creation import eye, full, rand, randn, uniform
from tensord.errors import InvalidArgumentError
from tensord.generator import Generator
from tensord.linalg import qr

F = TypeVar("F", bound=Callable[..., Tensor])
# By how much a function shrinks the deviation of what goes through it.
_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75,
}  # fmt: skip


_skipping: ContextVar[bool] = ContextVar("tensord_skip_init", default=False)


@contextmanager
def skipped() -> Iterator[None]:
    """Inside, these functions leave tensors as they are."""
    token = _skipping.set(True)
    try:
        yield
    finally:
        _skipping.reset(token)


def _unless_skipped(function: F) -> F:
    @wraps(function)
    def fill(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        return tensor if _skipping.get() else function(tensor, *args, **kwargs)

    return cast(F, fill)


def _filled(tensor: Tensor, value: Tensor) -> Tensor:
    tensor.assign(value.detach().cast(tensor.dtype))
    return tensor


def _axes(what: str, tensor: Tensor, least: int, most: Optional[int] = None) -> None:
    if tensor.ndim < least or (most is not None and tensor.ndim > most):
        wanted = f"{least}" if most == least else f"{least} to {most}" if most else f"at least {least}"
        raise InvalidArgumentError(f"{what}: a tensor of shape {list(tensor.shape)}; it needs {wanted} axes")


def calculate_gain(nonlinearity: str, param: Optional[float] = None) -> float:
    """The gain that PyTorch recommends for a function, "leaky_relu" with its slope as `param`."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise InvalidArgumentError(f"calculate_gain: '{nonlinearity}' is none of leaky_relu, {', '.join(_GAINS)}")
    return _GAINS[nonlinearity]


def _fans(what: str, tensor: Tensor) -> tuple[int, int]:
    _axes(what, tensor, 2)
    taps = math.prod(tensor.shape[2:])
    return tensor.shape[1] * taps, tensor.shape[0] * taps


@_unless_skipped
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """Uniform in [a, b)."""
    return _filled(tensor, uniform(*tensor.shape, low=a, high=b, generator=generator))


@_unless_skipped
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """Normal, of that mean and deviation."""
    return _filled(tensor, randn(*tensor.shape, generator=generator) * std + mean)


@_unless_skipped
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Optional[Generator] = None) -> Tensor:
    """Normal, of what lies in [a, b]."""
    def below(x: float) -> float:
        return math.erf((x - mean) / std / math.sqrt(2))

    drawn = uniform(*tensor.shape, low=below(a), high=below(b), generator=generator)
    return _filled(tensor, (drawn.erfinv() * (std * math.sqrt(2)) + mean).clamp(a, b))


@_unless_skipped
def constant_(tensor: Tensor, val: float) -> Tensor:
    # With memory of its own: a parameter is overwritten in place.
    return _filled(tensor, full(tuple(tensor.shape), float(val)).clone())


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


@_unless_skipped
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix."""
    _axes("eye_", tensor, 2, 2)
    return _filled(tensor, eye(*tensor.shape).clone())


@_unless_skipped
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that lets each channel through, as far as there are channels, in each group."""
    _axes("dirac_", tensor, 3, 5)
    outs, ins, *taps = tensor.shape
    if outs % groups:
        raise InvalidArgumentError(f"dirac_: {outs} channels in {groups} groups")
    value = eye(outs // groups, ins).repeat(groups, 1).reshape(outs, ins, *(1 for _ in taps))
    middle = [n // 2 for n in taps]
    padding = [width for at, n in reversed(list(zip(middle, taps))) for width in (at, n - 1 - at)]
    return _filled(tensor, value.pad(padding).clone())


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """Uniform with the bound gain * sqrt(6 / (inputs + outputs))."""
    bound = gain * math.sqrt(6 / sum(_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """Normal with the deviation gain * sqrt(2 / (inputs + outputs))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans("xavier_normal_", tensor))), generator)


def _kaiming(what: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise InvalidArgumentError(f"{what}: the mode is 'fan_in' or 'fan_out', not '{mode}'")
    fan = _fans(what, tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Optional[Generator] = None) -> Tensor:
    """Uniform with the bound gain * sqrt(3 / fan)."""
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Optional[Generator] = None) -> Tensor:
    """Normal with the deviation gain / sqrt(fan)."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


@_unless_skipped
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Optional[Generator] = None) -> Tensor:
    """Orthogonal rows, or columns if there are fewer, of the tensor as a matrix [first size, rest], times the gain."""
    _axes("orthogonal_", tensor, 2)
    rows = tensor.shape[0]
    columns = math.prod(tensor.shape[1:])
    if rows * columns == 0:
        return tensor
    q, r = qr(randn(max(rows, columns), min(rows, columns), generator=generator))
    q = q * r.diagonal().sign()  # so that it is uniform over the orthogonal matrices
    q = q.transpose(0, 1) if rows < columns else q
    return _filled(tensor, q.reshape(*tensor.shape) * gain)


@_unless_skipped
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Optional[Generator] = None) -> Tensor:
    """A normal matrix, in each column of which that share of the elements is zero."""
    _axes("sparse_", tensor, 2, 2)
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    places = rand(rows, columns, generator=generator).argsort(0).argsort(0)
    return _filled(tensor, (places >= zeros).where(randn(rows, columns, generator=generator) * std, 0.0))
