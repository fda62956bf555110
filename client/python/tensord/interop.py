"""Tensors from other libraries' arrays and from pickles."""

from __future__ import annotations

from typing import Any

import numpy as np
from _tensord import Tensor


def from_dlpack(array: Any) -> Tensor:
    """A copy of an array that implements __dlpack__ and lies in the host's memory, such as one of PyTorch or NumPy."""
    return Tensor(np.from_dlpack(array))


def rebuild(data: np.ndarray[Any, Any], dtype: str, requires_grad: bool) -> Tensor:
    """What a pickled tensor comes back by."""
    return Tensor(data, dtype, requires_grad=requires_grad)


__all__ = ["from_dlpack"]
