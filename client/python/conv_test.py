"""Convolution and pooling against NumPy."""

import itertools

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.nn import functional as F

rng = np.random.default_rng(3)


def close(tensor, expected, rtol=1e-4, atol=1e-5):
    assert tensor.shape == np.shape(expected)
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def each(size):
    return itertools.product(*(range(n) for n in size))


def conv(x, w, bias, stride, dilation, padding, groups):
    """By definition; padding in pairs, one per axis."""
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    taps, axes = w.shape[2:], w.ndim - 2
    size = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], taps, dilation, stride)]
    y = np.zeros((x.shape[0], w.shape[0], *size))
    for group, (xs, ws) in enumerate(zip(np.split(x, groups, 1), np.split(w, groups))):
        out = slice(group * len(ws), (group + 1) * len(ws))
        for place in each(size):
            view = xs[(slice(None), slice(None), *(slice(p * s, p * s + (k - 1) * d + 1, d) for p, s, k, d in zip(
                place, stride, taps, dilation)))]  # fmt: skip
            y[(slice(None), out, *place)] = np.tensordot(view, ws, [range(1, axes + 2)] * 2)
    return y + bias.reshape(-1, *[1] * axes)


@pytest.mark.parametrize("size, taps, stride, dilation, padding, pairs, groups", [
    ((9,), (3,), (1,), (1,), 0, [(0, 0)], 1), ((9,), (2,), (2,), (3,), (1, 2), [(1, 2)], 3),
    ((6, 7), (3, 2), (1, 2), (2, 1), (1, 0), [(1, 1), (0, 0)], 1),
    ((5, 6), (3, 2), (1, 1), (1, 1), (1, 0, 2, 0), [(2, 0), (1, 0)], 3), ((5, 5), (1, 1), (1, 1), (1, 1), 1, [(1, 1)] * 2, 1),
    ((4, 5, 3), (2, 3, 1), (1, 2, 1), (1, 1, 1), (1, 0, 1), [(1, 1), (0, 0), (1, 1)], 1),
])  # fmt: skip
def test_conv(size, taps, stride, dilation, padding, pairs, groups):
    x, w, b = array(2, 3, *size), array(6, 3 // groups, *taps), array(6)
    expected = conv(x, w, b, stride, dilation, pairs, groups)
    close(Tensor(x).conv2d(Tensor(w), Tensor(b), groups, stride, dilation, padding), expected)
    # The transposed one is its adjoint: <conv x, y> = <x, conv_transpose y>.
    y = array(*expected.shape)
    if all(a == c for a, c in pairs):
        rest = [n + 2 * p[0] - (k - 1) * d - 1 for n, p, k, d in zip(size, pairs, taps, dilation)]
        back = Tensor(y).conv_transpose2d(Tensor(w), None, groups, stride, dilation, padding,
                                          [r % s for r, s in zip(rest, stride)])  # fmt: skip
        plain = conv(x, w, 0 * b, stride, dilation, pairs, groups)
        np.testing.assert_allclose((plain * y).sum(), (back.numpy() * x).sum(), rtol=1e-3)


def test_conv_functional():
    x, w = array(1, 2, 6, 6), array(3, 2, 3, 4)
    expected = conv(x, w, np.zeros(3), (1, 1), (1, 1), [(1, 1), (1, 2)], 1)
    close(F.conv2d(Tensor(x), Tensor(w), padding="same"), expected)
    close(F.conv2d(Tensor(x[0]), Tensor(w), padding="same"), expected[0])
    close(F.conv2d(Tensor(x), Tensor(w), padding="valid"), conv(x, w, np.zeros(3), (1, 1), (1, 1), [(0, 0)] * 2, 1))
    cropped = conv(x[:, :, 1:-1, 1:-1], w, np.zeros(3), (1, 1), (1, 1), [(0, 0)] * 2, 1)
    close(F.conv2d(Tensor(x), Tensor(w), padding=-1), cropped)
    with pytest.raises(ValueError, match="needs stride 1"):
        F.conv2d(Tensor(x), Tensor(w), stride=2, padding="same")
    with pytest.raises(RuntimeError, match="3 numbers of padding"):
        F.conv2d(Tensor(x), Tensor(w), padding=(1, 1, 1))
    with pytest.raises(RuntimeError, match="needs 3 axes"):
        F.conv1d(Tensor(x), Tensor(w))
    with pytest.raises(RuntimeError, match="output_padding 2 must be less"):
        F.conv_transpose2d(Tensor(x), Tensor(array(2, 3, 2, 2)), output_padding=2)


def pool(x, taps, stride, padding, dilation, ceil_mode, reduce):
    """reduce(values, places) of each window over the last axes; padding is left out."""
    axes = len(taps)
    size, plane = x.shape[-axes:], x.shape[:-axes]
    out = []
    for n, k, s, p, d in zip(size, taps, stride, padding, dilation):
        span = n + 2 * p - (k - 1) * d - 1
        count = -(-span // s) + 1 if ceil_mode else span // s + 1
        out.append(count - (ceil_mode and (count - 1) * s >= n + p))
    result = np.zeros(plane + tuple(out))
    for place in each(plane):
        for window in each(out):
            inside = []
            for tap in each(taps):
                at = [w * s + t * d - p for w, s, t, d, p in zip(window, stride, tap, dilation, padding)]
                if all(0 <= a < n for a, n in zip(at, size)):
                    inside.append(tuple(at))
            result[place + window] = reduce([x[place + at] for at in inside],
                                            [np.ravel_multi_index(at, size) for at in inside])  # fmt: skip
    return result


POOLS = [
    ((8, 6), (2, 2), (2, 2), (0, 0), (1, 1), False), ((7, 5), (3, 2), (2, 3), (1, 1), (1, 1), True),
    ((7, 7), (2, 2), (1, 2), (1, 0), (3, 2), False), ((5, 5), (2, 2), (2, 2), (1, 1), (1, 1), True),
    ((9,), (3,), (4,), (1,), (1,), True), ((4, 5, 3), (2, 2, 3), (2, 1, 1), (0, 1, 0), (1, 1, 1), False),
]  # fmt: skip


@pytest.mark.parametrize("size, taps, stride, padding, dilation, ceil_mode", POOLS)
def test_pools(size, taps, stride, padding, dilation, ceil_mode):
    x = array(2, 2, *size).round()  # with ties
    arguments = (taps, stride, padding, dilation, ceil_mode)
    values, indices = Tensor(x).max_pool2d(taps, stride, dilation, padding, ceil_mode, return_indices=True)
    close(values, pool(x, *arguments, lambda v, at: max(v)))
    close(Tensor(x).max_pool2d(taps, stride, dilation, padding, ceil_mode), values.numpy())
    assert indices.dtype == tensord.int32
    close(indices, pool(x, *arguments, lambda v, at: at[int(np.argmax(v))]))
    close(Tensor(x).avg_pool2d(taps, stride, dilation, padding, ceil_mode, count_include_pad=False),
          pool(x, *arguments, lambda v, at: np.mean(v)))  # fmt: skip
    close(Tensor(x).avg_pool2d(taps, stride, dilation, padding, ceil_mode, divisor_override=7),
          pool(x, *arguments, lambda v, at: np.sum(v) / 7))  # fmt: skip
    if not ceil_mode:
        close(Tensor(x).avg_pool2d(taps, stride, dilation, padding),
              pool(x, *arguments, lambda v, at: np.sum(v) / np.prod(taps)))  # fmt: skip


def test_max_pool_of_what_is_least():
    x = np.full((1, 1, 4), -np.inf, np.float32)
    values, indices = F.max_pool1d(Tensor(x), 3, padding=1, stride=2, return_indices=True)
    assert values.numpy().tolist() == [[[-np.inf] * 2]] and indices.numpy().tolist() == [[[0, 1]]]
    x[0, 0, 2] = np.nan
    values, indices = F.max_pool1d(Tensor(x), 2, return_indices=True)
    close(values, [[[-np.inf, np.nan]]])
    assert indices.numpy().tolist() == [[[0, 2]]]
    assert F.max_pool1d(Tensor([[[-3, -5, 7]]]), 2).numpy().tolist() == [[[-3]]]


def test_avg_pool_counts_padding_up_to_its_end():
    # As PyTorch: a window over the end counts the padding there, but nothing beyond.
    x = np.ones((1, 1, 5), np.float32)
    close(F.avg_pool1d(Tensor(x), 3, stride=3, padding=1, ceil_mode=True), [[[2 / 3, 1.0]]])
    close(F.avg_pool1d(Tensor(x), 4, stride=3, ceil_mode=True), [[[1.0, 1.0]]])


def test_max_unpool():
    x = np.array([[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, np.inf, 12], [13, 14, 15, 16]]]], np.float32)
    values, indices = F.max_pool2d(Tensor(x), 2, return_indices=True)
    expected = np.where(np.isin(x, values.numpy()), x, 0)
    close(F.max_unpool2d(values, indices, 2), expected)
    wide = F.max_unpool2d(values, indices, 2, output_size=(9, 9, 5, 4))
    # Windows that overlap choose one place twice: the last one stays, and both have its derivative.
    x = Tensor([[[3.0, 7.0, 8.0]]])
    twice = F.max_unpool1d(x, Tensor([[[1, 1, 0]]]), 2, 1)
    assert (twice * Tensor([10.0, 20.0, 30.0, 40.0])).sum().gradient(x)[0].tolist() == [[[20.0, 20.0, 10.0]]]
    assert twice.tolist() == [[[8.0, 7.0, 0.0, 0.0]]]
    assert wide.shape == (1, 1, 5, 4) and wide.numpy().ravel()[:16].tolist() == expected.ravel().tolist()


