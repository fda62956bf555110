"""Tensors from other libraries' arrays and from pickles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from _tensord import Tensor, _from_bits

if TYPE_CHECKING:
    import numpy as np


def from_dlpack(array: Any) -> Tensor:
    """A copy of an array that implements __dlpack__ and lies in the host's memory, such as one of PyTorch or NumPy."""
    import numpy as np

    return Tensor(np.from_dlpack(array))


def rebuild(data: np.ndarray[Any, Any], dtype: str, requires_grad: bool) -> Tensor:
    """What a pickled tensor comes back by: from its elements, or their bits if NumPy lacks the dtype."""
    import numpy as np

    # A pickle may come from a machine of another byte order.
    native = np.ascontiguousarray(data, data.dtype.newbyteorder("=")).reshape(data.shape)
    made = _from_bits(native, dtype)
    return made.requires_grad_() if requires_grad else made


def rebuild_number(value: Union[int, float]) -> Tensor:
    """What a pickled plain number comes back by."""
    return Tensor(value)


__all__ = ["from_dlpack"]
