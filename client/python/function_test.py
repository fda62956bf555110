"""function: traced once for each kind of call, used like an operation; the rules of docs/jit.md."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, function, jit
from tensord.errors import FailedPreconditionError

RANDOM = np.random.default_rng(3)


def array(*shape):
    return Tensor(RANDOM.standard_normal(shape).astype(np.float32)).realize()


def block(x, w, b):
    return (x @ w + b).gelu() + x, x.sum()


def test_equals_the_function():
    weights = [(array(4, 4), array(4)) for _ in range(3)]
    traced = function(block)

    def run(layer):
        x = array_x
        totals = []
        for w, b in weights:
            x, total = layer(x, w, b)
            totals.append(total)
        return x, totals

    array_x = array(2, 4)
    outs = [run(block), run(traced), jit(lambda: run(traced))()]
    for x, totals in outs:
        np.testing.assert_array_equal(x.numpy(), outs[0][0].numpy())
        assert [t.item() for t in totals] == [t.item() for t in outs[0][1]]
    flat = [tensor for pair in weights for tensor in pair]
    wanted = (run(block)[0] ** 2).sum().gradient(array_x, *flat)
    for ours in ((run(traced)[0] ** 2).sum().gradient(array_x, *flat),
                 jit(lambda: (run(traced)[0] ** 2).sum().gradient(array_x, *flat))()):  # fmt: skip
        for a, b in zip(ours, wanted):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    assert traced.traces == 1


def test_is_traced_for_each_kind():
    calls = []
    scale = 2

    @function
    def f(x, n, *, more=None):
        calls.append(1)
        return {"out": x * n * scale, "more": more}

    x = Tensor([1.0])
    assert f(x, 3)["out"].tolist() == [6] and f(x + 1, 3, more="text")["more"] == "text"
    assert f(Tensor([5.0]), 3)["out"].tolist() == [30] and len(calls) == 2
    assert f(Tensor([5.0, 6.0]), 3)["out"].tolist() == [30, 36] and len(calls) == 3
    scale = 10
    assert f(x, 3)["out"].tolist() == [30] and len(calls) == f.traces == 4


def test_tensors_from_outside():
    w, lazy = Tensor([2.0], requires_grad=True), Tensor([1.0]) + 1
    outer = Tensor([4.0])
    with pytest.raises(FailedPreconditionError, match="allow_implicit"):
        function(lambda x: x * w)(outer)
    f = function(allow_implicit=True)(lambda x: x * w * lazy)
    assert f(Tensor([3.0])).tolist() == [12]
    f(outer).sum().backward()
    assert w.grad.tolist() == [8]
    w.assign(Tensor([5.0]))
    assert f(Tensor([3.0])).tolist() == [30] and f.traces == 1
    step = jit(lambda x: f(x + 1) + f(x))
    assert step(Tensor([1.0])).tolist() == [30]
    w.assign(Tensor([1.0]))
    assert step(Tensor([1.0])).tolist() == [6]


def test_functions_in_functions_and_tensors_of_a_capture():
    inner = function(lambda x: x.tanh() * 2)

    @jit
    def step(x):
        made = x * 3
        outer = function(lambda y: inner(y) + inner(y * made), allow_implicit=True)
        return outer(x) + inner(x)

    x = Tensor([0.3])
    expected = 2 * np.tanh(0.3) * 2 + 2 * np.tanh(0.3 * 0.9)
    for _ in range(2):
        np.testing.assert_allclose(step(x).numpy(), [expected], rtol=1e-6)
    assert inner.traces == 1


def test_random_numbers_are_drawn_by_each_call():
    f = function(lambda x: (tensord.rand(2) + x, tensord.rand(2)))

    def draw(call):
        tensord.manual_seed(5)
        return [tensor.tolist() for tensor in (tensord.rand(2), *call(0.0), *call(0.0), tensord.rand(2))]

    def as_written(x):
        return tensord.rand(2) + x, tensord.rand(2)

    assert draw(lambda x: f(Tensor(x))) == draw(as_written)
    twice = jit(lambda: (*f(Tensor(0.0)), *f(Tensor(0.0))))
    tensord.manual_seed(5)
    plain = [tensord.rand(2).tolist() for _ in range(8)]
    tensord.manual_seed(5)
    assert [t.tolist() for _ in range(2) for t in twice()] == plain


def test_a_derivative_of_its_own():
    clipped = function(lambda x, y: x * y, grad_fxn=lambda g, inputs, outputs: (g * 100, g * inputs[0] + outputs[0]))
    x, y = Tensor([2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    for _ in range(2):
        x.grad = y.grad = None
        clipped(x, y).sum().backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([100], [8])
    assert clipped.traces == 1


def test_no_effects():
    state = Tensor([1.0], requires_grad=True)

    def assigns_outside(x):
        state.assign(state + x)
        return x

    def assigns(x):
        x += 1
        return x

    def assigns_a_slice(x):
        x[0] = 5.0
        return x

    def leaves_gradients(x):
        (state * x).sum().backward()
        return x

    def reads(x):
        return x * x.item()

    for f, message in ((assigns_outside, "no effects"), (assigns, "argument 0"), (assigns_a_slice, "argument 0"),
                       (leaves_gradients, "gradients"), (reads, "captured")):  # fmt: skip
        x = Tensor([1.0]).realize()
        with pytest.raises(FailedPreconditionError, match=message):
            function(f, allow_implicit=True)(x)
        assert (x.tolist(), state.tolist(), state.grad) == ([1], [1], None)


def test_methods_weak_dtypes_and_sizes_that_vary():
    class Layer:
        def __init__(self, value):
            self.w = Tensor([value]).realize()

        @function(allow_implicit=True)
        def __call__(self, x):
            return x * self.w

    a, b = Layer(2.0), Layer(3.0)
    assert [a(Tensor([1.0])).item(), b(Tensor([1.0])).item(), a(Tensor([4.0])).item()] == [2, 3, 8]

    double = function(lambda x: x * 2)
    assert str((Tensor([1], dtype="int8") * double(Tensor(2).sum())).dtype) == str(
        (Tensor([1], dtype="int8") * (Tensor(2).sum() * 2)).dtype)
    n = tensord.Variable("length", 1, 4)
    rows = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    for size in (2, 4):
        n.bind(size)
        assert double(rows[:n]).tolist() == [2.0 * i for i in range(1, size + 1)]
    assert double.traces == 2
