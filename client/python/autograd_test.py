"""Derivatives beyond backward: several outputs, Jacobians, rules of one's own, checkpoints, and none at all."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, autograd

X = np.array([0.5, -1.0, 2.0], np.float64)


def test_several_outputs_and_weights():
    x, y = Tensor(X, requires_grad=True), Tensor(X + 1, requires_grad=True)
    outs = [(x * y).sum(), x * x]
    gx, gy = tensord.gradient(outs, [x, y], [None, Tensor([1.0, 10.0, 100.0], dtype="float64")])
    np.testing.assert_allclose(gx.numpy(), X + 1 + 2 * X * [1, 10, 100])
    np.testing.assert_allclose(gy.numpy(), X)
    assert isinstance(autograd.grad(outs[0], x), tuple)
    unused = tensord.gradient(outs[0], Tensor(X))
    assert unused[0].tolist() == [0, 0, 0]
    for wrong in (lambda: tensord.gradient(outs[1], x), lambda: tensord.gradient(outs[0], Tensor([1])),
                  lambda: tensord.gradient(outs, x, [None]), lambda: tensord.gradient(Tensor([1]).sum(), x),
                  lambda: tensord.gradient(outs[1], x, Tensor([1.0]))):  # fmt: skip
        with pytest.raises((ValueError, RuntimeError)):
            wrong()


def test_backward_takes_what_torch_takes():
    x, y = Tensor(X, requires_grad=True), Tensor(X, requires_grad=True)
    z = (x * x * y).sum()
    z.backward(retain_graph=True)
    z.backward(inputs=[x])
    np.testing.assert_allclose(x.grad.numpy(), 4 * X * X)
    np.testing.assert_allclose(y.grad.numpy(), X * X)
    (g,) = tensord.gradient((x * x * x).sum(), x)
    (second,) = tensord.gradient(g.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * X)


def function(x):
    return (x * x).sum() * x.exp()


def jacobian_of(x):
    return np.outer(np.exp(x), 2 * x) + np.diag((x * x).sum() * np.exp(x))


def test_products_with_the_jacobian():
    v, expected = np.array([1.0, -2.0, 0.5]), jacobian_of(X)
    out, product = autograd.vjp(function, Tensor(X), Tensor(v))
    np.testing.assert_allclose(out.numpy(), (X * X).sum() * np.exp(X))
    np.testing.assert_allclose(product.numpy(), v @ expected)
    np.testing.assert_allclose(autograd.jvp(function, Tensor(X), Tensor(v))[1].numpy(), expected @ v)
    np.testing.assert_allclose(autograd.jacobian(function, Tensor(X)).numpy(), expected)
    np.testing.assert_allclose(autograd.hessian(lambda x: (x * x * x).sum() * x[0], Tensor(X)).numpy(),
                               np.diag(6 * X * X[0]) + np.outer([1, 0, 0], 3 * X * X) + np.outer(3 * X * X, [1, 0, 0]))  # fmt: skip
    same = Tensor(X)
    a, b = autograd.jacobian(lambda x, y: x * y * y, (same, same))
    np.testing.assert_allclose(a.numpy(), np.diag(X * X))
    np.testing.assert_allclose(b.numpy(), np.diag(2 * X * X))


class Clipped(autograd.Function):
    """x * y, whose gradients are clipped: no derivative of anything."""

    @staticmethod
    def forward(ctx, x, y, limit):
        ctx.save_for_backward(x, y)
        ctx.limit = limit
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (grad * y).clamp(-ctx.limit, ctx.limit), (grad * x).clamp(-ctx.limit, ctx.limit), None


def test_contiguous_backward_changes_nothing():
    x = Tensor(X, requires_grad=True)
    (x * x).contiguous_backward().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    assert Tensor([1]).contiguous_backward().tolist() == [1]


def test_a_rule_of_ones_own():
    x, y = Tensor(X, requires_grad=True), Tensor(X + 1, requires_grad=True)
    out = Clipped.apply(x, y, 0.75)
    np.testing.assert_allclose(out.numpy(), X * (X + 1))
    (Clipped.apply(x, y, 0.75) * Tensor([1.0, 2.0, -3.0], dtype="float64")).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.clip((X + 1) * [1, 2, -3], -0.75, 0.75))
    np.testing.assert_allclose(y.grad.numpy(), np.clip(X * [1, 2, -3], -0.75, 0.75))


def test_rules_nest_have_several_results_and_second_derivatives():
    square = autograd.custom_gradient(lambda x: x * x, lambda g, inputs, outputs: g * inputs[0] * 20)
    x = Tensor(X, requires_grad=True)
    (first,) = tensord.gradient(square(square(x)).sum(), x)
    np.testing.assert_allclose(first.numpy(), 20 * X * X * 20 * X)
    (second,) = tensord.gradient(tensord.gradient(square(x).sum(), x)[0].sum(), x)
    np.testing.assert_allclose(second.numpy(), np.full(3, 20.0))

    class Both(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum(), (x * 2).reshape(3, 1), (x > 0)

        @staticmethod
        def backward(ctx, of_sum, of_double, _):
            return of_sum * 5 + of_double.reshape(3) * 7

    total, double, positive = Both.apply(x)
    assert positive.tolist() == [True, False, True]
    (g,) = tensord.gradient([total, double], x, [None, Tensor([[1.0], [2.0], [3.0]], dtype="float64")])
    np.testing.assert_allclose(g.numpy(), [12, 19, 26])


def test_rules_without_a_graph_in_between():
    class ByNumpy(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Tensor(np.sinh(x.numpy()))

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].cosh()

    x = Tensor(X, requires_grad=True)
    (ByNumpy.apply(x) * 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cosh(X), rtol=1e-6)

    class Reads(autograd.Function):
        forward = staticmethod(lambda ctx, x: x * 1)
        backward = staticmethod(lambda ctx, grad: Tensor(grad.numpy()))

    with pytest.raises(RuntimeError, match="no data"):
        Reads.apply(x)
    with pytest.raises(ValueError, match="gradients for 1 inputs"):
        autograd.custom_gradient(lambda x: x * 1, lambda g, inputs, outputs: (g, g))(x)


def deep(x, layers, wrap):
    for weight in layers:
        x = wrap(lambda x, w=weight: ((x @ w).tanh() @ w).sin(), x)
    return (x * x).sum()


def test_a_checkpoint_changes_no_gradient():
    rng = np.random.default_rng(0)
    layers = [Tensor(rng.standard_normal((4, 4)) / 2, requires_grad=True) for _ in range(3)]
    x = Tensor(rng.standard_normal((5, 4)), requires_grad=True)
    plain = tensord.gradient(deep(x, layers, lambda f, x: f(x)), [x, *layers])
    kept = tensord.gradient(deep(x, layers, tensord.checkpoint), [x, *layers])
    for a, b in zip(plain, kept):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12, atol=1e-12)
    two = tensord.checkpoint(lambda x, y: (x * y, (x + y).exp()), x, x * 2)
    expected = tensord.gradient((x * x * 2).sum() + (x + x * 2).exp().sum(), x)[0]
    np.testing.assert_allclose(tensord.gradient([out.sum() for out in two], x)[0].numpy(), expected.numpy(), rtol=1e-12)


def test_computing_without_derivatives():
    x = Tensor(X, requires_grad=True)
    assert tensord.is_grad_enabled()
    with tensord.no_grad():
        assert not tensord.is_grad_enabled()
        y = x * 2
        with tensord.enable_grad():
            z = x * 3
    assert tensord.is_grad_enabled()
    assert tensord.gradient((y + z).sum(), x)[0].tolist() == [3, 3, 3]

    @tensord.inference_mode()
    def forward(x):
        return x * x

    assert tensord.gradient((forward(x) + x).sum(), x)[0].tolist() == [1, 1, 1]
    with tensord.set_grad_enabled(False):
        w = x * 5
    tensord.set_grad_enabled(True)
    assert tensord.gradient(w.sum(), x)[0].tolist() == [0, 0, 0]
    with tensord.no_grad():
        x[0] = 9.0  # writing is as ever
    assert x.tolist() == [9, -1, 2]


def test_reading_what_lies_between_leaves_gradients_right():
    """A gradient is built from the inside of its loss, so it needs the leaves even when results above are computed."""
    x, w = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[1.0], [1.0]], requires_grad=True)
    y = x.matmul(w)
    (y * y).sum().backward()
    assert y.tolist() == [[3], [7]]
    assert w.grad.tolist() == [[48], [68]]
    z = tensord.checkpoint(lambda a: (a * w).exp(), x)
    w.grad = None
    total = z.sum()
    total.backward()
    total.item()
    assert z.shape == (2, 2) and w.grad.shape == (2, 1)
    assert w.grad.numpy().ravel() == pytest.approx([1 * 2.7182817 + 2 * 7.389056, 3 * 20.085537 + 4 * 54.59815], rel=1e-5)


def test_data_may_be_read_between_backward_and_its_gradients():
    w, x = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0])
    hidden = (w * x).tanh()
    loss = (hidden * x).sum()
    loss.backward()
    value, middle = loss.item(), hidden.tolist()
    np.testing.assert_allclose(value, (np.array(middle) * [3, 4]).sum(), rtol=1e-6)
    np.testing.assert_allclose(w.grad.numpy(), (1 - np.array(middle) ** 2) * [9, 16], rtol=1e-3, atol=1e-6)


HISTORIES = {
    "read": lambda h: h.numpy(),
    "realized": lambda h: h.realize(),
    "printed": lambda h: str(h.sum().item()),
    "of a captured function": lambda h: tensord.jit(lambda t: t * 2)(h),
    "moved": lambda h: h.to_("CPU:0"),
}


@pytest.mark.parametrize("how", HISTORIES)
def test_what_is_computed_keeps_its_history(how):
    """Of what requires a gradient: derivatives go through a value whose data was asked for."""
    w = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    h = w * w
    HISTORIES[how](h)
    later = (h * 3).tanh()
    later.realize()
    (later.sum() + w.sum()).backward()
    expected = (1 - np.tanh(3 * np.array([[1.0, 4], [9, 16]])) ** 2) * 6 * np.array([[1.0, 2], [3, 4]]) + 1
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-4)


def test_captured_functions_share_an_argument():
    w = Tensor(np.eye(3, dtype=np.float32), requires_grad=True)
    h = tensord.ones(3, 3) @ w
    (tensord.jit(lambda t: t * 2)(h) + tensord.jit(lambda t: t * 3)(h) + h).sum().backward()
    assert w.grad.tolist() == [[18.0] * 3] * 3
    lazy = tensord.ones(3) * 2
    assert tensord.jit(lambda t: t**3)(lazy).sum().gradient(lazy)[0].tolist() == [12.0] * 3


def test_a_step_leaves_no_history():
    """Neither gradients that were computed nor parameters hold what they were made of."""
    w = Tensor(np.ones((64, 64), np.float32), requires_grad=True)
    x = Tensor(np.ones((64, 64), np.float32) / 64)
    bytes_held = []
    for _ in range(4):
        w.grad = None
        loss = ((x @ w) ** 2).mean()
        loss.item()
        loss.backward()
        tensord.realize(w.grad)
        w.assign(w.detach() - 0.1 * w.grad.detach())
        tensord.realize(w)
        tensord.synchronize()
        tensord.ones(1).numpy()
        bytes_held.append(tensord.counters()["live_bytes"])
    assert bytes_held[-1] == bytes_held[1], bytes_held


def test_a_plain_number_is_no_target():
    x = Tensor([1.0, 2.0])
    for number in (Tensor(3.0), Tensor(3.0) * 2, Tensor(3.0).reshape(1)):
        with pytest.raises(RuntimeError, match="target 0 is a plain number"):
            (x * number).sum().gradient(number)
    for target in (Tensor(3.0, dtype="float32"), Tensor(3.0).clone(), Tensor([1, 2]) * 2.5):
        assert (x * target).sum().gradient(target)[0].shape == target.shape


def test_derivatives_that_are_not_known_are_errors():
    x, n = Tensor([0.5, 0.75]), Tensor([2.0, 3.0])
    for y, target in ((tensord.special.gammainc(n, x), n), (tensord.special.gammaincc(n, x), n),
                      (tensord.special.legendre_polynomial_p(x, n), n)):
        with pytest.raises(NotImplementedError, match="no derivative in"):
            y.sum().gradient(target)
        y.sum().gradient(x)
    first = tensord.special.legendre_polynomial_p(x, n).sum().gradient(x)[0]
    with pytest.raises(NotImplementedError, match="legendre_polynomial_p has no second derivative"):
        first.sum().gradient(x)


def test_functions_that_write_what_has_a_history_say_so():
    """A captured function keeps nothing of what it wrote: a derivative through that is an error, not zeros."""
    w = Tensor([1.0, 2.0], requires_grad=True)

    @tensord.jit
    def write(buffer, x):
        buffer.assign(x * 2)

    made, plain = (w * 3).realize(), Tensor([1.0, 1.0])
    for given, through in ((made, True), (w, True), (plain, False)):
        buffer = tensord.zeros(2).clone().realize()
        write(buffer, given)
        (buffer.sum() + w.sum()).realize()
        if through:
            with pytest.raises(RuntimeError, match="captured function"):
                (buffer.sum() + w.sum()).backward()
        else:
            (buffer.sum() + w.sum()).backward()
            assert w.grad.tolist() == [1, 1]
            w.grad = None


def test_what_captured_functions_wrote_one_after_another_says_so():
    w = Tensor([1.0, 2.0], requires_grad=True)
    first, second = (tensord.zeros(2).clone().realize() for _ in range(2))

    @tensord.jit
    def write(buffer, x):
        buffer.assign(x * 2)

    write(first, w)
    write(second, first)
    assert second.tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="captured function"):
        (second.sum() + w.sum()).backward()
    with tensord.no_grad():
        write(second, first)
    (second.sum() + w.sum()).backward()
    assert w.grad.tolist() == [1, 1]


def test_writing_in_place_inside_of_a_captured_function():
    w, buffer = Tensor([1.0, 2.0], requires_grad=True), tensord.zeros(2, 2).clone().realize()

    @tensord.jit
    def step():
        buffer[1] = w * w
        (buffer * 3).sum().backward()

    for _ in range(2):
        w.grad = None
        step()
        assert w.grad.tolist() == [6, 12]
    assert buffer.tolist() == [[0, 0], [1, 4]]


def test_captured_functions_do_not_cut_what_they_read():
    w = Tensor([1.0, 2.0], requires_grad=True)
    h = w * w
    assert tensord.jit(lambda x: x + h)(Tensor([1.0, 1.0])).tolist() == [2, 5]
    (h * 3).sum().backward()
    assert w.grad.tolist() == [6, 12]


def test_a_parameter_that_is_assigned_has_no_history():
    w = Tensor([1.0, 2.0], requires_grad=True)
    w.assign(w * 3)
    assert w.is_leaf and w.requires_grad
    (w * w).sum().backward()
    assert w.grad.tolist() == [6, 12]
    loss = (w * w).sum()
    w.assign(w * 0)  # the loss is made of the version before
    w.grad = None
    loss.backward()
    assert w.grad.tolist() == [6, 12]


def test_hooks_in_the_order_of_the_way_down():
    seen = []
    w = Tensor(X, requires_grad=True)
    a = w * 2
    b = a * 3
    for name, tensor in ("a", a), ("w", w), ("b", b):
        tensor.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
    handle = b.register_hook(lambda g: g * 2)
    b.sum().backward()
    assert seen == [("b", [1] * 3), ("a", [6] * 3), ("w", [12] * 3)]
    handle.remove()
    (g,) = tensord.gradient(b.sum(), a)
    assert g.tolist() == [3] * 3 and [name for name, _ in seen[3:]] == ["b", "a"]
    with pytest.raises(ValueError, match="a hook returned a gradient"):
        b.register_hook(lambda g: g[:1])
        b.sum().backward()


def test_gradients_with_and_without_a_graph():
    x = Tensor(X, requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    first = x.grad
    x.grad = None
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X)
    assert not x.grad.requires_grad
    assert autograd.grad((x * x).sum(), [x, Tensor(X, requires_grad=True)], allow_unused=True)[1] is None
    with pytest.raises(ValueError, match="no influence"):
        autograd.grad((x * x).sum(), Tensor(X, requires_grad=True), allow_unused=False)


@pytest.mark.parametrize("gradient", [[1.0], [[1.0, 2.0]], [1, 2]])
def test_a_gradient_is_of_the_tensors_shape_and_dtype(gradient):
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"grad: .* for a tensor that is float32\[2\]"):
        w.grad = Tensor(gradient)
    w.grad = Tensor([3.0, 4.0])
    assert w.grad.tolist() == [3, 4]
    w.grad = None


def test_no_grad_of_a_generator_function_is_of_its_steps():
    w = Tensor([1.0], requires_grad=True)

    @tensord.no_grad()
    def steps():
        try:
            got = yield (w * 2).requires_grad
            yield got, (w * 3).requires_grad
        except KeyError:
            yield "caught", (w * 4).requires_grad
        return (w * 5).requires_grad

    running = steps()
    assert next(running) is False
    assert (w * 2).requires_grad
    assert running.send("sent") == ("sent", False)
    assert running.throw(KeyError()) == ("caught", False)
    with pytest.raises(StopIteration) as end:
        next(running)
    assert end.value.value is False and (w * 2).requires_grad
    closed = steps()
    next(closed)
    closed.close()
    assert (w * 2).requires_grad


def test_a_detached_tensor_in_a_captured_function():
    w, memory = Tensor([3.0, 4.0], requires_grad=True), tensord.zeros(2).clone()

    @tensord.jit
    def step(x):
        inside = memory.detach()
        inside.copy_(w * x)
        inside.mul_(w)
        (inside * inside).sum().backward()
        gradient, w.grad = w.grad, None
        return gradient, inside

    for scale in 1, 2, 3:
        gradient, inside = step(tensord.full((2,), float(scale)))
        assert gradient.tolist() == [4 * 27 * scale**2, 4 * 64 * scale**2]
        assert memory.tolist() == inside.tolist() == [9 * scale, 16 * scale]
    with pytest.raises(RuntimeError, match="captured function step"):
        inside.sum().backward()
    assert not memory.requires_grad

    outside = memory.detach()
    outside.add_(w)
    with pytest.raises(RuntimeError, match="detach inside of the function"):
        tensord.jit(lambda x: (outside.mul_(x), x * 1)[1])(tensord.ones(2))

    @tensord.jit
    def quietly(x):
        with tensord.no_grad():
            outside.mul_(x)
        return x * 1

    for _ in range(3):
        quietly(tensord.full((2,), 2.0)).numpy()
    outside.sum().backward()
    assert outside.tolist() == memory.tolist() == [240, 416] and w.grad.tolist() == [1, 1]
