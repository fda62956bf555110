"""Where new tensors are put.

    with tensord.device("CPU:1"):
        w = tensord.zeros(3)

A tensor that nobody put anywhere is on the client's device and goes where it is used; one that was put somewhere stays
there, and what is made of it is there too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Optional, Type, TypeVar, Union, cast

import _tensord

from tensord.out import takes_out

#: Where to put something: a device, or several that each have all of it; None for wherever it is needed.
Devices = Union[None, str, Sequence[str]]
F = TypeVar("F", bound=Callable[..., Any])


class device(str):
    """The name of a device, such as "CPU:1"; in a `with` statement, where this thread puts new tensors.

    As in PyTorch, `device("cpu", 1)` is `device("cpu:1")`.
    """

    def __new__(cls, name: str, index: Optional[int] = None) -> device:
        made = super().__new__(cls, name.upper() if index is None else f"{name.upper()}:{index}")
        made._before = []
        return made

    _before: list[Any]

    @property
    def type(self) -> str:
        """The kind: "CPU"."""
        return self.split(":")[0]

    def __enter__(self) -> device:
        self._before.append(_tensord._set_default_devices([str(self)]))
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        _tensord._set_default_devices(self._before.pop())


def placed(function: F) -> F:
    """Gives a function that makes tensors its keyword `device`: what it makes is put there; and `out`, see takes_out."""

    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        where = kwargs.get("device")
        if where is None:
            return function(*args, **kwargs)
        names = [where] if isinstance(where, str) else where
        before = _tensord._set_default_devices([name.upper() for name in names])
        try:
            return function(*args, **kwargs)
        finally:
            _tensord._set_default_devices(before)

    return takes_out(cast(F, made))


def set_default_device(device: Devices) -> None:
    """Where this thread puts new tensors from now on; None for wherever they are used. See device for a `with` block."""
    names = [device] if isinstance(device, str) else device
    _tensord._set_default_devices(None if names is None else [name.upper() for name in names])


def get_default_device() -> device:
    """Where this thread puts new tensors: what set_default_device or `with device(...)` said, else the daemon's first
    device, where those are that are used nowhere else."""
    chosen = _tensord._set_default_devices(None)
    _tensord._set_default_devices(chosen)
    return device(chosen[0] if chosen else _tensord.Tensor(0).device)
