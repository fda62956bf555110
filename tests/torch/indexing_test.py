"""Reading and writing by index; gather and scatter; selections of a size that depends on data."""

import numpy as np
import torch
from table import Data, Ints, error, lib, row, test_row  # noqa: F401

INF, NAN = float("inf"), float("nan")
BASIC = {
    "int": lambda x: x[1],
    "negative int": lambda x: x[-1],
    "ints": lambda x: x[1, 2],
    "all ints": lambda x: x[1, -2, 3],
    "slice": lambda x: x[1:3],
    "slices": lambda x: x[0:2, 1:3, 2:4],
    "negative bounds": lambda x: x[-2:-1, -3:],
    "open": lambda x: x[:, 1:, :2],
    "out of bounds": lambda x: x[1:100],
    "both out of bounds": lambda x: x[50:100],
    "before the start": lambda x: x[-100:2],
    "start after end": lambda x: x[2:1],
    "zero length": lambda x: x[1:1],
    "step 2": lambda x: x[::2],
    "steps": lambda x: x[::2, 1::3, ::4],
    "steps with ints": lambda x: x[1, ::2, 3],
    "steps with None": lambda x: x[None, ::2, None, 1],
    "step over the end": lambda x: x[1::7],
    "None first": lambda x: x[None],
    "None last": lambda x: x[..., None],
    "None between": lambda x: x[:, None, 1],
    "Nones": lambda x: x[None, :, None, None],
    "ellipsis": lambda x: x[..., 1],
    "ellipsis first": lambda x: x[..., 1:2],
    "ellipsis middle": lambda x: x[1, ..., 2],
    "ellipsis for nothing": lambda x: x[1, 2, ..., 3],
    "ellipsis alone": lambda x: x[...],
    "slices of slices": lambda x: x[1:4][1:, 2:][:, :1],
    "empty tuple": lambda x: x[()],
}
REVERSED = {
    "::-1": np.s_[::-1],
    "3:0:-1": np.s_[3:0:-1],
    "-1::-2": np.s_[-1::-2],
    ":: -2 of two axes": np.s_[::-2, ::-1],
    "int and ::-1": np.s_[1, ::-1],
    "1:3:-1": np.s_[1:3:-1],
    "10::-3": np.s_[10::-3],
    "None and ::-1": np.s_[None, ::-1, :, None],
}
FANCY_SHAPE = (2, 5, 4, 3, 2, 3)
A, B, C, D, E = (
    Ints(-2, 2, 2, 1, 1, 1),
    Ints(-5, 5, 1, 1, 1, 1),
    Ints(-4, 4, 1, 2, 1, 1),
    Ints(-3, 3, 1, 1, 3, 1),
    Ints(-2, 2, 1, 1, 1, 4),
)
FANCY = {
    "all five": lambda x, a, b, c, d, e: x[a, b, c, d, e],
    "with a gap": lambda x, a, b, c, d, e: x[a, b, :, d, e],
    "with a gap first": lambda x, a, b, c, d, e: x[:, b, c, d, e],
    "with two gaps": lambda x, a, b, c, d, e: x[a, :, c, :, e],
    "two and ellipsis": lambda x, a, b, c, d, e: x[a, b, ...],
    "ellipsis between": lambda x, a, b, c, d, e: x[a, ..., e],
    "one in the middle": lambda x, a, b, c, d, e: x[:, :, c],
    "two adjacent in the middle": lambda x, a, b, c, d, e: x[:, b, c],
    "with an int": lambda x, a, b, c, d, e: x[a, 2, c],
    "with an int apart": lambda x, a, b, c, d, e: x[1, :, c],
    "int last": lambda x, a, b, c, d, e: x[a, b, :, :, 1],
    "with a slice": lambda x, a, b, c, d, e: x[a, b, 1:3],
    "slice first": lambda x, a, b, c, d, e: x[0:1, b, c],
    "None before": lambda x, a, b, c, d, e: x[None, a, b],
    "None between": lambda x, a, b, c, d, e: x[a, None, b],
    "None after": lambda x, a, b, c, d, e: x[a, b, None],
    "None in a gap": lambda x, a, b, c, d, e: x[a, :, None, c],
    "Nones everywhere": lambda x, a, b, c, d, e: x[None, a, None, b, None],
    "list": lambda x, a, b, c, d, e: x[[1, 0, 1]],
    "list in a tuple": lambda x, a, b, c, d, e: x[:, [1, 4, 2]],
    "two lists": lambda x, a, b, c, d, e: x[[0, 1], [2, 4]],
    "nested list in a tuple": lambda x, a, b, c, d, e: x[[[0, 1], [1, 0]],],
    "list and tensor": lambda x, a, b, c, d, e: x[[0, 1], :, c[0, :, 0, 0]],
    "tensors of other rank": lambda x, a, b, c, d, e: x[a[:, 0, 0, 0], b[0, 0, 0]],
    "0-d tensor": lambda x, a, b, c, d, e: x[a[0, 0, 0, 0]],
    "twice": lambda x, a, b, c, d, e: x[a[:, 0, 0, 0]][:, [0, 1]],
}


