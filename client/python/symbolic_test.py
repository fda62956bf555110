"""Sizes that vary from run to run: one program for all values."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, Variable, jit

RANDOM = np.random.default_rng(5)


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def compiled():
    counters = tensord.counters()
    return counters["kernels_compiled"], counters["plan_misses"]


def test_a_size_shows_what_it_is_made_of():
    n, m = Variable("n", 1, 8), Variable("m", 0, 3)
    assert repr(n) == "n" and repr(n + 1) == "n + 1" and repr(2 * n - m) in ("2*n - m", "-m + 2*n")
    assert repr(1 + n) == "n + 1" and n + 1 - 1 == n and hash(n + 1 - n + n) == hash(1 + n)
    assert n - n == 0 and (n * 4) // 4 == n and repr(n * m) in ("n*m", "m*n")
    assert (n + 1).low == 2 and (n + 1).high == 9
    assert n > 0 and n <= 8 and not n > 8 and m >= 0
    with pytest.raises(TypeError, match="n < 5 depends"):
        n < 5  # noqa: B015
    x = Tensor(array(8, 4))
    assert x[:n].shape == (n, 4) and repr(x[:n].shape) == "(n, 4)"
    assert x[:n].reshape(n * 2, -1).shape == (2 * n, 2)
    assert "shape=(n, 4)" in repr(x[:n])
    assert x[:n].numel() == 4 * n
    with pytest.raises(TypeError, match="length n varies"):
        len(x[:n])


CASES = {
    "slice": (lambda t, n: t[:n] * 2, lambda t, n: t[:n] * 2),
    "slice between": (lambda t, n: t[n:n + 2].sum(0), lambda t, n: t[n:n + 2].sum(0)),
    "from n": (lambda t, n: t[n:].sum(0), lambda t, n: t[n:].sum(0)),
    "one row": (lambda t, n: t[n], lambda t, n: t[n]),
    "last row": (lambda t, n: t[:n][-1], lambda t, n: t[:n][-1]),
    "mean": (lambda t, n: t[:n].mean(0), lambda t, n: t[:n].mean(0)),
    "var": (lambda t, n: t[:n].var(0, correction=0), lambda t, n: t[:n].var(0)),
    "mean of all": (lambda t, n: t[:n].mean(), lambda t, n: t[:n].mean()),
    "max": (lambda t, n: t[:n].max(0), lambda t, n: t[:n].max(0)),
    "softmax": (lambda t, n: t[:n].softmax(-1), lambda t, n: softmax(t[:n])),
    "softmax over n": (lambda t, n: t[:n].transpose(0, 1).softmax(-1), lambda t, n: softmax(t[:n].T)),
    "gram": (lambda t, n: t[:n] @ t[:n].transpose(0, 1), lambda t, n: t[:n] @ t[:n].T),
    "inner": (lambda t, n: t[:n].transpose(0, 1) @ t[:n], lambda t, n: t[:n].T @ t[:n]),
    "reshape": (lambda t, n: t[:n].reshape(n * 2, 3).sum(0), lambda t, n: t[:n].reshape(-1, 3).sum(0)),
    "reshape -1": (lambda t, n: t[:n].reshape(-1), lambda t, n: t[:n].reshape(-1)),
    "flip": (lambda t, n: t[:n].flip(0), lambda t, n: t[:n][::-1]),
    "expand": (lambda t, n: t[0].expand(n, 6), lambda t, n: np.broadcast_to(t[0], (n, 6))),
    "arange": (lambda t, n: tensord.arange(n), lambda t, n: np.arange(n, dtype=np.int32)),
    "arange from": (lambda t, n: tensord.arange(n, n + 3), lambda t, n: np.arange(n, n + 3, dtype=np.int32)),
    "full": (lambda t, n: tensord.full((n, 2), 7), lambda t, n: np.full((n, 2), 7, np.int32)),
    "beside": (lambda t, n: t * n, lambda t, n: t * np.float32(n)),
    "cat": (lambda t, n: tensord.cat([t[:n], t, t[:n]], 0), lambda t, n: np.concatenate([t[:n], t, t[:n]])),
    "pad": (lambda t, n: t[:n].pad((0, 0, 1, 2)).sum(0), lambda t, n: t[:n].sum(0)),
    "embedding": (lambda t, n: t[tensord.arange(n)], lambda t, n: t[:n]),
    "tril": (lambda t, n: (t[:n] @ t[:n].transpose(0, 1)).tril(), lambda t, n: np.tril(t[:n] @ t[:n].T)),
    "stored": (lambda t, n: (t[:n] + 1).contiguous().sum(1), lambda t, n: (t[:n] + 1).sum(1)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy_for_each_value(name):
    ours, numpys = CASES[name]
    data = array(12, 6)
    t = Tensor(data).realize()
    n = Variable("n", 1, 9)
    before = None
    for value in (1, 9, 4, 5):
        n.bind(value)
        np.testing.assert_allclose(ours(t, n).numpy(), numpys(data, value), rtol=2e-5, atol=1e-5)
        if before is None:
            before = compiled()
    assert compiled() == before


def test_nothing_there():
    n = Variable("n", 0, 4).bind(0)
    x = Tensor(array(4, 3))[:n]
    assert x.numpy().shape == (0, 3)
    assert x.sum(0).tolist() == [0, 0, 0]
    assert tensord.cat([x, Tensor(array(2, 3))], 0).numpy().shape == (2, 3)


def test_a_key_value_cache_with_a_position():
    heads, longest, size = 2, 16, 8
    pos = Variable("pos", 0, longest - 1)
    keys, values = tensord.zeros(heads, longest, size).realize(), tensord.zeros(heads, longest, size).realize()

    @jit
    def step(q, k, v):
        here = (tensord.arange(longest) == pos).reshape(1, longest, 1)
        keys.assign(here.where(k, keys))
        values.assign(here.where(v, values))
        return tensord.functional.scaled_dot_product_attention(
            q, keys[:, :pos + 1], values[:, :pos + 1])

    known_keys, known_values = np.zeros((2, 0, size), np.float32), np.zeros((2, 0, size), np.float32)
    before = None
    for position in range(longest):
        q, k, v = (array(heads, 1, size) for _ in range(3))
        known_keys = np.concatenate([known_keys, k], 1)
        known_values = np.concatenate([known_values, v], 1)
        pos.bind(position)
        out = step(Tensor(q), Tensor(k), Tensor(v)).numpy()
        expected = softmax(q @ known_keys.transpose(0, 2, 1) / np.sqrt(size)) @ known_values
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
        if before is None:
            before = compiled()
    assert step.captures == 1 and compiled() == before


def test_a_result_of_a_varying_size_comes_out_of_a_captured_function():
    n = Variable("n", 1, 6)
    table = Tensor(array(6, 3)).realize()

    @jit
    def rows():
        return table[:n] * 2

    for value in (6, 1, 3):
        n.bind(value)
        np.testing.assert_allclose(rows().numpy(), table.numpy()[:value] * 2)
    assert rows.captures == 1


def test_a_batch_of_a_varying_size_learns():
    n = Variable("n", 1, 8)
    x, y = array(8, 3), array(8, 2)
    inputs, targets = Tensor(x).realize(), Tensor(y).realize()
    weight = Tensor(array(3, 2)).realize()
    start = weight.numpy()

    @jit
    def gradient():
        loss = ((inputs[:n] @ weight).relu() - targets[:n]).square().mean()
        return loss.gradient(weight)[0]

    for value in (8, 3, 1):
        n.bind(value)
        hidden = x[:value] @ start
        error = 2 * (np.maximum(hidden, 0) - y[:value]) / (value * 2)
        np.testing.assert_allclose(
            gradient().numpy(), x[:value].T @ (error * (hidden > 0)), rtol=1e-4, atol=1e-5)
    assert gradient.captures == 1


def test_what_was_computed_for_one_value_is_not_read_for_another():
    n = Variable("n", 1, 6).bind(4)
    part = (Tensor(array(6, 2))[:n] * 2).realize()
    assert part.numpy().shape == (4, 2)
    n.bind(5)
    assert part.numpy().shape == (4, 2)
    with pytest.raises(tensord.errors.FailedPreconditionError, match="computed with n = 4, and now it is 5"):
        (part + 1).numpy()


def test_errors():
    n = Variable("n", 1, 8)
    x = Tensor(array(8, 4))
    with pytest.raises(ValueError, match=r"shapes \[n, 4\] and \[8, 4\] do not broadcast"):
        x[:n] + x
    with pytest.raises(ValueError, match="reshape"):
        x[:n].reshape(8, 4)
    with pytest.raises(ValueError, match="axis 0 of .* varies"):
        x[:n].cumsum(0)
    with pytest.raises(ValueError, match="step"):
        x[:n:2]
    with pytest.raises(ValueError, match="narrower bounds"):
        x[n:n + 4]
    with pytest.raises(ValueError, match="sizes must be numbers"):
        tensord.rand(n, 2)
    free = Variable("never_bound", 1, 8)
    with pytest.raises(tensord.errors.FailedPreconditionError, match="never_bound"):
        x[:free].numpy()


def test_views_of_a_varying_size_follow_and_write_their_base():
    n = tensord.Variable("n_view", 1, 4).bind(2)
    base = Tensor(np.arange(8, dtype=np.float32).reshape(4, 2)).realize()
    view = base[:n]
    base.assign(base + 10)
    np.testing.assert_array_equal(view.numpy(), np.arange(4).reshape(2, 2) + 10)

    at = tensord.Variable("at_view", 0, 3)
    cache, expected = Tensor(np.zeros((4, 2), np.float32)).realize(), np.zeros((4, 2), np.float32)
    for row in (1, 3):
        at.bind(row)
        cache[at:at + 1].assign(Tensor([[1.0 + row, 2.0]]))
        expected[row] = 1.0 + row, 2.0
        np.testing.assert_array_equal(cache.numpy(), expected)
