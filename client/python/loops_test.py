"""Loops on the device, against the same loops in NumPy."""

import numpy as np
import pytest

import tensord
from tensord import Tensor

RNG = np.random.default_rng(3)


def test_while_loop_stops_by_its_condition():
    steps, value = tensord.while_loop(lambda s: s[1].sum() < 100, lambda s: (s[0] + 1, s[1] * 2),
                                      (0, Tensor([1.0, 3.0])))
    assert steps.item() == 5
    assert value.tolist() == [32.0, 96.0]


@pytest.mark.parametrize("most", [0, 1, 7])
def test_while_loop_stops_after_max_iterations(most):
    x = tensord.while_loop(lambda x: x > 0, lambda x: x + 1, Tensor([1]).sum(), max_iterations=most)
    assert x.item() == 1 + most


def test_newton_finds_roots():
    a = np.array([2.0, 9.0, 1e4], dtype=np.float32)
    root = tensord.while_loop(lambda x: ((x * x - Tensor(a)).abs() > 1e-3 * Tensor(a)).any(),
                              lambda x: (x + Tensor(a) / x) * 0.5, Tensor(a), max_iterations=100)
    np.testing.assert_allclose(root.numpy(), np.sqrt(a), rtol=1e-3)


@pytest.mark.parametrize(("lower", "upper"), [(0, 5), (3, 7), (4, 4), (5, 2), (-3, 2)])
def test_fori_loop_counts_like_range(lower, upper):
    x = tensord.fori_loop(lower, upper, lambda i, x: x * 3 + i, Tensor(1, dtype="int32"))
    expected = 1
    for i in range(lower, upper):
        expected = expected * 3 + i
    assert x.item() == expected


