"""What a captured function took as given: values of Python objects, which are constants of its program.

If one has changed, jit captures the function again instead of running a program that is no longer right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tensord.structure import numpy_class


def constant(value: Any) -> Any:
    """The value as a key: 1, 1.0 and True are equal, as are 0.0 and -0.0, and yet make different programs."""
    if isinstance(value, float):
        return type(value), value.hex()
    # Of other floats and of complex numbers the digits say all, the signs of zeros too.
    return type(value), repr(value) if isinstance(value, (complex, numpy_class("inexact"))) else value


#: By object and name: how to read the value again, and what it was.
Givens = dict[tuple[int, str], tuple[Callable[[], Any], Any]]

_noting: ContextVar[tuple[Givens, ...]] = ContextVar("tensord_givens", default=())


def given(owner: object, name: str, read: Callable[[], Any]) -> Any:
    """read(), noted by the functions that are being captured. `read` keeps the owner alive, and so its id unique."""
    value = read()
    for givens in _noting.get():
        givens[id(owner), name] = (read, value)
    return value


@contextmanager
def noting(givens: Givens) -> Iterator[None]:
    """Notes in `givens` what is taken as given inside."""
    token = _noting.set((*_noting.get(), givens))
    try:
        yield
    finally:
        _noting.reset(token)


def still_hold(givens: Givens) -> bool:
    return all(constant(read()) == constant(value) for read, value in givens.values())
