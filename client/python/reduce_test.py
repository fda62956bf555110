"""Reductions and statistics against NumPy."""

import math

import numpy as np
import pytest
import tensord
from tensord import Tensor

rng = np.random.default_rng(3)
X = rng.standard_normal((3, 4, 5)).astype(np.float32)
AXES = [None, 0, -1, (0, 2), (1,), ()]


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def logsumexp(x, axis, keepdims):
    m = x.max()
    return np.log(np.exp(x - m).sum(axis=axis, keepdims=keepdims)) + m


REDUCTIONS = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "max": np.max, "min": np.min, "amax": np.max, "amin": np.min,
    "any": np.any, "all": np.all, "nansum": np.nansum, "nanmean": np.nanmean, "count_nonzero": np.count_nonzero,
    "logsumexp": logsumexp, "var": lambda x, axis, keepdims: np.var(x, axis=axis, keepdims=keepdims, ddof=1),
    "std": lambda x, axis, keepdims: np.std(x, axis=axis, keepdims=keepdims, ddof=1),
}  # fmt: skip


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, axis):
    # As in PyTorch no axes are all of them, but for any and all.
    over = None if axis == () and name not in ("any", "all") else axis
    for keepdim in (False, True):
        expected = REDUCTIONS[name](X, axis=over, keepdims=keepdim)
        got = getattr(Tensor(X), name)(axis, keepdim)
        assert got.shape == np.shape(expected)
        np.testing.assert_allclose(got.numpy(), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*REDUCTIONS, "argmax", "argmin"])
def test_without_axes_and_bad_axes(name):
    scalar = Tensor(2.5)
    for axis in (0, -1, None):
        assert getattr(scalar, name)(axis).shape == ()
    with pytest.raises(IndexError, match="axis 1"):
        getattr(scalar, name)(1)
    with pytest.raises(IndexError, match="axis 3"):
        getattr(Tensor(X), name)(3)


@pytest.mark.parametrize("dtype, expected", [("bool", "int32"), ("int8", "int32"), ("uint8", "uint32"), ("int64", "int64"),
                                             ("float16", "float16"), ("float64", "float64")])  # fmt: skip
def test_dtypes_of_sums(dtype, expected):
    x = tensord.ones(2, 3, dtype=dtype)
    assert x.sum().dtype == expected and x.sum().item() == 6
    assert x.sum(dtype="float64").dtype == "float64"
    assert x.sum(dtype=dtype).dtype == dtype
    assert x.prod().dtype == dtype
    assert x.mean().dtype == ("float32" if expected not in ("float16", "float64") else expected)
    assert x.count_nonzero().dtype == "int32"


def test_sums_in_a_wider_type():
    x = tensord.full((3000,), 300, dtype="float16")
    assert x.sum().item() == math.inf and x.sum(dtype="float32").item() == 900000
    assert x.mean().item() == 300


def test_nothing_to_reduce():
    x = Tensor(np.zeros((4, 0), np.float32))
    assert x.sum(1).tolist() == [0.0] * 4 and x.prod(1).tolist() == [1.0] * 4
    assert x.sum(0).shape == (0,) and x.max(0).shape == (0,)
    assert np.isnan(x.mean(1).numpy()).all() and np.isnan(x.std(1).numpy()).all()
    assert x.any(1).tolist() == [False] * 4 and x.all(1).tolist() == [True] * 4
    assert x.logsumexp(1).tolist() == [-math.inf] * 4
    for name in ("max", "min", "argmax"):
        with pytest.raises(ValueError, match="no elements"):
            getattr(x, name)(1)
    assert x.softmax(1).shape == (4, 0)


def test_nan_and_ends():
    x = Tensor([[1.0, math.nan, 3.0], [1.0, 2.0, 3.0]])
    assert np.isnan(x.max(1).numpy()).tolist() == [True, False]
    assert x.argmax(1).tolist() == [1, 2] and x.nansum(1).tolist() == [4.0, 6.0] and x.nanmean(1).tolist() == [2.0, 2.0]
    low = Tensor(np.array([[-(2**31), 5], [-(2**31), -(2**31)]], np.int32))
    assert low.max(1).tolist() == [5, -(2**31)] and low.argmax(1).tolist() == [1, 0] and low.min().item() == -(2**31)
    assert Tensor(np.array([0, 255, 7], np.uint8)).max().item() == 255
    assert Tensor([False, True]).max().item() is True and Tensor([True, True, False]).argmin().item() == 2


