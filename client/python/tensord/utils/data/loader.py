"""DataLoader: batches of a data set, in this process or read ahead by others."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Optional, TypeVar, Union

from tensord.errors import InvalidArgumentError
from tensord.generator import Generator
from tensord.utils.data.collate import default_collate, default_convert
from tensord.utils.data.dataset import IterableDataset, _samples
from tensord.utils.data.pool import Ended, Pool, Work
from tensord.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, drawn_seed

T = TypeVar("T")


# ---- what reads a batch: begun for an epoch, called for each request

def _fetch_numbered(batched: bool, collate: Callable[[Any], Any], dataset: Any) -> Callable[[Any], Any]:
    """Requests are numbers of samples, or lists of them."""
    def fetch(request: Any) -> Any:
        try:
            return collate(_samples(dataset, request) if batched else dataset[request])
        except StopIteration as error:  # which would end the epoch without a word
            raise RuntimeError(f"DataLoader: reading {request} raised StopIteration; what ends by itself is an "
                               "IterableDataset") from error

    return fetch


def _fetch_next(batch_size: Optional[int], drop_last: bool, collate: Callable[[Any], Any],
                dataset: Any) -> Callable[[Any], Any]:
    """What is next in an IterableDataset, whatever the request."""
    samples = iter(dataset)

    def fetch(request: Any) -> Any:
        if batch_size is None:
            return collate(next(samples))
        batch = list(itertools.islice(samples, batch_size))
        if not batch or (drop_last and len(batch) < batch_size):
            raise StopIteration
        return collate(batch)

    return fetch


class DataLoader(Generic[T]):
    """Iterates over batches of a data set, see the package. Arguments are PyTorch's:

    batch_size      how many samples make a batch; None gives samples themselves, converted and not collated
    shuffle         in random order, anew at each iteration, drawn from `generator` or the default one
    sampler         numbers of samples in another order; batch_sampler lists of them, one for a batch
    num_workers     how many processes read ahead, prefetch_factor (2) batches each; 0 reads in this one
    collate_fn      makes a batch of a list of samples (default_collate)
    drop_last       leaves out a last batch of fewer samples
    timeout         seconds after which a batch from a worker is an error; 0 waits
    worker_init_fn  called in each worker with its number before it reads
    persistent_workers  keeps them from one iteration to the next
    in_order        False gives batches as they come from workers

    Each worker seeds `random` and NumPy by a number of the generator and its own, and gets every num_workers-th batch, so
    what it draws is the same each time. pin_memory changes nothing. ValueError for options that exclude each other.
    """

    def __init__(self, dataset: Any, batch_size: Optional[int] = 1, shuffle: Optional[bool] = None,
                 sampler: Union[Sampler[Any], Iterable[Any], None] = None,
                 batch_sampler: Union[Sampler[list[Any]], Iterable[list[Any]], None] = None, num_workers: int = 0,
                 collate_fn: Optional[Callable[[Any], Any]] = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Optional[Callable[[int], Any]] = None,
                 multiprocessing_context: Any = None, generator: Optional[Generator] = None, *,
                 prefetch_factor: Optional[int] = None, persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True) -> None:
        self._iterable = isinstance(dataset, IterableDataset)
        ordered = bool(shuffle) or sampler is not None
        for wrong, text in (
            (num_workers < 0, f"num_workers is {num_workers}; it is at least 0"),
            (timeout < 0, f"timeout is {timeout}; it is at least 0"),
            (num_workers == 0 and prefetch_factor is not None, "prefetch_factor is of workers, and num_workers is 0"),
            (prefetch_factor is not None and prefetch_factor < 1, f"prefetch_factor is {prefetch_factor}; at least 1"),
            (num_workers == 0 and persistent_workers, "persistent_workers needs num_workers above 0"),
            (num_workers == 0 and multiprocessing_context is not None, "multiprocessing_context is of workers, and "
             "num_workers is 0"),
            (self._iterable and (ordered or batch_sampler is not None), "an IterableDataset has an order of its own: no "
             "shuffle, sampler or batch_sampler"),
            (bool(shuffle) and sampler is not None, "shuffle and sampler exclude each other"),
            (batch_sampler is not None and (batch_size != 1 or ordered or drop_last), "batch_sampler says what batch_size, "
             "shuffle, sampler and drop_last say; give none of those"),
            (batch_size is None and drop_last, "without batches there is no last one to drop: batch_size is None"),
        ):  # fmt: skip
            if wrong:
                raise InvalidArgumentError(f"DataLoader: {text}")
        self.dataset, self.num_workers, self.prefetch_factor = dataset, num_workers, prefetch_factor or 2
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.worker_init_fn, self.generator = timeout, worker_init_fn, generator
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self.multiprocessing_context = _context(multiprocessing_context) if num_workers else None
        if batch_sampler is not None:
            batch_size = None
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler: Any = None
        self.batch_sampler: Any = batch_sampler
        if not self._iterable:
            self.sampler = sampler if sampler is not None else (
                RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset))
            if batch_size is not None:
                self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        batched = self.batch_sampler is not None or batch_size is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._fetcher: Callable[[Any], Callable[[Any], Any]] = (
            functools.partial(_fetch_next, batch_size, drop_last, self.collate_fn) if self._iterable
            else functools.partial(_fetch_numbered, self.batch_sampler is not None, self.collate_fn))
        self._kept: Optional[Pool] = None  # workers that stay

    def _requests(self) -> Iterator[Any]:
        if self._iterable:
            return itertools.repeat("next")
        return iter(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def __iter__(self) -> Iterator[T]:
        if self.num_workers == 0:
            return self._here()
        if self._kept is not None and self._kept.is_open:
            return _FromWorkers(self, self._kept)
        work = Work(self.dataset, self._fetcher, self.worker_init_fn, self.num_workers, drawn_seed(self.generator))
        pool = Pool(work, self.multiprocessing_context, self.timeout)
        if self.persistent_workers:
            self._kept = pool
            weakref.finalize(self, pool.close)
        return _FromWorkers(self, pool)

    def _here(self) -> Iterator[T]:
        drawn_seed(self.generator)  # as workers would have: the order is that of any number of them
        fetch = self._fetcher(self.dataset)
        for request in self._requests():
            try:
                batch = fetch(request)
            except StopIteration:
                return
            yield batch

    def __len__(self) -> int:
        """How many batches; for an IterableDataset by its own len()."""
        if not self._iterable:
            return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
        count = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _context(given: Any) -> Any:
    """Of the package multiprocessing."""
    context = multiprocessing.get_context(given or "spawn") if given is None or isinstance(given, str) else given
    if context.get_start_method() == "fork":
        raise InvalidArgumentError("DataLoader: workers are started by 'spawn' or 'forkserver'; a fork of this process has "
                                   "half of its session")
    return context


class _FromWorkers(Iterator[T]):
    """One epoch: requests go to workers in turn, and their batches come back in the same order."""

    def __init__(self, loader: DataLoader[T], pool: Pool) -> None:
        self._loader = loader  # which ends workers that stay
        self._pool, self._requests = pool, loader._requests()
        self._in_order, self._ahead = loader.in_order, loader.prefetch_factor * loader.num_workers
        self._turns: deque[int] = deque(range(loader.num_workers))  # those that have more
        self._close = None if loader.persistent_workers else weakref.finalize(self, pool.close)
        pool.begin_epoch()
        self._epoch, self._ended = pool.epoch, False
        self._expected = pool.expected
        self._ask()

    def _ask(self) -> None:
        while self._turns and len(self._expected) < self._ahead:
            try:
                request = next(self._requests)
            except StopIteration:
                self._turns.clear()
                return
            number = self._turns[0]
            self._turns.rotate(-1)
            self._pool.request(number, request)
            self._expected.append(number)

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        if self._pool.epoch != self._epoch:
            raise RuntimeError("DataLoader: another iteration has begun, to which the workers belong now; with "
                               "persistent_workers there is one at a time")
        while self._expected:
            number = self._expected[0] if self._in_order else self._pool.first_ready(list(self._expected))
            self._expected.remove(number)
            try:
                batch: T = self._pool.reply(number)
            except Ended:
                if number in self._turns:
                    self._turns.remove(number)
                self._ask()
                continue
            except Exception:
                if self._pool.is_open:
                    self._ask()
                else:
                    self._expected.clear()
                raise
            self._ask()
            return batch
        self._ended = True
        if self._close is not None:
            self._close()
        raise StopIteration
