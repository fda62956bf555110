"""Tensor.data: the tensor without its history."""

from __future__ import annotations

from typing import Any

from _tensord import Tensor

from tensord.autograd.modes import no_grad
from tensord.errors import InvalidArgumentError


class Data(Tensor):
    """A tensor's data, in the same memory. Called it is a memoryview, as tinygrad has it."""

    def __call__(self) -> memoryview:
        return self._memoryview()


def data_of(tensor: Tensor) -> Data:
    """See Tensor.data."""
    return Data(tensor.detach())


def set_data(tensor: Tensor, value: Any) -> None:
    """tensor.data = value."""
    if not isinstance(value, Tensor):
        raise TypeError(f"data: a tensor is assigned to it, not a {type(value).__name__}")
    if value.shape != tensor.shape or value.dtype != tensor.dtype:
        raise InvalidArgumentError(f"data: {value.dtype} {list(value.shape)} for a tensor that is {tensor.dtype} "
                                   f"{list(tensor.shape)}, which it stays; make another tensor instead")
    with no_grad():
        tensor.assign(value.detach())
