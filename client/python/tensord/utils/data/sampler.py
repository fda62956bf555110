"""In which order samples are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Optional, TypeVar, Union

import numpy as np

from tensord.errors import InvalidArgumentError
from tensord.generator import Generator
from tensord.random import randint

T = TypeVar("T", covariant=True)


def drawn_seed(generator: Optional[Generator]) -> int:
    """64 bits of a generator's numbers, which are read."""
    words = randint(2, low=-(2**31), high=2**31 - 1, dtype="int64", generator=generator)
    low, high = (int(word) & 0xFFFFFFFF for word in words.numpy())
    return high << 32 | low


def host_generator(generator: Optional[Generator]) -> np.random.Generator:
    """NumPy's, seeded by a generator: an order is needed on the host, and the device need not sort for it."""
    return np.random.Generator(np.random.Philox(drawn_seed(generator)))


def _listed(numbers: Any) -> list[int]:
    """Of an array."""
    return [int(number) for number in numbers.tolist()]


def random_order(count: int, generator: Optional[Generator]) -> list[int]:
    """The numbers below count."""
    return _listed(host_generator(generator).permutation(count))


class Sampler(Generic[T]):
    """Gives numbers of samples, or lists of them; a subclass defines __iter__, and __len__ for those who ask."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")


class SequentialSampler(Sampler[int]):
    """All in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _checked_count(name: str, count: Any, what: str = "num_samples") -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        raise InvalidArgumentError(f"{name}: {what} is {count!r}; it must be a positive integer")
    return int(count)


def _checked_flag(name: str, flag: Any, what: str) -> bool:
    if not isinstance(flag, bool):
        raise TypeError(f"{name}: {what} is {flag!r}; it must be True or False")
    return flag


class RandomSampler(Sampler[int]):
    """In random order, each once, or num_samples of them: with `replacement` each drawn from all, else in rounds."""

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: Optional[int] = None,
                 generator: Optional[Generator] = None) -> None:
        self.data_source, self.generator = data_source, generator
        self.replacement = _checked_flag("RandomSampler", replacement, "replacement")
        self._num_samples = None if num_samples is None else _checked_count("RandomSampler", num_samples)

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        random, n = host_generator(self.generator), len(self.data_source)
        if self.replacement:
            yield from _listed(random.integers(n, size=self.num_samples))
        elif n:
            rounds = (_listed(random.permutation(n)) for _ in itertools.count())
            yield from itertools.islice(itertools.chain.from_iterable(rounds), self.num_samples)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: Optional[Generator] = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in random_order(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """num_samples numbers below the number of weights, with probabilities in their proportion."""

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True,
                 generator: Optional[Generator] = None) -> None:
        name = "WeightedRandomSampler"
        self.num_samples = _checked_count(name, num_samples)
        self.replacement = _checked_flag(name, replacement, "replacement")
        self.weights = np.asarray(weights, np.float64)
        if self.weights.ndim != 1:
            raise InvalidArgumentError(f"{name}: weights of shape {list(self.weights.shape)}; they have one axis")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all() and self.weights.sum() > 0):
            raise InvalidArgumentError(f"{name}: weights are finite and not negative, and one is positive")
        if not self.replacement and num_samples > np.count_nonzero(self.weights):
            raise InvalidArgumentError(f"{name}: {num_samples} samples without replacement of "
                                       f"{np.count_nonzero(self.weights)} with a positive weight")
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        random = host_generator(self.generator)
        share = self.weights / self.weights.sum()
        yield from _listed(random.choice(len(share), self.num_samples, self.replacement, share))

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of batch_size numbers that another sampler gives; drop_last leaves out a last one with fewer."""

    def __init__(self, sampler: Union[Sampler[int], Iterable[int]], batch_size: int, drop_last: bool) -> None:
        self.sampler = sampler
        self.batch_size = _checked_count("BatchSampler", batch_size, "batch_size")
        self.drop_last = _checked_flag("BatchSampler", drop_last, "drop_last")

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
