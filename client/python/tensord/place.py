"""Where new tensors are put.

    with tensord.device("CPU:1"):
        w = tensord.zeros(3)

A tensor that nobody put anywhere is on the client's device and goes where it is used; one that was put somewhere stays
there, and what is made of it is there too.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional, Type

import _tensord


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
