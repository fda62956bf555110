"""Random tensors. Numbers come from Threefry, a function of the seed and a counter: they are the same on every device
and never those of another library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import _tensord
from _tensord import Tensor

from tensord.creation import _made, _sizes, manual_seed, rand, randn, uniform
from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.generator import Generator, default_generator
from tensord.place import Devices, placed


@placed
def randint(*args: Any, low: Optional[int] = None, high: Optional[int] = None, size: Optional[Sequence[int]] = None,
            generator: Optional[Generator] = None, dtype: Optional[DTypeLike] = None,
            device: Devices = None) -> Tensor:
    """Integers in [low, high), int32 unless told otherwise. Two forms:

    randint(*shape, low=0, high=10)                        the native one: the shape comes first, bounds are keywords
    randint(high, size), randint(low, high, size)          PyTorch's: size is a tuple

    TypeError if a bound or the dtype is no integer, ValueError if low >= high.
    """
    if size is None and len(args) in (2, 3) and isinstance(args[-1], (tuple, list)):
        *args, size = args  # type: ignore[assignment]
    if size is not None:
        bounds = list(args)
        if high is None and bounds:
            high = bounds.pop()
        if low is None and bounds:
            low = bounds.pop()
        if bounds:
            raise TypeError(f"randint: bounds {args} and keywords name a bound twice")
        shape = [int(n) for n in size]
        if high is None and low is not None:
            low, high = 0, low
    else:
        shape = _sizes(args)
    low = 0 if low is None else low
    high = 10 if high is None else high
    for bound in (low, high):
        if isinstance(bound, bool) or not hasattr(bound, "__index__"):
            raise TypeError(f"randint: the bound {bound!r} is no integer")
    if dtype is not None and not _is_integer(dtype):
        raise TypeError(f"randint: {dtype} is no integer dtype")
    if low >= high:
        raise InvalidArgumentError(f"randint: low {low} must be below high {high}")
    return _tensord._randint(int(low), int(high), shape, dtype, generator)


def _is_integer(dtype: Any) -> bool:
    parsed = _tensord._full([], 0, dtype).dtype
    return not parsed.is_floating_point and parsed.name != "bool"


@placed
def rand_like(tensor: Tensor, *, generator: Optional[Generator] = None, dtype: Optional[DTypeLike] = None,
              device: Devices = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1), of the shape and dtype of a tensor."""
    return rand(*tensor.shape, generator=generator, dtype=dtype or tensor.dtype, requires_grad=requires_grad)


@placed
def randn_like(tensor: Tensor, *, generator: Optional[Generator] = None, dtype: Optional[DTypeLike] = None,
               device: Devices = None, requires_grad: bool = False) -> Tensor:
    """Normal, of mean 0 and variance 1, of the shape and dtype of a tensor."""
    return randn(*tensor.shape, generator=generator, dtype=dtype or tensor.dtype, requires_grad=requires_grad)


@placed
def randint_like(tensor: Tensor, low: int, high: Optional[int] = None, *, generator: Optional[Generator] = None,
                 dtype: Optional[DTypeLike] = None, device: Devices = None) -> Tensor:
    """Integers in [low, high), or [0, low) with one bound, of the shape and dtype of a tensor."""
    if high is None:
        low, high = 0, low
    target = dtype or tensor.dtype
    if _is_integer(target):
        return randint(*tensor.shape, low=low, high=high, generator=generator, dtype=target)
    return randint(*tensor.shape, low=low, high=high, generator=generator, dtype="int64").cast(target)


@placed
def normal(*args: Any, mean: Any = 0.0, std: Any = 1.0, size: Optional[Sequence[int]] = None,
           generator: Optional[Generator] = None, dtype: Optional[DTypeLike] = None, device: Devices = None,
           requires_grad: bool = False) -> Tensor:
    """Normal numbers: a new tensor, other than the method normal_, which fills one. Two forms:

    normal(*shape, mean=0.0, std=1.0)                      the native one: the shape comes first
    normal(mean, std), normal(mean, std, size)             PyTorch's: one is a tensor or a float, or size is a tuple

    Without a size, mean and std are tensors, or one of them, which broadcast. TypeError for anything else.
    """
    if any(isinstance(arg, (Tensor, float)) for arg in args) or (
            len(args) == 3 and isinstance(args[2], (tuple, list))):
        if len(args) > 3 or (len(args) == 3 and size is not None):
            raise TypeError(f"normal: {len(args)} arguments; it takes mean, std and size")
        mean = args[0]
        std = args[1] if len(args) > 1 else std
        size = args[2] if len(args) > 2 else size
    elif args:
        if size is not None:
            raise TypeError("normal: the size is given twice")
        size = _sizes(args)
    given = [each for each in (mean, std) if isinstance(each, Tensor)]
    if size is None and given:
        dtype = dtype or next((each.dtype for each in given if each.dtype.is_floating_point), None)
    shape: Any = _tensord._broadcast_shapes([tuple(each.shape) for each in given]) if size is None else size
    return _made(randn(*shape, generator=generator, dtype=dtype) * std + mean, requires_grad)


