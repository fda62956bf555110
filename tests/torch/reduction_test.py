"""Reductions, running reductions, order."""

import numpy as np
import torch
from table import Data, Ints, error, lib, row, test_row  # noqa: F401

INF, NAN = float("inf"), float("nan")
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
SHAPE = (3, 4, 5)
AXES = (0, 1, -1, (0, 2), (1, 2), (0, 1, 2))
# What has no identity needs elements; torch's prod, max, argmax, cumsum take a single axis.
SUMS = {
    "sum": lambda x, *a: x.sum(*a),
    "mean": lambda x, *a: x.mean(*a),
    "amax": lambda x, *a: x.amax(*a),
    "amin": lambda x, *a: x.amin(*a),
    "logsumexp": lambda x, *a: x.logsumexp(*a),
}
TESTS = {"any": lambda x, *a: x.any(*a), "all": lambda x, *a: x.all(*a)}
EXTREMES = {"max": lambda x, *a: x.max(*a), "min": lambda x, *a: x.min(*a)}
INDICES = {"argmax": lambda x, *a: x.argmax(*a), "argmin": lambda x, *a: x.argmin(*a)}
RUNNING = {
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "cummax": lambda x, d: x.cummax(d),
    "cummin": lambda x, d: x.cummin(d),
}


def values(result):
    """Ours gives the values alone, PyTorch a pair."""
    return result[0] if isinstance(result, tuple) else result


