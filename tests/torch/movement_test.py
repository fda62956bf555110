"""Shapes, axes, joining and splitting, padding."""

import numpy as np
import tensord
import torch
import torch.nn.functional as F
from table import Data, Ints, error, lib, row, test_row  # noqa: F401

INF = float("inf")
RuntimeErrors = (RuntimeError, ValueError)


def same(calls, *inputs, **options):
    """A row for each call, by the words in which it stands here: {name: call}."""
    return [row(name, call, *inputs, **options) for name, call in calls.items()]


def pad(x, amounts, mode="constant", value=0.0):
    return F.pad(x, amounts, mode, value) if lib(x) is torch else x.pad(amounts, mode, value)


def edge(x, amounts, mode):
    """F.pad in modes that PyTorch has for some ranks only, by NumPy."""
    pairs = list(zip(amounts[::2], amounts[1::2]))[::-1]
    return np.pad(
        x,
        [(0, 0)] * (x.ndim - len(pairs)) + pairs,
        {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode],
    )


ROWS = [
    # reshape, expand, permute, flip.
    *same(
        {
            "reshape": lambda x: x.reshape(4, 6),
            "reshape by a tuple": lambda x: x.reshape((2, 12)),
            "reshape -1": lambda x: x.reshape(-1, 3),
            "reshape to one axis": lambda x: x.reshape(-1),
            "view": lambda x: x.view(6, 4),
            "flatten": lambda x: x.flatten(),
            "flatten from 1": lambda x: x.flatten(1),
            "flatten to 1": lambda x: x.flatten(0, 1),
            "flatten one": lambda x: x.flatten(1, 1),
            "flatten negative": lambda x: x.flatten(-2, -1),
            "unflatten": lambda x: x.unflatten(2, (2, 2)),
            "unflatten -1": lambda x: x.unflatten(-1, (-1, 2)),
            "permute": lambda x: x.permute(2, 0, 1),
            "permute negative": lambda x: x.permute(-1, 0, -2),
            "permute by a tuple": lambda x: x.permute((1, 2, 0)),
            "transpose": lambda x: x.transpose(0, 2),
            "transpose negative": lambda x: x.transpose(-1, -2),
            "swapaxes": lambda x: x.swapaxes(0, 1),
            "swapdims": lambda x: x.swapdims(0, 2),
            "mT": lambda x: x.mT,
            "movedim": lambda x: x.movedim(0, 2),
            "movedim of several": lambda x: x.movedim((0, 1), (2, 0)),
            "moveaxis": lambda x: x.moveaxis(-1, 0),
            "flip": lambda x: x.flip(0),
            "flip two": lambda x: x.flip(0, 2),
            "flip by a tuple": lambda x: x.flip((1, -1)),
            "flip none": lambda x: x.flip(()),
            "fliplr": lambda x: x.fliplr(),
            "flipud": lambda x: x.flipud(),
            "rot90": lambda x: x.rot90(),
            "rot90 thrice": lambda x: x.rot90(3, (1, 2)),
            "ravel": lambda x: x.ravel(),
            "unsqueeze 0": lambda x: x.unsqueeze(0),
            "unsqueeze -1": lambda x: x.unsqueeze(-1),
            "unsqueeze at the end": lambda x: x.unsqueeze(3),
            "expand a new axis": lambda x: x.expand(5, 2, 3, 4),
            "expand -1": lambda x: x.expand(5, -1, -1, -1),
            "expand_as": lambda x: x.sum(1, True).expand_as(x),
            "view_as": lambda x: x.view_as(x.reshape(24)),
            "reshape_as": lambda x: x.reshape_as(x.reshape(4, 6)),
            "broadcast_to": lambda x: x.broadcast_to((2, 2, 3, 4)),
            "roll": lambda x: x.roll(1),
            "roll axis": lambda x: x.roll(1, 0),
            "roll by more than the size": lambda x: x.roll(13, 2),
            "roll negative": lambda x: x.roll(-2, -1),
            "roll several": lambda x: x.roll((1, -1), (0, 2)),
            "roll by 0": lambda x: x.roll(0, 1),
            "roll without axes": lambda x: x.roll(5),
            "repeat": lambda x: x.repeat(2, 1, 3),
            "repeat with leading factors": lambda x: x.repeat(2, 3, 1, 1, 2),
            "repeat 0 times": lambda x: x.repeat(1, 0, 2),
            "repeat by a tuple": lambda x: x.repeat((1, 2, 1)),
            "tile": lambda x: x.tile((2, 2)),
            "repeat_interleave": lambda x: x.repeat_interleave(3),
            "repeat_interleave axis 0": lambda x: x.repeat_interleave(2, 0),
            "repeat_interleave last": lambda x: x.repeat_interleave(2, -1),
            "narrow": lambda x: x.narrow(2, 1, 2),
            "select": lambda x: x.select(1, 2),
            "unbind": lambda x: x.unbind(1),
            "atleast_3d": lambda x: lib(x).atleast_3d(x),
            "adjoint": lambda x: x.adjoint(),
            "diagonal": lambda x: x.diagonal(),
            "diagonal offset 1": lambda x: x.diagonal(1),
            "diagonal offset -1": lambda x: x.diagonal(-1),
            "diagonal of other axes": lambda x: x.diagonal(0, 1, 2),
            "diagonal of last, offset": lambda x: x.diagonal(2, -1, -2),
            "diagonal outside": lambda x: x.diagonal(9),
            "diag_embed": lambda x: lib(x).diag_embed(x),
            "diag_embed offset": lambda x: lib(x).diag_embed(x, 1),
            "diag_embed axes": lambda x: lib(x).diag_embed(x, 0, 0, 2),
        },
        (2, 3, 4),
    ),
    row("reshape None keeps", lambda x: x.reshape(None, 12), (2, 3, 4), theirs=lambda x: x.reshape(2, 12)),
    row("expand None keeps", lambda x: x.expand(None, 5), (3, 1), theirs=lambda x: x.expand(-1, 5)),
    row("transpose has defaults", lambda x: x.transpose(), (2, 3, 4), theirs=lambda x: x.transpose(0, 1)),
    row("T swaps the first two axes", lambda x: x.T, (2, 3), theirs=lambda x: x.T),
    row("reshape 0-d to 1", lambda x: x.reshape(1, 1), ()),
    row("reshape to 0-d", lambda x: x.reshape(()), (1,)),
    row("reshape of nothing", lambda x: x.reshape(3, 0), (0, 5)),
    row("permute 0-d", lambda x: x.permute(()), ()),
    row("flip 0-d", lambda x: x.flip(()), ()),
    row("expand to 0", lambda x: x.expand(0, 3), (1, 3)),
    row("expand of 0-d", lambda x: x.expand(2, 3), ()),
    row("flatten 0-d", lambda x: x.flatten(), ()),
    row("squeeze", lambda x: x.squeeze(), (1, 3, 1, 2)),
    row("squeeze 0", lambda x: x.squeeze(0), (1, 3, 1)),
    row("squeeze of an axis not 1", lambda x: x.squeeze(1), (1, 3, 1)),
    row("squeeze negative", lambda x: x.squeeze(-1), (1, 3, 1)),
    row("squeeze several", lambda x: x.squeeze((0, 2)), (1, 3, 1)),
    row("squeeze 0-d", lambda x: x.squeeze(), ()),
    row("squeeze axis of 0-d", lambda x: x.squeeze(0), ()),
    row("unsqueeze 0-d", lambda x: x.unsqueeze(0), ()),
    row("squeeze of an empty tensor", lambda x: x.squeeze(), (1, 0, 1)),
    row("roll of nothing", lambda x: x.roll(2, 0), (0, 3)),
    row("t", lambda x: x.t(), (2, 3)),
    row("t of a vector", lambda x: x.t(), (3,)),
    row("diag of a vector", lambda x: x.diag(), (4,)),
    row("diag with an offset", lambda x: x.diag(1), (4,)),
    row("diag of a matrix", lambda x: x.diag(), (4, 5)),
    row("diagflat", lambda x: lib(x).diagflat(x), (2, 2)),
    row("diagonal, rectangular", lambda x: x.diagonal(-2), (5, 3)),
    row("trace", lambda x: x.trace(), (3, 4)),
    *(
        row(f"{name} {k}", lambda x, name=name, k=k: getattr(x, name)(k), (4, 5))
        for name in ("tril", "triu")
        for k in range(-6, 7)
    ),
    *(
        row(f"{name} of {kind}", lambda x, name=name: getattr(x, name)(), shape, dtype=dtype)
        for name in ("tril", "triu")
        for kind, shape, dtype in (
            ("batches", (2, 3, 3), "float32"),
            ("an empty axis", (5, 0, 3), "float32"),
            ("bools", (4, 4), "bool"),
            ("ints", (4, 4), "int32"),
            ("5-D", (2, 1, 3, 4, 2), "float32"),
        )
    ),
    row(
        "rearrange",
        lambda x: x.rearrange("b (h w) c -> b c h w", h=2),
        (2, 6, 4),
        theirs=lambda x: x.reshape(2, 2, 3, 4).permute(0, 3, 1, 2),
    ),
    row(
        "rearrange with ...",
        lambda x: x.rearrange("a ... c -> (a c) ..."),
        (2, 3, 4),
        theirs=lambda x: x.permute(0, 2, 1).reshape(8, 3),
    ),
    row("rearrange with 1", lambda x: x.rearrange("a b -> a 1 b"), (2, 3), theirs=lambda x: x.unsqueeze(1)),
    row("shrink", lambda x: x.shrink(((0, 2), (1, 3))), (3, 4), theirs=lambda x: x[0:2, 1:3]),
    row("shrink None keeps", lambda x: x.shrink((None, (1, 3))), (3, 4), theirs=lambda x: x[:, 1:3]),
    row("shrink_to", lambda x: x.shrink_to(2, None), (3, 4), theirs=lambda x: x[:2]),
    row("pad_to", lambda x: x.pad_to(5, None), (3, 4), theirs=lambda x: F.pad(x, (0, 0, 0, 2))),
    # Joining and splitting.
    *(
        row(f"cat along {dim}", lambda x, y, dim=dim: lib(x).cat([x, y], dim), (2, 3, 4), (2, 3, 4))
        for dim in (0, 1, 2, -1)
    ),
    *(
        row(f"stack along {dim}", lambda x, y, dim=dim: lib(x).stack([x, y], dim), (2, 3), (2, 3))
        for dim in (0, 1, 2, -1)
    ),
    row("cat, unequal", lambda x, y, z: lib(x).cat([x, y, z], 1), (2, 3), (2, 1), (2, 4)),
    row("cat with an empty operand", lambda x, y: lib(x).cat([x, y], 1), (2, 3), (2, 0)),
    row("cat of a single one", lambda x: lib(x).cat([x]), (2, 3)),
    row("cat promotes", lambda x, y: lib(x).cat([x, y]), (2,), Ints(0, 5, 2)),
    row("cat, method", lambda x, y: x.cat(y, dim=1), (2, 3), (2, 2), theirs=lambda x, y: torch.cat([x, y], 1)),
    row("stack, method", lambda x, y: x.stack(y, dim=1), (2, 3), (2, 3), theirs=lambda x, y: torch.stack([x, y], 1)),
    row("stack of 0-d", lambda x, y: lib(x).stack([x, y]), (), ()),
    row("concat", lambda x, y: lib(x).concat([x, y]), (2,), (3,)),
    *(
        row(name, lambda x, y, name=name: getattr(lib(x), name)([x, y]), (2, 3), (2, 3))
        for name in ("hstack", "vstack", "dstack", "column_stack")
    ),
    *(
        row(f"{name} of vectors", lambda x, y, name=name: getattr(lib(x), name)([x, y]), (3,), (3,))
        for name in ("hstack", "vstack", "dstack", "column_stack")
    ),
    row("split by 3 of 10", lambda x: x.split(3), (10, 2)),
    row("split sizes", lambda x: x.split((2, 5, 3)), (10, 2)),
    row("split along 1", lambda x: x.split(2, 1), (2, 5)),
    row("split 10000 by 2500", lambda x: x.split(2500), (10000,), gradient=False),
    *(row(f"chunk 13 into {n}", lambda x, n=n: x.chunk(n), (13,)) for n in (1, 2, 3, 6, 7, 13, 20)),
    row("chunk along -1", lambda x: x.chunk(3, -1), (2, 7)),
    row("chunk along 1", lambda x: x.chunk(2, 1), (2, 6, 2)),
    *(row(f"tensor_split {arg}", lambda x, arg=arg: x.tensor_split(arg), (7, 2)) for arg in (3, (2, 5), (0, 9))),
    row("hsplit and vsplit", lambda x: (*x.hsplit(2), *x.vsplit(2)), (4, 4)),
    *(
        row(f"meshgrid {indexing}", lambda x, y, i=indexing: lib(x).meshgrid(x, y, indexing=i), (3,), (4,))
        for indexing in ("ij", "xy")
    ),
    row("meshgrid of one", lambda x: lib(x).meshgrid(x, indexing="ij"), (3,)),
    row("meshgrid with 0-d", lambda x, y: lib(x).meshgrid(x, y, indexing="ij"), (), (3,)),
    row(
        "meshgrid method",
        lambda x, y: x.meshgrid(y),
        (3,),
        (2,),
        theirs=lambda x, y: torch.meshgrid(x, y, indexing="ij"),
    ),
    row("broadcast_tensors", lambda x, y: lib(x).broadcast_tensors(x, y), (3, 1), (4,)),
    *(
        row(f"unfold {args}", lambda x, args=args: x.unfold(*args), (8, 5))
        for args in ((0, 3, 1), (0, 0, 1), (0, 7, 3), (0, 2, 9), (-1, 2, 2), (1, 5, 1), (0, 8, 1))
    ),
    row("pixel_shuffle", lambda x: (F if lib(x) is torch else tensord).pixel_shuffle(x, 2), (1, 8, 2, 3)),
    row("pixel_unshuffle", lambda x: (F if lib(x) is torch else tensord).pixel_unshuffle(x, 2), (1, 2, 4, 6)),
    # Padding.
    *(
        row(f"pad {amounts}, {value}", lambda x, a=amounts, v=value: pad(x, a, value=v), (3, 4, 5))
        for amounts in (
            (1, 2),
            (1, 2, 3, 4),
            (0, 0, 1, 1),
            (1, 0, 0, 2, 3, 1),
            (-1, 2),
            (-1, -2),
            (1, 1, -1, -1),
            (-2, -3),
            (0, 0),
        )
        for value in (0.0, 5.0)
    ),
    *(
        row(f"pad with {value}", lambda x, v=value: pad(x, (1, 2, 0, 1), value=v), (2, 3), gradient=False)
        for value in (INF, -INF)
    ),
    row("pad by pairs, in order", lambda x: x.pad(((1, 2), (3, 0))), (2, 3), theirs=lambda x: F.pad(x, (3, 0, 1, 2))),
    row("pad by pairs with None", lambda x: x.pad((None, (1, 2))), (2, 3), theirs=lambda x: F.pad(x, (1, 2))),
    row("pad of ints", lambda x: pad(x, (1, 2), value=7), Ints(0, 9, 2, 3)),
    row("pad of bools", lambda x: pad(x, (1, 2)), Data([[True, False]], bool)),
    *(
        row(f"{mode} pad {amounts} of {shape}", lambda x, a=amounts, m=mode: pad(x, a, m), shape)
        for mode in ("reflect", "replicate", "circular")
        for amounts, shape in (
            ((1, 2), (2, 2, 5)),
            ((2, 1, 1, 2), (1, 2, 4, 5)),
            ((1, 0, 2, 1, 1, 1), (1, 2, 3, 4, 5)),
            ((0, 0), (2, 2, 5)),
            ((4, 4), (1, 2, 5)),
        )
    ),
    *(
        row(
            f"{mode} pad of a vector",
            lambda x, m=mode: x.pad((2, 3), m),
            (6,),
            numpy=lambda x, m=mode: edge(x, (2, 3), m),
        )
        for mode in ("reflect", "replicate", "circular")
    ),
    *(
        row(f"{mode} pad, negative", lambda x, m=mode: pad(x, (-1, 2, 1, -2), m), (1, 2, 5, 6))
        for mode in ("reflect", "replicate")
    ),
    row("circular pad by a whole turn", lambda x: pad(x, (5, 5), "circular"), (1, 2, 5)),
    row("replicate pad by far", lambda x: pad(x, (20, 30), "replicate"), (1, 2, 3)),
    row("pad, then reshape", lambda x: pad(x, (0, 2)).reshape(-1), (2, 3)),
    row("pad, then slice into it", lambda x: pad(x, (3, 3), value=3.456)[:, 1:5], (2, 3)),
    row("pad, then slice out of it", lambda x: pad(x, (3, 3), value=0.0)[:, :3], (2, 3)),
    row("pad an axis to nothing", lambda x: pad(x, (-2, -1)), (2, 3)),
    row("pad of nothing", lambda x: pad(x, (1, 1, 2, 0)), (0, 3)),
    # Errors.
    error("reshape: sizes that do not fit", ValueError, "reshape", lambda x: x.reshape(5), (2, 3)),
    error("reshape: two -1", RuntimeError, "-1", lambda x: x.reshape(-1, -1), (2, 3)),
    error("reshape [] of many", ValueError, "", lambda x: x.reshape([]), (2, 3)),
    *(
        error(f"permute {order}", RuntimeError, "permut|axes|axis", lambda x, o=order: x.permute(o), (2, 3, 4))
        for order in ((0, 1), (0, 0, 1), (0, 1, 2, 3), (0, 1, -2))
    ),
    error("permute to an axis outside", IndexError, "axis", lambda x: x.permute(0, 1, 5), (2, 3, 4)),
    *(
        error(f"flip {axes}", RuntimeError, "axis|flip", lambda x, a=axes: x.flip(a), (2, 3))
        for axes in ((0, 0), (1, -1))
    ),
    error("flip outside", IndexError, "axis", lambda x: x.flip(2), (2, 3)),
    *(error(f"squeeze {dim}", IndexError, "axis", lambda x, d=dim: x.squeeze(d), (1, 3)) for dim in (2, -3, 50)),
    *(error(f"unsqueeze {dim}", IndexError, "axis", lambda x, d=dim: x.unsqueeze(d), (1, 3)) for dim in (4, -4)),
    error("transpose outside", IndexError, "axis", lambda x: x.transpose(0, 5), (2, 3)),
    *(
        error(f"expand {shape}", RuntimeErrors, "expand|broadcast", lambda x, s=shape: x.expand(s), (4, 3, 1, 6))
        for shape in ((4, 1, 1, 6), (4, 2, 3, 6), (1, 3, 5, 6), (3, 1, 6))
    ),
    error("diagonal of one axis", RuntimeError, "axis|axes", lambda x: x.diagonal(0, 1, 1), (2, 3)),
    error("diag of three axes", RuntimeErrors, "diag", lambda x: x.diag(), (2, 3, 4)),
    error("roll: lengths differ", RuntimeError, "roll", lambda x: x.roll((1, 2), (0,)), (2, 3)),
    error("repeat: too few factors", (ValueError, RuntimeError), "repeat", lambda x: x.repeat(2), (2, 3)),
    error("cat of 0-d", (IndexError, RuntimeError), "cat", lambda x: lib(x).cat([x, x]), ()),
    error(
        "cat: other axes differ",
        RuntimeErrors + (AssertionError,),
        "cat",
        lambda x, y: lib(x).cat([x, y]),
        (2, 3),
        (2, 4),
    ),
    error("cat outside", IndexError, "axis", lambda x: lib(x).cat([x, x], 3), (2, 3)),
    error("stack along 77", IndexError, "axis", lambda x: lib(x).stack([x], 77), (2, 3)),
    error("stack: shapes differ", RuntimeErrors, "stack", lambda x, y: lib(x).stack([x, y]), (2,), (3,)),
    error("split: sizes that do not add up", RuntimeErrors, "split", lambda x: x.split((2, 2)), (10, 2)),
    error("chunk into 0", RuntimeErrors, "chunk", lambda x: x.chunk(0), (3,)),
    error(
        "meshgrid: unknown indexing", RuntimeError, "indexing", lambda x: lib(x).meshgrid(x, x, indexing="bad"), (3,)
    ),
    error("unfold: size too large", RuntimeError, "unfold|window", lambda x: x.unfold(0, 9, 1), (8,)),
    error("unfold: step -1", RuntimeError, "step", lambda x: x.unfold(0, 2, -1), (8,)),
    error("unfold outside", IndexError, "axis", lambda x: x.unfold(1, 2, 1), (8,)),
    error("pad: odd count", RuntimeErrors, "pad", lambda x: pad(x, (1, 2, 3)), (2, 3)),
    error("pad: too many", RuntimeErrors, "pad", lambda x: pad(x, (1, 1, 1, 1, 1, 1)), (2, 3)),
    error("pad: unknown mode", NotImplementedError, "mode", lambda x: pad(x, (1, 1), "typo"), (1, 2, 3)),
    error("reflect pad by the size", RuntimeErrors, "reflect", lambda x: pad(x, (3, 3), "reflect"), (1, 2, 3)),
    error(
        "circular pad by more than a turn", RuntimeErrors, "circular", lambda x: pad(x, (4, 0), "circular"), (1, 2, 3)
    ),
    error("pad by too much, negative", RuntimeErrors, "pad", lambda x: pad(x, (-2, -2)), (2, 3)),
    error("T of a vector", (RuntimeError, IndexError), "T|ax", lambda x: x.T, (3,), both=False),
    row("repeat_interleave by a tensor", lambda x, r: x.repeat_interleave(r, 1), (2, 3, 2), Data([2, 0, 1], "int64")),
    row("repeat_interleave by one number in a tensor", lambda x, r: x.repeat_interleave(r), (2, 3), Data([2], "int64")),
    row("repeat_interleave of a known size", lambda x, r: x.repeat_interleave(r, 0, output_size=3), (2, 3),
        Data([1, 2], "int64")),
    row("repeat_interleave of repeats", lambda r: lib(r).repeat_interleave(r), Data([1, 0, 3], "int64")),
    row("tensor_split at a tensor", lambda x, i: x.tensor_split(i, 1), (2, 5), Data([1, 3], "int64")),
]
