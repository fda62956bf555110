"""Tensors from data and from nothing, against NumPy (and scipy's and PyTorch's definitions, written out)."""

import itertools
import math
import pathlib

import ml_dtypes
import numpy as np
import pytest
import tensord
from tensord import Tensor


@pytest.mark.parametrize("data, dtype, shape", [
    ([1, 2], "int32", (2,)), ([1, 2.5], "float32", (2,)), ([True, False], "bool", (2,)), ([], "float32", (0,)),
    ([[]], "float32", (1, 0)), ([[1], [2]], "int32", (2, 1)), ((1.0, 2.0), "float32", (2,)), ([True, 2], "int32", (2,)),
    (b"abc", "uint8", (3,)), (bytearray(b"ab"), "uint8", (2,)), (np.zeros((2, 3)), "float64", (2, 3)),
    (np.float16(2.5), "float16", ()), (np.array(7, "uint8"), "uint8", ()), (2**63, "uint64", ()), (True, "bool", ()),
    (np.arange(6).reshape(2, 3).T, "int64", (3, 2)), (np.zeros(3, ml_dtypes.bfloat16), "bfloat16", (3,)),
    (3, "weakint", ()), (2.5, "weakfloat", ()), (None, "weakfloat", ()), (np.arange(3).astype(">i4"), "int32", (3,)),
])  # fmt: skip
def test_data_has_a_dtype(data, dtype, shape):
    tensor = Tensor(data)
    assert (tensor.dtype, tensor.shape) == (dtype, shape)
    expected = 0 if data is None else list(data) if isinstance(data, (bytes, bytearray)) else data
    np.testing.assert_array_equal(tensor.numpy().astype("float64"), np.asarray(expected, "float64"))


def test_data_that_is_none():
    for ragged in ([[1, 2], [3]], [[1], 2], [[[1]], [2]]):
        with pytest.raises(ValueError, match="rows of one length"):
            Tensor(ragged)
    with pytest.raises(ValueError):
        Tensor(["a"])
    with pytest.raises(ValueError, match="not of dict"):
        Tensor({})
    with pytest.raises(ValueError, match="complex"):
        Tensor(np.zeros(2, complex))
    with pytest.raises(RuntimeError, match="weakint"):
        Tensor([1], dtype="weakint")
    assert Tensor([2**40], dtype=tensord.int64).tolist() == [2**40]


def test_lists_by_dtype():
    assert Tensor([1.7, -1.7, 2.0**31 - 1], dtype="int32").tolist() == [1, -1, 2**31 - 1]
    assert Tensor([1, 0, 2], dtype="bool").tolist() == [True, False, True]
    assert Tensor([1, 2**60 + 1], dtype="uint64").tolist() == [1, 2**60 + 1]
    assert Tensor([0.1], dtype="float64").tolist() == [0.1]
    assert Tensor([1000.0], dtype="float8_e4m3fn").tolist() == [448.0]


def test_bytes_and_files(tmp_path):
    data = np.arange(6, dtype="float32")
    assert Tensor(data.tobytes(), dtype="float32").tolist() == data.tolist()
    with pytest.raises(ValueError, match="no whole number"):
        Tensor(b"abc", dtype="int16")
    path = tmp_path / "data"
    path.write_bytes(data.tobytes())
    assert Tensor(path).shape == (24,) and Tensor(path).dtype == "uint8"
    assert Tensor(path, dtype="float32").tolist() == data.tolist()
    with pytest.raises(FileNotFoundError):
        Tensor(pathlib.Path(tmp_path / "nothing"))


def test_what_has_storage_of_its_own():
    assert tensord.tensor(3).dtype == "int32" and tensord.tensor(2.5).dtype == "float32"
    assert tensord.from_numpy(np.ones(2)).dtype == "float64"
    assert tensord.as_tensor([1, 2]).tolist() == [1, 2]
    assert Tensor(3).clone().dtype == "int32"
    with pytest.raises(NotImplementedError, match="another process"):
        tensord.from_blob(0, (3,))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2fnuz", "bfloat16"])
def test_dtypes_that_numpy_lacks_go_in_and_out(name):
    array = np.array([[1.5, -0.25], [0.0, 2.0]]).astype(getattr(ml_dtypes, name))
    tensor = Tensor(array)
    assert tensor.dtype == name
    assert tensor.numpy().dtype == np.float32 and tensor.data().format == "f"
    for back in (tensor.numpy(), np.asarray(tensor), np.asarray(tensor.data())):
        np.testing.assert_array_equal(back, array.astype(np.float32))
    assert tensor.tolist() == [[1.5, -0.25], [0.0, 2.0]] and tensor[1, 1].item() == 2.0