def test_where_the_extremes_are():
    x = Tensor([[3, 9, 9], [9, 1, 1]])
    assert x.argmax().item() == 1 and x.argmin().item() == 4 and x.argmax().dtype == tensord.int32
    assert x.argmax(0).tolist() == [1, 0, 0] and x.argmin(1).tolist() == [0, 1]
    assert x.argmax(1, keepdim=True).shape == (2, 1) and x.argmax(keepdim=True).shape == (1, 1)
    low, high = x.aminmax(dim=1)
    assert low.tolist() == [3, 1] and high.tolist() == [9, 9]


@pytest.mark.parametrize("correction", [0, 1, 5])
def test_variance(correction):
    var, mean = Tensor(X).var_mean((0, 1), correction=correction)
    np.testing.assert_allclose(var.numpy(), X.var((0, 1), ddof=correction), rtol=2e-5)
    np.testing.assert_allclose(mean.numpy(), X.mean((0, 1)), rtol=2e-5, atol=1e-6)
    std, _ = Tensor(X).std_mean((0, 1), correction=correction)
    np.testing.assert_allclose(std.numpy(), X.std((0, 1), ddof=correction), rtol=2e-5)
    assert Tensor(X).var(0, unbiased=False).shape == (4, 5)


def test_variance_of_too_few():
    x = Tensor([[1.0, 2.0]], requires_grad=True)
    assert x.var(1, correction=5).tolist() == [math.inf] and np.isnan(x.var(0).numpy()).all()
    (x.var(1, correction=2).sum()).backward()
    assert x.grad.tolist() == [[math.inf, math.inf]]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(dim):
    x = Tensor(X)
    np.testing.assert_allclose(x.softmax(dim).numpy(), softmax(X, dim), rtol=1e-5)
    np.testing.assert_allclose(x.log_softmax(dim).numpy(), np.log(softmax(X, dim)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.softmin(dim).numpy(), softmax(-X, dim), rtol=1e-5)
    assert x.softmax(dim, dtype="float64").dtype == tensord.float64
    assert Tensor(1.0).softmax(0).item() == 1 and Tensor(1.0).log_softmax(-1).item() == 0


@pytest.mark.parametrize("p", [2, 1, 3, 0.5, 0, -1, math.inf, -math.inf])
@pytest.mark.parametrize("dim", [0, 2])
def test_norms(p, dim):
    expected = np.linalg.norm(X.astype(np.float64), ord=p, axis=dim) if p != 0 else np.full(
        np.delete(X.shape, dim), X.shape[dim])  # fmt: skip
    np.testing.assert_allclose(Tensor(X).norm(p, dim).numpy(), expected, rtol=1e-5)
    unit = Tensor(X).normalize(p, dim).numpy()
    np.testing.assert_allclose(unit * np.expand_dims(expected, dim), X, rtol=1e-4, atol=1e-6)
    x = Tensor(np.zeros(3, np.float32), requires_grad=True)
    if p > 0:
        x.norm(p).backward()
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_distance_difference_integral():
    a, b = Tensor([3.0, 0.0]), Tensor([0.0, 4.0])
    assert a.dist(b).item() == 5 and a.dist(b, 1).item() == 7
    x = np.array([[1, 4, 9, 16], [0, 1, 5, 2]], np.int32)
    for n in range(5):
        np.testing.assert_array_equal(Tensor(x).diff(n).numpy(), np.diff(x, n))
    np.testing.assert_array_equal(Tensor(x).diff(dim=0).numpy(), np.diff(x, axis=0))
    edge = np.array([[7], [8]], np.int32)
    np.testing.assert_array_equal(Tensor(x).diff(prepend=Tensor(edge), append=Tensor(edge)).numpy(),
                                  np.diff(x, prepend=edge, append=edge))  # fmt: skip
    assert Tensor([True, False, False]).diff().tolist() == [True, False]
    y, points = X[0], np.array([0, 1, 3, 4, 9], np.float32)
    np.testing.assert_allclose(Tensor(y).trapezoid(Tensor(points)).numpy(), np.trapezoid(y, points), rtol=1e-5)
    np.testing.assert_allclose(Tensor(y).trapz(dx=0.5, dim=0).numpy(), np.trapezoid(y, dx=0.5, axis=0), rtol=1e-5, atol=1e-6)


def test_covariance():
    x, counts, weights = X[0], np.array([1, 2, 3, 1, 2], np.int32), np.array([0.5, 1, 2, 1, 0.1], np.float32)
    np.testing.assert_allclose(Tensor(x).cov().numpy(), np.cov(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(Tensor(x).corrcoef().numpy(), np.corrcoef(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(Tensor(x[0]).cov(correction=0).numpy(), np.cov(x[0], ddof=0), rtol=1e-4)
    for frequencies, importance in [(counts, None), (None, weights), (counts, weights)]:
        given = [None if each is None else Tensor(each) for each in (frequencies, importance)]
        got = Tensor(x).cov(fweights=given[0], aweights=given[1])
        np.testing.assert_allclose(got.numpy(), np.cov(x, fweights=frequencies, aweights=importance), rtol=1e-4, atol=1e-6)


def test_slopes_of_ties_and_zeros():
    x = Tensor([2.0, 5.0, 5.0, 5.0], requires_grad=True)
    x.max().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)
    for values, slopes in [([2.0, 3.0, 4.0], [12, 8, 6]), ([2.0, 0.0, 4.0], [0, 8, 0]), ([0.0, 0.0, 4.0], [0, 0, 0])]:
        y = Tensor(values, requires_grad=True)
        y.prod().backward()
        assert y.grad.tolist() == slopes


def test_how_the_correction_is_said():
    x = Tensor(X)
    np.testing.assert_allclose(x.var(0, correction=0.5).numpy(), X.var(0) * X.shape[0] / (X.shape[0] - 0.5), rtol=1e-5)
    for name in ("var", "std"):
        function = getattr(X, name)
        np.testing.assert_allclose(getattr(x, name)(False).numpy(), function(), rtol=1e-5)
        np.testing.assert_allclose(getattr(x, name)(True).numpy(), function(ddof=1), rtol=1e-5)
        np.testing.assert_allclose(getattr(x, name)(1, correction=None).numpy(), function(1, ddof=1), rtol=1e-5)
        both = getattr(x, name + "_mean")(2, unbiased=False)
        np.testing.assert_allclose(both[0].numpy(), function(2), rtol=1e-5)


def test_of_one_variable():
    x = X[0, :1]
    np.testing.assert_allclose(Tensor(x).cov().numpy(), np.cov(x), rtol=1e-5)
    assert Tensor(x).cov().shape == () and Tensor(x).corrcoef().tolist() == 1.0


def test_integral_up_to_each_point():
    y, x = X[0], np.array([0, 1, 3, 4, 9], "float32")
    areas = (y[:, 1:] + y[:, :-1]) / 2
    got = Tensor(y).cumulative_trapezoid(Tensor(x)).numpy()
    np.testing.assert_allclose(got, np.cumsum(areas * np.diff(x), 1), rtol=1e-4, atol=1e-5)
    got = Tensor(y).cumulative_trapezoid(dx=0.5, dim=0).numpy()
    np.testing.assert_allclose(got, np.cumsum((y[1:] + y[:-1]) / 4, 0), rtol=1e-4, atol=1e-5)
    assert Tensor([1, 2, 4]).diff(0, prepend=Tensor([0])).tolist() == [1, 2, 4]


def test_renorm():
    norms = np.sqrt((X.astype("float64") ** 2).sum((0, 2)))
    most = float(np.median(norms))
    expected = X * np.where(norms > most, most / norms, 1)[None, :, None]
    np.testing.assert_allclose(Tensor(X).renorm(2, 1, most).numpy(), expected, rtol=1e-5)
    for arguments, message in [((0, 1, 1.0), "p is"), ((2, 1, -1.0), "maxnorm")]:
        with pytest.raises(ValueError, match=message):
            Tensor(X).renorm(*arguments)
    with pytest.raises(ValueError, match="two axes"):
        Tensor(X[0, 0]).renorm(2, 0, 1.0)
    with pytest.raises(ValueError, match="float"):
        Tensor([[1, 2]]).renorm(2, 0, 1.0)


@pytest.mark.parametrize("axis", ["a", 1.5, ("a",), [0, None], (0, 1.0)])
def test_what_is_no_axis(axis):
    for reduce in (lambda x: x.sum(axis), lambda x: x.mean(axis=axis), lambda x: x.amax(axis), lambda x: x.any(axis)):
        with pytest.raises(TypeError, match="an axis, or None for all, is an int or a sequence of ints, not "):
            reduce(Tensor([[1.0]]))
