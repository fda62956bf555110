"""Tensors from nothing or from data."""

import numpy as np
import tensord
import torch
from table import create, error, lib, row, test_row  # noqa: F401


def call(name, *args, **kwargs):
    """lib.name(*args, **kwargs), with dtype as a name."""

    def made(lib):
        named = {k: getattr(torch, v) if k == "dtype" and lib is torch else v for k, v in kwargs.items()}
        return getattr(lib, name)(*args, **named)

    return made


def text(values):
    return ", ".join(map(str, values))


ROWS = [
    # Shapes and dtypes.
    *(
        create(f"{name}({text(args)})", call(name, *args))
        for name in ("zeros", "ones")
        for args in ((), (3,), (2, 3), ((2, 3),), ([],), (2, 0, 3), (0,))
    ),
    *(
        create(f"{name} as {dtype}", call(name, 2, 3, dtype=dtype))
        for name in ("zeros", "ones")
        for dtype in (
            "bool",
            "int8",
            "uint8",
            "int16",
            "int32",
            "int64",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
        )
    ),
    *(
        create(f"full({text(args)})", call("full", *args))
        for args in (((2, 3), 2.5), ((), 1.5), ((2, 0), 1.0), ((2,), True), ((3,), float("inf")), ((3,), float("nan")))
    ),
    create("full of an int is int32", call("full", (2, 3), 7), form=False),
    create("full with a dtype", call("full", (2, 3), 7, dtype="float64")),
    *(
        row(f"{name} of float32", lambda x, name=name: getattr(lib(x), name)(x), (2, 3), gradient=False)
        for name in ("zeros_like", "ones_like")
    ),
    *(
        row(f"{name} of int32", lambda x, name=name: getattr(lib(x), name)(x), (2, 3), dtype="int32")
        for name in ("zeros_like", "ones_like")
    ),
    row("full_like of int32", lambda x: lib(x).full_like(x, 3), (2, 3), dtype="int32"),
    row(
        "full_like with a dtype",
        lambda x: tensord.full_like(x, 3, dtype="float64"),
        (2, 3),
        gradient=False,
        theirs=lambda x: torch.full_like(x, 3, dtype=torch.float64),
    ),
    row("zeros_like method", lambda x: x.zeros_like(), (2, 3), theirs=torch.zeros_like, gradient=False),
    create("empty", call("empty", 2, 3), form_only=True),
    create("0/0 is NaN everywhere", lambda lib: lib.zeros(3) * 0 / 0),
    # Negative sizes.
    *(
        error(
            f"{name} {text(args)}",
            ValueError,
            "negative",
            lambda name=name, args=args: getattr(tensord, name)(*args),
            both=False,
        )
        for name in (
            "empty",
            "zeros",
            "ones",
            "rand",
            "randn",
            "randint",
            "uniform",
            "normal",
            "scaled_uniform",
            "glorot_uniform",
        )
        for args in ((-3,), ((-3,),), (2, -3), (-3, 0))
    ),
    *(
        error(f"full {shape}", ValueError, "negative", lambda shape=shape: tensord.full(shape, 1.0), both=False)
        for shape in ((-3,), (2, -3), (-3, 0))
    ),
    *(
        error(f"eye {text(args)}", ValueError, "negative", lambda args=args: tensord.eye(*args), both=False)
        for args in ((-1,), (2, -1), (-1, 2))
    ),
    *(
        error(
            f"{name} {shape}",
            ValueError,
            "negative",
            lambda name=name, shape=shape: getattr(tensord, name)(*shape),
            both=False,
        )
        for name in ("kaiming_uniform", "kaiming_normal")
        for shape in ((2, -3), (-2, 3))
    ),
    # eye.
    *(create(f"eye({text(args)})", call("eye", *args)) for args in ((0,), (1,), (4,), (3, 5), (5, 3), (0, 3), (3, 0))),
    create("eye of int32", call("eye", 3, dtype="int32")),
    create("eye of bool", call("eye", 3, dtype="bool")),
    # arange.
    *(
        create(f"arange({text(args)})", call("arange", *args), form=False)
        for args in (
            (10,),
            (5, 10),
            (10, 5, -1),
            (10, 5, -3),
            (0, 10, 3),
            (0,),
            (5, 5),
            (256,),
            (4096,),
            (0, 5, 2),
            (-3, 3),
        )
    ),
    *(
        create(f"arange({text(args)}) is empty", call("arange", *args), theirs=lambda lib: lib.arange(0), form=False)
        for args in ((5, 0), (0, 5, -1))
    ),
    *(
        create(f"arange({text(args)})", call("arange", *args))
        for args in ((5.5,), (0.5, 3.0), (0, 1, 0.25), (1.0, 0.0, -0.3), (0, 5, 1.5), (0.0, 1e-3, 1e-4))
    ),
    create("arange of int8 up to 127", call("arange", 120, 128, dtype="int8")),
    create("arange of int8 down to -128", call("arange", -120, -129, -1, dtype="int8")),
    error(
        "arange of int8 up to 128", OverflowError, "int8", lambda: tensord.arange(120, 129, dtype="int8"), both=False
    ),
    error("arange of uint8 below 0", OverflowError, "uint8", lambda: tensord.arange(-1, 3, dtype="uint8"), both=False),
    create("arange about 2^31 is int64", call("arange", 2**31 - 2, 2**31 + 2)),
    create("arange as float32", call("arange", 5, dtype="float32")),
    error(
        "arange with step 0", ValueError, "step", lambda: tensord.arange(0, 5, 0), theirs=lambda: torch.arange(0, 5, 0)
    ),
    # linspace.
    *(
        create(f"linspace({text(args)})", call("linspace", *args))
        for args in ((0, 1, 0), (0, 1, 1), (5, 10, 30), (10, 5, 30), (-1.5, 1.5, 7), (0, 0, 3), (3, 3, 1))
    ),
    create("linspace of int32", call("linspace", 5, 10, 30, dtype="int32")),
    create("linspace of int32, descending", call("linspace", 10, 5, 7, dtype="int32")),
    create("linspace of int32 about 0", call("linspace", -5, 5, 8, dtype="int32")),
    error("linspace of bool", ValueError, "bool", lambda: tensord.linspace(0, 1, 3, dtype="bool"), both=False),
    error(
        "linspace with -1 steps",
        ValueError,
        "steps",
        lambda: tensord.linspace(0, 1, -1),
        theirs=lambda: torch.linspace(0, 1, -1),
    ),
    # List two.
    *(
        create(f"logspace({text(args)})", call("logspace", *args))
        for args in ((0, 2, 5), (-1, 1, 3), (0, 1, 1), (0, 1, 0))
    ),
    create("logspace, base 2", call("logspace", 0, 4, 5, base=2)),
    *(
        create(f"{name}({text(args)})", call(name, *args), form=False)
        for name in ("tril_indices", "triu_indices")
        for args in ((3, 3), (4, 3, -1), (4, 3, 1), (0, 3), (3, 4, 10))
    ),
    *(
        create(f"{name}_window({n})", call(f"{name}_window", n))
        for name in ("hann", "hamming", "blackman", "bartlett")
        for n in (0, 1, 8, 9)
    ),
    create("hann_window, symmetric", call("hann_window", 8, periodic=False)),
    row("vander", lambda x: lib(x).vander(x), (4,)),
    row("vander, increasing", lambda x: lib(x).vander(x, 3, True), (4,)),
    row("cartesian_prod", lambda x, y: lib(x).cartesian_prod(x, y), (2,), (3,)),
    row("combinations", lambda x: lib(x).combinations(x), (4,)),
    row("combinations of 3, with replacement", lambda x: lib(x).combinations(x, 3, True), (4,)),
    row("block_diag", lambda x, y: lib(x).block_diag(x, y), (2, 3), (1, 2)),
    # Data.
    *(
        create(f"Tensor({data})", lambda lib, data=data: lib.tensor(data), form=form)
        for data, form in (
            ([1.5, 2.0], True),
            ([[1, 2], [3, 4]], False),
            ([True, False], True),
            ([], True),
            ([[], []], True),
            ([1, 2.5], True),
            (2.5, True),
            (True, True),
            (3, False),
        )
    ),
    create("Tensor of nested tuples", lambda lib: lib.tensor(((1.0, 2.0), (3.0, 4.0)))),
    error(
        "ragged lists",
        ValueError,
        "",
        lambda: tensord.Tensor([[1, 2], [3]]),
        theirs=lambda: torch.tensor([[1, 2], [3]]),
    ),
    *(
        create(
            f"Tensor of a NumPy array of {dtype}",
            lambda lib, dtype=dtype: (lib.Tensor if lib is tensord else lib.tensor)(np.arange(3).astype(dtype)),
        )
        for dtype in ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
    ),
    create(
        "Tensor of bytes",
        lambda lib: tensord.Tensor(b"abc") if lib is tensord else torch.tensor(list(b"abc"), dtype=torch.uint8),
    ),
    create("Tensor of None", lambda lib: tensord.Tensor(None) if lib is tensord else torch.tensor(0), form=False),
]