def test_filled():
    for shape in [(), (3,), (2, 0), (2, 3)]:
        for make, value in [(tensord.zeros, 0), (tensord.ones, 1)]:
            assert make(*shape).shape == make(shape).shape == make(list(shape)).shape == shape
            np.testing.assert_array_equal(make(shape).numpy(), np.full(shape, value, "float32"))
    assert [tensord.full((2,), v).dtype for v in (7, 7.0, True)] == ["int32", "float32", "bool"]
    assert tensord.full(3, 1).shape == (3,)
    assert tensord.empty(2, 3).shape == (2, 3) and Tensor.zeros(2).tolist() == [0, 0]
    x = Tensor(np.ones((2, 3), "int8"))
    assert (x.full_like(7).dtype, x.full_like(7).shape) == ("int8", (2, 3))
    assert tensord.zeros_like(x, dtype="float16").dtype == "float16" and x.empty_like().dtype == "int8"
    assert x.new_zeros(2).dtype == "int8" and x.new_full((1,), 3).tolist() == [3]
    for make in (tensord.zeros, tensord.ones, tensord.empty):
        for shape in [(-1,), (2, -3), (0, -1)]:
            with pytest.raises(ValueError):
                make(*shape)
    with pytest.raises(ValueError):
        tensord.full((-2,), 1)


def beside(dtype="uint8"):
    return Tensor([1, 2], dtype=dtype)


def written(x, index, value):
    x[index] = value
    return x


#: Where a number becomes an element of an integer dtype.
STORES = {
    "Tensor": lambda n, d: Tensor(n, d),
    "list": lambda n, d: Tensor([0, n], d),
    "tensor": lambda n, d: tensord.tensor(n, d),
    "full": lambda n, d: tensord.full((2,), n, dtype=d),
    "full_like": lambda n, d: tensord.full_like(beside(d), n),
    "full_like another": lambda n, d: tensord.full_like(tensord.ones(2), n, dtype=d),
    "new_full": lambda n, d: beside(d).new_full((2,), n),
    "fill_": lambda n, d: beside(d).fill_(n),
    "pad": lambda n, d: beside(d).pad((1, 0), value=n),
    "pad_to": lambda n, d: beside(d).pad_to(3, value=n),
    "scatter": lambda n, d: beside(d).scatter(0, Tensor([0]), n),
    "index_fill": lambda n, d: beside(d).index_fill(0, Tensor([0]), n),
    "index_put": lambda n, d: beside(d).index_put((Tensor([0]),), n),
    "setitem": lambda n, d: written(beside(d), 0, n),
    "setitem slice": lambda n, d: written(beside(d), slice(1, None), n),
    "setitem list": lambda n, d: written(beside(d), [0, 1], [0, n]),
    "setitem tensor": lambda n, d: written(beside(d), Tensor([1]), n),
    "setitem mask": lambda n, d: written(beside(d), beside(d) == 1, n),
    "setitem weak": lambda n, d: written(beside(d), 0, Tensor(n)),
    "masked_fill": lambda n, d: beside(d).masked_fill(beside(d) == 1, n),
    "masked_select": lambda n, d: beside(d).masked_select(beside(d) == 1, size=3, fill_value=n),
}  # fmt: skip
#: Those where a float would make a float of the result.
PICKS = {
    "assign": lambda n, d: beside(d).assign(n),
    "where": lambda n, d: (beside(d) == 1).where(beside(d), n),
    "where, reversed": lambda n, d: tensord.where(beside(d) == 1, n, beside(d)),
    "where weak": lambda n, d: (beside(d) == 1).where(Tensor(n), beside(d)),
    "maximum": lambda n, d: beside(d).maximum(n),
    "minimum": lambda n, d: beside(d).minimum(n),
}


def shown(number):
    return str(int(number)) if math.isfinite(number) else str(number)


@pytest.mark.parametrize("name", [*STORES, *PICKS])
def test_numbers_that_the_dtype_lacks_are_refused(name):
    store = {**STORES, **PICKS}[name]
    refused = [("uint8", 256, "0 to 255"), ("uint8", -1, "0 to 255"), ("int16", 2**15, "-32768 to 32767"),
               ("int32", 2**31, "-2147483648 to 2147483647"), ("uint64", -1, "0 to 18446744073709551615")]
    if name in STORES:
        refused += [("uint8", math.inf, "0 to 255"), ("int32", math.nan, "-2147483648 to 2147483647"),
                    ("int8", 1e9, "-128 to 127")]
    for dtype, number, limits in refused:
        with pytest.raises(OverflowError, match=rf"{shown(number)} does not fit {dtype}.* {limits}") as caught:
            store(number, dtype).numpy()
        assert isinstance(caught.value, (ValueError, RuntimeError))  # as for what PyTorch and NumPy refuse
    for dtype, number in [("uint8", 255), ("int8", -128), ("uint64", 2**63 - 1), ("bool", 1), ("float16", 300)]:
        if dtype == "bool" and name in PICKS:
            continue
        made = store(number, dtype)
        assert made.dtype == dtype and (name in PICKS or number in made.reshape(-1).tolist())