ROWS = [
    # Axes.
    *(row(f"{name} over all", lambda x, c=call: c(x), SHAPE) for name, call in SUMS.items() if name in ("sum", "mean")),
    *(
        row(f"{name} over {axis}, keepdim {keep}", lambda x, c=call, a=axis, k=keep: c(x, a, k), SHAPE)
        for name, call in SUMS.items()
        for axis in AXES
        for keep in (False, True)
    ),
    *(
        row(f"{name} over {axis}", lambda x, c=call, a=axis: c(x > 1, a), SHAPE)
        for name, call in TESTS.items()
        for axis in (0, -1, (0, 2))
    ),
    *(
        row(f"{name} of {dtype} over {axis}, keepdim", lambda x, c=call, a=axis: c(x, a, True), (3, 4), dtype=dtype)
        for name, call in TESTS.items()
        for axis in (0, 1)
        for dtype in ("float32", "int32", "bool")
    ),
    *(
        row(f"{name} of 0-d over {axis}", lambda x, c=call, a=axis: c(x, a), ())
        for name, call in SUMS.items()
        for axis in (0, -1)
    ),
    *(
        row(f"{name} of 0-d", lambda x, c=call: c(x), ())
        for name, call in (*TESTS.items(), ("sum", SUMS["sum"]), ("mean", SUMS["mean"]))
    ),
    *(
        row(f"{name} of 0-d over {axis}", lambda x, c=call, a=axis: c(x, a), ())
        for name, call in TESTS.items()
        for axis in (0, -1)
    ),
    *(row(f"{name} over axes of size 1", lambda x, c=call: c(x, (0, 2)), (1, 3, 1)) for name, call in SUMS.items()),
    *(
        row(f"{name} of (4, 0) over {axis}", lambda x, c=SUMS[name], a=axis: c(x, a), (4, 0))
        for name in ("sum", "mean", "logsumexp")
        for axis in (0, 1)
    ),
    *(
        row(f"{name} of (1, 0, 3, 0, 5) over {axis}", lambda x, c=call, a=axis: c(x > 0, a), (1, 0, 3, 0, 5))
        for name, call in TESTS.items()
        for axis in (0, 1, 2, (1, 3), (0, 4))
    ),
    *(row(f"{name} of nothing", lambda x, c=call: c(x > 0), (0,)) for name, call in TESTS.items()),
    row("sum of nothing", lambda x: x.sum(), (0,)),
    row("prod of nothing", lambda x: x.prod(), (0, 3)),
    row("mean of nothing is NaN", lambda x: x.mean(), (0,), gradient=False),
    *(
        row(
            f"{name} of {len(shape)}-d over no axes, keepdim {keep}",
            lambda x, n=name, k=keep: getattr(lib(x), n)(x, dim=(), keepdim=k),
            shape,
            gradient=name[:3] not in ("var", "std"),  # PyTorch's is infinite
        )
        for name in ("sum", "mean", "nansum", "nanmean", "amax", "amin", "var", "std", "var_mean", "norm", "any", "all")
        for shape in (SHAPE, (4,))
        for keep in (False, True)
    ),
    row("count_nonzero over no axes", lambda x: lib(x).count_nonzero(x, dim=()), SHAPE),
    row("logsumexp over no axes, keepdim", lambda x: x.logsumexp((), True), SHAPE),
    row("vector_norm over no axes", lambda x: lib(x).linalg.vector_norm(x, dim=()), SHAPE),
    error("linalg.norm over no axes", (RuntimeError, ValueError), "axes", lambda x: lib(x).linalg.norm(x, dim=()), SHAPE),
    row("sum of 0-d axis=()", lambda x: x.sum(()), ()),
    row("sum axis named axis", lambda x: x.sum(axis=1), SHAPE),
    row("sum dim named dim", lambda x: x.sum(dim=1, keepdim=True), SHAPE),
    row("sum in float64", lambda x: x.sum(dtype=lib(x).float64), (9,)),
    row("sum of int8 is int32", lambda x: x.sum(), Ints(-99, 99, 99, dtype="int8"), form=False),
    row("sum of bools counts", lambda x: (x > 0).sum(), (99,), form=False),
    row("sum of uint8 is uint32", lambda x: x.sum(), Ints(0, 255, 99, dtype="uint8"), form=False),
    row("sum of int32 over axes", lambda x: x.sum((0, 1)), Ints(-9, 9, 3, 4, 5), form=False),
    row("prod of int8 stays", lambda x: x.prod(), Ints(1, 3, 5, dtype="int8"), form=False),
    row("16384 elements", lambda x: x.sum(), (16384,), forward=(1e-4, 1e-3)),
    row("16384 elements by rows", lambda x: x.sum(1), (4, 4096), forward=(1e-4, 1e-3)),
    row("sum of a constant", lambda x: (x * 0 + 2).sum(), (7,)),
    row("sum of ones", lambda x: lib(x).ones(3, 4).sum(0), (1,), gradient=False),
    row("sum of padded", lambda x: lib(x).cat([x, lib(x).zeros(3)]).sum(), (4,)),
    row(
        "sum of concatenated constants",
        lambda x: lib(x).cat([lib(x).ones(3), lib(x).zeros(2)]).sum(),
        (1,),
        gradient=False,
    ),
    row("sums of sums", lambda x: (x.sum(0), x.sum(0).sum(0), x.sum((0, 1))), (5, 6)),
    row("sum of an expanded tensor", lambda x: x.expand(6, 3).sum(0), (1, 3)),
    row("sum of a permuted tensor", lambda x: x.permute(2, 0, 1).sum(0), SHAPE),
    row("mean of means", lambda x: (x - x.mean(0)).mean(1), (5, 6)),
    row("mean of ints is float32", lambda x: x.mean(), Ints(-9, 9, 7), theirs=lambda x: x.float().mean()),
    row(
        "mean of float16 accumulates wider",
        lambda x: x.mean(),
        (5000,),
        dtype="float16",
        low=1,
        high=2,
        gradient=False,
        forward=(1e-3, 1e-3),
    ),
    row(
        "sum of float16 accumulates wider",
        lambda x: x.sum(),
        (5000,),
        dtype="float16",
        low=1,
        high=2,
        gradient=False,
        forward=(1e-3, 1e-3),
    ),
    *(row(f"all of {n} ones", lambda x: (x > 0).all(), (n,), low=1, gradient=False) for n in (2**15, 2**16, 2**20)),
    # prod, max, min.
    row("prod", lambda x: x.prod(), (9,)),
    row("prod over an axis", lambda x: x.prod(1), SHAPE),
    row("prod keepdim", lambda x: x.prod(-1, True), SHAPE),
    row("prod with a zero", lambda x: x.prod(), Data([2.0, 0.0, 3.0])),
    row("prod with two zeros", lambda x: x.prod(), Data([2.0, 0.0, 0.0])),
    row("prod over rows with zeros", lambda x: x.prod(1), Data([[1.0, 0.0, 3.0], [0.0, 0.0, 2.0], [1.0, 2.0, 3.0]])),
    row("prod of ints", lambda x: x.prod(), Ints(1, 4, 9), form=False),
    row("prod over axes", lambda x: x.prod((0, 2)), SHAPE, theirs=lambda x: x.prod(2).prod(0)),
    *(row(f"{name} over all", lambda x, c=call: c(x), SHAPE) for name, call in EXTREMES.items()),
    *(
        row(f"{name} over {axis}", lambda x, c=call, a=axis: values(c(x, a)), SHAPE)
        for name, call in EXTREMES.items()
        for axis in (0, 1, -1)
    ),
    *(row(f"{name} keepdim", lambda x, c=call: values(c(x, 1, True)), SHAPE) for name, call in EXTREMES.items()),
    *(
        row(
            f"{name} over several",
            lambda x, c=call: c(x, (0, 2)),
            SHAPE,
            theirs=lambda x, n=name: getattr(x, "a" + n)((0, 2)),
        )
        for name, call in EXTREMES.items()
    ),
    *(
        row(f"{name}, ties share the gradient", lambda x, c=call: c(x), Data([1.0, 2.0, 2.0, 1.0, 2.0, 1.0]))
        for name, call in EXTREMES.items()
    ),
    *(
        row(f"{name} of {kind}", lambda x, c=call: c(x), Data(data, dtype))
        for name, call in EXTREMES.items()
        for kind, data, dtype in (
            ("INT_MIN and INT_MAX", [INT_MIN, 0, INT_MAX], "int32"),
            ("INT_MIN alone", [INT_MIN], "int32"),
            ("bools", [True, False], "bool"),
            ("uint8", [0, 255, 7], "uint8"),
        )
    ),
    *(
        row(f"{name} propagates NaN", lambda x, c=call: c(x), Data([1.0, NAN, 3.0]), gradient=False)
        for name, call in EXTREMES.items()
    ),
    *(
        row(f"{name} of a full_like", lambda x, c=call: c(lib(x).full_like(x, 5)), (3,), gradient=False)
        for name, call in EXTREMES.items()
    ),
    *(
        row(
            f"{name} of nothing is the identity",
            lambda x, c=call: c(x, 1),
            (3, 0),
            numpy=lambda x, n=name: np.full(3, -INF if n == "max" else INF, np.float32),
        )
        for name, call in EXTREMES.items()
    ),
    row("aminmax", lambda x: lib(x).aminmax(x), (3, 4)),
    # var, std.
    *(
        row(
            f"{name} over {axis}, correction {c}",
            lambda x, n=name, a=axis, c=c: getattr(x, n)(a, correction=c),
            (3, 5, 4),
            gradient=c < 3,
        )
        for name in ("var", "std")
        for axis in (None, 0, 1, (0, 2))
        for c in (0, 1, 5)
    ),
    *(row(f"{name} keepdim", lambda x, n=name: getattr(x, n)(1, keepdim=True), (3, 4)) for name in ("var", "std")),
    *(
        row(f"{name} of axes of size 1", lambda x, n=name: getattr(x, n)(1), (3, 1), gradient=False)
        for name in ("var", "std")
    ),
    *(
        row(
            f"{name} of axes of size 1, correction 0",
            lambda x, n=name: getattr(x, n)(1, correction=0),
            (3, 1),
            gradient=False,
        )
        for name in ("var", "std")
    ),
    *(row(f"{name} of nothing", lambda x, n=name: getattr(x, n)(1), (3, 0), gradient=False) for name in ("var", "std")),
    *(row(f"{name}", lambda x, n=name: getattr(lib(x), n)(x, 1), (3, 4)) for name in ("var_mean", "std_mean")),
    row("std_mean of nothing", lambda x: lib(x).std_mean(x, 1), (3, 0), gradient=False),
    row("var of ints", lambda x: x.var(), Ints(-9, 9, 7), theirs=lambda x: x.float().var()),
    # argmax, argmin.
    *(row(f"{name} of all", lambda x, c=call: c(x), SHAPE) for name, call in INDICES.items()),
    *(
        row(f"{name} over {axis}", lambda x, c=call, a=axis: c(x, a), SHAPE)
        for name, call in INDICES.items()
        for axis in (0, 1, -1)
    ),
    *(row(f"{name} keepdim", lambda x, c=call: c(x, 1, True), SHAPE) for name, call in INDICES.items()),
    *(
        row(f"{name}, the first of ties", lambda x, c=call: (c(x), c(x, 0)), Data([2.0, 5.0, 5.0, 2.0, 5.0]))
        for name, call in INDICES.items()
    ),
    *(row(f"{name} of ~ints", lambda x, c=call: c(~x), Data([0, 3, 3, 2], "int32")) for name, call in INDICES.items()),
    *(
        row(f"{name} of INT_MIN", lambda x, c=call: c(x), Data([INT_MIN, INT_MIN, INT_MAX, INT_MAX], "int32"))
        for name, call in INDICES.items()
    ),
    *(
        row(f"{name} of INT_MIN alone", lambda x, c=call: c(x), Data([INT_MIN], "int32"))
        for name, call in INDICES.items()
    ),
    *(
        row(
            f"{name} of bools",
            lambda x, c=call: c(x),
            Data([False, True, True, False], bool),
            theirs=lambda x, c=call: c(x.int()),
        )
        for name, call in INDICES.items()
    ),
    *(row(f"{name} of 0-d", lambda x, c=call: (c(x), c(x, 0)), ()) for name, call in INDICES.items()),
    *(row(f"{name} with NaN", lambda x, c=call: c(x), Data([1.0, NAN, 3.0, NAN])) for name, call in INDICES.items()),
    # Running.
    *(
        row(f"{name} of {shape} along {dim}", lambda x, c=call, d=dim: values(c(x, d)), shape)
        for name, call in RUNNING.items()
        for shape, dim in (
            ((10,), 0),
            ((3, 4), 1),
            ((3, 4), 0),
            ((3, 4, 2), -2),
            ((), 0),
            ((), -1),
            ((1,), 0),
            ((0,), 0),
            ((3, 0), 1),
            ((0, 3), 1),
        )
    ),
    *(
        row(
            f"{name} of {n}",
            lambda x, c=call: values(c(x, 0)),
            (n,),
            low=0.9,
            high=1.1,
            forward=(1e-3, 1e-3),
            backward=(1e-2, 1e-2),
        )
        for name, call in RUNNING.items()
        for n in (512, 1022)
    ),
    row("cumsum has a default axis", lambda x: x.cumsum(), (3, 4), theirs=lambda x: x.cumsum(0)),
    row("cumsum of ints", lambda x: x.cumsum(0), Ints(-9, 9, 20), form=False),
    row("cumsum in float64", lambda x: x.cumsum(0, dtype=lib(x).float64), (5,)),
    row("cumprod with zeros", lambda x: x.cumprod(0), Data([2.0, 0.0, 3.0, 0.0, 5.0])),
    row("logcumsumexp far apart", lambda x: x.logcumsumexp(0), Data([0.0, 100.0, 0.0, -100.0])),
    *(row(f"{name} gives indices", lambda x, n=name: getattr(x, n)(0), (20,)) for name in ("cummax", "cummin")),
    *(
        row(
            f"{name}: the first of a tie",
            lambda x, n=name: getattr(x, n)(0)[1],
            Data([2.0, 2.0, 1.0, 2.0] if name == "cummax" else [1.0, 1.0, 2.0, 1.0]),
            numpy=lambda x: np.array([0, 0, 0, 0], np.int32),
        )
        for name in ("cummax", "cummin")
    ),
    # Order.
    *(
        row(f"sort of {n}, descending {d}", lambda x, d=d: x.sort(0, d), (n,))
        for n in (1, 2, 6, 8, 17, 64)
        for d in (False, True)
    ),
    row("sort of nothing", lambda x: x.sort(0), (0,)),
    row("sort along 1", lambda x: x.sort(1), SHAPE),
    row("sort last by default", lambda x: x.sort(), (3, 6)),
    row(
        "sort of 18 repeated is stable",
        lambda x: x.sort(0, False),
        Data([0, 1, 2] * 6, "int32"),
        theirs=lambda x: torch.sort(x, dim=0, stable=True),
    ),
    row(
        "sort of 18 repeated, descending, is stable",
        lambda x: x.sort(0, True),
        Data([0, 1, 2] * 6, "int32"),
        theirs=lambda x: torch.sort(x, dim=0, descending=True, stable=True),
    ),
    row(
        "sort puts NaN last",
        lambda x: x.sort(0),
        Data([NAN, 1.0, -INF, INF, NAN, 0.0]),
        gradient=False,
        theirs=lambda x: torch.sort(x, dim=0, stable=True),
    ),
    row("sort of INT_MIN", lambda x: x.sort(0), Data([3, INT_MIN, INT_MAX, 0], "int32")),
    row(
        "sort of bools",
        lambda x: x.sort(0),
        Data([True, False, True], bool),
        theirs=lambda x: torch.sort(x, dim=0, stable=True),
    ),
    row("sort of a row of 1000", lambda x: x.sort(0), (1000,)),
    row("argsort", lambda x: x.argsort(1), (3, 8)),
    row("argsort, descending", lambda x: x.argsort(-1, True), (3, 8)),
    row("msort", lambda x: lib(x).msort(x), (5, 2)),
    *(
        row(f"topk {k} of {n}, largest {largest}", lambda x, k=k, l=largest: x.topk(k, 0, l), (n,))
        for k, n in ((1, 5), (3, 5), (5, 5), (2, 16), (10, 33))
        for largest in (True, False)
    ),
    row("topk along 1", lambda x: x.topk(2, 1), SHAPE),
    row(
        "topk with ties",
        lambda x: x.topk(3),
        Data([1.0, 1.0, 1.0, 0.0, 1.0]),
        numpy=lambda x: (np.ones(3, np.float32), np.array([0, 1, 2], np.int32)),
    ),
    row("kthvalue", lambda x: lib(x).kthvalue(x, 2, 1), (3, 6)),
    row("median", lambda x: x.median(), (7,)),
    row("median along 1", lambda x: x.median(1), (3, 6)),
    row("nanmedian", lambda x: x.nanmedian(), Data([NAN, 3.0, 1.0]), gradient=False),
    row("mode", lambda x: x.mode(0)[0], Data([1, 2, 2, 3], "int32")),
    row("quantile", lambda x: x.quantile(0.3), (9,)),
    row("quantile along 1", lambda x, q: x.quantile(q, 1), (3, 6), Data([0.25, 0.5]), gradient=False),
    row("unique", lambda x: x.unique(), Ints(0, 5, 12)),
    row("unique_consecutive", lambda x: x.unique_consecutive(), Data([1, 1, 2, 2, 1], "int32")),
    row("bincount", lambda x: x.bincount(), Ints(0, 5, 12)),
    row("histc", lambda x: x.histc(5, -2, 2), (50,), gradient=False),
    # Norms and other sums.
    row("count_nonzero", lambda x: x.count_nonzero(), Ints(0, 2, 3, 4)),
    row("nansum", lambda x: x.nansum(), Data([1.0, NAN, 2.0])),
    row("nanmean", lambda x: x.nanmean(), Data([1.0, NAN, 2.0])),
    row("norm", lambda x: x.norm(), (3, 4)),
    row("norm 1 over an axis", lambda x: x.norm(1, 1), (3, 4)),
    row("norm inf", lambda x: x.norm(INF), (3, 4)),
    row("dist", lambda x, y: x.dist(y), (3, 4), (3, 4)),
    row("diff", lambda x: x.diff(), (7,)),
    row("diff twice along 0", lambda x: x.diff(2, 0), (5, 2)),
    row("trapz", lambda x: lib(x).trapz(x), (7,)),
    row("cov", lambda x: x.cov(), (3, 6)),
    row("corrcoef", lambda x: x.corrcoef(), (3, 6)),
    # Softmax family.
    *(
        row(f"{name} along {dim}", lambda x, n=name, d=dim: getattr(lib(x), n)(x, d), SHAPE, forward=(1e-5, 1e-7))
        for name in ("softmax", "log_softmax")
        for dim in (0, 1, -1)
    ),
    *(
        row(f"{name} of 0-d along {dim}", lambda x, n=name, d=dim: getattr(lib(x), n)(x, d), ())
        for name in ("softmax", "log_softmax")
        for dim in (0, -1)
    ),
    *(
        row(f"{name} of large numbers", lambda x, n=name: getattr(lib(x), n)(x, 0), Data([1000.0, 999.0, -1000.0]))
        for name in ("softmax", "log_softmax")
    ),
    *(
        row(f"{name} of an empty axis", lambda x, n=name: getattr(lib(x), n)(x, 1), (3, 0))
        for name in ("softmax", "log_softmax")
    ),
    row("softmin", lambda x: x.softmin(1), (3, 4), theirs=lambda x: torch.nn.functional.softmin(x, 1)),
    row("softmax axis -1 by default", lambda x: x.softmax(), (3, 4), theirs=lambda x: x.softmax(-1)),
    row("softmax in float64", lambda x: x.softmax(-1, dtype=lib(x).float64), (3, 4)),
    row("argmax of softmax", lambda x: x.softmax(1).argmax(1), (5, 7), gradient=False),
    row("logsumexp over all by default", lambda x: x.logsumexp(), (3, 4), theirs=lambda x: x.logsumexp((0, 1))),
    row("logsumexp of infinities", lambda x: x.logsumexp(0), Data([INF, 1.0]), gradient=False),
    row("logsumexp of -inf", lambda x: x.logsumexp(0), Data([-INF, -INF]), gradient=False),
    *(
        row(
            f"normalize p={p} along {dim}",
            lambda x, p=p, d=dim: x.normalize(p, d),
            (3, 4, 2),
            theirs=lambda x, p=p, d=dim: torch.nn.functional.normalize(x, p, d),
            gradient=p > 0,
        )
        for p in (2, 1, 3, 0, -1)
        for dim in (0, 1, 2)
    ),
    # Errors.
    *(
        error(f"{name} over {axis} of 0-d", IndexError, "axis", lambda x, n=name, a=axis: getattr(x, n)(a), ())
        for name in ("sum", "mean", "any", "all", "argmax", "cumsum", "softmax", "sort")
        for axis in (1,)
    ),
    error("sum over (1,) of 0-d", IndexError, "axis", lambda x: x.sum((1,)), ()),
    error("sum over 3 of two", IndexError, "axis", lambda x: x.sum(3), (2, 3)),
    error("max over -3 of two", IndexError, "axis", lambda x: x.max(-3), (2, 3)),
    *(
        error(f"{name} outside", IndexError, "axis", lambda x, n=name: getattr(x, n)(2), (2, 3))
        for name in (
            "cumsum",
            "cumprod",
            "cummax",
            "cummin",
            "logcumsumexp",
            "softmax",
            "var",
            "argmin",
            "sort",
            "argsort",
        )
    ),
    # How the correction of a variance is said.
    *(
        row(f"{name}, {note}", lambda x, n=name, c=call: c(getattr(x, n)), SHAPE)
        for name in ("var", "std")
        for note, call in {
            "fractional correction": lambda f: f((0, 1), correction=1.3),
            "unbiased": lambda f: f(True),
            "biased": lambda f: f(False),
            "correction None": lambda f: f(1, correction=None),
        }.items()
    ),
    row("std_mean, biased", lambda x: lib(x).std_mean(x, False), SHAPE),
    # Integrals, differences, norms of slices.
    row("cumulative_trapezoid", lambda y, x: lib(y).cumulative_trapezoid(y, x, dim=1), (3, 4), (4,)),
    row("cumulative_trapezoid, dx", lambda y: lib(y).cumulative_trapezoid(y, dx=0.3), (3, 4)),
    row("diff of n = 0", lambda x, y: x.diff(n=0, prepend=y), (3,), (2,)),
    row("renorm", lambda x: x.renorm(2, 1, 1.5), (3, 4, 2)),
    row("renorm, p = 1", lambda x: x.renorm(1, 0, 2.0), (3, 4)),
    row("angle", lambda x: lib(x).angle(x), Data([-2.0, 0.0, 1.5, NAN, -INF])),
    row("unique rows", lambda x: x.unique(return_inverse=True, return_counts=True, dim=0), Ints(0, 2, 9, 2)),
    row("unique neighbours", lambda x: x.unique_consecutive(return_inverse=True, return_counts=True, dim=1),
        Ints(0, 2, 1, 9)),
    error("renorm of a vector", (RuntimeError, ValueError), "renorm", lambda x: x.renorm(2, 0, 1.0), (3,)),
    error("unique of an axis outside", IndexError, "axis", lambda x: x.unique(dim=2), (2, 3)),
    error("sum over an axis twice", RuntimeError, "axis|twice", lambda x: x.sum((0, 0)), (2, 3)),
    error("topk of too many", (ValueError, RuntimeError), "topk", lambda x: x.topk(6), (5,)),
    error("sum with dtype ''", (AttributeError, TypeError, ValueError), "", lambda x: x.sum(dtype=""), (2,)),
]
