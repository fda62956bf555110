"""Every dtype by operations of each kind, and casts between all pairs. NumPy is the oracle of integers, which wrap."""

import numpy as np
import torch
from table import Data, lib, row, test_row  # noqa: F401

SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
INTS, FLOATS = SIGNED + UNSIGNED, ("float16", "bfloat16", "float32", "float64")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
# rtol, atol: each result is rounded once.
ROUNDED = {"float16": (1e-3, 1e-3), "bfloat16": (8e-3, 8e-3), "float32": (1e-6, 1e-6), "float64": (1e-13, 1e-13)}
INF, NAN = float("inf"), float("nan")


def ints(dtype):
    """Corners of a dtype, and numbers between."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return Data(np.array([low, high, 0, 1, high - 1, low + 1, 2, 3, 77, high // 2, high // 3], dtype), dtype)


def others(dtype):
    """A second operand for ints(dtype), without 0."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return Data(np.array([1, high, 5, low or 9, 2, 3, high, 7, 3, 2, high // 2], dtype), dtype)


def typed(x, dtype):
    """x as that dtype, by either library."""
    return x.to(getattr(torch, dtype)) if lib(x) is torch else x.cast(dtype)


def saturated(x, dtype):
    """How a float becomes an integer: towards zero, to the nearest end, NaN to 0."""
    limits = np.iinfo(dtype)
    whole = np.nan_to_num(np.trunc(x.astype(np.float64)))  # infinities become the largest numbers
    return np.array([min(max(int(v), limits.min), limits.max) for v in whole], dtype)


NUMBERS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    100.7,
    -100.7,
    254.9,
    255.1,
    300.0,
    -300.0,
    32767.9,
    65535.5,
    70000.0,
    1e10,
    -1e10,
    1e20,
    -1e20,
]
# The same operation of both libraries, on two operands of one dtype.
WRAPPING = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y}
COMPARE = {"lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y}
BITS = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "not": lambda x, y: ~x}
UNARY = ("neg", "abs", "sign", "square", "relu", "floor", "round", "trunc", "isnan", "logical_not")
FLOAT_UNARY = (
    "exp",
    "log",
    "sqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "reciprocal",
    "rsqrt",
    "erf",
    "exp2",
    "log2",
    "atan",
)

