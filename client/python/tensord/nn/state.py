"""The tensors of a model, by name or as a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy as np
from _tensord import Tensor, realize

from tensord.errors import InvalidArgumentError
from tensord.nn.module import INTERNAL, Module


def get_state_dict(obj: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor in the attributes, dicts, lists and tuples of an object, named by its path."""
    return dict(_walk(obj, prefix, set()))


def get_parameters(obj: Any) -> list[Tensor]:
    """Its tensors with requires_grad, each once: what an optimiser takes."""
    found: list[Tensor] = []
    seen: set[int] = set()  # == compares elements, so tensors are told apart by their hash
    for tensor in get_state_dict(obj).values():
        if tensor.requires_grad and hash(tensor) not in seen:
            seen.add(hash(tensor))
            found.append(tensor)
    return found


def load_state_dict(obj: Any, state: Mapping[str, Union[Tensor, np.ndarray[Any, Any]]], *,
                    strict: bool = True) -> None:
    """Assigns tensors by name. `strict`: the names must be the same on both sides."""
    own = get_state_dict(obj)
    if strict and own.keys() != state.keys():
        raise InvalidArgumentError(
            f"load_state_dict: missing {sorted(own.keys() - state.keys())}, unexpected "
            f"{sorted(state.keys() - own.keys())}")
    for name, tensor in own.items():
        if name not in state:
            continue
        given = state[name]
        value = given if isinstance(given, Tensor) else Tensor(given)
        if tuple(value.shape) != tuple(tensor.shape):
            raise InvalidArgumentError(
                f"load_state_dict: '{name}' has shape {tensor.shape}, the new one {value.shape}")
        tensor.assign(value.cast(tensor.dtype))
    realize(list(own.values()))


def _walk(obj: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    if isinstance(obj, Tensor):
        yield path, obj
        return
    if isinstance(obj, (str, bytes, np.ndarray, int, float)) or obj is None or id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, Module):
        items = ((name, value) for name, value in vars(obj).items() if obj._buffers.get(name, name not in INTERNAL))
    elif isinstance(obj, Mapping):
        items = ((str(key), value) for key, value in obj.items())
    elif isinstance(obj, (list, tuple)):
        items = ((str(i), value) for i, value in enumerate(obj))
    elif hasattr(obj, "__dict__"):
        items = iter(vars(obj).items())
    else:
        return
    for name, value in items:
        yield from _walk(value, f"{path}.{name}" if path else name, seen)