def test_bounds_that_the_dtype_lacks():
    x = Tensor([1, 2, 200], dtype="uint8")
    # One that all numbers keep is none.
    for bounded in (x.clamp(-1, 300), x.clamp(min=-1), x.clamp_max(300), x.clip(-5, Tensor(256)), x.clamp_min(-1)):
        assert bounded.dtype == "uint8" and bounded.tolist() == [1, 2, 200]
    assert Tensor([5], dtype="int64").clamp(max=2**64 - 1).tolist() == [5]
    # One that none keeps has no result in the dtype.
    for clamp in (lambda: x.clamp(min=300), lambda: x.clamp(max=-1), lambda: x.clamp_min(256), lambda: x.clamp_max(Tensor(-1))):
        with pytest.raises(OverflowError, match="does not fit uint8"):
            clamp()


def test_numbers_without_a_dtype_get_the_default_one():
    for make in (lambda n: tensord.full((2,), n), lambda n: Tensor([n]), lambda n: tensord.where(Tensor([True]), n, 1)):
        with pytest.raises(OverflowError, match="1099511627776 does not fit int32"):
            make(2**40)
    with pytest.raises(OverflowError, match="64 bits"):
        Tensor(2**64)


@pytest.mark.parametrize("arguments", [
    (5,), (2, 7), (0, 10, 3), (5, -5, -2), (3, 3), (3, 1), (0, -4), (256,), (4096,), (0.0, 1.0, 0.1), (1.5, 8),
    (10, 0, -2.5), (-3, 3.0), (0, 2**31 + 2, 2**30),
])  # fmt: skip
def test_arange(arguments):
    expected = np.arange(*arguments)
    tensor = tensord.arange(*arguments)
    assert tensor.shape == expected.shape
    large = expected.dtype.kind == "i" and expected.size and np.abs(expected).max() >= 2**31
    assert tensor.dtype == ("float32" if expected.dtype.kind == "f" else "int64" if large else "int32")
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-6)


def test_arange_that_does_not_fit():
    np.testing.assert_array_equal(tensord.arange(-128, 128, dtype="int8").numpy(), np.arange(-128, 128))
    for arguments in [(-129, 0), (0, 129), (128, -130, -1)]:
        with pytest.raises(OverflowError, match="int8"):
            tensord.arange(*arguments, dtype="int8")
    with pytest.raises(OverflowError):
        tensord.arange(-1, 3, dtype="uint64")
    with pytest.raises(ValueError, match="step is 0"):
        tensord.arange(0, 5, 0)
    with pytest.raises(ValueError):
        tensord.arange(0, math.inf)


@pytest.mark.parametrize("arguments", [(0, 1, 0), (3, 9, 1), (0, 1, 30), (5, -5, 11), (-1.5, 2.5, 7)])
def test_linspace(arguments):
    np.testing.assert_allclose(tensord.linspace(*arguments).numpy(), np.linspace(*arguments), rtol=1e-6, atol=1e-7)
    whole = tensord.linspace(*arguments, dtype="int32")
    np.testing.assert_array_equal(whole.numpy(), np.trunc(np.linspace(*arguments)))


def test_counting_errors():
    for steps in (-1, True):
        with pytest.raises(ValueError):
            tensord.linspace(0, 1, steps)
    with pytest.raises(ValueError):
        tensord.linspace(0, 1, 3, dtype="bool")
    with pytest.raises(ValueError):
        tensord.eye(-1)
    np.testing.assert_allclose(tensord.logspace(-2, 2, 5).numpy(), np.logspace(-2, 2, 5), rtol=1e-5)
    np.testing.assert_allclose(tensord.logspace(0, 5, 6, 2.0).numpy(), np.logspace(0, 5, 6, base=2), rtol=1e-6)


