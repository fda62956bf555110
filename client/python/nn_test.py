"""Layers, losses and gradients against NumPy and finite differences."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, nn

rng = np.random.default_rng(1)


def close(tensor, expected, rtol=1e-4, atol=1e-5):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def windows(x, taps, stride, dilation):
    """[batch, channels, out_h, out_w, taps_h, taps_w]"""
    reach = [(t - 1) * dilation + 1 for t in taps]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    return view[:, :, ::stride, ::stride, ::dilation, ::dilation]


@pytest.mark.parametrize("stride, padding, dilation, groups", [
    (1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (1, 1, 1, 2), (2, 0, 1, 4),
])  # fmt: skip
def test_conv2d(stride, padding, dilation, groups):
    x, w, b = array(2, 4, 9, 8), array(8, 4 // groups, 3, 2), array(8)
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    parts = [np.einsum("nchwij,ocij->nohw", windows(xs, (3, 2), stride, dilation), ws)
             for xs, ws in zip(np.split(padded, groups, 1), np.split(w, groups))]  # fmt: skip
    expected = np.concatenate(parts, 1) + b[:, None, None]
    close(nn.functional.conv2d(Tensor(x), Tensor(w), Tensor(b), stride, padding, dilation, groups), expected)
    close(Tensor(x).conv2d(Tensor(w), Tensor(b), groups, stride, dilation, padding), expected)


def test_pooling():
    x = array(2, 3, 8, 6)
    close(Tensor(x).max_pool2d(2), windows(x, (2, 2), 2, 1).max((4, 5)))
    close(Tensor(x).avg_pool2d((2, 3), stride=1), windows(x, (2, 3), 1, 1).mean((4, 5)))


def test_linear():
    layer = nn.Linear(5, 3)
    x = array(2, 5)
    close(layer(Tensor(x)), x @ layer.weight.numpy().T + layer.bias.numpy())
    bound = 1 / np.sqrt(5)
    assert np.abs(layer.weight.numpy()).max() <= bound


def test_normalisation():
    x = array(4, 6, 5)
    layer = nn.LayerNorm((6, 5))
    mean, var = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    close(layer(Tensor(x)), (x - mean) / np.sqrt(var + 1e-5))
    rms = nn.RMSNorm(5)
    close(rms(Tensor(x)), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6))


def test_batch_norm_learns_statistics_in_training_only():
    layer = nn.BatchNorm(3)
    x = array(8, 3, 4, 4) * 2 + 1
    close(layer(Tensor(x)), x / np.sqrt(1 + 1e-5))
    axes = (0, 2, 3)
    with tensord.training():
        y = layer(Tensor(x))
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    close(y, (x - mean) / np.sqrt(var + 1e-5))
    close(layer.running_mean, 0.1 * mean.ravel())
    close(layer.running_var, 0.9 + 0.1 * x.var(axes, ddof=1))
    y = layer(Tensor(x))
    shape = (1, 3, 1, 1)
    close(y, (x - 0.1 * mean) / np.sqrt(0.9 + 0.1 * x.var(axes, ddof=1).reshape(shape) + 1e-5))


def test_embedding():
    layer = nn.Embedding(7, 3)
    close(layer(Tensor([[1, 6], [0, 1]])), layer.weight.numpy()[[[1, 6], [0, 1]]])


def test_dropout():
    x = Tensor(np.ones(4000, np.float32))
    assert tensord.dropout(x, 0.5) is not None and tensord.dropout(x, 0.5).sum().item() == 4000
    with tensord.training():
        y = tensord.dropout(x, 0.25).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.05


def test_losses():
    logits, labels = array(5, 4), rng.integers(0, 4, 5)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -log_p[np.arange(5), labels]
    close(Tensor(logits).cross_entropy(Tensor(labels)), expected.mean())
    close(Tensor(logits).cross_entropy(Tensor(labels), reduction="none"), expected)
    close(Tensor(log_p).nll_loss(Tensor(labels), reduction="sum"), expected.sum())
    close(Tensor(logits).mse_loss(Tensor(log_p)), ((logits - log_p) ** 2).mean())
    with pytest.raises(ValueError, match="reduction"):
        Tensor(logits).mse_loss(Tensor(log_p), reduction="most")


def test_attention():
    q, k, v = array(2, 3, 5, 4), array(2, 3, 6, 4), array(2, 3, 6, 4)
    scores = q @ k.swapaxes(-1, -2) / 2
    p = np.exp(scores - scores.max(-1, keepdims=True))
    close(Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v)), p / p.sum(-1, keepdims=True) @ v)


# ---- gradients


def numerical(function, array, step=1e-2):
    gradient = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        for sign in (1, -1):
            moved = array.copy()
            moved[i] += sign * step
            gradient[i] += sign * function(moved) / (2 * step)
    return gradient


NETS = {
    "mlp": ((3, 4), lambda x, w: (x @ w).tanh().square().sum(), (4, 5)),
    "softmax": ((3, 4), lambda x, w: ((x * w).softmax(-1) * x).sum(), (4,)),
    "conv": ((1, 2, 5, 5), lambda x, w: (x.conv2d(w, padding=1).sigmoid() ** 2).mean(), (3, 2, 3, 3)),
    "norm": ((4, 6), lambda x, w: (x.layer_norm(6, w) * x.exp()).mean(), (6,)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_gradients_are_those_of_finite_differences(name):
    shape, net, weight_shape = NETS[name]
    x, w = array(*shape) * 0.5, array(*weight_shape) * 0.5
    xt, wt = Tensor(x.astype(np.float64)), Tensor(w.astype(np.float64))
    by_x, by_w = net(xt, wt).gradient(xt, wt)
    loss = lambda a, b: net(Tensor(a.astype(np.float64)), Tensor(b.astype(np.float64))).item()  # noqa: E731
    np.testing.assert_allclose(by_w.numpy(), numerical(lambda m: loss(x, m), w), rtol=2e-2, atol=2e-3)
    if x.size <= 24:
        np.testing.assert_allclose(by_x.numpy(), numerical(lambda m: loss(m, w), x), rtol=2e-2, atol=2e-3)


def test_backward_fills_grad_and_adds_up():
    w = Tensor([1.0, 2.0], requires_grad=True)
    other = Tensor([1.0, 2.0], requires_grad=True)
    x = Tensor([3.0, 4.0])
    (w * x).sum().backward()
    assert w.grad.tolist() == [3, 4] and other.grad is None and x.grad is None
    (w * x).sum().backward()
    assert w.grad.tolist() == [6, 8]
    w.grad = None
    assert w.grad is None


def test_equal_parameters_have_gradients_of_their_own():
    a, b = tensord.ones(2, requires_grad=True), tensord.ones(2, requires_grad=True)
    (a * 2 + b * 3).sum().backward()
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [3, 3]


def test_gradient_of_a_gradient():
    x = Tensor([2.0, 3.0])
    (first,) = (x**3).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    close(first, [12, 27])
    close(second, [12, 18])


def test_backward_after_reading():
    w = Tensor([1.0], requires_grad=True)
    loss = (w * 2).sum()
    loss.item()
    loss.backward()
    assert w.grad.tolist() == [2.0]
    with pytest.raises(tensord.TensordError, match="requires_grad"):
        Tensor([1.0]).sum().backward()


# ---- state and optimisers


class Net:
    def __init__(self):
        self.layers = [nn.Linear(4, 8), Tensor.relu, nn.Linear(8, 2)]
        self.norm = nn.BatchNorm(2)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def test_state_by_name():
    net = Net()
    state = nn.state.get_state_dict(net)
    assert sorted(state) == ["layers.0.bias", "layers.0.weight", "layers.2.bias", "layers.2.weight",
                             "norm.bias", "norm.num_batches_tracked", "norm.running_mean", "norm.running_var", "norm.weight"]  # fmt: skip
    assert len(nn.state.get_parameters(net)) == 6
    other = Net()
    nn.state.load_state_dict(other, {name: tensor.numpy() for name, tensor in state.items()})
    x = Tensor(array(3, 4))
    close(other(x), net(x).numpy())
    with pytest.raises(ValueError, match="missing"):
        nn.state.load_state_dict(other, {})
    with pytest.raises(ValueError, match="norm.bias"):
        nn.state.load_state_dict(other, {"norm.bias": np.zeros(3)}, strict=False)


def reference_step(kind, w, g, state, t):
    """One step in NumPy, as PyTorch documents it."""
    lr, b1, b2 = 0.1, 0.9, 0.999
    if kind == "SGD":
        return w - lr * g
    if kind == "momentum":
        state["v"] = 0.9 * state.get("v", 0) + g
        return w - lr * state["v"]
    if kind == "AdamW":
        w = w * (1 - lr * 0.01)
    state["m"] = b1 * state.get("m", 0) + (1 - b1) * g
    state["s"] = b2 * state.get("s", 0) + (1 - b2) * g * g
    return w - lr * (state["m"] / (1 - b1**t)) / (np.sqrt(state["s"] / (1 - b2**t)) + 1e-8)


OPTIMISERS = {
    "SGD": lambda p: nn.optim.SGD(p, lr=0.1),
    "momentum": lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: nn.optim.Adam(p, lr=0.1),
    "AdamW": lambda p: nn.optim.AdamW(p, lr=0.1),
}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers(name, captured):
    start, target = array(5), array(5)
    w = Tensor(start, requires_grad=True)
    optimiser = OPTIMISERS[name]([w])

    def step(target):
        optimiser.zero_grad()
        loss = (w - target).square().sum()
        loss.backward()
        optimiser.step()
        return loss

    step = tensord.jit(step) if captured else step
    expected, state = start, {}
    for t in range(1, 5):
        loss = step(Tensor(target))
        close(loss, ((expected - target) ** 2).sum(), rtol=1e-3)
        expected = reference_step(name, expected, 2 * (expected - target), state, t)
        close(w, expected, rtol=1e-3)


def test_the_learning_rate_can_change_without_another_program():
    w = Tensor([1.0], requires_grad=True)
    optimiser = nn.optim.SGD([w], lr=1.0)

    @tensord.jit
    def step():
        optimiser.zero_grad()
        w.sum().backward()
        optimiser.step()

    step()
    assert w.item() == 0
    optimiser.lr = 0.25
    step()
    assert w.item() == -0.25 and step.captures == 1
    before = tensord.counters()["plan_misses"]
    optimiser.lr = 0.5
    step()
    assert w.item() == -0.75 and tensord.counters()["plan_misses"] == before


def test_optimisers_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="parameters"):
        nn.optim.SGD([])
    with pytest.raises(ValueError, match="requires_grad"):
        nn.optim.SGD([Tensor([1.0])])
    with pytest.raises(ValueError, match="negative"):
        nn.optim.Adam([Tensor([1.0], requires_grad=True)], lr=-1)


def test_training_a_small_network():
    net = Net()
    optimiser = nn.optim.Adam(nn.state.get_parameters(net), lr=0.02)
    x, y = array(64, 4), rng.integers(0, 2, 64)
    x[:, 0] += 3 * y

    @tensord.jit
    def step(x, y):
        optimiser.zero_grad()
        loss = net(x).cross_entropy(y)
        loss.backward()
        optimiser.step()
        return loss

    inputs = Tensor(x).realize(), Tensor(y.astype(np.int32)).realize()
    with tensord.training():
        losses = [step(*inputs).item() for _ in range(40)]
    assert losses[-1] < losses[0] / 2
