"""tensord.utils.data: what PyTorch has no say in; tests/torch/data_test.py compares the rest."""

import gc
import multiprocessing
import os
import signal
import time
from collections import namedtuple

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.errors import FailedPreconditionError, InvalidArgumentError
from tensord.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)


class Squares(Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return np.float32(i * i), {"name": f"n{i}", "drawn": float(np.random.random())}


class Failing(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError("no five")
        return np.float32(i)


class Dying(Squares):
    def __getitem__(self, i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.float32(i)


class Stuck(Squares):
    def __getitem__(self, i):
        if i == 5:
            time.sleep(3600)
        return np.float32(i)


class Computing(Squares):
    def __getitem__(self, i):
        return tensord.ones(2) * i


class Large(Squares):
    def __getitem__(self, i):
        return np.full(1 << 18, i, np.float32)


class Stream(IterableDataset):
    """Of unequal parts in two workers."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        numbers = list(range(self.count))[first::step]
        return iter(numbers[:2] if first else numbers)


class Unreadable(Squares):
    def __setstate__(self, state):
        raise OSError("the file is gone")


def start_badly(number):
    raise ZeroDivisionError(f"in worker {number}")


def as_one(samples):
    return default_collate(samples)[0] + 1


@pytest.fixture(autouse=True)
def no_process_stays():
    yield
    gc.collect()  # what an error of the test still holds
    assert multiprocessing.active_children() == []


def read(loader):
    return [batch.numpy().tolist() for batch in loader]


def test_workers_give_what_this_process_gives():
    here = list(DataLoader(Squares(), 3))
    there = list(DataLoader(Squares(), 3, num_workers=2))
    assert len(here) == len(there) == 4
    for (x, more), (y, others) in zip(here, there):
        assert isinstance(y, Tensor) and y.dtype == x.dtype == tensord.float32
        assert y.numpy().tolist() == x.numpy().tolist()
        assert others["name"] == more["name"]
        assert isinstance(others["drawn"], Tensor) and others["drawn"].dtype == tensord.float64


def test_numbers_that_workers_draw_are_those_of_the_seed():
    def drawn(seed):
        tensord.manual_seed(seed)
        loader = DataLoader(Squares(8), 2, shuffle=True, num_workers=2)
        return [(x.numpy().tolist(), more["drawn"].numpy().tolist()) for x, more in loader]

    first = drawn(3)
    assert drawn(3) == first
    assert drawn(4) != first
    assert len({number for _, numbers in first for number in numbers}) == 8  # workers differ


def test_a_generator_of_its_own_decides():
    def order(seed):
        generator = tensord.Generator().manual_seed(seed)
        return range_dataset_values(DataLoader(range_dataset(9), 4, shuffle=True, generator=generator))

    assert order(1) == order(1) != order(2)


def range_dataset(count):
    return TensorDataset(tensord.arange(count))


def range_dataset_values(batches):
    return [value for (batch,) in batches for value in batch.numpy().tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_carry_the_traceback_and_leave_the_other_batches(workers):
    batches = iter(DataLoader(Failing(8), 2, num_workers=workers))
    assert next(batches).numpy().tolist() == [0, 1]
    assert next(batches).numpy().tolist() == [2, 3]
    with pytest.raises(KeyError, match="no five") as error:
        next(batches)
    if workers:
        assert "in __getitem__" in str(error.value) and "worker 0" in str(error.value)
        assert next(batches).numpy().tolist() == [6, 7]
    del batches, error


@pytest.mark.parametrize("persistent", [False, True])
def test_a_killed_worker_is_an_error(persistent):
    loader = DataLoader(Dying(8), 2, num_workers=2, persistent_workers=persistent)
    with pytest.raises(RuntimeError, match=r"worker 0 \(process \d+\) ended by signal SIGKILL"):
        list(loader)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(loader)  # with new workers


def test_a_worker_that_takes_too_long_is_an_error():
    batches = iter(DataLoader(Stuck(8), 2, num_workers=1, timeout=10))
    assert [next(batches).numpy().tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(RuntimeError, match="no batch within"):
        next(batches)


@pytest.mark.parametrize(
    "dataset, options, error",
    [
        (Squares(), {"worker_init_fn": start_badly}, (ZeroDivisionError, "in worker 0")),
        (Unreadable(), {}, (OSError, "the file is gone")),
        (Computing(), {}, (FailedPreconditionError, "a worker of a DataLoader has no session")),
        (Squares(), {"collate_fn": as_one}, (TypeError, "unsupported operand")),
    ],
    ids=["worker_init_fn", "unpickling", "tensors", "arithmetic"],
)
def test_what_fails_in_a_worker_is_raised_here(dataset, options, error):
    with pytest.raises(error[0], match=error[1]):
        next(iter(DataLoader(dataset, 2, num_workers=1, **options)))


def test_a_dataset_of_tensors_goes_to_workers_as_arrays():
    x, y = tensord.arange(6).reshape(3, 2), tensord.Tensor([1.0, 2.0, 3.0])
    for batch in (next(iter(DataLoader(TensorDataset(x, y), 3, num_workers=n))) for n in (0, 1)):
        assert [part.dtype for part in batch] == [tensord.int32, tensord.float32]
        assert [part.numpy().tolist() for part in batch] == [[[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 3.0]]
    with pytest.raises(InvalidArgumentError, match="bfloat16"):
        iter(DataLoader(TensorDataset(y.cast("bfloat16")), num_workers=1))


def test_batches_larger_than_a_pipe_pass_and_an_early_end_leaves_no_process():
    batches = iter(DataLoader(Large(6), 1, num_workers=2, prefetch_factor=3))
    assert next(batches).numpy()[0, :2].tolist() == [0, 0]
    del batches
    assert [int(batch.numpy()[0, 0]) for batch in DataLoader(Large(6), 1, num_workers=2)] == [0, 1, 2, 3, 4, 5]


def test_persistent_workers_stay():
    loader = DataLoader(PidDataset(), 2, num_workers=2, persistent_workers=True)
    first, second = ([batch.numpy().tolist() for batch in loader] for _ in range(2))
    assert first == second
    assert len({pid for batch in first for pid in batch}) == 2
    del loader


class PidDataset(Squares):
    def __getitem__(self, i):
        return os.getpid()


@pytest.mark.parametrize("in_order", [True, False])
def test_workers_share_a_stream(in_order):
    loader = DataLoader(Stream(9), 2, num_workers=2, in_order=in_order)
    got = read(loader)
    assert sorted(got) == [[0, 2], [1, 3], [4, 6], [8]]
    if in_order:
        assert got == [[0, 2], [1, 3], [4, 6], [8]]
    assert read(DataLoader(Stream(5), 2, drop_last=True)) == [[0, 1], [2, 3]]


def test_batches_of_a_dataset_of_tensors_run_one_program():
    dataset = TensorDataset(tensord.arange(64).realize())
    for seed in range(2):
        tensord.manual_seed(seed)
        before = tensord.counters()["kernels_compiled"]
        assert sorted(range_dataset_values(DataLoader(dataset, 8, shuffle=True))) == list(range(64))
    assert tensord.counters()["kernels_compiled"] == before  # in the second round


@pytest.mark.parametrize(
    "options, message",
    [
        ({"multiprocessing_context": "fork", "num_workers": 1}, "spawn"),
        ({"multiprocessing_context": "spawn"}, "num_workers is 0"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        DataLoader(Squares(), **options)


Pair = namedtuple("Pair", "x label")


def test_named_tuples_come_back_from_workers():
    batch = next(iter(DataLoader(Pairs(), 2, num_workers=1, collate_fn=default_collate)))
    assert isinstance(batch, Pair) and batch.label == ("a", "b")
    assert isinstance(batch.x, Tensor) and batch.x.dtype == tensord.bool_


class Pairs(Squares):
    def __getitem__(self, i):
        return Pair(i % 2 == 0, "ab"[i])


def numbers(batches):
    return [[int(x) for x in batch.tolist()] for batch in batches]


class Numbers(Squares):
    def __getitem__(self, i):
        return np.int32(i)


class Failing5(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError("no five")
        return np.int32(i)


def test_the_order_is_that_of_any_number_of_workers():
    orders = [numbers(DataLoader(Numbers(10), 2, shuffle=True, generator=tensord.Generator().manual_seed(1),
                                 num_workers=workers)) for workers in (0, 2)]
    assert orders[0] == orders[1]


def test_persistent_workers_begin_each_iteration_anew():
    """Whatever is left of the last one: an error, an iterator that is dropped, one that is kept, a loader that is not."""
    loader = DataLoader(Failing5(8), 2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        seen = []
        with pytest.raises(KeyError) as kept:  # the error keeps its frames, and so the iterator
            for batch in loader:
                seen.append(batch)
        assert numbers(seen) == [[0, 1], [2, 3]] and kept
    first = iter(loader)
    assert numbers([next(first)]) == [[0, 1]]
    second = iter(loader)
    assert numbers([next(second), next(second)]) == [[0, 1], [2, 3]]
    with pytest.raises(RuntimeError, match="another iteration has begun"):
        next(first)
    assert numbers([next(iter(loader))]) == [[0, 1]]
    temporary = [batch for batch in DataLoader(Failing5(4), 2, num_workers=2, persistent_workers=True)]
    assert numbers(temporary) == [[0, 1], [2, 3]]


class Stopping(Squares):
    def __getitem__(self, i):
        if i == 2:
            raise StopIteration
        return i


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_stops_does_not_end_the_epoch(workers):
    with pytest.raises(RuntimeError, match=r"reading \[2, 3\] raised StopIteration"):
        list(DataLoader(Stopping(4), batch_size=2, num_workers=workers))