ROWS = [
    # Integers.
    *(
        row(f"{name} of {d}", call, ints(d), others(d), numpy=call)
        for d in INTS
        for name, call in (WRAPPING | COMPARE | BITS).items()
    ),
    *(
        row(
            f"floor division of {d}",
            lambda x, y: (x // y, x % y),
            ints(d),
            others(d),
            numpy=lambda x, y: (x // y, x % y),
        )
        for d in INTS
    ),
    *(
        row(
            f"maximum and minimum of {d}",
            lambda x, y: (x.maximum(y), x.minimum(y)),
            ints(d),
            others(d),
            numpy=lambda x, y: (np.maximum(x, y), np.minimum(x, y)),
        )
        for d in INTS
    ),
    *(row(f"shifts of {d}", lambda x: (x << 3, x >> 2), ints(d), numpy=lambda x: (x << 3, x >> 2)) for d in INTS),
    *(
        row(f"division by zero of {d} gives 0", lambda x: (x // 0, x % 0), ints(d), numpy=lambda x: (x * 0, x * 0))
        for d in INTS
    ),
    *(
        row(
            f"true division of {d} is float32",
            lambda x, y: x / y,
            ints(d),
            others(d),
            numpy=lambda x, y: x.astype(np.float32) / y.astype(np.float32),
            forward=(1e-6, 0),
        )
        for d in INTS
    ),
    *(row(f"neg and abs of {d}", lambda x: (-x, x.abs()), ints(d), numpy=lambda x: (-x, np.abs(x))) for d in INTS),
    *(row(f"sum of {d}", lambda x: x.sum(), ints(d), numpy=lambda x, d=d: x.sum(dtype=wide(d))) for d in INTS),
    *(row(f"prod of {d}", lambda x: x[2:5].prod(), others(d), numpy=lambda x, d=d: x[2:5].prod(dtype=d)) for d in INTS),
    *(
        row(
            f"max, min, argmax, argmin of {d}",
            lambda x: (x.max(), x.min(), x.argmax(), x.argmin()),
            ints(d),
            numpy=lambda x: (x.max(), x.min(), np.int32(x.argmax()), np.int32(x.argmin())),
        )
        for d in INTS
    ),
    *(
        row(
            f"where, cat, gather of {d}",
            lambda x, y: (lib(x).where(x > y, x, y), lib(x).cat([x, y]), x[[2, 0, 1]]),
            ints(d),
            others(d),
            numpy=lambda x, y: (np.where(x > y, x, y), np.concatenate([x, y]), x[[2, 0, 1]]),
        )
        for d in INTS
    ),
    *(
        row(
            f"matmul of {d}",
            lambda x: x.reshape(2, 3) @ x.reshape(3, 2),
            Data(np.array([1, 2, 3, 4, 5, 6], d), d),
            numpy=lambda x: x.reshape(2, 3) @ x.reshape(3, 2),
        )
        for d in INTS
    ),
    *(
        row(
            f"cumsum of {d}",
            lambda x: x.cumsum(0),
            Data(np.array([1, 2, 3, 4], d), d),
            numpy=lambda x, d=d: x.cumsum(dtype=wide(d)),
        )
        for d in INTS
    ),
    *(row(f"sort of {d}", lambda x: x.sort(0)[0], ints(d), numpy=np.sort) for d in INTS),
    # Floats, with infinities and NaN.
    *(
        row(
            f"{name} of {d}",
            lambda x, y, c=call, d=d: c(typed(x, d), typed(y, d)),
            Data([1.5, -2.25, INF, NAN, 0.1, -0.0, 60000.0]),
            Data([2.5, 3.1, 1.0, 1.0, 0.2, 0.0, 60000.0]),
            gradient=False,
            forward=ROUNDED[d],
        )
        for d in FLOATS
        for name, call in (WRAPPING | COMPARE | {"div": lambda x, y: x / y}).items()
    ),
    *(
        row(
            f"{name} of {d}",
            lambda x, n=name, d=d: getattr(typed(x, d), n)(),
            Data([1.5, -2.25, 0.1, 3.5, -7.0, 0.0, INF, NAN]),
            gradient=False,
            forward=ROUNDED[d],
        )
        for d in FLOATS
        for name in UNARY
    ),
    *(
        row(
            f"{name} of {d}",
            lambda x, n=name, d=d: getattr(typed(x, d), n)(),
            Data([1.5, 2.25, 0.1, 3.5, 7.0]),
            gradient=False,
            forward=(ROUNDED[d][0] * 4, ROUNDED[d][1] * 4),
        )
        for d in FLOATS[:3]
        for name in FLOAT_UNARY
    ),
    *(
        row(
            f"{name} of float64",
            lambda x, n=name: getattr(x, n)(),
            Data([1.5, 2.25, 0.1, 3.5, 7.0], "float64"),
            forward=(1e-6, 1e-7),
        )
        for name in FLOAT_UNARY
    ),
    *(
        row(
            f"sum, mean, max of {d}",
            lambda x, d=d: (typed(x, d).sum(), typed(x, d).mean(), typed(x, d).max()),
            (100,),
            gradient=False,
            forward=(ROUNDED[d][0] * 8, ROUNDED[d][1] * 8),
        )
        for d in FLOATS
    ),
    *(
        row(
            f"matmul, softmax of {d}",
            lambda x, y, d=d: (typed(x, d) @ typed(y, d), typed(x, d).softmax(1)),
            (4, 5),
            (5, 3),
            gradient=False,
            forward=(ROUNDED[d][0] * 8, ROUNDED[d][1] * 8),
        )
        for d in FLOATS
    ),
    *(
        row(
            f"gradient in {d}",
            lambda x, d=d: typed((typed(x, d) * 2).sigmoid(), "float32"),
            (9,),
            forward=(ROUNDED[d][0] * 4, ROUNDED[d][1] * 4),
            backward=(ROUNDED[d][0] * 20, ROUNDED[d][1] * 20),
        )
        for d in FLOATS
    ),
    # Casts.
    *(
        row(f"cast {a} to {b}", lambda x, b=b: x.cast(b), ints(a), numpy=lambda x, b=b: x.astype(b))
        for a in INTS
        for b in INTS + ("bool",)
    ),
    *(
        row(f"cast {a} to {b}", lambda x, b=b: x.cast(b), ints(a), numpy=lambda x, b=b: x.astype(b))
        for a in INTS
        for b in ("float32", "float64")
    ),
    *(
        row(f"cast bool to {b}", lambda x, b=b: typed(x, b), Data([True, False], bool), gradient=False)
        for b in INTS + FLOATS
    ),
    *(
        row(f"cast float32 to {b}", lambda x, b=b: typed(x, b), Data([*NUMBERS, INF, -INF, NAN]), gradient=False)
        for b in FLOATS + ("bool",)
    ),
    *(
        row(
            f"cast float64 to {b} rounds once",
            lambda x, b=b: typed(x, b),
            Data(
                [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-24 + 2.0**-50, 1e-8, 65519.99, 65520.0, 1e300],
                "float64",
            ),
            numpy=lambda x, b=b: to_narrow(x, b),
        )
        for b in ("float16", "float32")
    ),
    *(
        row(
            f"cast float32 to {b} saturates",
            lambda x, b=b: x.cast(b),
            Data([*NUMBERS, INF, -INF, NAN]),
            numpy=lambda x, b=b: saturated(x, b),
        )
        for b in INTS
    ),
    *(
        row(
            f"cast float64 to {b} saturates",
            lambda x, b=b: x.cast(b),
            Data([*NUMBERS, INF, -INF, NAN], "float64"),
            numpy=lambda x, b=b: saturated(x, b),
        )
        for b in INTS
    ),
    *(
        row(
            f"cast {a} to {b}",
            lambda x, a=a, b=b: typed(typed(x, a), b),
            Data([1.5, -2.7, 0.1, INF, NAN, 1e-7]),
            gradient=False,
        )
        for a in ("float16", "bfloat16")
        for b in FLOATS + ("bool",)
    ),
    *(
        row(
            f"cast to {b} and back",
            lambda x, b=b: typed(typed(x, b), "float32"),
            Data([0.0, -0.0, 1.0, -1.5, 0.1, 3.3, 17.0, 100.0, -200.0, 0.015625, 0.001, 1e-5, NAN]),
            gradient=False,
        )
        for b in FLOAT8
    ),
    *(
        row(
            f"cast to {b} saturates",
            lambda x, b=b: typed(typed(x, b), "float32"),
            Data([1e6, -1e6]),
            numpy=lambda x, h=high: np.float32([h, -h]),
        )
        for b, high in zip(FLOAT8, (448, 57344, 240, 57344))
    ),
    *(
        row(
            f"arithmetic in {b}",
            lambda x, y, b=b: typed(typed(x, b) * typed(y, b) + typed(x, b), "float32"),
            Data([1.0, -1.5, 0.25, 3.0]),
            Data([2.0, 1.5, -0.5, 3.0]),
            gradient=False,
            theirs=lambda x, y, b=b: typed(
                typed(typed(typed(typed(x, b), "float32") * typed(typed(y, b), "float32"), b), "float32")
                + typed(typed(x, b), "float32"),
                b,
            ).float(),
        )
        for b in FLOAT8
    ),
    *(
        row(f"{method}()", lambda x, m=method: getattr(x, m)(), Data([1.5, -2.5, 0.0]), gradient=False)
        for method in ("float", "half", "bfloat16", "double", "int", "long", "short", "bool")
    ),
    *(
        row(
            f"bitcast {a} to {b}",
            lambda x, b=b: x.bitcast(b),
            Data([1.5, -2.5, 0.0], "float64" if "64" in a else "float32" if "32" in a else "float16"),
            numpy=lambda x, b=b: x.view(b),
        )
        for a, b in (("float32", "int32"), ("float32", "uint32"), ("float64", "int64"), ("float16", "int16"))
    ),
    row(
        "bitcast uint8 to uint32 joins",
        lambda x: x.bitcast("uint32"),
        Data(np.arange(8, dtype=np.uint8).reshape(2, 4), "uint8"),
        numpy=lambda x: x.view(np.uint32),
    ),
    row(
        "bitcast int32 to uint8 splits",
        lambda x: x.bitcast("uint8"),
        Data(np.array([[1], [-2]], np.int32), "int32"),
        numpy=lambda x: x.view(np.uint8),
    ),
    row("relu, then uint8", lambda x: typed(x.relu(), "uint8"), (9,), gradient=False),
    # Promotion, as in the lattice of core/ir/dtype.h.
    *(
        row(
            f"{a} + {b} is {c}",
            lambda x, y: x + y,
            Data([1], a),
            Data([1], b),
            numpy=lambda x, y, c=c: np.array([2]).astype(c),
        )
        for a, b, c in (
            ("uint8", "int8", "int16"),
            ("uint8", "uint16", "uint16"),
            ("uint16", "int16", "int32"),
            ("uint32", "int32", "int64"),
            ("int64", "int32", "int64"),
            ("int64", "float16", "float16"),
            ("int64", "float32", "float32"),
            ("uint8", "float16", "float16"),
            ("int64", "uint32", "int64"),
        )
    ),
    row(
        "float16 + bfloat16 is float32",
        lambda x, y: x.cast("float16") + y.cast("bfloat16"),
        Data([1.0]),
        Data([2.0]),
        numpy=lambda x, y: x + y,
    ),
]


def wide(dtype):
    """What integers are summed in."""
    return {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(dtype, dtype)


def to_narrow(x, dtype):
    with np.errstate(over="ignore"):
        return x.astype(dtype)