def test_matrices():
    for n, m in [(0, None), (1, None), (3, 5), (5, 3)]:
        np.testing.assert_array_equal(tensord.eye(n, m).numpy(), np.eye(n, m))
    for offset in range(-4, 5):
        for shape in [(3, 4), (4, 2), (1, 1), (0, 3)]:
            np.testing.assert_array_equal(tensord.tril_indices(*shape, offset).numpy(),
                                          np.stack(np.tril_indices(shape[0], offset, shape[1])))
            np.testing.assert_array_equal(tensord.triu_indices(*shape, offset).numpy(),
                                          np.stack(np.triu_indices(shape[0], offset, shape[1])))
    x = Tensor([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(tensord.vander(x).numpy(), np.vander(x.numpy()))
    np.testing.assert_array_equal(x.vander(5, increasing=True).numpy(), np.vander(x.numpy(), 5, increasing=True))
    np.testing.assert_array_equal(
        tensord.block_diag(Tensor([[1, 2], [3, 4]]), Tensor([5, 6]), 7).numpy(),
        [[1, 2, 0, 0, 0], [3, 4, 0, 0, 0], [0, 0, 5, 6, 0], [0, 0, 0, 0, 7]])
    for wrong in (lambda: tensord.vander(Tensor(3.0)), lambda: tensord.ones(()).vander(), lambda: tensord.vander(tensord.ones(()), 2)):
        with pytest.raises(RuntimeError, match="vander: .*needs a vector"):
            wrong()


def test_combinations_and_products():
    x = Tensor([1, 2, 3, 4])
    for r in range(4):
        for replace, choose in [(False, itertools.combinations), (True, itertools.combinations_with_replacement)]:
            if r == 0:
                continue
            expected = np.array(list(choose(x.tolist(), r)))
            np.testing.assert_array_equal(tensord.combinations(x, r, replace).numpy(), expected)
    assert tensord.combinations(Tensor([1, 2]), 3).shape == (0, 3)
    y, z = Tensor([5.5, 6.5]), Tensor([7, 8])
    np.testing.assert_array_equal(tensord.cartesian_prod(x, y, z).numpy(),
                                  list(itertools.product(x.tolist(), y.tolist(), z.tolist())))
    assert tensord.cartesian_prod(x).tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="vectors"):
        tensord.cartesian_prod(x, Tensor([[1]]))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 16])
def test_windows(n):
    pairs = [(tensord.hann_window, np.hanning), (tensord.hamming_window, np.hamming),
             (tensord.blackman_window, np.blackman), (tensord.bartlett_window, np.bartlett),
             (tensord.kaiser_window, lambda m: np.kaiser(m, 12.0))]
    for ours, numpys in pairs:
        np.testing.assert_allclose(ours(n, periodic=False).numpy(), numpys(n), atol=1e-7)
        expected = numpys(n + 1)[:-1] if n > 1 else numpys(n)
        np.testing.assert_allclose(ours(n).numpy(), expected, atol=1e-7)
        assert ours(n, dtype="float64").dtype == "float64"
    with pytest.raises(ValueError):
        tensord.hann_window(-1)


def test_bounds_may_be_tensors():
    start, end = Tensor(1.5, dtype="float32", requires_grad=True), Tensor(4)
    np.testing.assert_allclose(tensord.linspace(start, end, 6).numpy(), np.linspace(1.5, 4, 6), rtol=1e-6)
    np.testing.assert_allclose(tensord.linspace(1.5, end, 3).numpy(), [1.5, 2.75, 4], rtol=1e-6)
    np.testing.assert_allclose(tensord.logspace(start, 2, 4, base=2).numpy(), np.logspace(1.5, 2, 4, base=2), rtol=1e-5)
    assert tensord.linspace(start, end, 1).tolist() == [1.5] and tensord.linspace(start, end, 0).shape == (0,)
    slope = tensord.linspace(start, end, 3).sum().gradient(start)[0]
    np.testing.assert_allclose(slope.numpy(), 1.5)
    with pytest.raises(ValueError, match="one number"):
        tensord.linspace(Tensor([1.0, 2.0]), 3, 4)


def test_integers_between_bounds_are_cut_off():
    assert tensord.linspace(4.3, -3, 8, dtype="int32").tolist() == [4, 3, 2, 1, 0, -1, -2, -3]
    assert tensord.logspace(0, 4, 5, 2, dtype="int32").tolist() == [1, 2, 4, 8, 16]
    assert tensord.logspace(4.3, 0, 2, dtype="int64").tolist() == [10000, 1]
    assert tensord.fill(Tensor([1, 2]), 7.9).tolist() == [7, 7]
    assert tensord.fill(Tensor([1.0]), Tensor(3)).tolist() == [3.0]
    assert tensord.rsub(Tensor([1, 2]), 5, alpha=2).tolist() == [3, 1]


def test_tensor_copies_and_as_tensor_does_not():
    x = Tensor([1.0, 2.0])
    copy, same = tensord.tensor(x), tensord.as_tensor(x)
    x.zero_()
    assert (copy.tolist(), same.tolist()) == ([1, 2], [0, 0])
    assert tensord.as_tensor(x, "int32").dtype == "int32"


@pytest.mark.parametrize("make", [tensord.tensor, tensord.as_tensor])
def test_numbers_beyond_the_default_dtype_are_refused(make):
    for number in (2**31, 2**40, -2**31 - 1, 2**63 - 1):
        with pytest.raises(OverflowError, match=f"{number} does not fit int32"):
            make(number)
        assert make(number, dtype="int64").item() == number
    assert make(2**31 - 1).item() == 2**31 - 1 and make(-2**31).dtype == tensord.int32
