"""Accumulation, dtype= and fast_math: docs/numerics.md against NumPy."""

import math

import numpy as np
import pytest
import tensord
from tensord import Tensor


@pytest.mark.parametrize("name, result", [
    ("bool", "int32"), ("int8", "int32"), ("int16", "int32"), ("int32", "int32"), ("int64", "int64"), ("uint8", "uint32"),
    ("uint16", "uint32"), ("uint32", "uint32"), ("uint64", "uint64"), ("float8_e4m3fn", "float8_e4m3fn"),
    ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"),
])  # fmt: skip
def test_sums_have_room(name, result):
    x = tensord.ones(300, dtype=name)
    assert x.sum().dtype == result
    assert x.sum().item() == (288 if name == "float8_e4m3fn" else 300)  # 300 rounded
    assert (Tensor([True, False]) * 2).sum().dtype == "int32"


def test_narrow_floats_are_accumulated_in_float32():
    x = tensord.full((4096,), 1.0, dtype="float16")
    assert x.sum().item() == 4096  # in float16 it would stay at 2048
    assert (x.reshape(1, 4096) @ x.reshape(4096, 1)).item() == 4096
    assert tensord.full((512,), 1.0, dtype="float8_e5m2").sum().item() == 512
    assert x.mean().item() == 1


def test_dtype_argument_is_a_cast_before():
    x = Tensor(np.full((4, 4), 100, "int8"))
    for dtype in ("float64", "int64", "int8", "float16"):
        total = x.sum(dtype=dtype)
        assert total.dtype == dtype
        assert total.item() == np.full((4, 4), 100, "int8").sum(dtype=dtype)
    assert x.sum(0, dtype="float32").tolist() == [400.0] * 4
    assert x.sum(dtype=None).dtype == "int32"
    assert x.prod(dtype="float64").item() == 100.0**16
    assert x.mean(1, keepdim=True, dtype="float64").shape == (4, 1)
    half = Tensor([[1.0, 2.0], [3.0, 4.0]]).half()
    assert half.softmax(-1, dtype=tensord.float32).dtype == "float32"
    np.testing.assert_allclose(half.softmax(1, dtype="float64").numpy().sum(1), [1, 1], rtol=1e-6)
    assert half.matmul(half, dtype="float32").dtype == "float32"
    np.testing.assert_array_equal(half.matmul(half, dtype="float32").numpy(), [[7, 10], [15, 22]])
    with pytest.raises(ValueError, match="float31"):
        x.sum(dtype="float31")


def test_floats_are_strict_unless_fast_math_is_asked_for():
    x = Tensor([math.inf, math.nan, -1.0, 0.0])
    strict = {"zero": lambda: x * 0, "one": lambda: x / x, "same": lambda: x - x}
    fast = {"zero": [0, 0, 0, 0], "one": [1, 1, 1, 1], "same": [0, 0, 0, 0]}
    with np.errstate(all="ignore"):
        a = x.numpy()
        exact = {"zero": a * 0, "one": a / a, "same": a - a}
    for name, compute in strict.items():
        np.testing.assert_array_equal(compute().numpy(), exact[name])
        with tensord.fast_math():
            np.testing.assert_array_equal(compute().numpy(), fast[name])
        np.testing.assert_array_equal(compute().numpy(), exact[name])


def test_a_captured_function_has_the_fast_math_of_the_call():
    @tensord.jit
    def zero(x):
        return x * 0

    nan = Tensor([math.nan])
    with tensord.fast_math():
        assert zero(nan).tolist() == [0]
    assert math.isnan(zero(nan).item()) and zero.captures == 2
