"""Tensors made from nothing. Constants and sequences take no memory: they fold into what uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import _tensord
from _tensord import Tensor

from tensord.dtypes import DTypeLike
from tensord.errors import OutOfRangeError

Number = Union[bool, int, float]


def _sizes(sizes: tuple[Any, ...]) -> list[int]:
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        return [int(size) for size in sizes[0]]
    return [int(size) for size in sizes]


def _made(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad else tensor


def tensor(data: Any, dtype: Optional[DTypeLike] = None, *, requires_grad: bool = False) -> Tensor:
    """The same as Tensor(data)."""
    return Tensor(data, dtype, requires_grad=requires_grad)


def full(shape: Union[int, Sequence[int]], fill_value: Number, *, dtype: Optional[DTypeLike] = None,
         requires_grad: bool = False) -> Tensor:
    """Without a dtype, that of the number: bool, int32 or float32."""
    return _made(_tensord._full(_sizes((shape,)), fill_value, dtype), requires_grad)


def zeros(*size: Any, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    return _made(_tensord._full(_sizes(size), 0.0, dtype), requires_grad)


def ones(*size: Any, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    return _made(_tensord._full(_sizes(size), 1.0, dtype), requires_grad)


def full_like(tensor: Tensor, fill_value: Number, *, dtype: Optional[DTypeLike] = None) -> Tensor:
    return _tensord._full(list(tensor.shape), fill_value, dtype or tensor.dtype)


def zeros_like(tensor: Tensor, *, dtype: Optional[DTypeLike] = None) -> Tensor:
    return full_like(tensor, 0, dtype=dtype)


def ones_like(tensor: Tensor, *, dtype: Optional[DTypeLike] = None) -> Tensor:
    return full_like(tensor, 1, dtype=dtype)


def arange(start: Number, end: Optional[Number] = None, step: Number = 1, *,
           dtype: Optional[DTypeLike] = None) -> Tensor:
    """start, start + step, ... before end. int32 if all are ints, else float32."""
    if end is None:
        start, end = 0, start
    return _tensord._arange(start, end, step, dtype)


def linspace(start: Number, end: Number, steps: int, *, dtype: Optional[DTypeLike] = None) -> Tensor:
    return _tensord._linspace(start, end, steps, dtype)


def eye(n: int, m: Optional[int] = None, *, dtype: Optional[DTypeLike] = None) -> Tensor:
    return _tensord._eye(n, n if m is None else m, dtype)


def manual_seed(seed: int = 0) -> None:
    """Starts the generator anew; functions captured by jit are concerned too."""
    _tensord._manual_seed(seed)


def rand(*size: Any, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1)."""
    return _made(_tensord._rand(_sizes(size), dtype), requires_grad)


def randn(*size: Any, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """Normal, of mean 0 and variance 1."""
    return _made(_tensord._randn(_sizes(size), dtype), requires_grad)


def uniform(*size: Any, low: float = 0.0, high: float = 1.0, dtype: Optional[DTypeLike] = None,
            requires_grad: bool = False) -> Tensor:
    """Uniform in [low, high)."""
    return _made(_tensord._rand(_sizes(size), dtype) * (high - low) + low, requires_grad)


def randint(low: int, high: Optional[int] = None, size: Sequence[int] = (), *,
            dtype: Optional[DTypeLike] = None) -> Tensor:
    """Integers in [low, high), or [0, low) with one bound. int32 unless told otherwise."""
    if high is None:
        low, high = 0, low
    return _tensord._randint(low, high, list(size), dtype)


class Variable:
    """A named integer that is given anew for each run, without another program.

    n = Variable("n", 0, 1000).bind(3);  y = x * n.tensor
    """

    def __init__(self, name: str, min: int, max: int) -> None:
        self.name, self.min, self.max = name, min, max
        self.tensor: Tensor = _tensord._variable(name, min, max)

    def bind(self, value: int) -> Variable:
        """What the runs that follow read."""
        if not self.min <= value <= self.max:
            raise OutOfRangeError(
                f"variable '{self.name}': {value} is not between {self.min} and {self.max}")
        _tensord._bind(self.name, value)
        return self


