"""tensord.utils.data against torch.utils.data: the same batches, lengths and refusals."""

import inspect
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import tensord
import tensord.utils.data as ours
import torch
import torch.utils.data as theirs
from tensord import Tensor

Point = namedtuple("Point", "x y")


def plain(value):
    """With arrays for tensors of either library, and its type beside each."""
    if isinstance(value, (Tensor, torch.Tensor)):
        return ("tensor", str(value.dtype).removeprefix("torch."), value.numpy().tolist())
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return value


RNG = np.random.default_rng(3)
BATCHES = {
    "arrays": [RNG.standard_normal((2, 3)).astype(np.float32) for _ in range(3)],
    "scalars of NumPy": [np.int16(3), np.int16(-4)],
    "integers": [1, 2, 3],
    "floats": [1.5, 2.0],
    "bools": [True, False],
    "strings": ["a", "bc"],
    "bytes": [b"a", b"bc"],
    "tuples": [(1, "a", np.float64(2)), (3, "b", np.float64(4))],
    "lists": [[1, 2.0], [3, 4.0]],
    "dicts": [{"x": np.zeros(2), "n": {"y": 1}}, {"x": np.ones(2), "n": {"y": 2}}],
    "ordered dicts": [OrderedDict(a=1, b=2), OrderedDict(a=3, b=4)],
    "named tuples": [Point(1, "a"), Point(2, "b")],
    "nested": [([1, (2, 3.5)], {"k": "v"}), ([4, (5, 6.5)], {"k": "w"})],
}


@pytest.mark.parametrize("name", BATCHES)
def test_collates_as_pytorch_does(judge, name):
    assert plain(ours.default_collate(BATCHES[name])) == plain(theirs.default_collate(BATCHES[name]))
    for sample in BATCHES[name]:
        assert plain(ours.default_convert(sample)) == plain(theirs.default_convert(sample))


@pytest.mark.parametrize("batch", [[[1, 2], [3]], [object()], [np.array(["a"])], [None]], ids=str)
def test_refuses_what_pytorch_refuses(judge, batch):
    with pytest.raises((RuntimeError, TypeError)) as error:
        theirs.default_collate(batch)
    with pytest.raises(error.type):
        ours.default_collate(batch)


def tensors(lib, *arrays):
    return lib.TensorDataset(*(torch.tensor(a) if lib is theirs else Tensor(a) for a in arrays))


class Numbers:
    """Both libraries' Dataset."""

    def __new__(cls, lib, first, count):
        class Made(lib.Dataset):
            def __len__(self):
                return count

            def __getitem__(self, i):
                if not 0 <= i < count:
                    raise IndexError(i)
                return np.int64(first + i)

        return Made()


def stream(lib, count):
    class Made(lib.IterableDataset):
        def __iter__(self):
            return iter(range(count))

        def __len__(self):
            return count

    return Made()


