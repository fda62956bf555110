"""Casts between all pairs of dtypes, and integers that overflow, against NumPy, ml_dtypes and docs/numerics.md."""

import math

import ml_dtypes
import numpy as np
import pytest
import tensord
from tensord import Tensor, dtypes

INTS = [str(d) for d in dtypes.ints]
FLOATS = [str(d) for d in dtypes.floats]
SATURATING = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float8_e4m3fnuz": 240.0, "float8_e5m2fnuz": 57344.0}


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" or name in SATURATING else np.dtype(name)


def edge_values(name):
    if name == "bool":
        return np.array([False, True])
    if name in INTS:
        info = np.iinfo(name)
        whole = [0, 1, 2, 3, 7, 100, 127, 128, 255, 256, 2049, 32767, 65535, 65536, 16777217, 2**31 - 1, 2**31, 2**32 - 1,
                 2**53 + 1, 2**60 + 2**36 + 1, info.max, info.max - 1, info.min, info.min + 1]
        return np.array(sorted({sign * x for x in whole for sign in (1, -1) if info.min <= sign * x <= info.max}), name)
    real = [0.0, 0.3, 0.5, 0.999, 1.0, 1.5, 2.5, 3.49, 100.0, 127.0, 127.5, 128.0, 255.0, 255.9, 256.0, 300.0, 447.0, 449.0,
            464.0, 32767.5, 65504.0, 65520.0, 65535.5, 1e5, 2147483520.0, 2147483648.0, 4294967040.0, 4294967296.0, 2.0**53,
            2.0**63, 2.0**64, 1e20, 1e-3, 1e-5, 1e-8, 1e-40, math.inf]
    with np.errstate(all="ignore"):
        values = np.array([*real, *(-x for x in real), math.nan], "float64").astype("float32").astype("float64")
        return values.astype(numpy_dtype(name))


def round_to(values, name):
    """Exact numbers (float64) in a float dtype."""
    with np.errstate(all="ignore"):
        if name not in SATURATING:
            return values.astype(numpy_dtype(name)).astype("float64")
        top = SATURATING[name]
        rounded = np.clip(values, -top, top).astype(numpy_dtype(name)).astype("float64")
        infinity = math.inf if name == "float8_e5m2" else math.nan
        rounded = np.where(np.isinf(values), np.copysign(infinity, values), rounded)
        return rounded + 0.0 if name.endswith("fnuz") else rounded


def expected_cast(values, source, target):
    if target == "bool":
        with np.errstate(invalid="ignore"):
            return values.astype("float64") != 0 if source in FLOATS else values != 0
    if target in FLOATS:
        # All of these are exact in float64 or rounded by it so that the second rounding is none: see the values.
        if source in FLOATS:
            with np.errstate(invalid="ignore"):
                return round_to(values.astype("float64"), target)
        if target in ("float32", "float64"):
            return values.astype(target).astype("float64")
        return np.array([float(nearest(int(x), target)) for x in values])
    if source in FLOATS:
        info = np.iinfo(target)
        with np.errstate(invalid="ignore"):
            exact = values.astype("float64").tolist()
        return np.array([0 if math.isnan(x) else info.max if x >= info.max else info.min if x <= info.min else int(x)
                         for x in exact], target)
    return values.astype(target)  # wraps


def nearest(x, name):
    """An integer rounded once to a narrow float, by exact arithmetic."""
    info = dtypes.finfo(name)
    magnitude = abs(x)
    digits = info.mantissa_bits + 1
    excess = max(magnitude.bit_length() - digits, 0)
    unit = 1 << excess
    quotient, rest = divmod(magnitude, unit)
    if rest * 2 > unit or (rest * 2 == unit and quotient % 2 == 1):
        quotient += 1
    rounded = quotient * unit
    if rounded > info.max:
        rounded = info.max if name in SATURATING else math.inf
    return rounded if x >= 0 else -rounded


def same(actual, expected, what):
    if actual.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):
            actual = actual.astype("float64")
        zero = actual == 0
        np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]), what)
    np.testing.assert_array_equal(actual, expected, what)


