"""Reading and writing by index, and picking by a condition, against NumPy."""

import numpy as np
import pytest
import tensord
from tensord import Tensor

rng = np.random.default_rng(0)


def along(shape, index, axis):
    places = list(np.indices(index.shape))
    places[axis] = index
    return tuple(places)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_scatter_writes_where_the_index_says(axis):
    x = rng.integers(0, 9, (3, 4, 5)).astype("int32")
    index = rng.integers(0, x.shape[axis], (2, 3, 4)).astype("int64")
    src = rng.integers(0, 99, (3, 4, 5)).astype("int32")
    part = src[:2, :3, :4]
    expected = x.copy()
    for place in np.ndindex(index.shape):  # the last wins
        target = list(place)
        target[axis] = index[place]
        expected[tuple(target)] = part[place]
    np.testing.assert_array_equal(Tensor(x).scatter(axis, Tensor(index), Tensor(src)).numpy(), expected)
    added = x.copy()
    np.add.at(added, along(x.shape, index, axis), part)
    np.testing.assert_array_equal(Tensor(x).scatter_add(axis, Tensor(index), Tensor(src)).numpy(), added)
    np.testing.assert_array_equal(Tensor(x).gather(axis, Tensor(index)).numpy(), x[along(x.shape, index, axis)])


def test_scatter_of_numbers():
    x = Tensor([1.0, 2, 3, 4])
    index = Tensor([0, 0, 2, 9, -1])
    assert x.scatter(0, index, 7).tolist() == [7, 2, 7, 4]
    assert x.scatter(0, index, 2, "add").tolist() == [5, 2, 5, 4]
    assert x.scatter(0, index, 3, reduce="multiply").tolist() == [9, 2, 9, 4]
    with pytest.raises(TypeError):
        x.scatter(0, index, x, reduce="add")
    with pytest.raises(TypeError):
        x.scatter(0, index, value=3)
    with pytest.raises(RuntimeError):
        x.scatter(0, Tensor([0]), Tensor([1]))  # int32 into float32
    with pytest.raises(RuntimeError, match="median"):
        x.scatter_reduce(0, Tensor([0]), x, "median")


@pytest.mark.parametrize("mode, function", [("sum", np.add), ("prod", np.multiply), ("amax", np.maximum),
                                            ("amin", np.minimum)])  # fmt: skip
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(mode, function, include_self):
    x, src = rng.standard_normal((2, 4, 6)).astype("float32")
    index = rng.integers(0, 3, (4, 6))
    expected = x.copy()
    if not include_self:
        expected[along(x.shape, index, 0)] = function.identity if function.identity is not None else src.min() - 1
    if mode == "amin" and not include_self:
        expected[along(x.shape, index, 0)] = src.max() + 1
    function.at(expected, along(x.shape, index, 0), src)
    result = Tensor(x).scatter_reduce(0, Tensor(index), Tensor(src), mode, include_self=include_self)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_slices_by_index():
    x = rng.standard_normal((4, 5)).astype("float32")
    source = rng.standard_normal((4, 3)).astype("float32")
    index = np.array([3, 0, 3])
    expected = x.copy()
    np.add.at(expected, (slice(None), index), 2 * source)
    np.testing.assert_allclose(Tensor(x).index_add(1, Tensor(index), Tensor(source), alpha=2).numpy(), expected, 1e-5)
    expected = x.copy()
    expected[:, index] = source
    np.testing.assert_array_equal(Tensor(x).index_copy(1, Tensor(index), Tensor(source)).numpy(), expected)
    expected[:, index] = 7
    np.testing.assert_array_equal(Tensor(x).index_fill(1, Tensor(index), 7).numpy()[:, [0, 3]], expected[:, [0, 3]])
    np.testing.assert_array_equal(Tensor(x).index_select(0, Tensor(index)).numpy(), x[index])
    np.testing.assert_array_equal(Tensor(x).take(Tensor([[0, -1], [7, 2]])).numpy(), x.take([[0, -1], [7, 2]]))
    order = np.argsort(x, 1)
    np.testing.assert_array_equal(Tensor(x).take_along_dim(Tensor(order), 1).numpy(), np.take_along_axis(x, order, 1))
    rows, columns = Tensor([0, 2, 0]), Tensor([1, -1, 1])
    expected = x.copy()
    np.add.at(expected, ([0, 2, 0], [1, -1, 1]), [1, 2, 3])
    result = Tensor(x).index_put((rows, columns), Tensor([1.0, 2, 3]), accumulate=True)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    assert Tensor([1, 2, 3]).put(Tensor([-1, 0]), Tensor([7, 8])).tolist() == [8, 2, 7]
    with pytest.raises(ValueError, match=r"must be \[4, 3\]"):
        Tensor(x).index_add(1, Tensor(index), Tensor(x))


