"""Functions of functions: vmap and derivatives, alone, nested, and what may not be done."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, autograd, func, nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3))
W = RNG.standard_normal((3, 2))


def close(actual, expected, **tolerance):
    np.testing.assert_allclose(actual.numpy(), expected, **{"rtol": 1e-6, "atol": 1e-9, **tolerance})


def test_vmap_takes_dims_of_arguments_and_of_their_parts():
    dot = lambda a, b: (a * b).sum()  # noqa: E731
    close(func.vmap(dot)(Tensor(X), Tensor(X)), (X * X).sum(1))
    close(func.vmap(dot, in_dims=(1, None))(Tensor(X), Tensor(X[:, 0])), X.T @ X[:, 0])
    close(func.vmap(dot, in_dims=(-1, -1))(Tensor(X), Tensor(X)), (X * X).sum(0))
    tree = lambda p, s: {"y": p["w"] @ p["b"][0] * s, "z": (p["b"][1], p["w"] * 2)}  # noqa: E731
    made = func.vmap(tree, in_dims=({"w": 0, "b": (None, 1)}, None))({"w": Tensor(X), "b": (Tensor(W), Tensor(X.T))}, 3)
    close(made["y"], X @ W * 3)
    close(made["z"][0], X)
    close(made["z"][1], X * 2)
    out = func.vmap(lambda x: (x, x.sum(), Tensor(W).sum()), out_dims=(1, 0, None))(Tensor(X))
    close(out[0], X.T)
    close(out[1], X.sum(1))
    close(out[2], W.sum())
    close(func.vmap(lambda x, k: x * k)(Tensor(X), k=Tensor(X[:, 0])), X * X[:, :1])
    close(func.vmap(lambda x: x.exp(), chunk_size=3)(Tensor(X)), np.exp(X))


def test_vmap_nests():
    outer = func.vmap(func.vmap(lambda a, b: (a * b).sum(), in_dims=(None, 0)), in_dims=(0, None))
    close(outer(Tensor(X), Tensor(X)), X @ X.T)
    close(func.vmap(func.vmap(lambda x: x.sin()), in_dims=1, out_dims=1)(Tensor(X)), np.sin(X))


def test_vmap_of_gradients_and_gradients_of_vmap():
    loss = lambda w, x: (x @ w).tanh().sum()  # noqa: E731
    each = func.vmap(func.grad(loss), in_dims=(None, 0))(Tensor(W), Tensor(X))
    expected = np.stack([np.outer(x, 1 - np.tanh(x @ W) ** 2) for x in X])
    close(each, expected)
    w = Tensor(W, requires_grad=True)
    func.vmap(lambda x: (x @ w).tanh().sum())(Tensor(X)).sum().backward()
    close(w.grad, expected.sum(0))
    close(func.grad(lambda w: func.vmap(lambda x: loss(w, x))(Tensor(X)).sum())(Tensor(W)), expected.sum(0))
    assert not each.requires_grad


@pytest.mark.parametrize("wrong, what", [
    (lambda: func.vmap(lambda a, b: a + b)(Tensor(X), Tensor(X[:2])), "differ in size"),
    (lambda: func.vmap(lambda a: a, in_dims=None)(Tensor(X)), "maps no tensor"),
    (lambda: func.vmap(lambda a: a, in_dims=2)(Tensor(X)), "has 2 axes"),
    (lambda: func.vmap(lambda a: a, in_dims=(0, 0))(Tensor(X)), "2 in_dims for 1"),
    (lambda: func.vmap(lambda a: a, out_dims=None)(Tensor(X)), "depends on the example"),
    (lambda: func.vmap(lambda a: a, out_dims=5)(Tensor(X)), "has 2 axes"),
    (lambda: func.vmap(lambda a: a, out_dims=(0, 0))(Tensor(X)), "structure"),
    (lambda: func.vmap(lambda a: a.sum().item())(Tensor(X)), "vmap"),
    (lambda: func.vmap(lambda a: a * tensord.rand(3))(Tensor(X)), "randomness"),
    (lambda: func.vmap(lambda a: a.requires_grad_())(Tensor(X)), "func.grad"),
    (lambda: func.vmap(lambda a: a, randomness="some")(Tensor(X)), "randomness"),
    (lambda: func.grad(lambda x: x)(Tensor(X)), "one element"),
    (lambda: func.grad(lambda x: x.sum())(Tensor([1, 2])), "only floats"),
    (lambda: func.grad(lambda x: x.sum(), argnums=1)(Tensor(X)), "1 arguments"),
    (lambda: func.jvp(lambda x: x, (Tensor(X),), (Tensor(W),)), "shapes"),
    (lambda: func.vjp(lambda x: x, Tensor(X))[1](Tensor(W)), "shapes"),
])  # fmt: skip
def test_what_may_not_be_done(wrong, what):
    with pytest.raises((ValueError, RuntimeError), match=what):
        wrong()


def test_a_function_that_is_mapped_returns_tensors():
    with pytest.raises(TypeError, match="returns tensors"):
        func.vmap(lambda x: 3.0)(Tensor(X))
    with pytest.raises(TypeError, match="two values"):
        func.grad(lambda x: x.sum(), has_aux=True)(Tensor(X))


def test_writing_in_a_function_that_is_mapped():
    def summed(x):
        total = tensord.zeros(3, dtype="float64").clone()
        for i in range(3):
            total[i] = x[:i + 1].sum()
        total += 1
        return total

    close(func.vmap(summed)(Tensor(X)), X.cumsum(1) + 1)
    x = Tensor(X).realize()
    func.vmap(lambda row: row.mul_(2))(x)
    close(x, 2 * X)
    outside = tensord.zeros(3, dtype="float64").clone().realize()
    with pytest.raises(RuntimeError, match="outside"):
        func.vmap(lambda row: outside.add_(row))(Tensor(X))
    close(outside, np.zeros(3))


def test_random_numbers_of_examples():
    x = Tensor(np.zeros((4, 3), np.float32))
    tensord.manual_seed(5)
    same = func.vmap(lambda row: row + tensord.rand(3), randomness="same")(x).numpy()
    assert (same == same[0]).all()
    tensord.manual_seed(5)
    noise = lambda row: row + tensord.rand(3) + 10 * tensord.rand(3)  # noqa: E731
    made = func.vmap(noise, randomness="different")(x)
    after = tensord.rand(2)
    different = made.numpy()
    tensord.manual_seed(5)
    one_by_one = np.stack([noise(row).numpy() for row in x])
    np.testing.assert_array_equal(different, one_by_one)
    np.testing.assert_array_equal(after.numpy(), tensord.rand(2).numpy())
    nested = func.vmap(func.vmap(lambda v: v + tensord.rand(()), randomness="different"), randomness="different")(x)
    assert len(np.unique(nested.numpy())) == 12


def test_derivatives_of_functions():
    f = lambda x: (x * x).sum() * x.exp()  # noqa: E731
    x, v = X[0], X[1]
    jacobian = np.outer(np.exp(x), 2 * x) + np.diag((x * x).sum() * np.exp(x))
    for made in (func.jacrev(f), func.jacfwd(f), func.jacrev(f, chunk_size=2)):
        close(made(Tensor(x)), jacobian)
    out, pull = func.vjp(f, Tensor(x))
    close(out, (x * x).sum() * np.exp(x))
    close(pull(Tensor(v))[0], v @ jacobian)
    close(func.jvp(f, (Tensor(x),), (Tensor(v),))[1], jacobian @ v)
    close(func.linearize(f, Tensor(x))[1](Tensor(v)), jacobian @ v)
    value = lambda x: (x**3).sum()  # noqa: E731
    close(func.hessian(value)(Tensor(x)), np.diag(6 * x))
    close(func.grad(func.grad(lambda x: x.sin().sum() if x.ndim else x.sin()))(Tensor(0.5)), -np.sin(0.5))
    gradient, result = func.grad_and_value(value)(Tensor(x))
    close(gradient, 3 * x**2)
    close(result, (x**3).sum())
    (a, b), aux = func.grad(lambda x, y: ((x * y).sum(), {"x": x + 1}), argnums=(0, 1), has_aux=True)(Tensor(x), Tensor(v))
    close(a, v)
    close(b, x)
    close(aux["x"], x + 1)


def test_a_function_that_is_differentiated_may_read_data():
    def f(x):
        h = x * x
        return h.sum() * (2 if h.sum().item() > 0 else 3)

    close(func.grad(f)(Tensor(X[0])), 4 * X[0])
    with tensord.no_grad():
        close(func.grad(f)(Tensor(X[0])), 4 * X[0])

    def nested(x):
        g = func.grad(lambda y: (y**3).sum())(x)
        g.realize()
        return g.sum()

    close(func.grad(nested)(Tensor(X[0])), 6 * X[0])


def test_the_forms_of_autograd_functional():
    f = lambda x, y: ((x * y).sum(), x.exp())  # noqa: E731
    x, y = Tensor(X[0], requires_grad=True), Tensor(X[1])
    (a, b), (c, d) = autograd.functional.jacobian(f, (x, y), create_graph=True)
    close(a, X[1])
    close(b, X[0])
    close(c, np.diag(np.exp(X[0])))
    close(d, np.zeros((3, 3)))
    c.sum().backward()
    close(x.grad, np.exp(X[0]))
    assert not autograd.functional.jacobian(f, (x, y))[0][0].requires_grad
    with pytest.raises(ValueError, match="strict"):
        autograd.functional.jacobian(lambda x, y: x * 2, (x, y), strict=True)
    value = lambda x: (x**3).sum()  # noqa: E731
    for product in autograd.functional.hvp, autograd.functional.vhp:
        close(product(value, x, Tensor(X[1]))[1], 6 * X[0] * X[1])
    close(autograd.functional.jacobian(value, x, strategy="forward-mode"), 3 * X[0] ** 2)


def test_modules_as_functions():
    tensord.manual_seed(1)
    models = [nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)) for _ in range(3)]
    x = tensord.randn(5, 3)
    params, buffers = func.stack_module_state(models)
    assert params["0.weight"].requires_grad and params["0.weight"].shape == (3, 2, 3)
    all_of_them = func.vmap(lambda p, b, x: func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))
    np.testing.assert_allclose(all_of_them(params, buffers, x).numpy(), np.stack([m(x).numpy() for m in models]), rtol=1e-5)
    model = models[0]
    own = {name: p.detach() for name, p in model.named_parameters()}
    gradients = func.grad(lambda p: (func.functional_call(model, p, x) ** 2).sum())(own)
    (model(x) ** 2).sum().backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(gradients[name].numpy(), parameter.grad.numpy(), rtol=1e-5)
    assert isinstance(model[0].weight, nn.Parameter)
    with pytest.raises(ValueError, match="no \\['a'\\]"):
        func.functional_call(model, {"a": x}, x)
    with pytest.raises(ValueError, match="missing"):
        func.functional_call(model, {"0.weight": own["0.weight"]}, x, strict=True)


def test_inside_of_captured_functions():
    step = tensord.jit(lambda w, x: func.vmap(func.grad(lambda w, x: (x @ w).sum()), in_dims=(None, 0))(w, x))
    for _ in range(2):
        close(step(Tensor(W), Tensor(X)), np.repeat(X[:, :, None], 2, 2))
    doubled = tensord.jit(lambda x: x * 2)
    close(func.vmap(doubled)(Tensor(X)), 2 * X)


F = nn.functional
# Of a matrix [4, 4]; made of loops, sorting, windows, and the rest that has more than one primitive operation to it.
MATRIX_FUNCTIONS = {
    "qr": lambda a: tensord.linalg.qr(a)[1].abs(),
    "svdvals": lambda a: tensord.linalg.svdvals(a),
    "eigvalsh": lambda a: tensord.linalg.eigvalsh(a + a.T),
    "solve": lambda a: tensord.linalg.solve(a, a[0]),
    "rfft": lambda a: tensord.fft.rfft(a),
    "interpolate": lambda a: F.interpolate(a[None, None], scale_factor=2, mode="bilinear"),
    "kthvalue": lambda a: a.kthvalue(2, 1)[0],
    "cummax": lambda a: a.cummax(1)[0],
    "batch_norm": lambda a: F.batch_norm(a[None], None, None, training=True),
    "logcumsumexp": lambda a: a.logcumsumexp(1),
    "lgamma": lambda a: a.lgamma(),
    "conv2d": lambda a: F.conv2d(a[None, None], a[None, None, :2, :2], padding=1),
    "attention": lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None]),
    "one_hot": lambda a: a.argmax(1).one_hot(4),
    "searchsorted": lambda a: tensord.searchsorted(a.sort(1)[0], a),
    "index_add": lambda a: a.index_add(0, a.argmax(1), a),
    "histc": lambda a: a.histc(4, -2, 2),
    "scan": lambda a: tensord.scan(lambda c, r: (c * 0.5 + r, c), tensord.zeros(4), a)[1],
    "while": lambda a: tensord.while_loop(lambda s: s.abs().sum() < 50, lambda s: s * 2, a),
    "grid_sample": lambda a: F.grid_sample(a[None, None], Tensor.stack([a, a.T], -1)[None].tanh()),
}


@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
def test_vmap_is_a_loop_over_the_examples(name):
    call = MATRIX_FUNCTIONS[name]
    x = Tensor(RNG.standard_normal((3, 4, 4)).astype(np.float32))
    close(func.vmap(call)(x), np.stack([call(row).numpy() for row in x]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name, call", [("nonzero", lambda a: a.nonzero()), ("a mask", lambda a: a[a > 0]),
                                        ("unique", lambda a: a.unique())])  # fmt: skip
def test_sizes_that_depend_on_data_are_errors(name, call):
    with pytest.raises(RuntimeError, match="vmap"):
        func.vmap(call)(Tensor(X))
