"""Parameter: a tensor that a module learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from _tensord import Tensor

from tensord.creation import empty
from tensord.dtypes import DTypeLike


class Parameter(Tensor):
    """A tensor that is a parameter of the module whose attribute it is. It shares the data of the tensor given."""

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        made_of_others = isinstance(data, Tensor) and not data.is_leaf
        super().__init__(data.detach() if made_of_others else data, requires_grad=requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: Any) -> Parameter:
        if id(self) not in memo:  # shared parameters stay shared
            memo[id(self)] = Parameter(super().__deepcopy__(memo), self.requires_grad)
        found: Parameter = memo[id(self)]
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments = super().__reduce__()[:2]
        return _restored, (make, arguments, self.requires_grad)


class Buffer(Tensor):
    """A tensor that is a buffer of the module whose attribute it becomes, as register_buffer makes one. It shares the data
    of the tensor given."""

    def __init__(self, data: Any, persistent: bool = True) -> None:
        super().__init__(data)
        self.persistent = persistent


def _restored(make: Callable[..., Tensor], arguments: tuple[Any, ...], requires_grad: bool) -> Parameter:
    return Parameter(make(*arguments), requires_grad)


def empty_parameter(*shape: int, dtype: Optional[DTypeLike] = None, device: Optional[str] = None) -> Parameter:
    """One that is yet to be initialised."""
    return Parameter(placed(empty(shape, dtype=dtype), device))


def placed(tensor: Tensor, device: Optional[str]) -> Tensor:
    return tensor if device is None else tensor.to(device=device)
