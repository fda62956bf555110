"""Running reductions and sorting against NumPy."""

import numpy as np
import pytest
import tensord
from tensord import Tensor

rng = np.random.default_rng(0)


def same(tensor, expected, rtol=1e-5):
    expected = np.asarray(expected)
    got = tensor.numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("shape, axis", [((10,), 0), ((1022,), 0), ((3, 70), 1), ((70, 33), 0), ((2, 5, 3), -2), ((4, 0), 0)])
def test_running_reductions(shape, axis):
    x = rng.uniform(0.5, 1.5, shape).astype("float32")
    same(Tensor(x).cumsum(axis), np.cumsum(x, axis), 1e-4)
    same(Tensor(x).cumprod(axis), np.cumprod(x.astype("float64"), axis), 1e-3)
    same(Tensor(x).logcumsumexp(axis), np.logaddexp.accumulate(x.astype("float64"), axis))
    values, indices = Tensor(x).cummax(axis)
    same(values, np.maximum.accumulate(x, axis))
    assert indices.dtype == "int32"
    if x.size:
        same(Tensor(x).gather(axis, indices), values.numpy())
    same(Tensor(x).cummin(axis)[0], np.minimum.accumulate(x, axis))


def test_running_sums_have_dtypes_of_sums():
    x = Tensor([[True, True], [False, True]])
    assert x.cumsum().dtype == "int32" and x.cumsum().tolist() == [[1, 1], [1, 2]]
    assert Tensor([100, 100], dtype="int8").cumprod(0).tolist() == [100, 16]
    assert Tensor(3.0).cumsum().item() == 3
    with pytest.raises(IndexError):
        x.cumsum(2)


DTYPES = ["bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 7, 64, 257])
def test_sort_is_stable(dtype, size):
    x = rng.integers(0, 2 if dtype == "bool" else 50, (3, size)).astype(dtype)
    if dtype in ("int64", "uint64"):
        x = x * (1 << 40) + rng.integers(0, 3, x.shape).astype(dtype)
    values, indices = Tensor(x).sort()
    order = np.argsort(x, -1, kind="stable")
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, -1))
    largest = Tensor(x).argsort(dim=1, descending=True).numpy()
    backwards = size - 1 - np.argsort(x[:, ::-1], -1, kind="stable")[:, ::-1]
    np.testing.assert_array_equal(largest, backwards)


def test_sort_puts_nan_last():
    x = np.array([[3, np.nan, -np.inf, 1], [np.nan, np.nan, -0.0, 0.0]], "float32")
    np.testing.assert_array_equal(Tensor(x).sort(1)[1].numpy(), [[2, 3, 0, 1], [2, 3, 0, 1]])
    np.testing.assert_array_equal(Tensor(x).argsort(1, descending=True).numpy(), [[1, 0, 3, 2], [0, 1, 2, 3]])


def test_sort_of_many():
    x = rng.standard_normal(100000).astype("float32")
    values, indices = Tensor(x).sort()
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), x[order])


def test_selection_from_rows():
    x = rng.permutation(60).reshape(4, 15).astype("float32")
    values, indices = Tensor(x).topk(3)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-x, 1)[:, :3])
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), 1), values.numpy())
    np.testing.assert_array_equal(Tensor(x).kthvalue(4, 1)[0].numpy(), np.sort(x, 1)[:, 3])
    np.testing.assert_array_equal(Tensor(x).median(0)[0].numpy(), np.sort(x, 0)[1])
    assert Tensor(x).median().item() == 29
    same(Tensor(x).quantile(0.3, 1), np.quantile(x, 0.3, axis=1))
    same(Tensor(x).quantile([0.1, 0.5], 0, True), np.quantile(x, [0.1, 0.5], axis=0, keepdims=True))
    same(Tensor(x).quantile(0.25), np.quantile(x, 0.25))
    for how in ("lower", "higher", "midpoint", "linear"):
        same(Tensor(x).quantile(0.4, 1, interpolation=how), np.quantile(x, 0.4, axis=1, method=how))
    x[1, 3] = np.nan
    same(Tensor(x).nanquantile(0.6, 1), np.nanquantile(x, 0.6, axis=1))
    assert np.isnan(Tensor(x).median(1)[0].numpy()).tolist() == [False, True, False, False]
    with pytest.raises(ValueError, match="k is 16"):
        Tensor(x).topk(16)
    with pytest.raises(ValueError, match="interpolation"):
        Tensor(x).quantile(0.5, interpolation="cubic")