def test_picking_by_a_condition():
    x = rng.standard_normal((6, 7)).astype("float32")
    t = Tensor(x)
    mask = t > 0.3
    np.testing.assert_array_equal(t.masked_select(mask).numpy(), x[x > 0.3])
    count = int((x > 0.3).sum())
    fixed = t.masked_select(mask, size=count + 2, fill_value=-1)
    np.testing.assert_array_equal(fixed.numpy(), np.append(x[x > 0.3], [-1, -1]))
    assert t.masked_select(mask, size=3).shape == (3,)
    np.testing.assert_array_equal(mask.nonzero().numpy(), np.argwhere(x > 0.3))
    for got, expected in zip(mask.nonzero(as_tuple=True), np.nonzero(x > 0.3)):
        np.testing.assert_array_equal(got.numpy(), expected)
    np.testing.assert_array_equal(mask.argwhere().numpy(), np.argwhere(x > 0.3))
    assert Tensor([0, 3, 0]).nonzero(size=3, fill_value=9).tolist() == [[1], [9], [9]]
    assert Tensor(3.0).nonzero().shape == (1, 0) and Tensor(0.0).nonzero().shape == (0, 0)
    expected = x.copy()
    expected[x > 0.3] = np.arange(count)
    np.testing.assert_array_equal(t.masked_scatter(mask, Tensor(np.arange(40, dtype="float32"))).numpy(), expected)
    with pytest.raises(RuntimeError, match="bool"):
        t.masked_select(t)


def test_counting():
    x = rng.integers(0, 20, 300)
    np.testing.assert_array_equal(Tensor(x).bincount().numpy(), np.bincount(x))
    weights = rng.standard_normal(300).astype("float32")
    np.testing.assert_allclose(Tensor(x).bincount(weights, 30).numpy(), np.bincount(x, weights, 30), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="negative"):
        Tensor([1, -1]).bincount()
    y = rng.uniform(-3, 3, 500).astype("float32")
    np.testing.assert_array_equal(Tensor(y).histc(8, -2, 2).numpy(), np.histogram(y, 8, (-2, 2))[0])
    counts, edges = Tensor(y).histogram([-1.0, 0, 0.5, 2])
    np.testing.assert_array_equal(counts.numpy(), np.histogram(y, [-1, 0, 0.5, 2])[0])
    counts, edges = Tensor(y).histogram(5, range=(-1, 1), density=True)
    expected = np.histogram(y, 5, (-1, 1), density=True)
    np.testing.assert_allclose(counts.numpy(), expected[0], rtol=1e-4)
    np.testing.assert_allclose(edges.numpy(), expected[1], rtol=1e-6)


def test_an_embedding_learns_the_rows_that_it_reads():
    table = Tensor(rng.standard_normal((50, 4)).astype("float32"))
    index = np.array([[3, 7, 3], [0, 3, 49]])
    g = tensord.embedding(Tensor(index), table).sum().gradient(table)[0]
    expected = np.zeros((50, 4), "float32")
    np.add.at(expected, index, 1)
    np.testing.assert_array_equal(g.numpy(), expected)