def test_state_may_be_nested():
    state = {"a": Tensor([1.0, 2.0]), "b": [0, (Tensor([3]), 4.0)]}

    def body(i, s):
        return {"a": s["a"] + i, "b": [s["b"][0] + 1, (s["b"][1][0] * 2, s["b"][1][1] * 0.5)]}

    out = tensord.fori_loop(0, 3, body, state)
    assert out["a"].tolist() == [4.0, 5.0]
    assert out["b"][0].item() == 3
    assert out["b"][1][0].tolist() == [24]
    assert out["b"][1][1].item() == 0.5


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_stacks_what_each_iteration_returns(reverse):
    xs = RNG.normal(size=(6, 3)).astype(np.float32)
    ys = RNG.normal(size=(6,)).astype(np.float32)
    last, (sums, scaled) = tensord.scan(
        lambda s, x: (s * 0.5 + x[0], (s + x[1], x[0] * x[1])), Tensor(np.zeros(3, np.float32)),
        (Tensor(xs), Tensor(ys)), reverse=reverse)
    state = np.zeros(3, np.float32)
    expected = np.zeros((6, 3), np.float32)
    for i in range(5, -1, -1) if reverse else range(6):
        expected[i] = state + ys[i]
        state = state * np.float32(0.5) + xs[i]
    np.testing.assert_allclose(last.numpy(), state, rtol=1e-5)
    np.testing.assert_allclose(sums.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(scaled.numpy(), xs * ys[:, None], rtol=1e-5)


def recurrent(h, w, xs):
    last, outs = tensord.scan(lambda s, x: ((s @ w + x).tanh(), s.sum()), h, xs)
    return last.sum() + (outs * outs).sum()


def recurrent_unrolled(h, w, xs):
    loss = 0
    for i in range(xs.shape[0]):
        loss = loss + h.sum() * h.sum()
        h = (h @ w + xs[i]).tanh()
    return loss + h.sum()


def test_gradients_are_those_of_the_unrolled_loop():
    h, w, xs = (Tensor(RNG.normal(size=s).astype(np.float32)) for s in ((2, 4), (4, 4), (5, 2, 4)))
    for ours, theirs in zip(recurrent(h, w, xs).gradient(h, w, xs),
                            recurrent_unrolled(h, w, xs).gradient(h, w, xs)):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_second_gradients_are_those_of_the_unrolled_loop():
    h, w, xs = (Tensor(RNG.normal(size=s).astype(np.float32)) for s in ((1, 2), (2, 2), (3, 1, 2)))

    def second(function):
        (first,) = function(h, w, xs).gradient(w)
        return (first * first).sum().gradient(w)[0]

    np.testing.assert_allclose(second(recurrent).numpy(), second(recurrent_unrolled).numpy(),
                               rtol=1e-3, atol=1e-4)


def test_loops_nest():
    def body(i, x):
        return tensord.fori_loop(0, 3, lambda j, y: y * 2 + i * j, x)

    expected = 1
    for i in range(4):
        for j in range(3):
            expected = expected * 2 + i * j
    assert tensord.fori_loop(0, 4, body, Tensor(1, dtype="int32")).item() == expected


def test_a_loop_is_compiled_once_however_often_it_runs():
    def run(x):
        return tensord.fori_loop(0, 500, lambda i, x: x * 0.99 + i * 0.001, x)

    run(Tensor(np.ones(10, np.float32))).numpy()
    before = tensord.counters()
    out = run(Tensor(np.full(10, 2.0, np.float32))).numpy()
    after = tensord.counters()
    assert after["kernels_compiled"] == before["kernels_compiled"]
    expected = np.full(10, 2.0)
    for i in range(500):
        expected = expected * 0.99 + i * 0.001
    np.testing.assert_allclose(out, expected, rtol=1e-4)


def test_loops_are_captured_by_jit():
    weight = Tensor(np.eye(3, dtype=np.float32) * 0.5)

    @tensord.jit
    def step(x):
        return tensord.fori_loop(0, 4, lambda i, s: s @ weight + i, x)

    for start in (1.0, 2.0):
        expected = np.full((1, 3), start, np.float32)
        for i in range(4):
            expected = expected * 0.5 + i
        np.testing.assert_allclose(step(Tensor(np.full((1, 3), start, np.float32))).numpy(), expected)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x: tensord.fori_loop(0, 3, lambda i, s: s.sum(), x), ValueError, "keeps its dtype and shape"),
    (lambda x: tensord.fori_loop(0, 3, lambda i, s: s.cast("int32"), x), ValueError, r"makes it int32\[2\]"),
    (lambda x: tensord.fori_loop(0, 3, lambda i, s: (s, s), x), TypeError, "another structure"),
    (lambda x: tensord.while_loop(lambda s: s, lambda s: s, x), ValueError, "must be a bool"),
    (lambda x: tensord.while_loop(lambda s: True, lambda s: s, x), TypeError, "cond_fun returns bool"),
    (lambda x: tensord.scan(lambda s, r: s, x, x), TypeError, "a tuple of two"),
    (lambda x: tensord.scan(lambda s, r: (s, r), x), ValueError, "xs or a length"),
    (lambda x: tensord.scan(lambda s, r: (s, r), x, x, length=3), ValueError, "3 iterations over"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(Tensor([1.0, 2.0]))


def test_values_of_a_body_have_no_data():
    kept = []

    def body(i, s):
        kept.append(s * 2)
        return s + 1

    x = tensord.fori_loop(0, 3, body, Tensor([1.0]))
    assert x.tolist() == [4.0]
    with pytest.raises(tensord.TensordError, match="body of a loop"):
        kept[0].numpy()
    assert x.tolist() == [4.0]


def test_while_loops_have_no_gradient():
    x = Tensor([1.0, 2.0])
    with pytest.raises(tensord.TensordError, match="while loop"):
        tensord.while_loop(lambda s: s.sum() < 10, lambda s: s * 2, x).sum().gradient(x)


# Each makes a tensor of its shape and dtype by a loop: by how many others there are in it, too.
LOOPS = {
    "double": lambda x: tensord.fori_loop(0, 3, lambda i, s: s * 2, x),
    "add x": lambda x: tensord.fori_loop(0, 3, lambda i, s: s + x, x),
    "cholesky": lambda x: tensord.linalg.cholesky(x @ x.T + 9 * Tensor.eye(4)),
    "inverse": lambda x: tensord.linalg.inv(x.tril() + 9 * Tensor.eye(4)),
    "cumulated": lambda x: tensord.scan(lambda s, row: (s + row.sum(), s * row), Tensor(0.5), x)[1],
    "nested": lambda x: tensord.fori_loop(
        0, 2, lambda i, s: s + tensord.fori_loop(0, 2, lambda j, t: t * 0.5 + x + s, x), x),
}


@pytest.mark.parametrize("second", LOOPS)
@pytest.mark.parametrize("first", LOOPS)
def test_what_a_loop_gave_is_assigned_and_read_by_another(first, second):
    data = RNG.normal(size=(4, 4)).astype(np.float32)
    done = LOOPS[first](Tensor(data).clone()).realize()
    expected = LOOPS[second](done).numpy()

    assigned = Tensor.zeros(4, 4).clone()
    assigned.assign(LOOPS[first](Tensor(data)))
    np.testing.assert_allclose(LOOPS[second](assigned).numpy(), expected, rtol=1e-4, atol=1e-4)

    written = Tensor.zeros(4, 4).clone()
    written[:] = LOOPS[first](Tensor(data))
    thrice = LOOPS[first](LOOPS[second](written))
    again = LOOPS[first](LOOPS[second](done).realize())
    np.testing.assert_allclose(thrice.numpy(), again.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("second", LOOPS)
@pytest.mark.parametrize("first", LOOPS)
def test_what_a_loop_gave_is_read_in_the_body_of_another(first, second):
    data = RNG.normal(size=(4, 4)).astype(np.float32)
    assigned = Tensor.zeros(4, 4).clone()
    assigned.assign(LOOPS[first](Tensor(data)))
    out = tensord.fori_loop(0, 2, lambda i, s: s * 0.1 + LOOPS[second](assigned), Tensor(data))
    read = LOOPS[second](LOOPS[first](Tensor(data)).realize()).numpy()
    expected = data * 0.01 + read * 0.1 + read
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("second", LOOPS)
@pytest.mark.parametrize("first", LOOPS)
def test_a_function_with_a_loop_is_mapped_over_what_a_loop_gave(first, second):
    data = RNG.normal(size=(3, 4, 4)).astype(np.float32)
    given = tensord.fori_loop(0, 3, lambda i, s: s * 0.5, Tensor(data))
    out = tensord.func.vmap(lambda x: LOOPS[second](LOOPS[first](x)))(given)
    expected = np.stack([LOOPS[second](LOOPS[first](Tensor(x * 0.125))).numpy() for x in data])
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-3, atol=1e-3)
