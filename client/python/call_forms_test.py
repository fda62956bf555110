"""Spellings of calls: PyTorch's, NumPy's and tinygrad's words for what the methods do. tests/torch compares those of
PyTorch with PyTorch."""

import numpy as np
import pytest
import tensord
from tensord import Tensor

X = np.array([[3, 1, 2], [0, -4, 5]], "float32")

# call: the same by other words, or what it gives
SAME = {
    "where of a condition": (lambda x: tensord.where(x > 1), lambda x: (x > 1).nonzero(as_tuple=True)),
    "where of a condition, a method": (lambda x: (x > 1).where(), lambda x: (x > 1).nonzero(as_tuple=True)),
    "isin of a number": (lambda x: tensord.isin(1, x), lambda x: Tensor(True)),
    "isin, not": (lambda x: tensord.isin(7, x, invert=True), lambda x: Tensor(True)),
    "isin of a tensor and a number": (lambda x: tensord.isin(x, 1), lambda x: x == 1),
    "bucketize of a number": (lambda x: tensord.bucketize(4, Tensor([1, 3, 5])), lambda x: Tensor(2, "int32")),
    "bucketize": (lambda x: tensord.bucketize(x, Tensor([1.0, 3.0]), right=True),
                  lambda x: x.bucketize(Tensor([1.0, 3.0]), right=True)),
    "zeros, size": (lambda x: tensord.zeros(size=(2, 3)), lambda x: Tensor.zeros(2, 3)),
    "ones, size": (lambda x: tensord.ones(size=[2]), lambda x: Tensor.ones(2)),
    "empty, size": (lambda x: tensord.empty(size=(0, 2)), lambda x: Tensor.zeros(0, 2)),
    "full, size": (lambda x: tensord.full(size=(2,), fill_value=3), lambda x: Tensor([3, 3])),
    "full, in memory": (lambda x: tensord.full((2,), 3.0, buffer=True), lambda x: Tensor([3.0, 3.0])),
    "full_like, in memory": (lambda x: x.full_like(1, buffer=False), lambda x: x.ones_like()),
    "new_zeros, size": (lambda x: x.new_zeros(size=(2,)), lambda x: Tensor.zeros(2)),
    "arange, stop": (lambda x: tensord.arange(stop=3), lambda x: Tensor([0, 1, 2])),
    "arange, start and stop": (lambda x: tensord.arange(start=1, stop=3), lambda x: Tensor([1, 2])),
    "arange, start": (lambda x: tensord.arange(start=2), lambda x: Tensor([0, 1])),
    "linspace, stop": (lambda x: tensord.linspace(start=0, stop=1, steps=3), lambda x: Tensor([0, 0.5, 1])),
    "add, out": (lambda x: tensord.add(x, 1, out=tensord.zeros(2, 3)), lambda x: x + 1),
    "an operation of numbers, out": (lambda x: tensord.sub(1, x, out=tensord.zeros(2, 3)), lambda x: 1 - x),
    "a list of tensors, out": (lambda x: tensord.cat([x, x], out=tensord.zeros(4, 3)), lambda x: x.repeat(2, 1)),
    "a list stacked, out": (lambda x: tensord.stack([x, x], 1, out=tensord.zeros(2, 2, 3)),
                            lambda x: x.unsqueeze(1).repeat(1, 2, 1)),
    "a list side by side, out": (lambda x: tensord.hstack([x, x], out=tensord.zeros(2, 6)), lambda x: x.repeat(1, 2)),
    "a reduction, out": (lambda x: x.sum(0, out=tensord.zeros(3)), lambda x: x.sum(0)),
    "out of a wider dtype": (lambda x: x.add(1, out=tensord.zeros(2, 3, dtype="float64")), lambda x: (x + 1).double()),
    "out that is an operand": (lambda x: x.mul(2, out=x), lambda x: x * 2),
    "no out": (lambda x: x.add(1, out=None), lambda x: x + 1),
    "several results, out": (
        lambda x: x.sort(out=(tensord.zeros(2, 3), tensord.zeros(2, 3, dtype="int64"))).values, lambda x: x.sort().values),
    "linalg, out": (lambda x: tensord.linalg.inv(x[:, :2], out=tensord.zeros(2, 2)), lambda x: x[:, :2].inverse()),
    "linalg of Python, out": (
        lambda x: tensord.linalg.solve(x[:, :2], x[:, 2], out=tensord.zeros(2)),
        lambda x: tensord.linalg.solve(x[:, :2], x[:, 2])),
    "index_put of a weak value": (lambda x: x.index_put((Tensor([1]),), Tensor(2)), lambda x: Tensor([X[0], [2, 2, 2]])),
    "expand_as": (lambda x: tensord.expand_as(x[:1], x), lambda x: x[:1].expand(2, 3)),
    "view_as": (lambda x: tensord.view_as(x, Tensor.zeros(3, 2)), lambda x: x.reshape(3, 2)),
    "sum_to_size": (lambda x: x.sum_to_size(1, 3), lambda x: x.sum(0, keepdim=True)),
    "sum_to_size, less axes": (lambda x: tensord.sum_to_size(x, (3,)), lambda x: x.sum(0)),
    "sum_to_size, the same": (lambda x: x.sum_to_size(2, 3), lambda x: x),
    "sum_to_size, a number": (lambda x: x.sum_to_size(()), lambda x: x.sum()),
    "split, sizes": (lambda x: x.split(sizes=[1, 1]), lambda x: (x[:1], x[1:])),
    "unfold, dim": (lambda x: x.unfold(dim=1, size=2, step=1), lambda x: x.unfold(1, 2, 1)),
    "clone, device": (lambda x: x.clone(device="CPU"), lambda x: x),
    "copy_ of a number": (lambda x: x.copy_(3), lambda x: x.full_like(3)),
    "eq_": (lambda x: x.eq_(3), lambda x: (x == 3).float()),
    "ne_": (lambda x: x.not_equal_(3), lambda x: (x != 3).float()),
    "lt_": (lambda x: x.lt_(2), lambda x: (x < 2).float()),
    "ge_": (lambda x: x.greater_equal_(x.T.T), lambda x: x.ones_like()),
    "logical_not_": (lambda x: x.logical_not_(), lambda x: (x == 0).float()),
    "squeeze_": (lambda x: x[:1].squeeze_(), lambda x: x[0]),
    "unsqueeze_": (lambda x: x.unsqueeze_(1), lambda x: x.reshape(2, 1, 3)),
    "t_": (lambda x: x.t_(), lambda x: x.t()),
    "transpose_": (lambda x: x.transpose_(0, 1), lambda x: x.t()),
    "swapaxes_": (lambda x: x.swapaxes_(axis0=0, axis1=1), lambda x: x.t()),
    "bernoulli, all": (lambda x: tensord.bernoulli(x, p=1.0), lambda x: x.ones_like()),
    "bernoulli, none": (lambda x: tensord.bernoulli(x, 0), lambda x: x.zeros_like()),
    "lu_solve": (lambda x: x.lu_solve(*x[:, :2].lu()), lambda x: tensord.linalg.solve(x[:, :2], x)),
    "logdet": (lambda x: Tensor([[2.0]]).logdet(), lambda x: Tensor(2.0, "float32").log()),
}  # fmt: skip


