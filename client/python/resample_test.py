"""Resizing and sampling against NumPy, by definition."""

import itertools

import numpy as np
import pytest
from tensord import Tensor
from tensord.nn import functional as F

rng = np.random.default_rng(6)


def close(tensor, expected, rtol=1e-4, atol=1e-5):
    assert tensor.shape == np.shape(expected)
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def places(n, out, align):
    i = np.arange(out)
    return i * (n - 1) / max(out - 1, 1) if align else (i + 0.5) * n / out - 0.5


def cubic(d):
    d, a = abs(d), -0.75
    if d < 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0


def matrix(n, out, mode, align):
    """Row i has the weights of element i of the result."""
    w = np.zeros((out, n))
    for i, at in enumerate(places(n, out, align)):
        if mode == "linear":
            at = max(at, 0)
            low = min(int(at), n - 1)
            w[i, low] += 1 - (at - low)
            w[i, min(low + 1, n - 1)] += at - low
        else:
            low = int(np.floor(at))
            for tap in range(low - 1, low + 3):
                w[i, min(max(tap, 0), n - 1)] += cubic(at - tap)
    return w


@pytest.mark.parametrize("mode, name, size, out", [
    ("linear", "linear", (7,), (4,)), ("linear", "linear", (4,), (9,)), ("linear", "bilinear", (5, 6), (7, 4)),
    ("linear", "trilinear", (3, 4, 5), (5, 3, 6)), ("cubic", "bicubic", (5, 6), (8, 4)),
])  # fmt: skip
@pytest.mark.parametrize("align", [False, True])
def test_smooth_modes(mode, name, size, out, align):
    x = array(2, 3, *size)
    expected = x
    for axis, (n, m) in enumerate(zip(size, out)):
        expected = np.moveaxis(np.tensordot(matrix(n, m, mode, align), expected, (1, axis + 2)), 0, axis + 2)
    close(F.interpolate(Tensor(x), out, mode=name, align_corners=align), expected)
    if mode == "linear":
        close(Tensor(x).interpolate(out, align_corners=align), expected)


@pytest.mark.parametrize("size, out", [((6,), (3,)), ((6,), (4,)), ((4, 5), (8, 10)), ((4, 5), (7, 3)), ((2, 3, 4), (3, 6, 2))])
def test_nearest(size, out):
    x = array(1, 2, *size)
    for exact, mode in ((0, "nearest"), (0.5, "nearest-exact")):
        index = [np.minimum(np.floor((np.arange(m) + exact) * n / m), n - 1).astype(int) for n, m in zip(size, out)]
        close(F.interpolate(Tensor(x), out, mode=mode), x[(slice(None), slice(None), *np.ix_(*index))])


def test_scale_factor_area_and_antialias():
    x = array(1, 1, 6, 6)
    assert F.interpolate(Tensor(x), scale_factor=1.5).shape == (1, 1, 9, 9)
    close(F.interpolate(Tensor(x), scale_factor=2), x.repeat(2, 2).repeat(2, 3))
    close(F.interpolate(Tensor(x), (3, 2), mode="area"), x.reshape(1, 1, 3, 2, 2, 3).mean((3, 5)))
    # A triangle of twice the width: 1 3 3 1 inside, cut and normalised at the ends.
    w = np.array([[3, 3, 1, 0, 0, 0], [0, 1, 3, 3, 1, 0], [0, 0, 0, 1, 3, 3]], np.float32)
    w /= w.sum(1, keepdims=True)
    close(F.interpolate(Tensor(x), (3, 3), mode="bilinear", antialias=True), w @ x @ w.T)
    for arguments in ({}, {"size": 3, "scale_factor": 2}):
        with pytest.raises(ValueError, match="size or scale_factor"):
            F.interpolate(Tensor(x), **arguments)
    with pytest.raises(ValueError, match="bilinear"):
        F.interpolate(Tensor(x), 3, mode="linear")


def test_uint8_is_rounded_after_each_axis():
    x = np.array([[[0, 10, 255], [7, 200, 3]]], np.uint8)[None]
    y = F.interpolate(Tensor(x), (2, 6), mode="bilinear").numpy()
    assert y.dtype == np.uint8
    assert y[0, 0].tolist() == [[0, 3, 8, 71, 194, 255], [7, 55, 152, 151, 52, 3]]
    assert F.interpolate(Tensor(x), (4, 3)).numpy()[0, 0, :, 0].tolist() == [0, 0, 7, 7]


def grid_sample(x, grid, mode, padding, align):
    """By definition, for two axes."""
    batch, channels, *size = x.shape
    out = np.zeros((batch, channels, *grid.shape[1:3]))

    def inside(p, n):
        if padding == "reflection":
            low, high = (0, n - 1) if align else (-0.5, n - 0.5)
            span = high - low
            p = abs(p - low) % (2 * span) if span else 0
            p = low + (p if p <= span else 2 * span - p)
        return p if padding == "zeros" else min(max(p, 0), n - 1)

    def at(b, i, j):
        return x[b, :, i, j] if 0 <= i < size[0] and 0 <= j < size[1] else 0

    for b, r, c in itertools.product(range(batch), *map(range, grid.shape[1:3])):
        u, v = ((g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2 for g, n in zip(grid[b, r, c, ::-1], size))
        if mode == "bicubic":
            for i, j in itertools.product(range(-1, 3), range(-1, 3)):
                p, q = int(np.floor(u)) + i, int(np.floor(v)) + j
                out[b, :, r, c] += cubic(u - p) * cubic(v - q) * at(b, int(inside(p, size[0])), int(inside(q, size[1])))
            continue
        u, v = inside(u, size[0]), inside(v, size[1])
        if mode == "nearest":
            out[b, :, r, c] = at(b, int(np.rint(u)), int(np.rint(v)))
            continue
        i, j = int(np.floor(u)), int(np.floor(v))
        for p, q in itertools.product((i, i + 1), (j, j + 1)):
            out[b, :, r, c] += (1 - abs(u - p)) * (1 - abs(v - q)) * at(b, p, q)
    return out


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode, padding):
    x, grid = array(2, 3, 4, 5), rng.uniform(-1.5, 1.5, (2, 3, 4, 2)).astype(np.float32)
    for align in (False, True):
        close(F.grid_sample(Tensor(x), Tensor(grid), mode, padding, align),
              grid_sample(x, grid, mode, padding, align), 1e-3, 1e-4)  # fmt: skip


def test_affine_grid_of_the_identity_samples_the_image():
    for size in ((2, 3, 4, 5), (1, 2, 3, 4, 2)):
        x, axes = array(*size), len(size) - 2
        theta = np.tile(np.eye(axes, axes + 1, dtype=np.float32), (size[0], 1, 1))
        for align in (False, True):
            grid = F.affine_grid(Tensor(theta), size, align_corners=align)
            assert grid.shape == (size[0], *size[2:], axes)
            close(F.grid_sample(Tensor(x), grid, align_corners=align), x, atol=1e-5)