def test_searching():
    edges = np.sort(rng.integers(0, 40, 30)).astype("int32")
    x = rng.integers(-5, 50, (4, 25)).astype("int32")
    np.testing.assert_array_equal(Tensor(edges).searchsorted(x).numpy(), np.searchsorted(edges, x))
    np.testing.assert_array_equal(Tensor(x).bucketize(edges, right=True).numpy(), np.searchsorted(edges, x, "right"))
    np.testing.assert_array_equal(Tensor(x).isin(edges).numpy(), np.isin(x, edges))
    np.testing.assert_array_equal(Tensor(x).isin(edges, invert=True).numpy(), ~np.isin(x, edges))


@pytest.mark.parametrize("dtype", ["int32", "float32", "int64"])
def test_unique(dtype):
    x = rng.integers(0, 12, (5, 9)).astype(dtype)
    values, inverse, counts = Tensor(x).unique(return_inverse=True, return_counts=True)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), expected[0])
    np.testing.assert_array_equal(inverse.numpy(), expected[1].reshape(x.shape))
    np.testing.assert_array_equal(counts.numpy(), expected[2])
    assert Tensor(np.array([1, 1, 2, 1], dtype)).unique_consecutive().tolist() == [1, 2, 1]


def test_random_order_and_samples():
    assert sorted(tensord.randperm(100).tolist()) == list(range(100))
    assert tensord.randperm(100).tolist() != list(range(100))
    assert tensord.randperm(5, dtype="int64").dtype == "int64"
    drawn = Tensor([[0, 1, 1, 0, 1.0]]).multinomial(3).numpy()
    assert sorted(drawn[0].tolist()) == [1, 2, 4]
    many = Tensor([1.0, 0, 3]).multinomial(4000, True).numpy()
    assert set(many.tolist()) == {0, 2} and 2700 < (many == 2).sum() < 3300
    with pytest.raises(ValueError):
        Tensor([1.0, 2]).multinomial(3)


def test_gradients():
    x = tensord.Tensor(rng.standard_normal((3, 4)).astype("float32"))
    weights = np.arange(12, dtype="float32").reshape(3, 4)
    order = np.argsort(x.numpy(), 1, kind="stable")
    expected = np.zeros((3, 4), "float32")
    np.put_along_axis(expected, order, weights, 1)
    same((x.sort()[0] * weights).sum().gradient(x)[0], expected)
    same((x.cumsum(1) * weights).sum().gradient(x)[0], np.cumsum(weights[:, ::-1], 1)[:, ::-1])


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices(dtype, axis):
    x = rng.integers(0, 2, (6, 3, 2) if axis == 0 else (2, 7, 3) if axis == 1 else (3, 1, 9)).astype(dtype)
    got = Tensor(x).unique(return_inverse=True, return_counts=True, dim=axis)
    expected = np.unique(x, return_inverse=True, return_counts=True, axis=axis)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.reshape(ours.shape))


def test_unique_neighbours_along_an_axis():
    x = Tensor([[1, 1], [1, 1], [1, 2], [1, 1]])
    values, inverse, counts = x.unique_consecutive(return_inverse=True, return_counts=True, dim=0)
    assert values.tolist() == [[1, 1], [1, 2], [1, 1]]
    assert inverse.tolist() == [0, 0, 1, 2] and counts.tolist() == [2, 1, 1]
    assert Tensor(3).unique(dim=0).tolist() == [3]
    with pytest.raises(IndexError):
        x.unique(dim=2)
    with pytest.raises(ValueError, match="no elements"):
        tensord.zeros(2, 0).unique(dim=0)


def test_searching_what_a_sorter_sorts():
    x, wanted = rng.standard_normal(9).astype("float32"), rng.standard_normal(5).astype("float32")
    x[3] = wanted[0]
    for side in ("left", "right"):
        got = Tensor(x).searchsorted(wanted, side=side, sorter=Tensor(x).argsort())
        np.testing.assert_array_equal(got.numpy(), np.searchsorted(np.sort(x), wanted, side))
    with pytest.raises(ValueError, match="contradict"):
        Tensor(x).searchsorted(wanted, side="left", right=True)
    with pytest.raises(ValueError, match="'up'"):
        Tensor(x).searchsorted(wanted, side="up")
