"""Batches of samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, NoReturn

import numpy as np
from _tensord import Tensor

from tensord.creation import as_tensor
from tensord.utils.data.worker import get_worker_info


class _Sent:
    """An array of a worker, which is a tensor where it arrives."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[np.ndarray[Any, Any]]]:
        return as_tensor, (self.array,)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: in a worker of a DataLoader there are no tensors; compute with NumPy before "
                             "collating, or with the batch that the loader gives")


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    return as_tensor(array) if get_worker_info() is None else _Sent(array)


class Rows(Sequence[Any]):
    """Samples of a data set of tensors, each a tuple of rows; as a batch they are read at once."""

    def __init__(self, tensors: tuple[Any, ...], indices: Sequence[int]) -> None:
        self._tensors, self._indices = tensors, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, at: Any) -> Any:
        return tuple(tensor[self._indices[at]] for tensor in self._tensors)

    def collated(self) -> list[Any]:
        index = np.asarray(self._indices, np.int64)
        # The index is data of the program, so that all batches of a size run the same one.
        return [tensor[Tensor(index)] if isinstance(tensor, Tensor) else _tensor(tensor[index])
                for tensor in self._tensors]


def _like(example: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    """The items as a mapping of the example's type, or as a dict if that cannot be made of them."""
    try:
        if isinstance(example, MutableMapping):
            clone = copy.copy(example)
            clone.update(made)
            return clone
        return type(example)(made)  # type: ignore[call-arg]
    except TypeError:
        return made


def _series(example: Sequence[Any], made: list[Any]) -> Any:
    """The items as a sequence of the example's type, or as a list if that cannot be made of them."""
    if hasattr(example, "_fields"):
        return type(example)(*made)
    try:
        return type(example)(made)  # type: ignore[call-arg]
    except TypeError:
        return made


def _is_data(array: Any) -> bool:
    return bool(np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_)


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples as one: tensors, arrays and numbers become tensors with a first axis of samples, strings a
    list, and mappings, named tuples and sequences are collated item by item; a tuple becomes a list.

    Python's floats become float64 and its ints int64. RuntimeError if sequences differ in length, TypeError for
    anything else.
    """
    if isinstance(batch, Rows):
        return batch.collated()
    first = batch[0]
    if isinstance(first, Tensor):
        return Tensor.stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)) and not isinstance(first, (str, bytes)):
        if not _is_data(first):
            raise TypeError(f"default_collate: no tensor can be made of an array of {first.dtype}")
        return _tensor(np.stack(batch))
    if isinstance(first, bool):
        return _tensor(np.array(batch))
    if isinstance(first, (float, int)):
        return _tensor(np.array(batch, np.float64 if isinstance(first, float) else np.int64))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(f"default_collate: sequences of {sorted({len(sample) for sample in batch})} items in one "
                               "batch; a collate_fn can pad them")
        made = [default_collate(samples) for samples in zip(*batch)]
        return made if type(first) is tuple else _series(first, made)
    raise TypeError("default_collate: samples are tensors, arrays, numbers, strings, mappings or sequences of those, not "
                    f"{type(first).__name__}")


def default_convert(data: Any) -> Any:
    """Arrays of numbers as tensors, within mappings and sequences too; all else as it is."""
    if isinstance(data, (np.ndarray, np.generic)) and not isinstance(data, (str, bytes)):
        return _tensor(np.asarray(data)) if _is_data(data) else data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        made = [default_convert(value) for value in data]
        return made if type(data) is tuple else _series(data, made)
    return data
