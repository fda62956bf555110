"""Options of an optimiser for some of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _tensord import Tensor

from tensord.given import given

# Numbers that are data on the device, because schedules change them: a number in a program would make another program of
# each. In float64, of which 1 - beta has digits left.
_LIVE = ("lr", "momentum", "betas")


class ParamGroup(dict[str, Any]):
    """A dict of options, and `params`. Assigning "lr", "momentum" or "betas" changes the data that captured programs
    read; another option makes them captured again.

    What was assigned a tensor, as a captured function may do, is read back from the device where it is asked for.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._live: dict[str, Tensor] = {}
        self._on_device: set[str] = set()
        for name, value in options.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name in _LIVE:
            data = value.detach() if isinstance(value, Tensor) else Tensor([float(x) for x in _numbers(value)], "float64")
            data = data.cast("float64").reshape(-1)
            if name in self._live:
                self._live[name].assign(data)
            else:
                self._live[name] = data.clone()
            if isinstance(value, Tensor):
                self._on_device.add(name)  # for good: the program that did it may run again
        super().__setitem__(name, value)

    def __getitem__(self, name: str) -> Any:
        if name not in self._on_device:
            return super().__getitem__(name)
        numbers = self._live[name].tolist()
        return tuple(numbers) if name == "betas" else numbers[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ({name: self[name] for name in self},)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def live(self, name: str, index: int = 0) -> Tensor:
        """One number as data: float64 [1]."""
        return self._live[name][index:index + 1]

    def data(self, name: str) -> Tensor:
        """The tensor itself in which the numbers lie."""
        return self._live[name]

    def tensors(self) -> list[Tensor]:
        return list(self._live.values())

    def option(self, name: str) -> Any:
        """A constant of the programs that are captured meanwhile."""
        return given(self, name, lambda: self[name])

    def number(self, name: str) -> float:
        """An option that is a number."""
        value: float = self.option(name)
        return value

    def uses(self, name: str) -> bool:
        """Whether a live number is other than zero, which decides what a program computes."""
        used: bool = given(self, f"uses {name}", lambda: name in self._on_device or bool(self[name]))
        return used


def _numbers(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
