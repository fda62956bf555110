"""Context: tinygrad's way to scope settings, over those that tensord has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator, ExitStack
from types import TracebackType
from typing import Any, Optional, Type

from tensord.dtypes import default_dtypes
from tensord.errors import InvalidArgumentError
from tensord.numerics import fast_math
from tensord.place import device
from tensord.training import training

_SETTINGS: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "TRAINING": lambda value: training(bool(value)),
    "DEFAULT_FLOAT": lambda value: default_dtypes(float=value),
    "DEFAULT_INT": lambda value: default_dtypes(int=value),
    "FAST_MATH": lambda value: fast_math(bool(value)),
    "DEV": device,
}  # fmt: skip


class Context(ContextDecorator):
    """with Context(TRAINING=1, DEFAULT_FLOAT="float64"): ...    or as a decorator of a function.

    TRAINING: tensord.training; DEFAULT_FLOAT and DEFAULT_INT: tensord.default_dtypes, dtypes or their names; FAST_MATH:
    tensord.fast_math; DEV: tensord.device, a name. What was set before comes back at the end. ValueError for another
    name: what the compiler does (BEAM, NOOPT, WINO, ...) is the daemon's matter, see docs/operating.md.
    """

    def __init__(self, **settings: Any) -> None:
        for name in settings:
            if name not in _SETTINGS:
                raise InvalidArgumentError(f"Context: {name} is none of the settings that there are: {', '.join(_SETTINGS)}")
        self._settings = settings
        self._entered: list[ExitStack] = []

    def __enter__(self) -> Context:
        with ExitStack() as stack:
            for name, value in self._settings.items():
                stack.enter_context(_SETTINGS[name](value))
            self._entered.append(stack.pop_all())
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._entered.pop().close()


__all__ = ["Context"]