def flat(result):
    return [result] if isinstance(result, Tensor) else list(result)


@pytest.mark.parametrize("case", SAME)
def test_spelling(case):
    call, other = SAME[case]
    got, expected = flat(call(Tensor(X))), flat(other(Tensor(X)))
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_out_is_what_is_given_back():
    out = tensord.zeros(2, 3)
    assert tensord.exp(Tensor(X), out=out) is out
    values, indices = tensord.zeros(2, 1), tensord.zeros(2, 1, dtype="int32")
    found = Tensor(X).topk(1, out=(values, indices))
    assert found.values is values and found.indices is indices and values.tolist() == [[3], [5]]


ERRORS = {
    "out of a lesser dtype": (lambda x: x.exp(out=tensord.zeros(2, 3, dtype="int32")), ValueError, "float32, out is int32"),
    "out of another shape": (lambda x: x.exp(out=tensord.zeros(3)), ValueError, "shape"),
    "one out for two": (lambda x: x.sort(out=tensord.zeros(2, 3)), TypeError, "one tensor for each result"),
    "an unknown keyword": (lambda x: x.exp(inplace=True), TypeError, "inplace"),
    "shape twice": (lambda x: tensord.zeros(2, size=(2,)), TypeError, "twice"),
    "end and stop": (lambda x: tensord.arange(1, 3, stop=4), TypeError, "both"),
    "no end": (lambda x: tensord.arange(), TypeError, "end"),
    "full of nothing": (lambda x: tensord.full((2,)), TypeError, "number"),
    "sum_to_size": (lambda x: x.sum_to_size(2, 2), ValueError, r"\[2, 2\] does not broadcast to \[2, 3\]"),
    "sum_to_size, more axes": (lambda x: x.sum_to_size(1, 2, 3), ValueError, "does not broadcast"),
    "bernoulli": (lambda x: x.bernoulli(2.0), ValueError, "not in"),
    "uniform": (lambda x: tensord.uniform(3, low=0.5, high=2, dtype="int32"), TypeError, "whole"),
    "uniform, empty": (lambda x: tensord.uniform(3, low=2, high=2, dtype="int32"), ValueError, "below"),
    "cuda where there is none": (lambda x: x.cuda(), ValueError, r"no CUDA:0 or NV:0; its devices are CPU:0"),
    "cuda of a number": (lambda x: x.cuda(3), ValueError, "CUDA:3"),
    "cuda of a name": (lambda x: x.cuda("cuda:1"), ValueError, "CUDA:1"),
    "a shape in place that a gradient has": (
        lambda x: Tensor(X, requires_grad=True).squeeze_(), ValueError, r"write t = t\.squeeze"),
    "gradient of two kinds": (lambda x: tensord.gradient(x.sum(), x, spacing=2), TypeError, "spacing"),
    "gradient of several": (lambda x: tensord.gradient([x, x]), TypeError, "inputs"),
    "spacings": (lambda x: tensord.gradient(x, spacing=[1, 2, 3]), ValueError, "3 spacings for 2 axes"),
    "edge_order": (lambda x: tensord.gradient(x, edge_order=3), ValueError, "edge_order is 3"),
    "few elements": (lambda x: tensord.gradient(x, edge_order=2), ValueError, "needs 3"),
    "coordinates": (lambda x: tensord.gradient(x, spacing=[Tensor([1.0]), 1]), ValueError, "points"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_rule(case):
    call, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        call(Tensor(X))


@pytest.mark.parametrize("axis, order", [(0, 1), (1, 1), (1, 2)])
def test_gradient_by_differences_is_numpys(axis, order):
    y = np.random.default_rng(0).normal(size=(4, 5))
    points = np.cumsum(np.random.default_rng(1).uniform(0.5, 2, y.shape[axis]))
    for spacing, ours in ((2.0, 2.0), (points, [Tensor(points)])):
        (slope,) = tensord.gradient(Tensor(y), spacing=ours, dim=axis, edge_order=order)
        np.testing.assert_allclose(slope.numpy(), np.gradient(y, spacing, axis=axis, edge_order=order), rtol=1e-12)
    both = tensord.gradient(Tensor(y))
    for got, expected in zip(both, np.gradient(y), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)


def test_whole_uniform_numbers():
    drawn = tensord.uniform(1000, low=-2, high=3, dtype="int32")
    assert drawn.dtype == "int32" and set(drawn.tolist()) == {-2, -1, 0, 1, 2}
    assert tensord.uniform(size=(2,), low=5, high=6).shape == (2,)
    assert tensord.rand(size=(3,), contiguous=True).shape == tensord.randn(size=(3,)).shape == (3,)


NUMPY = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "max": np.max, "min": np.min, "any": np.any, "all": np.all, "std": np.std,
    "var": np.var, "argmax": np.argmax, "cumsum": np.cumsum, "round": np.round, "clip": lambda x: np.clip(x, 0, 2),
    "squeeze": np.squeeze, "sort": np.sort, "transpose": np.transpose,
    "sum of an axis": lambda x: np.sum(x, axis=1, keepdims=True), "max of an axis": lambda x: np.max(x, axis=0),
    "std with a correction": lambda x: np.std(x, axis=1, ddof=1), "mean in double": lambda x: np.mean(x, dtype="float64"),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMPY)
def test_numpys_functions_take_tensors(name):
    np.testing.assert_allclose(np.asarray(NUMPY[name](Tensor(X))), NUMPY[name](X), rtol=1e-6)


# ---- shapes in place


def test_a_shape_in_place_is_a_view_of_the_same_data():
    x = Tensor(X)
    x.realize()
    other, before = x[0], x
    assert x.unsqueeze_(0) is before and x.shape == (1, 2, 3)
    x += 1
    assert other.tolist() == (X[0] + 1).tolist()  # the data is still one


def test_detach_in_place_ends_gradients():
    w = Tensor(X, requires_grad=True)
    y = w * 2
    y.detach_()
    assert (y * w).sum().gradient(w)[0].tolist() == (2 * X).tolist()
    assert w.detach_().requires_grad is False


def test_shapes_in_place_in_captured_functions():
    @tensord.jit
    def inside(x):
        y = x + 1
        return y.unsqueeze_(0)

    for _ in range(2):
        assert inside(Tensor(X)).shape == (1, 2, 3)
    w = Tensor(X)
    for wrong in (lambda x: x.squeeze_(), lambda x: w.t_()):
        with pytest.raises(RuntimeError, match="from outside"):
            tensord.jit(wrong)(Tensor(X))
    assert w.shape == (2, 3)