@pytest.mark.parametrize("size, out", [((7, 5), (3, 2)), ((8, 6), (4, 3)), ((5, 4), (7, 4)), ((6,), (4,)), ((4, 5, 3), (2, 3, 2))])
def test_adaptive_pools(size, out):
    x = array(2, 1, *size).round()
    bounds = [[(i * n // m, -(-(i + 1) * n // m)) for i in range(m)] for n, m in zip(size, out)]
    values, indices, means = np.zeros((2, 1, *out)), np.zeros((2, 1, *out)), np.zeros((2, 1, *out))
    plane = np.arange(np.prod(size)).reshape(size)
    for b, place in itertools.product(range(2), each(out)):
        window = tuple(slice(*bounds[axis][i]) for axis, i in enumerate(place))
        part = x[(b, 0, *window)]
        at = (b, 0, *place)
        values[at], means[at], indices[at] = part.max(), part.mean(), plane[window].ravel()[part.argmax()]
    close(getattr(F, f"adaptive_avg_pool{len(size)}d")(Tensor(x), out), means)
    got = getattr(F, f"adaptive_max_pool{len(size)}d")(Tensor(x), out, return_indices=True)
    close(got[0], values)
    close(got[1], indices)


def test_lp_pool():
    x = np.abs(array(1, 2, 6))
    close(F.lp_pool1d(Tensor(x), 3, 2), (x.reshape(1, 2, 3, 2) ** 3).sum(-1) ** (1 / 3))


def test_fractional_max_pool():
    x, samples = array(2, 3, 7, 9), rng.random((2, 3, 2)).astype(np.float32)
    values, indices = F.fractional_max_pool2d(Tensor(x), 2, (3, 4), return_indices=True, _random_samples=Tensor(samples))

    def starts(n, out, u):
        alpha = np.float32((n - 2) / (out - 1))
        return [int((i + u) * alpha) - int(u * alpha) for i in range(out - 1)] + [n - 2]

    for b, c in each((2, 3)):
        rows, columns = starts(7, 3, samples[b, c, 1]), starts(9, 4, samples[b, c, 0])
        expected = [[x[b, c, r : r + 2, q : q + 2].max() for q in columns] for r in rows]
        np.testing.assert_array_equal(values.numpy()[b, c], expected)
    np.testing.assert_array_equal(np.take_along_axis(x.reshape(2, 3, -1), indices.numpy().reshape(2, 3, -1), 2),
                                  values.numpy().reshape(2, 3, -1))  # fmt: skip
    assert F.fractional_max_pool2d(Tensor(x), 2, output_ratio=0.5).shape == (2, 3, 3, 4)


def test_attention():
    q, k, v = array(2, 4, 5, 3), array(2, 2, 6, 3), array(2, 2, 6, 7)

    def expected(scores, values):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ values

    kk, vv = np.repeat(k, 2, 1), np.repeat(v, 2, 1)
    scores = q @ kk.swapaxes(-1, -2) / np.sqrt(3)
    tq, tk, tv = Tensor(q), Tensor(k), Tensor(v)
    close(tq.scaled_dot_product_attention(Tensor(kk), Tensor(vv)), expected(scores, vv))
    close(tq.scaled_dot_product_attention(tk, tv, enable_gqa=True), expected(scores, vv))
    close(Tensor(kk[:, :, :5]).scaled_dot_product_attention(Tensor(kk[:, :, :5]), Tensor(vv[:, :, :5]), enable_gqa=True),
          expected(kk[:, :, :5] @ kk[:, :, :5].swapaxes(-1, -2) / np.sqrt(3), vv[:, :, :5]))  # fmt: skip
    causal = np.where(np.tri(5, 6, dtype=bool), scores, -np.inf)
    close(tq.scaled_dot_product_attention(tk, tv, is_causal=True, enable_gqa=True), expected(causal, vv))
    mask = rng.random((4, 5, 6)) > 0.3
    close(tq.scaled_dot_product_attention(tk, tv, Tensor(mask), enable_gqa=True),
          expected(np.where(mask, scores, -np.inf), vv))  # fmt: skip
    bias = array(5, 6)
    close(F.scaled_dot_product_attention(tq, tk, tv, Tensor(bias), scale=0.3, enable_gqa=True),
          expected(scores * np.sqrt(3) * 0.3 + bias, vv))  # fmt: skip
    nothing = np.ones((5, 6), bool)
    nothing[2] = False
    y = tq.scaled_dot_product_attention(tk, tv, Tensor(nothing), enable_gqa=True).numpy()
    assert np.isnan(y[:, :, 2]).all() and np.isfinite(y[:, :, [0, 1, 3, 4]]).all()
    with pytest.raises(RuntimeError, match="mask or is_causal"):
        tq.scaled_dot_product_attention(tk, tv, Tensor(mask), is_causal=True)
    with pytest.raises(RuntimeError, match="no multiple"):
        Tensor(q[:, :3]).scaled_dot_product_attention(tk, tv, enable_gqa=True)


def test_attention_dropout_follows_training():
    q = Tensor(array(1, 8, 4))
    ones = Tensor(np.ones((1, 8, 1), np.float32))
    close(q.scaled_dot_product_attention(q, ones, dropout_p=0.5), np.ones((1, 8, 1)))
    with tensord.training():
        dropped = q.scaled_dot_product_attention(q, ones, dropout_p=0.5).numpy()
    assert (np.abs(dropped - 1) > 1e-3).any()
    assert (np.abs(F.scaled_dot_product_attention(q, q, ones, dropout_p=1.0).numpy()) == 0).all()


def test_multi_head_attention():
    size, heads, queries, keys, batch = 6, 2, 3, 4, 2
    q, k = array(queries, batch, size), array(keys, batch, size)
    w, b, wo, bo = array(3 * size, size), array(3 * size), array(size, size), array(size)
    masked = np.array([[False] * keys, [False, True, False, True]])

    def split(x):
        return x.reshape(len(x), batch, heads, -1).transpose(1, 2, 0, 3)

    pq, pk, pv = (split(x @ w[i * size : (i + 1) * size].T + b[i * size : (i + 1) * size]) for i, x in enumerate((q, k, k)))
    scores = pq @ pk.swapaxes(-1, -2) / np.sqrt(size / heads) + np.where(masked, -np.inf, 0)[:, None, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = (weights @ pv).transpose(2, 0, 1, 3).reshape(queries, batch, size) @ wo.T + bo
    arguments = (size, heads, Tensor(w), Tensor(b), None, None, False, 0.0, Tensor(wo), Tensor(bo))
    for need_weights in (True, False):
        y, seen = F.multi_head_attention_forward(Tensor(q), Tensor(k), Tensor(k), *arguments, need_weights=need_weights,
                                                 key_padding_mask=Tensor(masked))  # fmt: skip
        close(y, expected)
        assert (seen is not None) == need_weights
    y, seen = F.multi_head_attention_forward(Tensor(q), Tensor(k), Tensor(k), *arguments, key_padding_mask=Tensor(masked))
    close(seen, weights.mean(1))