@pytest.mark.parametrize("source", ["bool", *INTS, *FLOATS])
def test_casts_to_every_dtype(source):
    values = edge_values(source)
    x = Tensor(values)
    targets = ["bool", *INTS, *FLOATS]
    casts = [x.cast(target) for target in targets]
    tensord.realize(casts)
    for target, cast in zip(targets, casts):
        assert cast.dtype == target
        same(cast.numpy(), expected_cast(values, source, target), f"{source} to {target}")


@pytest.mark.parametrize("name", INTS)
def test_integers_wrap(name):
    values = edge_values(name)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    x, y = Tensor(a), Tensor(b)
    results = [x + y, x - y, x * y, -x, x & y, x | y, x ^ y, ~x]
    tensord.realize(results)
    with np.errstate(over="ignore"):
        expected = [a + b, a - b, a * b, -a, a & b, a | b, a ^ b, ~a]
    for result, numbers in zip(results, expected):
        assert result.dtype == name
        np.testing.assert_array_equal(result.numpy(), numbers)


@pytest.mark.parametrize("name", INTS)
def test_integer_constants_wrap_as_computed_ones_do(name):
    # What folds while the program is made and what is computed by it is the same.
    top = np.array([np.iinfo(name).max], name)
    computed = Tensor(top) + Tensor(np.array([1], name))
    folded = tensord.full((1,), int(top[0]), dtype=name) + tensord.full((1,), 1, dtype=name)
    assert computed.tolist() == folded.tolist() == [np.iinfo(name).min]


def test_no_narrowing_cast_is_dropped():
    x = Tensor([1e6, 1.0001, -70000.0, 1e-9])
    assert x.half().float().tolist() == [math.inf, 1.0, -math.inf, 0.0]
    assert x.cast("int8").cast("int32").tolist() == [127, 1, -128, 0]
    assert Tensor([300, -1]).byte().int().tolist() == [44, 255]
    np.testing.assert_array_equal(Tensor([2**24 + 1, 7]).float().int().numpy(), [2**24, 7])


@pytest.mark.parametrize("source", ["uint8", "int16", "uint32", "float32", "bfloat16", "float64", "float8_e5m2"])
@pytest.mark.parametrize("target", ["int8", "uint16", "float16", "int32", "float32", "uint64"])
def test_bitcast_is_numpys_view(source, target):
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 2**16, (3, 16), "uint16").view("uint8")
    a = raw.view(numpy_dtype(source))
    back = Tensor(a).bitcast(target)
    assert back.dtype == target
    assert back.shape == raw.view(numpy_dtype(target)).shape
    assert back.bitcast("uint8").numpy().tobytes() == raw.tobytes()


def test_bitcasts_that_make_no_sense():
    with pytest.raises(RuntimeError, match="last axis"):
        Tensor([1, 2, 3], dtype="uint8").bitcast("uint16")
    with pytest.raises(RuntimeError, match="no storage"):
        Tensor(3).bitcast("float32")
    with pytest.raises(RuntimeError, match="no storage"):
        Tensor([3]).bitcast("weakint")


def test_methods_that_cast():
    x = Tensor([0.0, -1.5, 2.5])
    for method, name in [("bool", "bool"), ("char", "int8"), ("byte", "uint8"), ("short", "int16"), ("int", "int32"),
                         ("long", "int64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("float", "float32"),
                         ("double", "float64")]:
        assert getattr(x, method)().dtype == name
    assert x.to("half").dtype == "float16" and x.to(x.half()).dtype == "float16"
    assert x.to(dtype=np.int8).dtype == "int8" and x.to(x.device).dtype == "float32"
    assert x.to(x.device, tensord.float64, non_blocking=True).dtype == "float64"
    assert x.type() == "float32" and x.type("int16").dtype == "int16"
    assert x.type_as(Tensor([True])).tolist() == [False, True, True]
    assert x.element_size() == x.itemsize == 4 and x.nbytes() == 12 and x.is_floating_point()
    with pytest.raises(ValueError, match="there is no device 'CUDA:7'; the daemon has CPU:0"):
        x.to("CUDA:7")
    with pytest.raises(RuntimeError, match="weakint"):
        x.cast("weakint")