@placed
def scaled_uniform(*size: Any, dtype: Optional[DTypeLike] = None, device: Devices = None,
                   requires_grad: bool = False) -> Tensor:
    """Uniform in [-1, 1), divided by the square root of the number of elements."""
    bound = 1 / math.sqrt(max(math.prod(_sizes(size)), 1))
    return uniform(*size, low=-bound, high=bound, dtype=dtype, requires_grad=requires_grad)


def _fan(what: str, size: Sequence[int]) -> int:
    if not size:
        raise InvalidArgumentError(f"{what}: a tensor without axes has no number of inputs")
    return max(math.prod(size[1:]), 1)


@placed
def glorot_uniform(*size: Any, dtype: Optional[DTypeLike] = None, device: Devices = None,
                   requires_grad: bool = False) -> Tensor:
    """Uniform with the bound sqrt(6 / (first size + product of the others))."""
    sizes = _sizes(size)
    bound = math.sqrt(6 / (sizes[0] + _fan("glorot_uniform", sizes))) if sizes else 0
    _fan("glorot_uniform", sizes)
    return uniform(*sizes, low=-bound, high=bound, dtype=dtype, requires_grad=requires_grad)


@placed
def kaiming_uniform(*size: Any, a: float = 0.01, dtype: Optional[DTypeLike] = None, device: Devices = None,
                    requires_grad: bool = False) -> Tensor:
    """Uniform with the bound sqrt(6 / ((1 + a^2) inputs)); inputs is the product of all sizes but the first."""
    sizes = _sizes(size)
    bound = math.sqrt(6 / ((1 + a * a) * _fan("kaiming_uniform", sizes)))
    return uniform(*sizes, low=-bound, high=bound, dtype=dtype, requires_grad=requires_grad)


@placed
def kaiming_normal(*size: Any, a: float = 0.01, dtype: Optional[DTypeLike] = None, device: Devices = None,
                   requires_grad: bool = False) -> Tensor:
    """Normal with the deviation sqrt(2 / ((1 + a^2) inputs)); inputs is the product of all sizes but the first."""
    sizes = _sizes(size)
    deviation = math.sqrt(2 / ((1 + a * a) * _fan("kaiming_normal", sizes)))
    return normal(*sizes, std=deviation, dtype=dtype, requires_grad=requires_grad)


# ---- the state of the generator

def get_rng_state() -> Tensor:
    """The default generator's state: uint32 [4]."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Goes on drawing from a state that get_rng_state gave. ValueError for anything else."""
    default_generator.set_state(new_state)


def initial_seed() -> int:
    """The seed that the default generator was started with."""
    return default_generator.initial_seed()


def seed() -> int:
    """Starts the default generator anew by a seed that nobody can foretell, and returns it."""
    return default_generator.seed()


@contextmanager
def fork_rng(enabled: bool = True) -> Iterator[None]:
    """with fork_rng(): what is drawn inside does not change what is drawn after."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


bernoulli = Tensor.bernoulli
poisson = Tensor.poisson

for _function in (rand, randn, randint, uniform, normal, scaled_uniform, glorot_uniform, kaiming_uniform,
                  kaiming_normal):  # fmt: skip
    setattr(Tensor, _function.__name__, staticmethod(_function))
for _method in (rand_like, randn_like, randint_like):
    setattr(Tensor, _method.__name__, _method)

__all__ = [
    "Generator", "bernoulli", "default_generator", "fork_rng", "get_rng_state", "glorot_uniform", "initial_seed",
    "kaiming_normal", "kaiming_uniform", "manual_seed", "normal", "poisson", "rand_like", "randint", "randint_like",
    "randn_like", "scaled_uniform", "seed", "set_rng_state",
]  # fmt: skip