X, Y = np.arange(14, dtype=np.float32).reshape(7, 2), np.arange(7, dtype=np.int32)
# name: a loader of either library
LOADERS = {
    "one by one": lambda lib: lib.DataLoader(tensors(lib, X, Y)),
    "batches": lambda lib: lib.DataLoader(tensors(lib, X, Y), 3),
    "without the last": lambda lib: lib.DataLoader(tensors(lib, X), batch_size=3, drop_last=True),
    "samples": lambda lib: lib.DataLoader(tensors(lib, X), None),
    "a sampler": lambda lib: lib.DataLoader(Numbers(lib, 5, 7), 2, sampler=[6, 0, 3]),
    "a batch sampler": lambda lib: lib.DataLoader(tensors(lib, Y), batch_sampler=[[1, 2, 3], [0], [6, 6]]),
    "made batches": lambda lib: lib.DataLoader(
        Numbers(lib, 0, 9), batch_sampler=lib.BatchSampler(lib.SequentialSampler(range(9)), 4, False)
    ),
    "collate_fn": lambda lib: lib.DataLoader(Numbers(lib, 1, 5), 2, collate_fn=lambda batch: [int(n) for n in batch]),
    "a stream": lambda lib: lib.DataLoader(stream(lib, 8), 3),
    "a stream without the last": lambda lib: lib.DataLoader(stream(lib, 8), 3, drop_last=True),
    "a stream of samples": lambda lib: lib.DataLoader(stream(lib, 3), None),
    "a chain": lambda lib: lib.DataLoader(stream(lib, 3) + stream(lib, 2), 2),
    "a concatenation": lambda lib: lib.DataLoader(Numbers(lib, 0, 3) + Numbers(lib, 10, 4), 3),
    "a stack": lambda lib: lib.DataLoader(lib.StackDataset(Numbers(lib, 0, 3), tensors(lib, X[:3])), 2),
    "a stack by name": lambda lib: lib.DataLoader(lib.StackDataset(a=Numbers(lib, 0, 3), b=Numbers(lib, 7, 3)), 2),
    "a subset": lambda lib: lib.DataLoader(lib.Subset(tensors(lib, X, Y), [5, 1, 1]), 2),
    "a subset of a subset": lambda lib: lib.DataLoader(lib.Subset(lib.Subset(tensors(lib, Y), [5, 1, 3]), [2, 0]), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADERS)
def test_gives_the_batches_of_pytorch(judge, name):
    have, want = LOADERS[name](ours), LOADERS[name](theirs)
    assert len(have) == len(want)
    for _ in range(2):
        assert [plain(batch) for batch in have] == [plain(batch) for batch in want]


# What either refuses; `lib` is the library.
REFUSED = {
    "negative workers": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), num_workers=-1),
    "negative timeout": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), timeout=-1),
    "prefetching without workers": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), prefetch_factor=2),
    "persistent workers without workers": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), persistent_workers=True),
    "a shuffled stream": lambda lib: lib.DataLoader(stream(lib, 2), shuffle=True),
    "a sampled stream": lambda lib: lib.DataLoader(stream(lib, 2), sampler=[0]),
    "a stream by batches": lambda lib: lib.DataLoader(stream(lib, 2), batch_sampler=[[0]]),
    "shuffle and sampler": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), shuffle=True, sampler=[0]),
    "batch_sampler and batch_size": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), 2, batch_sampler=[[0]]),
    "batch_sampler and drop_last": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), batch_sampler=[[0]], drop_last=True),
    "samples without the last": lambda lib: lib.DataLoader(Numbers(lib, 0, 2), None, drop_last=True),
    "no batch size": lambda lib: lib.BatchSampler([0], 0, False),
    "a batch size that is none": lambda lib: lib.BatchSampler([0], True, False),
    "no samples": lambda lib: lib.RandomSampler([0], num_samples=0),
    "no weighted samples": lambda lib: lib.WeightedRandomSampler([1.0], 0),
    "weights of two axes": lambda lib: lib.WeightedRandomSampler([[1.0], [2.0]], 1),
    "lengths that don't fit": lambda lib: lib.random_split(range(4), [1, 2]),
    "shares out of range": lambda lib: lib.random_split(range(4), [1.5, -0.5]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_arguments_that_pytorch_refuses(judge, name):
    with pytest.raises(ValueError):
        REFUSED[name](theirs)
    with pytest.raises(ValueError):
        REFUSED[name](ours)


@pytest.mark.parametrize("lengths", [[3, 4], [7], [0.5, 0.5], [0.3, 0.3, 0.4], [2 / 7, 5 / 7]], ids=str)
def test_splits_into_parts_of_the_same_lengths(judge, lengths):
    have, want = ours.random_split(range(7), lengths), theirs.random_split(range(7), lengths)
    assert [len(part) for part in have] == [len(part) for part in want]
    assert sorted(i for part in have for i in part.indices) == list(range(7))


SAMPLERS = {
    "RandomSampler": lambda lib: lib.RandomSampler(range(20)),
    "with replacement": lambda lib: lib.RandomSampler(range(20), True),
    "more than there are": lambda lib: lib.RandomSampler(range(20), num_samples=50),
    "of a subset": lambda lib: lib.SubsetRandomSampler([3, 1, 4, 15, 9]),
    "weighted": lambda lib: lib.WeightedRandomSampler([0.0, 1.0, 3.0, 0.0], 12),
    "weighted, once each": lambda lib: lib.WeightedRandomSampler([0.0, 1.0, 3.0, 2.0], 3, replacement=False),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_draw_as_many_from_the_same(judge, name):
    tensord.manual_seed(0)  # else two draws are equal by chance, now and then
    have, want = SAMPLERS[name](ours), SAMPLERS[name](theirs)
    assert len(have) == len(want)
    mine, other = list(have), list(want)
    assert len(mine) == len(other)
    assert all(type(number) is int for number in mine)
    if name in ("RandomSampler", "of a subset", "weighted, once each"):
        assert sorted(mine) == sorted(other)
    assert set(mine) <= (set(range(20)) if "eighted" not in name else {1, 2, 3})
    assert len(mine) < 6 or list(have) != mine  # anew each time


@pytest.mark.parametrize("name", sorted(set(ours.__all__) - {"WorkerInfo", "get_worker_info"}))
def test_arguments_are_those_of_pytorch(name):
    def arguments(lib):
        made = inspect.signature(getattr(lib, name)).parameters.values()
        return {p.name: None if name == "random_split" and p.name == "generator" else p.default for p in made}

    want = arguments(theirs)
    want.pop("collate_fn_map", None)
    assert arguments(ours) == want


# What torch.utils.data has and tensord.utils.data does not.
ABSENT = {
    "DataChunk": "data pipes, which torchdata has replaced",
    "DFIterDataPipe": "data pipes",
    "IterDataPipe": "data pipes",
    "MapDataPipe": "data pipes",
    "argument_validation": "data pipes",
    "functional_datapipe": "data pipes",
    "guaranteed_datapipes_determinism": "data pipes",
    "non_deterministic": "data pipes",
    "runtime_validation": "data pipes",
    "runtime_validation_disabled": "data pipes",
}


def test_names_are_those_of_pytorch():
    public = {name for name in theirs.__all__ if not name.startswith("_")}
    assert public - set(ours.__all__) == set(ABSENT)
