"""Data sets: of samples by number, or of samples one after the other."""

from __future__ import annotations

import itertools
import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Optional, TypeVar, Union

from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.generator import Generator
from tensord.utils.data.collate import Rows
from tensord.utils.data.sampler import random_order

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """A subclass defines __getitem__(index), and __len__ for those who ask; __getitems__(indices), which gives a list of
    samples, if it can read several at once."""

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T], Iterable[T]):
    """A subclass defines __iter__. With workers each iterates over a copy of its own; see get_worker_info."""

    def __add__(self, other: Dataset[Any]) -> ChainDataset[Any]:  # type: ignore[override]
        return ChainDataset([self, other])


def _size(dataset: Any) -> int:
    return len(dataset)


def _samples(dataset: Any, indices: Sequence[Any]) -> Any:
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of rows i of tensors of the same first size."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = {tensor.shape[0] if tensor.ndim else None for tensor in tensors}
        if len(sizes) != 1 or None in sizes:
            raise InvalidArgumentError("TensorDataset: tensors of shapes "
                                       f"{[list(tensor.shape) for tensor in tensors]} have no common first size")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> Rows:
        return Rows(self.tensors, indices)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Samples of several data sets of one length side by side: tuples, or dicts with keywords."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise InvalidArgumentError("StackDataset: data sets as arguments, which makes tuples, or as keywords, which "
                                       f"makes dicts; there are {len(args)} and {len(kwargs)}")
        self.datasets: Any = args or kwargs
        sizes = [_size(dataset) for dataset in self._each()]
        if len(set(sizes)) != 1:
            raise InvalidArgumentError(f"StackDataset: data sets of {sizes} samples differ in length")

    def _each(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, parts: Sequence[Any]) -> Any:
        return dict(zip(self.datasets, parts)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._sample([dataset[index] for dataset in self._each()])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        parts = [_samples(dataset, indices) for dataset in self._each()]
        for dataset, samples in zip(self._each(), parts):
            if len(samples) != len(indices):
                raise InvalidArgumentError(f"StackDataset: {type(dataset).__name__}.__getitems__ gave {len(samples)} "
                                           f"samples for {len(indices)} indices")
        return [self._sample(sample) for sample in zip(*parts)]

    def __len__(self) -> int:
        return _size(self._each()[0])


class ConcatDataset(Dataset[T]):
    """Data sets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise InvalidArgumentError("ConcatDataset: there are no data sets")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise InvalidArgumentError("ConcatDataset: an IterableDataset has no numbers; see ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(_size, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        at = index + len(self) if index < 0 else index
        if at < 0:
            raise IndexError(f"ConcatDataset: sample {index} of {len(self)}")
        part = bisect_right(self.cumulative_sizes, at)
        if part == len(self.datasets):
            raise IndexError(f"ConcatDataset: sample {index} of {len(self)}")
        sample: T = self.datasets[part][at - (self.cumulative_sizes[part - 1] if part else 0)]
        return sample


class ChainDataset(IterableDataset[T]):
    """Iterable data sets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise InvalidArgumentError(f"ChainDataset: {type(dataset).__name__} is no IterableDataset; see "
                                           "ConcatDataset")

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(map(_size, self.datasets))


class Subset(Dataset[T]):
    """The samples of a data set with those numbers."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> T:
        sample: T = self.dataset[[self.indices[i] for i in index] if isinstance(index, list) else self.indices[index]]
        return sample

    def __getitems__(self, indices: Sequence[int]) -> Any:
        return _samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[Union[int, float]],
                 generator: Optional[Generator] = None) -> list[Subset[Any]]:
    """Parts of those lengths, at random and without overlap. Lengths that sum up to 1 are shares of the whole, rounded
    down; what remains goes one each to the first parts. ValueError if they don't fit."""
    total = _size(dataset)
    counts = list(lengths)
    if math.isclose(sum(counts), 1) and sum(counts) <= 1:
        for i, share in enumerate(counts):
            if not 0 <= share <= 1:
                raise InvalidArgumentError(f"random_split: the share {share} of part {i} is not in [0, 1]")
        counts = [math.floor(total * share) for share in counts]
        for i in range(int(total - sum(counts))):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(f"random_split: part {i} is empty", stacklevel=2)
    if sum(counts) != total:
        raise InvalidArgumentError(f"random_split: lengths {list(lengths)} for a data set of {total} samples")
    order = random_order(total, generator)
    ends = [int(end) for end in itertools.accumulate(counts)]
    return [Subset(dataset, order[start:end]) for start, end in zip([0, *ends], ends)]
