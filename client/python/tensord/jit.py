"""jit: a function captured as one program."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar, cast

import _tensord
import numpy as np
from _tensord import Tensor

from tensord.given import Givens, noting, still_hold
from tensord.training import is_training

F = TypeVar("F", bound=Callable[..., Any])


class _Leaf:
    """Where a tensor stands in a structure of arguments or results."""

    def __init__(self, index: int) -> None:
        self.index = index


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """Moves the tensors of nested tuples, lists and dicts to `tensors`; leaves are left behind."""
    if isinstance(value, (Tensor, np.ndarray)):
        tensors.append(value if isinstance(value, Tensor) else Tensor(value))
        return _Leaf(len(tensors) - 1)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_flatten(item, tensors) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_flatten(item, tensors) for item in value)
    if isinstance(value, dict):
        return {key: _flatten(item, tensors) for key, item in value.items()}
    return value


def _unflatten(structure: Any, tensors: list[Tensor]) -> Any:
    if isinstance(structure, _Leaf):
        return tensors[structure.index]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(_unflatten(item, tensors) for item in structure))
    if isinstance(structure, (tuple, list)):
        return type(structure)(_unflatten(item, tensors) for item in structure)
    if isinstance(structure, dict):
        return {key: _unflatten(item, tensors) for key, item in structure.items()}
    return structure


def _key(structure: Any) -> Any:
    """What decides, beside shapes and dtypes, whether a captured program serves these arguments."""
    if isinstance(structure, _Leaf):
        return _Leaf
    if isinstance(structure, (tuple, list)):
        return type(structure), tuple(_key(item) for item in structure)
    if isinstance(structure, dict):
        return dict, tuple((key, _key(item)) for key, item in structure.items())
    # 1, 1.0 and True are equal, and yet make different programs.
    return type(structure), structure


class _Capture:
    """One program of a captured function, and what must hold for it to serve."""

    def __init__(self, client: Any) -> None:
        self.client = client  # kept, so that its identity stays that of the key
        self.results: Any = None  # their structure, noted while the function is captured
        self.givens: Givens = {}
        self.program: _tensord._Jit


class Jit(Generic[F]):
    """A captured function; made by jit."""

    def __init__(self, function: F) -> None:
        self.function = function
        self._captures: dict[Any, list[_Capture]] = {}
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        structure = _flatten((args, kwargs), tensors)
        client = _tensord._current()
        key = (_key(structure), is_training(), _tensord.is_grad_enabled(), id(client))
        try:
            captures = self._captures.setdefault(key, [])
        except TypeError as error:
            raise TypeError(
                f"{self._name}: arguments of a captured function are tensors, arrays, structures of "
                f"them, and values that can be hashed ({error})") from None
        found = next((capture for capture in captures if still_hold(capture.givens)), None)
        if found is None:
            found = self._prepare(structure, client)
            captures.append(found)
        out = found.program(tensors)
        return _unflatten(found.results, out)

    def _prepare(self, structure: Any, client: Any) -> _Capture:
        capture = _Capture(client)

        def run(tensors: list[Tensor]) -> list[Tensor]:
            args, kwargs = _unflatten(structure, tensors)
            out: list[Tensor] = []
            with noting(capture.givens):
                capture.results = _flatten(self.function(*args, **kwargs), out)
            return out

        capture.program = _tensord._Jit(self._name, run)
        return capture

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def captures(self) -> int:
        """How often the function was captured so far."""
        return sum(capture.program.captures for captures in self._captures.values() for capture in captures)

    def reset(self) -> None:
        """Forgets what was captured."""
        self._captures.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # A decorated method: one capture per object.
        if instance is None:
            return self
        bound: Jit[Any] = Jit(cast(Any, self.function).__get__(instance, owner))
        instance.__dict__[self._name] = bound
        return bound


def jit(function: F) -> F:
    """Captures the function at its first call as one program; later calls only name their inputs.

    Tensors among the arguments (also in tuples, lists, dicts; arrays too) are inputs; other
    arguments are constants, and another value of one is another program, as is another shape or
    dtype. Tensors that the function uses from outside are read as they are at each call, and those
    that it assigns are updated by each call. Random numbers are drawn anew. The Python code itself
    runs only while it is captured, so it must not depend on data: reading some is an error there.
    """
    return cast(F, Jit(function))
