"""The tensors of a model, by name or as a list; and the files that hold such tensors."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Union

import numpy as np
from _tensord import Tensor
from _tensord import realize as compute

from tensord import sharing
from tensord.dtypes import uint8
from tensord.errors import InvalidArgumentError
from tensord.io import (
    gguf_load,
    safe_load,
    safe_load_metadata,
    safe_save,
    tar_extract,
    torch_load,
    zip_extract,
)
from tensord.nn.module import INTERNAL, Module

_BATCH_BYTES = 256 << 20


class TensorIO(io.RawIOBase):
    """A file, open for reading, over the bytes of a tensor uint8 [n], of which only what is read is computed and brought
    here. ValueError for another tensor."""

    def __init__(self, tensor: Tensor) -> None:
        if tensor.ndim != 1 or tensor.dtype != uint8:
            raise InvalidArgumentError(f"TensorIO: {tensor.dtype} {tuple(tensor.shape)}; it needs bytes, uint8 [n]")
        self._tensor, self._at = tensor, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        part = self._tensor[self._at : self._at + len(view)].numpy()
        view[: len(part)] = part.tobytes()
        self._at += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._tensor.shape[0]
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise InvalidArgumentError(f"seek: whence {whence} is none of 0, 1 and 2")
        self._at = min(max((0, self._at, size)[whence] + offset, 0), size)
        return self._at


def get_state_dict(obj: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor in the attributes, dicts, lists and tuples of an object, named by its path."""
    return dict(_walk(obj, prefix, set()))


def get_parameters(obj: Any) -> list[Tensor]:
    """Its tensors with requires_grad, each once: what an optimiser takes."""
    found: list[Tensor] = []
    seen: set[int] = set()  # == compares elements, so tensors are told apart by their hash
    for tensor in get_state_dict(obj).values():
        if tensor.requires_grad and tensor.is_leaf and hash(tensor) not in seen:
            seen.add(hash(tensor))
            found.append(tensor)
    return found


def publish(model: Any, name: str, *, readers: Iterable[str] = ()) -> int:
    """Publishes all tensors of a model under one name, for others to attach; see tensord.publish."""
    return sharing.publish(name, get_state_dict(model), readers=readers)


def attach(model: Any, name: str, *, owner: str = "") -> list[Tensor]:
    """The tensors of a model become those that `owner`, this user if not said, has published by the same names: the same
    memory for all who attach them. Returns the model's. What training assigns to one goes into memory of its own.

    InvalidArgumentError, before anything changes, if names, shapes or dtypes differ; NotFoundError as of tensord.attach.
    """
    found = sharing.attach(name, owner=owner)
    shared = {"": found} if isinstance(found, Tensor) else found
    own = get_state_dict(model)
    wrong = [f"missing {sorted(own.keys() - shared.keys())}, unexpected {sorted(shared.keys() - own.keys())}"]
    if own.keys() == shared.keys():
        wrong = [f"'{key}' is {shared[key].dtype}{list(shared[key].shape)}, the model's {old.dtype}{list(old.shape)}"
                 for key, old in own.items()
                 if tuple(old.shape) != tuple(shared[key].shape) or old.dtype != shared[key].dtype]
    if wrong:
        raise InvalidArgumentError(f"attach '{name}': " + "; ".join(wrong))
    for key, tensor in own.items():
        tensor.replace(shared[key])
    return list(own.values())


def load_state_dict(model: Any, state_dict: Mapping[str, Union[Tensor, np.ndarray[Any, Any]]], strict: bool = True,
                    verbose: bool = False, consume: bool = False, realize: bool = True) -> list[Tensor]:
    """Assigns to the tensors of a model those of the same names, cast to the model's dtypes and brought to where those
    are, and returns the model's.

    ValueError for another shape, except () for (1,) and back, and if `strict` for a name that one side lacks: before
    anything is assigned. `verbose` prints names that are passed over. `consume` takes what was loaded out of
    `state_dict`, so that its memory is free when the next tensors are. `realize` computes them now; what comes from a
    file is else read when it is first used.
    """
    own = get_state_dict(model)
    if strict and own.keys() != state_dict.keys():
        raise InvalidArgumentError(
            f"load_state_dict: missing {sorted(own.keys() - state_dict.keys())}, unexpected "
            f"{sorted(state_dict.keys() - own.keys())}")
    if consume and not isinstance(state_dict, MutableMapping):
        raise InvalidArgumentError("load_state_dict: consume needs a dict to take tensors out of")
    for name in own.keys() & state_dict.keys():
        here, there = tuple(own[name].shape), tuple(state_dict[name].shape)
        if here != there and {here, there} != {(), (1,)}:
            raise InvalidArgumentError(f"load_state_dict: '{name}' has shape {here}, the new one {there}")
    if verbose:
        for name in sorted(own.keys() ^ state_dict.keys()):
            print(f"load_state_dict: '{name}' is not in the {'state' if name in own else 'model'}")
    loaded: list[Tensor] = []
    pending: list[Tensor] = []
    for name, tensor in own.items():
        if name not in state_dict:
            continue
        given = state_dict.pop(name) if consume and isinstance(state_dict, MutableMapping) else state_dict[name]
        value = given if isinstance(given, Tensor) else Tensor(given)
        if value.device != tensor.device:
            value = value.shard_like(tensor)
        tensor.assign(value.reshape(tensor.shape).cast(tensor.dtype))
        loaded.append(tensor)
        pending.append(tensor)
        # Not one program for all: what is in files would then all be on the device twice.
        if realize and sum(other.numel() * other.dtype.itemsize for other in pending) > _BATCH_BYTES:
            compute(pending)
            pending = []
    if realize:
        compute(pending)
    return loaded


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


__all__ = [
    "TensorIO", "get_parameters", "get_state_dict", "gguf_load", "load_state_dict", "safe_load", "safe_load_metadata", "safe_save",
    "tar_extract", "torch_load", "zip_extract",
]  # fmt: skip
