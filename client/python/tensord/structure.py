"""Nested tuples, lists and dicts of tensors: the tensors apart, and put back."""

from __future__ import annotations

import sys
from typing import Any

from _tensord import Tensor


def numpy_class(name: str) -> Any:
    """NumPy's class of this name for isinstance; none while nobody has imported NumPy, as nothing is of it then."""
    return getattr(sys.modules.get("numpy"), name, ())


class Leaf:
    """Where a tensor stands in a structure of arguments or results."""

    def __init__(self, index: int) -> None:
        self.index = index


def flatten(value: Any, tensors: list[Tensor], arrays: bool = True) -> Any:
    """Moves the tensors of nested tuples, lists and dicts to `tensors`; leaves are left behind."""
    if isinstance(value, Tensor) or (arrays and isinstance(value, numpy_class("ndarray"))):
        tensors.append(value if isinstance(value, Tensor) else Tensor(value))
        return Leaf(len(tensors) - 1)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(flatten(item, tensors, arrays) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(flatten(item, tensors, arrays) for item in value)
    if isinstance(value, dict):
        return {key: flatten(item, tensors, arrays) for key, item in value.items()}
    return value


def unflatten(structure: Any, tensors: list[Tensor]) -> Any:
    if isinstance(structure, Leaf):
        return tensors[structure.index]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(unflatten(item, tensors) for item in structure))
    if isinstance(structure, (tuple, list)):
        return type(structure)(unflatten(item, tensors) for item in structure)
    if isinstance(structure, dict):
        return {key: unflatten(item, tensors) for key, item in structure.items()}
    return structure
