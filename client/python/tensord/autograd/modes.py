"""Whether what is computed has derivatives."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ContextDecorator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar, cast

import _tensord

_F = TypeVar("_F", bound=Callable[..., Any])


class set_grad_enabled(ContextDecorator):
    """Whether what this thread computes from now on, or inside `with`, has derivatives; without, it is detached."""

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._before = [_tensord._set_grad_enabled(mode)]

    def __enter__(self) -> None:
        _tensord._set_grad_enabled(self._mode)

    def __exit__(self, *exception: object) -> None:
        _tensord._set_grad_enabled(self._before[-1])


class _Mode(ContextDecorator):
    _enabled = False

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __call__(self, func: _F) -> _F:
        if not isgeneratorfunction(func):
            return super().__call__(func)

        @wraps(func)
        def steps(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            # The mode is of the function's own steps, not of what its caller does between them.
            running = func(*args, **kwargs)
            step, sent = running.send, None
            while True:
                try:
                    with self:
                        value = step(sent)
                except StopIteration as end:
                    return end.value
                try:
                    step, sent = running.send, (yield value)
                except GeneratorExit:
                    with self:
                        running.close()
                    raise
                except BaseException as error:
                    step, sent = running.throw, error

        return cast(_F, steps)

    def __enter__(self) -> None:
        self._before.append(_tensord._set_grad_enabled(self._enabled))

    def __exit__(self, *exception: object) -> None:
        _tensord._set_grad_enabled(self._before.pop())


class no_grad(_Mode):
    """with no_grad(): what is computed inside is detached. Also a decorator, of generator functions too."""


class inference_mode(no_grad):
    """The same as no_grad."""


class enable_grad(_Mode):
    """Inside no_grad: derivatives again."""

    _enabled = True