def test_a_tensor_without_axes_is_a_row_of_one():
    x, index = Tensor(np.float32(3)), Tensor([0])
    two = Tensor(np.float32(2))
    for axis in (0, -1):
        assert x.gather(axis, index).tolist() == [3.0] and x.gather(axis, Tensor(0)).tolist() == 3.0
        assert x.index_select(axis, index).tolist() == 3.0
        assert x.index_add(axis, index, two, alpha=4).tolist() == 11.0
        assert x.index_copy(axis, index, two).tolist() == 2.0
        assert x.index_fill(axis, index, 5).tolist() == 5.0
        assert x.index_reduce(axis, Tensor([0]), two, "prod").tolist() == 6.0
        assert x.scatter(axis, index, Tensor([2.0])).tolist() == 2.0
        assert x.scatter_add(axis, Tensor(0), two).tolist() == 5.0
    for call in (lambda: x.gather(1, index), lambda: x.index_select(1, index), lambda: x.index_fill(-2, index, 1)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(ValueError, match="one number"):
        x.index_select(0, Tensor([0, 0]))
    assert len(Tensor(3.0).nonzero(as_tuple=True)) == 1
    g = x.index_add(0, index, two).square().gradient(x)[0]
    assert g.tolist() == 10.0


def test_index_put_by_masks():
    x = rng.standard_normal((4, 5, 3)).astype("float32")
    mask, square = x[:, 0, 0] > 0, x[:, :, 0] > 0.2
    assert mask.any() and square.any()
    several = np.arange(square.sum() * 3, dtype="float32").reshape(-1, 3)
    beside = (np.array([2, 0]), np.array([True, False, True, False, False]))
    for masks, values in [((mask,), np.float32(7)), ((square,), several), (beside, np.float32(1))]:
        expected = x.copy()
        expected[masks] = values
        got = Tensor(x).index_put([Tensor(each) for each in masks], Tensor(np.asarray(values)))
        np.testing.assert_array_equal(got.numpy(), expected)
    added = Tensor(x).index_put([Tensor(mask)], Tensor(np.float32(2)), accumulate=True)
    np.testing.assert_allclose(added.numpy(), x + 2 * mask[:, None, None], rtol=1e-6)
    t = Tensor(x)
    slope = t.index_put([Tensor(mask)], Tensor(np.float32(0))).sum().gradient(t)[0]
    np.testing.assert_array_equal(slope.numpy(), np.broadcast_to(~mask[:, None, None], x.shape))
    with pytest.raises(IndexError, match="mask"):
        t.index_put([Tensor(mask[:3])], Tensor(np.float32(0)))


def test_places_of_a_known_number():
    x = Tensor([[0, 3], [4, 0]])
    assert x.nonzero_static(size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert x.nonzero_static(size=1, fill_value=9).tolist() == [[0, 1]]


def test_histogram_of_points():
    points, weights = rng.uniform(-1, 1, (40, 2)).astype("float32"), rng.uniform(0, 1, 40).astype("float32")
    edges = [np.array([-1, -0.5, 0.2, 1], "float32"), np.array([-0.9, 0, 0.9], "float32")]
    cases = [(4, {}), ([3, 2], {}), ([3, 2], {"range": [-1, 1, -0.5, 0.5]}), (edges, {}), (edges, {"density": True}),
             (edges, {"weight": weights})]  # fmt: skip
    for bins, options in cases:
        known = {"range": lambda r: {"range": [r[:2], r[2:]]}, "weight": lambda w: {"weights": w},
                 "density": lambda d: {"density": d}}  # fmt: skip
        theirs = {}
        for key, value in options.items():
            theirs.update(known[key](value))
        expected = np.histogramdd(points, bins, **theirs)
        ours = {key: Tensor(value) if key == "weight" else value for key, value in options.items()}
        given = [Tensor(each) for each in bins] if bins is edges else bins
        counts, got = Tensor(points).histogramdd(given, **ours)
        np.testing.assert_allclose(counts.numpy(), expected[0], rtol=1e-4, atol=1e-6)
        for ours_edges, theirs_edges in zip(got, expected[1], strict=True):
            np.testing.assert_allclose(ours_edges.numpy(), theirs_edges, rtol=1e-5, atol=1e-6)
    counts, _ = Tensor(points[:, 0]).histogram(Tensor(edges[0]))
    np.testing.assert_array_equal(counts.numpy(), np.histogram(points[:, 0], edges[0])[0])
    with pytest.raises(ValueError, match="bins"):
        Tensor(points).histogramdd([1, 2, 3])


def test_unravel_index():
    for shape in [(2, 3, 4), (24,), 24]:
        index = np.array([[0, 5, 23], [7, 12, 1]], "int32")
        expected = np.unravel_index(index, shape)
        for found, wanted in zip(tensord.unravel_index(Tensor(index), shape), expected):
            np.testing.assert_array_equal(found.numpy(), wanted)
    parts = Tensor(np.arange(10)).split_with_sizes([2, 3, 5])
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3, 4], [5, 6, 7, 8, 9]]
