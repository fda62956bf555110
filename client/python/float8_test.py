"""The 8- and 16-bit floats against ml_dtypes, which is another's implementation of them."""

import ml_dtypes
import numpy as np
import pytest
import tensord

SATURATING = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
SMALL = [*SATURATING, "float16", "bfloat16"]


def numpy_dtype(name):
    return np.dtype(name if name == "float16" else getattr(ml_dtypes, name))


def every_value(name):
    bits = numpy_dtype(name).itemsize * 8
    return np.arange(2**bits, dtype=f"uint{bits}").view(numpy_dtype(name))


def assert_same(actual, expected):
    """NaN is NaN, and zeros have signs."""
    with np.errstate(invalid="ignore"):
        actual, expected = actual.astype("float64"), expected.astype("float64")
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual)[~np.isnan(actual)], np.signbit(expected)[~np.isnan(expected)])


@pytest.mark.parametrize("name", SMALL)
def test_every_value_is_read_as_ml_dtypes_reads_it(name):
    values = every_value(name)
    x = tensord.Tensor(values)
    assert x.dtype == name
    assert x.numpy().dtype == ("float16" if name == "float16" else "float32")
    assert_same(x.numpy(), values)
    for wide in ("float32", "float64"):
        with np.errstate(invalid="ignore"):
            expected = values.astype(wide)
        assert_same(x.cast(wide).numpy(), expected)


def nearest_even(x, name):
    """Rounding by definition, for float64: ml_dtypes rounds it to float32 first."""
    codes = np.arange(2 ** (numpy_dtype(name).itemsize * 8 - 1))  # of positive numbers, in their order
    with np.errstate(invalid="ignore"):
        values = codes.astype(f"uint{numpy_dtype(name).itemsize * 8}").view(numpy_dtype(name)).astype("float64")
    values = values[np.isfinite(values)]
    magnitude = np.abs(x)
    above = np.clip(np.searchsorted(values, magnitude), 1, len(values) - 1)
    middle = (values[above] + values[above - 1]) / 2
    up = (magnitude > middle) | ((magnitude == middle) & (above % 2 == 0))
    rounded = np.where(up, values[above], values[above - 1])
    top = values[-1]
    if name not in SATURATING:
        limit = top + (top - values[-2]) / 2
        rounded = np.where(magnitude >= limit, np.inf, rounded)
    infinity = np.inf if name in ("float16", "bfloat16", "float8_e5m2") else np.nan
    rounded = np.where(np.isinf(magnitude), infinity, rounded)
    rounded = np.copysign(rounded, x)
    if name.endswith("fnuz"):
        rounded += 0.0  # -0 becomes 0
    return np.where(np.isnan(x), np.nan, rounded)


def near_every_rounding(name, wide):
    """Every value, the middle between neighbours, what is beside those, and far numbers."""
    with np.errstate(all="ignore"):
        finite = np.unique(every_value(name).astype(wide))
    finite = finite[np.isfinite(finite)]
    middles = finite[1:] / 2 + finite[:-1] / 2
    x = np.concatenate([finite, middles, [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30]]).astype(wide)
    return np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)]).astype(wide)


@pytest.mark.parametrize("name", SMALL)
def test_float32_rounds_as_in_ml_dtypes(name):
    x = near_every_rounding(name, "float32")
    with np.errstate(all="ignore"):
        expected = x.astype(numpy_dtype(name)).astype("float32")
        if name in SATURATING:  # ours go to the largest number, where ml_dtypes' leave the numbers
            top = float(ml_dtypes.finfo(numpy_dtype(name)).max)
            expected = np.where(np.isfinite(x), np.clip(x, -top, top).astype(numpy_dtype(name)), expected)
    assert_same(tensord.Tensor(x).cast(name).numpy(), expected)


@pytest.mark.parametrize("name", SMALL)
def test_float64_rounds_once(name):
    x = near_every_rounding(name, "float64")
    assert_same(tensord.Tensor(x).cast(name).numpy(), nearest_even(x, name))


@pytest.mark.parametrize("name", SMALL)
def test_arithmetic_rounds_after_each_operation(name):
    with np.errstate(invalid="ignore"):
        values = every_value(name).astype("float32")
    values = values[np.isfinite(values)]
    values = values[:: max(1, len(values) // 200)]
    top = values.max()
    x, y = np.meshgrid(values, values)
    a, b = tensord.Tensor(x).cast(name), tensord.Tensor(y).cast(name)
    with np.errstate(all="ignore"):
        for actual, exact in [(a + b, x + y), (a - b, x - y), (a * b, x * y)]:
            if name in SATURATING:
                exact = np.clip(exact, -top, top)
            assert actual.dtype == name
            assert_same(actual.numpy(), exact.astype(numpy_dtype(name)))


def test_matmul_accumulates_in_float32():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (33, 70)).astype(ml_dtypes.float8_e4m3fn)
    y = rng.uniform(-2, 2, (70, 19)).astype(ml_dtypes.float8_e4m3fn)
    product = tensord.Tensor(x) @ tensord.Tensor(y)
    assert product.dtype == "float8_e4m3fn"
    exact = x.astype("float64") @ y.astype("float64")
    # Half a unit of float8, and a little for float32's sum.
    np.testing.assert_allclose(product.numpy().astype("float64"), exact, rtol=1 / 15.9, atol=2**-10)
