"""Operators of one, two and three operands: values at the corners, broadcasting, promotion, gradients, errors."""

import itertools

import numpy as np
import torch
from table import Data, Ints, error, lib, row, test_row  # noqa: F401

INF, NAN = float("inf"), float("nan")
CORNERS = [0.0, 1.0, -1.0, INF, -INF]
PAIRS = [Data(column, "float32") for column in zip(*itertools.product(CORNERS, CORNERS))]
ALL_PAIRS = [Data(column, "float32") for column in zip(*itertools.product([*CORNERS, -0.0, NAN, 2.5], repeat=2))]
BINARY = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y}
COMPARE = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}
BITS = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}
SHAPES = {
    "equal": ((5, 4), (5, 4)),
    "rank mismatch": ((2, 3, 4, 5), (5,)),
    "ones": ((1, 3, 1, 5), (2, 1, 4, 1)),
    "5-D": ((2, 1, 3, 1, 2), (4, 1, 5, 1)),
    "0-d": ((), (3, 2)),
    "both 0-d": ((), ()),
    "empty": ((0, 3), (1, 3)),
    "one against empty": ((1,), (0,)),
}
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def square_of(values):
    """All pairs of the values, as two columns."""
    return zip(*itertools.product(values, repeat=2))


ROWS = [
    # Arithmetic.
    *(row(f"{name}, {shape}", call, *shapes) for name, call in BINARY.items() for shape, shapes in SHAPES.items()),
    *(row(f"{name}, number right", lambda x, call=call: call(x, 2.5), (3, 4)) for name, call in BINARY.items()),
    *(row(f"{name}, number left", lambda x, call=call: call(2.5, x), (3, 4), low=0.5) for name, call in BINARY.items()),
    *(row(f"{name}, infinities and NaN", call, *ALL_PAIRS, gradient=False) for name, call in BINARY.items()),
    *(
        row(f"{name} by {number}", lambda x, call=call, number=number: call(x, number), (7,), gradient=False)
        for name, call in BINARY.items()
        for number in (INF, -INF, NAN)
    ),
    *(row(f"div by {number}", lambda x, number=number: x / number, (9,)) for number in (255, 1, 2, 3)),
    *(row(f"int32 {name}", call, Ints(-9, 9, 5, 4), Ints(1, 9, 4)) for name, call in BINARY.items()),
    *(
        row(
            f"int32 {name} wraps",
            call,
            Data([INT_MAX, INT_MIN, INT_MAX, 65536], "int32"),
            Data([1, -1, INT_MAX, 65536], "int32"),
        )
        for name, call in BINARY.items()
        if name != "div"
    ),
    row("add, alpha", lambda x, y: x.add(y, alpha=2), (3,), (3,)),
    row("sub, alpha", lambda x, y: x.sub(y, alpha=0.5), (3,), (3,)),
    row("sub, reversed", lambda x, y: x.sub(y, reverse=True), (3,), (3,), theirs=lambda x, y: y - x),
    row("mul, method", lambda x, y: x.mul(y), (3,), (3,)),
    row("neg", lambda x: -x, (3, 4)),
    row("neg of int32", lambda x: -x, Data([INT_MIN, 0, 5], "int32")),
    row("neg of bool is not", lambda x: -x, Data([True, False], bool), theirs=lambda x: ~x),
    row("bool + bool is or", lambda x, y: x + y, Data([True, True, False], bool), Data([True, False, False], bool)),
    row("ten operands", lambda *xs: sum(xs[1:], xs[0]), *[(4, 3)] * 10),
    row("addcmul", lambda x, y, z: lib(x).addcmul(x, y, z, value=0.5), (3, 4), (4,), (3, 1)),
    row("addcdiv", lambda x, y, z: lib(x).addcdiv(x, y, z, value=0.5), (3, 4), (4,), (3, 1), low=0.5),
    row("abs", lambda x: abs(x), (4, 4)),
    row("abs at the corners", lambda x: x.abs(), Data([0.0, -0.0, INF, -INF])),
    row("abs of NaN", lambda x: x.abs(), Data([NAN, -1.0]), gradient=False),
    row("abs of int32", lambda x: x.abs(), Data([INT_MIN, -3, 3], "int32")),
    row("sign", lambda x: x.sign(), Data([0.0, -0.0, 2.0, -2.0, INF, -INF])),
    row("sign of int32", lambda x: x.sign(), Ints(-2, 3, 9)),
    row("square", lambda x: x.square(), (3, 4)),
    row("positive", lambda x: +x, (3,)),
    row("logical_not of floats", lambda x: x.logical_not(), Data([0.0, -0.0, 1.0, NAN, INF])),
    *(
        row(
            f"logical_{name}",
            lambda x, y, name=name: getattr(x, f"logical_{name}")(y),
            Data([0.0, 0.0, 2.0, 3.0]),
            Data([0.0, 1.0, 0.0, 4.0]),
        )
        for name in ("and", "or", "xor")
    ),
    error("add: shapes that do not broadcast", (ValueError, RuntimeError), r"\(?3", lambda x, y: x + y, (3,), (4,)),
    error("add: a string", TypeError, "", lambda x: x + "a", (3,)),
    # Division modes.
    *(
        row(
            f"{mode} division of {a} by {b}",
            lambda x, y, mode=mode: lib(x).div(x, y, rounding_mode=mode),
            Data(np.repeat(np.arange(-7, 8), 10), a),
            Data(np.tile([1, -1, 2, -2, 3, -3, 5, -5, 10, -10], 15), b),
            gradient=False,
        )
        for mode in (None, "trunc", "floor")
        for a in ("int32", "float32")
        for b in ("int32", "float32")
    ),
    *(
        row(
            f"{mode} division near a multiple",
            lambda x, y, mode=mode: lib(x).div(x, y, rounding_mode=mode),
            Data([110, 111, -110, -111, 109], "int32"),
            Data([55, -55, 55, 55, -55], "int32"),
        )
        for mode in ("trunc", "floor")
    ),
    row(
        "trunc division of negatives by powers of two",
        lambda x, y: lib(x).div(x, y, rounding_mode="trunc"),
        Data([-5, -1, -7, -8], "int32"),
        Data([2, 4, 4, 8], "int32"),
    ),
    row("trunc division by a number", lambda x: lib(x).div(x, 4, rounding_mode="trunc"), Ints(-20, 20, 41)),
    row("floor division by a number", lambda x: x // 4, Ints(-20, 20, 41)),
    row("floor division by a negative number", lambda x: x // -3, Ints(-20, 20, 41)),
    row("floor division of a number", lambda x: 17 // x, Data([-5, -3, -1, 1, 2, 4], "int32")),
    row(
        "uint64 by 1 is exact",
        lambda x: x.div(1, rounding_mode="trunc"),
        Data([2**64 - 1], "uint64"),
        numpy=lambda x: x,
    ),
    row("uint64 // 1 is exact", lambda x: x // 1, Data([2**64 - 1], "uint64"), numpy=lambda x: x),
    error("division: unknown mode", RuntimeError, "mode", lambda x: lib(x).div(x, 2, rounding_mode="typo"), (3,)),
    # Modulo.
    *(
        row(
            f"{name} of {a} and {b}",
            call,
            Data(np.repeat(np.arange(-7, 8), 8), a),
            Data(np.tile([1, -1, 2, -2, 3, -3, 5, -5], 15), b),
            gradient=False,
        )
        for name, call in (
            ("%", lambda x, y: x % y),
            ("fmod", lambda x, y: x.fmod(y)),
            ("remainder", lambda x, y: x.remainder(y)),
        )
        for a in ("int32", "float32")
        for b in ("int32", "float32")
    ),
    *(
        row(f"% {number}", lambda x, number=number: x % number, (9,), low=-9, high=9)
        for number in (3.5, -3.5, 100.5, 2)
    ),
    *(
        row(f"{number} %", lambda x, number=number: number % x, (9,), low=0.5, high=4, gradient=False)
        for number in (3.5, 100.5, 7)
    ),
    *(row(f"fmod {number}", lambda x, number=number: x.fmod(number), (9,), low=-9, high=9) for number in (3.5, -2.5)),
    row("% gradient", lambda x, y: x % y, (9,), Data(np.linspace(1.3, 3.1, 9), "float32"), low=-9, high=9),
    # Powers.
    *(
        row(f"x ** {exponent}", lambda x, exponent=exponent: x**exponent, (12,), low=0.1, high=3)
        for exponent in (0, 1, 2, 3, -2, 8.0, 5.5, -5.5, 0.2, 1.2, 0.5, -1)
    ),
    *(
        row(
            f"negative x ** {exponent}",
            lambda x, exponent=exponent: x**exponent,
            (12,),
            low=-30,
            high=-0.1,
            gradient=exponent == int(exponent),
            backward=(1e-3, 1e-2),
        )
        for exponent in (0, 1, 2, 3, -2, 8.0, 5.5, -5.5, 0.2, 1.2)
    ),
    *(row(f"{base} ** x", lambda x, base=base: base**x, (12,), gradient=base > 0) for base in (0, 0.7, 1, 2, 5.5)),
    *(
        row(f"{base} ** whole x", lambda x, base=base: base**x, Data([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]), gradient=False)
        for base in (-2, -5.5, 8)
    ),
    row("x ** y", lambda x, y: x**y, (4, 3), (3,), low=0.1),
    row("pow method", lambda x, y: x.pow(y), (3,), (3,), low=0.1),
    row("0 ** 0", lambda x, y: x**y, Data([0.0]), Data([0.0])),
    row("0 ** 0.3 and -0.3", lambda x, y: x**y, Data([0.0, 0.0]), Data([0.3, -0.3]), gradient=False),
    row("-inf ** 0.3, 3.3, 3, 2", lambda x, y: x**y, Data([-INF] * 4), Data([0.3, 3.3, 3.0, 2.0]), gradient=False),
    *(
        row(f"gradient of x ** {c} at the corners", lambda x, c=c: x**c, Data([-INF, 0.0, 1.0, INF]))
        for c in (-1, 0, 0.3, 1, 2)
    ),
    *(row(f"int32 ** {n}", lambda x, n=n: x**n, Data([-3, -2, -1, 0, 1, 2, 3], "int32")) for n in (0, 1, 2, 3, 5, 19)),
    row("2 ** up to 29", lambda x, y: x**y, Data([2] * 30, "int32"), Data(range(30), "int32")),
    row("int32 ** 0.5", lambda x: x**0.5, Data([0, 1, 4, 9], "int32")),
    error("int32 ** -1", RuntimeError, "power|negative", lambda x: x**-1, Ints(1, 5, 3)),
    row("exp2(log2(0) * y)", lambda x, y: (x.log2() * y).exp2(), Data([0.0, 0.0]), Data([0.5, 2.0]), gradient=False),
    row("float_power", lambda x: x.float_power(2), Ints(-3, 4, 5)),
    # maximum, minimum, clip.
    *(
        row(
            f"{name} of {a} and {b}",
            lambda x, y, name=name: getattr(lib(x), name)(x, y),
            Data([0, 1, 1, 0], a),
            Data([1, 0, 1, 0], b),
            gradient=False,
        )
        for name in ("maximum", "minimum")
        for a, b in (
            ("float32", "float32"),
            ("int32", "int32"),
            ("bool", "bool"),
            ("int32", "float32"),
            ("bool", "float32"),
            ("bool", "int32"),
        )
    ),
    *(
        row(
            f"{name} of INT_MIN and INT_MAX",
            lambda x, y, name=name: getattr(lib(x), name)(x, y),
            *(Data(c, "int32") for c in square_of([INT_MIN, INT_MAX, 0, -1])),
        )
        for name in ("maximum", "minimum")
    ),
    *(
        row(f"{name}, gradient", lambda x, y, name=name: getattr(lib(x), name)(x, y), (4, 3), (3,))
        for name in ("maximum", "minimum")
    ),
    *(
        row(
            f"{name}, ties halve",
            lambda x, y, name=name: getattr(lib(x), name)(x, y),
            Data([1.0, 2.0]),
            Data([1.0, 2.0]),
        )
        for name in ("maximum", "minimum")
    ),
    *(
        row(
            f"{name} propagates NaN",
            lambda x, y, name=name: getattr(lib(x), name)(x, y),
            Data([NAN, 1.0, NAN]),
            Data([1.0, NAN, NAN]),
            gradient=False,
        )
        for name in ("maximum", "minimum")
    ),
    *(
        row(
            f"{name} prefers numbers to NaN",
            lambda x, y, name=name: getattr(lib(x), name)(x, y),
            Data([NAN, 1.0, NAN]),
            Data([1.0, NAN, NAN]),
            gradient=False,
        )
        for name in ("fmax", "fmin")
    ),
    row("clip", lambda x: x.clip(-0.5, 0.7), (4, 5)),
    row("clip by one bound", lambda x: x.clip(-0.5), (4, 5)),
    row("clip by max alone", lambda x: x.clip(None, 0.5), (4, 5)),
    row("clamp by names", lambda x: x.clamp(min=0.0, max=1.0), (4, 5)),
    row("clip on the bounds", lambda x: x.clip(-1, 1), Data([-1.0, 1.0, 0.0, -2.0, 2.0]), gradient=False),
    row(
        "clip on the bounds has gradient 1",
        lambda x: x.clip(-1, 1).sum().gradient(x)[0],
        Data([-1.0, 1.0, 0.0, -2.0, 2.0]),
        numpy=lambda x: np.array([1, 1, 1, 0, 0], np.float32),
    ),
    row("clip, bounds equal", lambda x: x.clip(1.0, 1.0), Data([0.0, 1.0, 2.0]), gradient=False),
    row("clip, min above max", lambda x: x.clip(2.0, 1.0), (6,)),
    row("clip, bounds outside", lambda x: x.clip(-9, 9), (6,)),
    row("clip of int32", lambda x: x.clip(-2, 3), Ints(-9, 9, 20)),
    row("clip by tensors", lambda x, a, b: x.clip(a, b), (4, 3), (3,), (4, 1)),
    row("clip of NaN", lambda x: x.clip(0.0, 1.0), Data([NAN]), gradient=False),
    error("clip, no bound", RuntimeError, "min|max", lambda x: x.clip(None, None), (3,)),
    # Comparison.
    *(
        row(f"{name} of {kind}", call, *inputs)
        for name, call in COMPARE.items()
        for kind, inputs in (
            ("floats", ((3, 1), (1, 4))),
            ("ints", (Ints(-2, 3, 3, 1), Ints(-2, 3, 4))),
            ("bools", (Data([[True], [False]], bool), Data([True, False], bool))),
            ("corners", PAIRS),
            ("NaN", ALL_PAIRS),
            ("mixed types", (Ints(-2, 3, 5), (5,))),
        )
    ),
    *(
        row(
            f"{name}, number {side}",
            (lambda x, call=call: call(x, 1)) if side == "right" else (lambda x, call=call: call(1, x)),
            Ints(-1, 3, 9),
        )
        for name, call in COMPARE.items()
        for side in ("left", "right")
    ),
    row(
        "gradient through a mask",
        lambda x, y: (x * (x < y).float() if lib(x) is torch else x * (x < y).cast("float32")).sum(),
        (4, 4),
        (4, 4),
    ),
    *(
        row(
            f"isclose, rtol {rtol}, atol {atol}, equal_nan {nan}",
            lambda x, y, rtol=rtol, atol=atol, nan=nan: lib(x).isclose(x, y, rtol, atol, nan),
            *(Data(c, "float32") for c in square_of([INF, -INF, NAN, 0.0, 1.0, 1.00001, 1e-9])),
        )
        for rtol in (1e-5, 0.1)
        for atol in (1e-8, 0.0)
        for nan in (False, True)
    ),
    row(
        "isclose to a number",
        lambda x: x.isclose(1.0),
        Data([1.0, 1.1, NAN]),
        theirs=lambda x: torch.isclose(x, torch.tensor(1.0)),
    ),
    row("allclose", lambda x, y: lib(x).allclose(x, y), Data([1.0, 2.0]), Data([1.0, 2.000001])),
    row("equal", lambda x, y: lib(x).equal(x, y), Ints(0, 3, 4), Ints(0, 3, 4)),
    # where, masked_fill, lerp.
    row("where", lambda x, y: lib(x).where(x > y, x, y), (3, 4), (3, 4)),
    row("where, three shapes", lambda c, x, y: lib(x).where(c > 0, x, y), (3, 1, 1), (4, 1), (2,)),
    row(
        "where, receiver is the condition",
        lambda c, x, y: (c > 0).where(x, y),
        (3,),
        (3,),
        (3,),
        theirs=lambda c, x, y: torch.where(c > 0, x, y),
    ),
    row("where of numbers keeps ints", lambda c: lib(c).where(c > 0, 2, 3), (4,), form=False),
    row("where, permuted", lambda x: lib(x).where(x > 0, x, 0.0).permute(1, 0), (3, 4)),
    row("where keeps infinity out", lambda x: lib(x).where(x > 0, x.log(), x), Data([0.0, -1.0, 2.0])),
    row("gradient where the other branch is infinite", lambda x: lib(x).where(x > 0, x, x * 0), Data([1.0, -1.0])),
    error("where, condition no bool", RuntimeError, "bool", lambda c, x: c.where(x, x), (3,), (3,), both=False),
    row("masked_fill", lambda x: x.masked_fill(x > 0.1, -INF), (4, 4), gradient=False),
    row("masked_fill, gradient", lambda x: x.masked_fill(x > 0.1, 2.0), (4, 4)),
    row("masked_fill by a tensor", lambda x, y: x.masked_fill(x > 0.1, y), (4, 4), ()),
    row("lerp, number", lambda x, y: x.lerp(y, 0.3), (3, 4), (3, 4)),
    row("lerp, tensor", lambda x, y, w: x.lerp(y, w), (3, 4), (4,), (3, 1)),
    # Rounding and tests.
    *(
        row(
            name,
            lambda x, name=name: getattr(x, name)(),
            Data(
                [s * v for s in (1, -1) for v in (0.0, 0.499, 0.5, 0.501, 1.5, 2.5, 3.499, 3.5, 3.501, 1e12)], "float32"
            ),
        )
        for name in ("trunc", "floor", "ceil", "round")
    ),
    *(
        row(f"{name} of int32", lambda x, name=name: getattr(x, name)(), Ints(-5, 5, 7))
        for name in ("trunc", "floor", "ceil", "round")
    ),
    *(
        row(
            f"{name} of infinities",
            lambda x, name=name: getattr(x, name)(),
            Data([INF, -INF, NAN, -0.0]),
            gradient=False,
        )
        for name in ("trunc", "floor", "ceil", "round")
    ),
    row("round to decimals", lambda x: x.round(decimals=2), (9,), gradient=False),
    row("frac", lambda x: x.frac(), (9,)),
    *(
        row(name, lambda x, name=name: getattr(x, name)(), Data([-INF, 0.0, INF, NAN, 1.1]))
        for name in ("isinf", "isnan", "isfinite", "isposinf", "isneginf", "isreal", "signbit")
    ),
    *(
        row(f"{name} of ints", lambda x, name=name: getattr(x, name)(), Ints(-2, 2, 5))
        for name in ("isinf", "isnan", "isfinite")
    ),
    row(
        "isinf, positive only", lambda x: x.isinf(detect_negative=False), Data([-INF, INF, NAN]), theirs=torch.isposinf
    ),
    row(
        "isinf, negative only", lambda x: x.isinf(detect_positive=False), Data([-INF, INF, NAN]), theirs=torch.isneginf
    ),
    # Bits and shifts.
    *(row(f"{name} of ints", call, Ints(-9, 9, 5, 4), Ints(-9, 9, 4)) for name, call in BITS.items()),
    *(
        row(f"{name} of bools", call, Data([True, True, False, False], bool), Data([True, False, True, False], bool))
        for name, call in BITS.items()
    ),
    *(row(f"{name} with a number", lambda x, call=call: call(x, 6), Ints(-9, 9, 9)) for name, call in BITS.items()),
    *(row(f"{name} of a number", lambda x, call=call: call(6, x), Ints(-9, 9, 9)) for name, call in BITS.items()),
    *(
        row(f"bitwise_{name}", lambda x, y, name=name: getattr(x, f"bitwise_{name}")(y), Ints(-9, 9, 5), Ints(-9, 9, 5))
        for name in BITS
    ),
    row("and of comparisons", lambda x: (x > -1) & (x < 1) | (x == 2), Ints(-3, 4, 9)),
    row(
        "uint64 & 0xFFFFFFFF",
        lambda x: x & 0xFFFFFFFF,
        Data([2**64 - 1, 2**40 + 5], "uint64"),
        numpy=lambda x: x & np.uint64(0xFFFFFFFF),
    ),
    row(
        "int32 | 0xFFFFFFFF is -1",
        lambda x: x | 0xFFFFFFFF,
        Data([0, 5], "int32"),
        numpy=lambda x: np.array([-1, -1], np.int32),
    ),
    row("not of ints", lambda x: ~x, Ints(-9, 9, 9)),
    row("not of bools", lambda x: ~x, Data([True, False], bool)),
    row("bitwise_not", lambda x: x.bitwise_not(), Ints(-9, 9, 9)),
    *(
        row(
            f"<< {n} and >> {n}",
            lambda x, n=n: (x << n, x >> n),
            Data([INT_MIN, INT_MAX, -1, 1, 0, -256, 255], "int32"),
            numpy=lambda x, n=n: (x << n, x >> n),
        )
        for n in (0, 2, 8, 31)
    ),
    row(
        "shifts of uint32",
        lambda x: (x << 4, x >> 4),
        Data([2**32 - 1, 5, 2**31], "uint32"),
        numpy=lambda x: (x << 4, x >> 4),
    ),
    row("shifts by tensors", lambda x, y: (x << y, x >> y), Ints(-99, 99, 9), Ints(0, 9, 9)),
    row("lshift and rshift", lambda x: (x.lshift(2), x.rshift(2)), Ints(-99, 99, 9), theirs=lambda x: (x << 2, x >> 2)),
    error("x << 1.0", RuntimeError, "float", lambda x: x << 1.0, Ints(0, 9, 3), both=False),
    error("float << 1", RuntimeError, "float", lambda x: x << 1, (3,), both=False),
    error("float & 1", RuntimeError, "float", lambda x: x & 1, (3,)),
    # Of two operands, the rest.
    row(
        "copysign",
        lambda x, y: x.copysign(y),
        *(Data(c, "float32") for c in square_of([1.0, -1.0, 0.0, -0.0, INF, -INF])),
        gradient=False,
    ),
    row("copysign of NaN", lambda x, y: x.copysign(y), Data([NAN, 1.0]), Data([-1.0, 2.0]), gradient=False),
    row("copysign, gradient", lambda x, y: x.copysign(y), (9,), (9,)),
    row("logaddexp", lambda x, y: x.logaddexp(y), (3, 4), (3, 4)),
    row(
        "logaddexp far apart",
        lambda x, y: x.logaddexp(y),
        Data([100.0, 0.0, 30000.0, -30000.0]),
        Data([0.0, 300.0, 0.0, 0.0]),
    ),
    row(
        "logaddexp of infinities",
        lambda x, y: x.logaddexp(y),
        Data([INF, -INF, -INF]),
        Data([0.0, 1.0, -INF]),
        gradient=False,
    ),
    row("logaddexp2", lambda x, y: x.logaddexp2(y), (3, 4), (3, 4)),
    row("atan2", lambda x, y: lib(x).atan2(x, y), (9,), (9,)),
    row("atan2 at the corners", lambda x, y: lib(x).atan2(x, y), *ALL_PAIRS, gradient=False),
    row("hypot", lambda x, y: lib(x).hypot(x, y), (9,), (9,)),
    row(
        "xlogy", lambda x, y: lib(x).xlogy(x, y), Data([0.0, 1.0, 2.0, 0.0]), Data([0.0, 2.0, 0.5, NAN]), gradient=False
    ),
    row(
        "heaviside", lambda x, y: lib(x).heaviside(x, y), Data([-1.0, 0.0, 2.0]), Data([0.5, 0.5, 0.5]), gradient=False
    ),
    row("ldexp", lambda x, y: lib(x).ldexp(x, y), (5,), Ints(-3, 4, 5)),
    row("nextafter", lambda x, y: lib(x).nextafter(x, y), (5,), (5,), gradient=False),
    row("gcd and lcm", lambda x, y: (lib(x).gcd(x, y), lib(x).lcm(x, y)), Ints(-20, 20, 9), Ints(-20, 20, 9)),
    row("floor_divide", lambda x, y: lib(x).floor_divide(x, y), (9,), (9,), gradient=False),
    row("true_divide", lambda x, y: lib(x).true_divide(x, y), Ints(-9, 9, 9), Ints(1, 9, 9)),
    # Promotion where PyTorch has the same rule.
    *(
        row(f"{a} + {b}", lambda x, y: x + y, Data([1, 0, 1], a), Data([1, 1, 0], b), gradient=False)
        for a, b in (
            ("bool", "int8"),
            ("bool", "float16"),
            ("uint8", "int8"),
            ("int8", "int16"),
            ("int8", "int32"),
            ("int16", "int32"),
            ("int32", "float32"),
            ("int32", "float16"),
            ("float16", "float32"),
            ("float32", "float64"),
            ("uint8", "int32"),
        )
    ),
    row("float16 + a float stays", lambda x: x + 2.5, Data([1, 2], "float16"), gradient=False),
    row("int32 + a float is float32", lambda x: x + 2.5, Data([1, 2], "int32")),
    row("int8 + an int stays", lambda x: x + 3, Data([1, 2], "int8")),
    row("bool + an int is int32", lambda x: x + 3, Data([True, False], bool), form=False),
    row("int32 / int32 is float32", lambda x, y: x / y, Ints(1, 9, 3), Ints(1, 9, 3)),
]