def written(values):
    """x with x[index] = value, out of place: {name: (index, value)}; `put(x, index, value)` writes into a copy."""
    return [
        row(f"write {name}", lambda x, index=index, value=value: put(x, index, value), (4, 5, 6), gradient=False)
        for name, (index, value) in values.items()
    ]


def put(x, index, value):
    copy = x.clone()
    copy[index] = value(x) if callable(value) else value
    return copy


ROWS = [
    *(row(f"[{name}]", call, (4, 5, 6)) for name, call in BASIC.items()),
    *(
        row(f"[{name}]", lambda x, i=index: x[i], (4, 5, 6), numpy=lambda x, i=index: x[i].copy())
        for name, index in REVERSED.items()
    ),
    row("0-d [None]", lambda x: x[None], ()),
    row("0-d [...]", lambda x: x[...], ()),
    row("0-d [()]", lambda x: x[()], ()),
    row("[int] of nothing around", lambda x: x[1], (3, 0)),
    row("iteration", lambda x: list(x), (3, 2)),
    row("gradient of reversed", lambda x: x[::-1, 1], (3, 4), theirs=lambda x: x.flip(0)[:, 1]),
    row("huge stride", lambda x: x[::997, 1], (2000, 3)),
    row("a row of an expanded tensor", lambda x: x.expand(1000, 5)[::333, 2], (1, 5)),
    *(
        row(
            f"fancy: {name}",
            call,
            FANCY_SHAPE,
            A,
            B,
            C,
            D,
            E,
            gradient=name in ("with a gap", "two adjacent in the middle", "list"),
        )
        for name, call in FANCY.items()
    ),
    row("fancy, duplicates add up in the gradient", lambda x: x[[0, 0, 2, 0]], (3, 2)),
    row(
        "fancy of infinities and NaN",
        lambda x, i: x[i],
        Data([1.0, INF, NAN, -INF]),
        Data([0, 1, 2, 3, 0], "int32"),
        gradient=False,
    ),
    # A tensor without axes is a row of one.
    row("gather of 0-d", lambda x, i: x.gather(0, i), (), Data([0, 0], "int64")),
    row("index_select of 0-d", lambda x, i: x.index_select(0, i), (), Data([0], "int64")),
    row("index_add of 0-d", lambda x, i, y: x.index_add(0, i, y, alpha=2), (), Data([0], "int64"), ()),
    row("index_copy of 0-d", lambda x, i, y: x.index_copy(-1, i, y), (), Data([0], "int64"), ()),
    row("index_fill of 0-d", lambda x, i: x.index_fill(0, i, 4.0), (), Data([0], "int64")),
    row("index_reduce of 0-d", lambda x, i, y: x.index_reduce(0, i, y, "amax"), (), Data([0], "int64"), ()),
    row("transpose of 0-d", lambda x: x.transpose(0, -1), ()),
    row("index_put by a mask", lambda x, m, y: x.index_put((m,), y), (3, 4), Data([True, False, True]), (4,)),
    row("index_put by a mask, added", lambda x, m, y: x.index_put((m,), y, accumulate=True), (2, 2, 3),
        Data([[True, False], [True, True]]), (3, 3)),
    error("gather of 0-d, axis 1", IndexError, "axis|imension", lambda x: x.gather(1, lib(x).zeros(1).long()), ()),
    row("fancy of ints", lambda x, i: x[i], Ints(-99, 99, 6, 2), Ints(0, 6, 3)),
    row("fancy of bools", lambda x, i: x[i], Data([True, False], bool), Ints(0, 2, 5)),
    row("an empty index", lambda x, i: x[i], (3, 2), Data([], "int32")),
    row(
        "list with True and False counts as ints", lambda x: x[[True, False, 2]], (3, 2), theirs=lambda x: x[[1, 0, 2]]
    ),
    row(
        "index outside reads 0",
        lambda x, i: x[i],
        Data([1.0, 2.0]),
        Data([5, 0, -9], "int32"),
        numpy=lambda x, i: np.array([0, 1, 0], np.float32),
    ),
    row("mask", lambda x: x[x > 0], (4, 3), gradient=False),
    row("mask of the first axis", lambda x, m: x[m], (3, 2), Data([True, False, True], bool)),
    # Writing.
    *written(
        {
            "an int": (1, 2.5),
            "a slice": (np.s_[1:3], 7.0),
            "slices": (np.s_[:, 1:3, ::2], -1.0),
            "a number everywhere": (np.s_[...], 3.0),
            "one element": ((1, 2, 3), 9.0),
            "a value that broadcasts": (np.s_[:, 2], lambda x: x[0, 0]),
            "a tensor": (np.s_[1:3], lambda x: x[0:2] * 2),
            "a list of ints": ([0, 2], 5.0),
            "two lists": (([0, 1], [2, 3]), 5.0),
            "a list and a slice": ((slice(None), [1, 3]), lambda x: x[:, :2]),
            "negative": (-1, 0.5),
            "nothing": (np.s_[2:2], 1.0),
            "ellipsis and int": (np.s_[..., 0], 4.0),
            "None": (np.s_[None, 1], 4.0),
            "a Python list": (np.s_[0, 0], lambda x: lib(x).tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        }
    ),
    row("write by a tensor index", lambda x, i: put(x, i, 8.0), (4, 3), Ints(0, 4, 2), gradient=False),
    row("write by a mask", lambda x: put(x, x > 0, 8.0), (4, 3), gradient=False),
    row("write into ints", lambda x: put(x, np.s_[1:], 7), Ints(0, 5, 3, 2)),
    row("write reversed", lambda x: put(x, np.s_[::-1], lambda y: y * 2), (4,), numpy=lambda x: (x * 2)[::-1].copy()),
    row(
        "write duplicates, the last wins",
        lambda x: put(x, [1, 1], lambda y: lib(y).tensor([5.0, 6.0])),
        (3,),
        numpy=lambda x: np.array([x[0], 6, x[2]]),
    ),
    row("write, then add in place", lambda x: inplace(x), (3, 4), gradient=False),
    row("write through a view", lambda x: through_view(x), (3, 4), gradient=False),
    row("a value read before a write keeps", lambda x: kept(x), (3, 4), gradient=False, theirs=lambda x: x[0] * 1),
    # gather, scatter.
    *(
        row(f"gather along {dim}", lambda x, i, d=dim: x.gather(d, i), (3, 4, 5), Ints(0, 3, 2, 3, 4))
        for dim in (0, 1, 2, -1)
    ),
    row(
        "gather beside -inf",
        lambda x, i: x.gather(0, i),
        Data([-INF, 1.0, -INF]),
        Data([1, 1, 1], "int32"),
        gradient=False,
    ),
    row("gather from nothing", lambda x, i: x.gather(1, i), (3, 0), Ints(0, 1, 3, 0)),
    row(
        "gather outside gives 0",
        lambda x, i: x.gather(0, i),
        Data([1.0, 2.0]),
        Data([-1, 1, 7], "int32"),
        numpy=lambda x, i: np.array([0, 2, 0], np.float32),
    ),
    *(
        row(
            f"scatter along {dim}",
            lambda x, i, s, d=dim: x.scatter(d, i, s),
            (4, 4),
            Data([[0, 1, 2, 3], [1, 2, 3, 0]] if dim == 0 else [[0, 1], [1, 3], [2, 0]], "int32"),
            (2, 4) if dim == 0 else (3, 2),
        )
        for dim in (0, 1, -1)
    ),
    *(
        row(
            f"scatter of {value}",
            lambda x, i, v=value: x.scatter(0, i, v),
            (3, 4),
            Data([[0, 1, 2, 0]], "int32"),
            gradient=False,
        )
        for value in (3.5, INF, -INF)
    ),
    row(
        "scatter, duplicates: the last wins",
        lambda x, i, s: x.scatter(0, i, s),
        Data([0.0, 0.0]),
        Data([1, 1, 1], "int32"),
        Data([3.0, 4.0, 5.0]),
        numpy=lambda x, i, s: np.array([0, 5], np.float32),
    ),
    row(
        "scatter outside is ignored",
        lambda x, i, s: x.scatter(0, i, s),
        Data([1.0, 2.0]),
        Data([5, -1, 0], "int32"),
        Data([3.0, 4.0, 5.0]),
        numpy=lambda x, i, s: np.array([5, 2], np.float32),
    ),
    *(
        row(
            f"scatter, reduce {reduce}, of {value}",
            lambda x, i, r=reduce, v=value: x.scatter(0, i, v, reduce=r),
            (3, 4),
            Data([[0, 1, 2, 0], [0, 1, 1, 1]], "int32"),
            gradient=False,
        )
        for reduce in ("add", "multiply")
        for value in (2.5, INF, NAN)
    ),
    *(
        row(
            f"scatter_reduce {reduce}, include_self {include}, along {dim}",
            lambda x, i, s, r=reduce, k=include, d=dim: x.scatter_reduce(d, i, s, r, include_self=k),
            (4, 5),
            Ints(0, 4, 3, 4),
            (3, 4),
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
        for dim in (0, 1)
    ),
    row(
        "scatter_reduce prod onto zeros",
        lambda x, i, s: x.scatter_reduce(0, i, s, "prod"),
        Data([0.0, 0.0, 1.0]),
        Data([0, 0, 2], "int32"),
        Data([2.0, 3.0, 4.0]),
        gradient=False,
    ),
    row("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), (3, 4), Ints(0, 3, 5, 4), (5, 4)),
    row("index_select", lambda x, i: x.index_select(1, i), (3, 4), Data([3, 0, 0], "int32")),
    row("take", lambda x, i: x.take(i.long() if lib(x) is torch else i), (3, 4), Ints(-12, 12, 5)),
    row(
        "take_along_dim", lambda x, i: x.take_along_dim(i.long() if lib(x) is torch else i, 1), (3, 4), Ints(0, 4, 3, 2)
    ),
    row("index_add", lambda x, i, s: x.index_add(0, i, s), (3, 4), Data([0, 2, 0], "int32"), (3, 4)),
    row(
        "index_copy",
        lambda x, i, s: x.index_copy(0, i.long() if lib(x) is torch else i, s),
        (3, 4),
        Data([0, 2], "int32"),
        (2, 4),
    ),
    row(
        "index_fill",
        lambda x, i: x.index_fill(1, i.long() if lib(x) is torch else i, 3.0),
        (3, 4),
        Data([0, 2], "int32"),
    ),
    row("masked_scatter", lambda x, s: x.masked_scatter(x > 0, s), (3, 4), (12,)),
    row("select_scatter", lambda x, s: x.select_scatter(s, 0, 1), (3, 4), (4,)),
    row("slice_scatter", lambda x, s: x.slice_scatter(s, 1, 1, 3), (3, 4), (3, 2)),
    row("diagonal_scatter", lambda x, s: x.diagonal_scatter(s), (3, 4), (3,)),
    row(
        "searchsorted",
        lambda x, v: lib(x).searchsorted(x, v),
        Data([1.0, 2.0, 4.0]),
        Data([0.0, 1.0, 3.0, 5.0]),
        gradient=False,
    ),
    row(
        "searchsorted, right",
        lambda x, v: lib(x).searchsorted(x, v, right=True),
        Data([1.0, 2.0, 4.0]),
        Data([0.0, 1.0, 3.0, 5.0]),
        gradient=False,
    ),
    row(
        "bucketize",
        lambda v, x: lib(x).bucketize(v, x),
        Data([0.0, 1.0, 3.0, 5.0]),
        Data([1.0, 2.0, 4.0]),
        gradient=False,
    ),
    row("isin", lambda x, y: lib(x).isin(x, y), Ints(0, 9, 3, 4), Ints(0, 9, 3)),
    # Sizes that depend on data.
    row("masked_select", lambda x: x.masked_select(x > 0), (4, 3), gradient=False),
    row("masked_select by one True", lambda x, m: x.masked_select(m), (3,), Data(True, bool), gradient=False),
    row(
        "masked_select of a size",
        lambda x: x.masked_select(x > 0, size=5),
        Data([1.0, -1.0, 2.0]),
        numpy=lambda x: np.array([1, 2, 0, 0, 0], np.float32),
    ),
    row(
        "masked_select, cut and filled",
        lambda x: (x.masked_select(x > 0, size=1), x.masked_select(x > 0, size=3, fill_value=7)),
        Data([1.0, -1.0, 2.0]),
        numpy=lambda x: (np.array([1], np.float32), np.array([1, 2, 7], np.float32)),
    ),
    *(
        row(f"nonzero of {shape}", lambda x: (x > 0).nonzero(), shape, gradient=False)
        for shape in ((5,), (3, 4), (2, 3, 2), (0,), (2, 0))
    ),
    *(
        row(f"nonzero of 0-d {dtype}", lambda x: x.nonzero(), Data(1, dtype), gradient=False)
        for dtype in ("float32", "int32", "bool")
    ),
    row(
        "nonzero of a size",
        lambda x: x.nonzero(size=3),
        Data([0, 1, 1], "int32"),
        numpy=lambda x: np.array([[1], [2], [0]], np.int32),
    ),
    row("argwhere", lambda x: lib(x).argwhere(x > 0), (3, 4), gradient=False),
    *(
        row(
            f"one_hot of {shape}",
            lambda x: x.one_hot(5),
            Ints(0, 5, *shape),
            theirs=lambda x: torch.nn.functional.one_hot(x.long(), 5),
        )
        for shape in ((4,), (2, 3), ())
    ),
    row(
        "one_hot outside is zeros",
        lambda x: x.one_hot(3),
        Data([0, 5, -1], "int32"),
        numpy=lambda x: np.array([[1, 0, 0], [0] * 3, [0] * 3], np.int32),
    ),
    # Errors.
    *(
        error(f"[{name}]", IndexError, "", call, (2, 3), both=name != "two ellipses")
        for name, call in {
            "int outside": lambda x: x[2],
            "negative int outside": lambda x: x[0, -4],
            "too many": lambda x: x[0, 0, 0],
            "two ellipses": lambda x: x[..., ...],
            "too many slices": lambda x: x[:, :, :],
            "a float tensor": lambda x: x[x],
        }.items()
    ),
    error(
        "[indices that do not broadcast]",
        (IndexError, ValueError),
        "broadcast|shape",
        lambda x: x[[0, 1], [0, 1, 2]],
        (2, 3),
    ),
    error("step 0", ValueError, "step", lambda x: x[::0], (2, 3)),
    error("a tensor in a slice", TypeError, "", lambda x, i: x[i:], (2, 3), (2,)),
    error("del", TypeError, "", lambda x: x.__delitem__(0), (2, 3), both=False),
    error("gather: rank", (RuntimeError, ValueError), "gather", lambda x, i: x.gather(0, i), (2, 3), Ints(0, 2, 2)),
    error(
        "gather: index too large",
        (RuntimeError, ValueError),
        "gather",
        lambda x, i: x.gather(0, i),
        (2, 3),
        Ints(0, 2, 2, 4),
    ),
    error("gather outside", IndexError, "axis", lambda x, i: x.gather(3, i), (2, 3), Ints(0, 2, 2, 3)),
    error(
        "scatter: dtype",
        RuntimeError,
        "dtype|float",
        lambda x, i, s: x.scatter(0, i, s),
        (2, 3),
        Ints(0, 2, 2, 3),
        Ints(0, 2, 2, 3),
    ),
    error(
        "scatter: reduce with a tensor",
        TypeError,
        "",
        lambda x, i, s: x.scatter(0, i, s, reduce="add"),
        (2, 3),
        Ints(0, 2, 2, 3),
        (2, 3),
        both=False,
    ),
    error(
        "scatter: unknown keyword",
        TypeError,
        "",
        lambda x, i: x.scatter(0, i, value=1, other=2),
        (2, 3),
        Ints(0, 2, 2, 3),
    ),
    error(
        "scatter_reduce: unknown mode",
        RuntimeError,
        "reduce|mode",
        lambda x, i, s: x.scatter_reduce(0, i, s, "typo"),
        (2, 3),
        Ints(0, 2, 2, 3),
        (2, 3),
    ),
    error(
        "scatter_reduce: dtype",
        RuntimeError,
        "dtype|float",
        lambda x, i, s: x.scatter_reduce(0, i, s, "sum"),
        (2, 3),
        Ints(0, 2, 2, 3),
        Ints(0, 2, 2, 3),
    ),
    error("masked_select: mask no bool", RuntimeError, "bool", lambda x: x.masked_select(x), (3,)),
    error("one_hot: negative count", ValueError, "class", lambda x: x.one_hot(-3), Ints(0, 2, 3), both=False),
    error(
        "write: dtype", RuntimeError, "dtype|float|int", lambda x, v: put(x, 0, v), (2, 3), Ints(0, 2, 3), both=False
    ),
    error("write: shape", (RuntimeError, ValueError), "", lambda x: put(x, 0, lambda y: y), (2, 3)),
]


def inplace(x):
    x = x.clone()
    x[1] += 2.0
    x[:, 1] *= 3.0
    return x


def through_view(x):
    x = x.clone()
    view = x[1]
    view[2] = 42.0
    return x


def kept(x):
    x = x.clone()
    before = x[0]
    if lib(x) is not torch:
        before = before * 1
        x[0] = 7.0
    return before * 1
