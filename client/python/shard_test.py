"""Tensors on several devices."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, nn
from tensord.errors import InvalidArgumentError
from tensord.testing import Daemon

ALL = ("CPU:0", "CPU:1", "CPU:2", "CPU:3")
TWO = ALL[:2]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon"), "--devices", "cpu:4") as daemon:
        yield daemon


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("devices", [TWO, ALL, ("CPU:3", "CPU:1")])
def test_shard_and_back(devices, axis):
    x = array(8, 12)
    t = Tensor(x).shard(devices, axis)
    assert t.device == devices
    np.testing.assert_array_equal(t.numpy(), x)
    assert t.shard_axis == (None if axis is None else axis % 2)
    np.testing.assert_array_equal((t + 1).numpy(), x + 1)
    one = t.to("CPU:2")
    assert one.device == "CPU:2"
    np.testing.assert_array_equal(one.numpy(), x)
    again = t.shard(ALL, 0)
    np.testing.assert_array_equal(again.numpy(), x)
    np.testing.assert_array_equal(again.shard_like(t).numpy(), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float8_e5m2"])
def test_zeros_keep_their_sign_on_the_way(dtype):
    x = np.array([-0.0, 1.0, 0.0, -0.0, -2.0, 0.0, 3.0, -0.0], np.float32)
    index = np.array([3, 0, 5, 4, 7, 2, 2, 3])
    for devices in TWO, ALL:
        t = Tensor(x, dtype=dtype).shard(devices, 0)
        cases = {
            "rows": (t[Tensor(index)], x[index]),
            "gather": (t.gather(0, Tensor(index)), x[index]),
            "columns": (t.reshape(4, 2)[Tensor([3, 0])], x.reshape(4, 2)[[3, 0]]),
            "sort": (t.sort(0)[0], np.sort(x, kind="stable")),
            "flip": (t.flip(0), x[::-1]),
            "whole": (t.to("CPU:0"), x),
        }
        for name, (actual, expected) in cases.items():
            np.testing.assert_array_equal(actual.numpy(), expected, err_msg=name)
            np.testing.assert_array_equal(np.signbit(actual.numpy()), np.signbit(expected), err_msg=name)


def test_a_lazy_tensor_is_computed_where_it_is_put():
    x = (tensord.arange(16).reshape(4, 4) * 2).shard(TWO, 1)
    assert (x.device, x.shard_axis) == (TWO, 1)
    np.testing.assert_array_equal(x.numpy(), np.arange(16).reshape(4, 4) * 2)
    assert x.shard_axis == 1


def test_what_nobody_put_anywhere_goes_where_it_is_needed():
    bias = Tensor(array(4)).realize()
    x = array(8, 4)
    for devices in TWO, ALL, ("CPU:3",):
        t = Tensor(x).shard(devices, 0) if len(devices) > 1 else Tensor(x).to(devices[0])
        np.testing.assert_array_equal((t + bias).numpy(), x + bias.numpy())
    assert bias.device == "CPU:0"
    np.testing.assert_array_equal((bias + tensord.ones(4)).numpy(), bias.numpy() + 1)


def test_tensors_of_two_places_do_not_meet():
    a, b = Tensor(array(4)).to("CPU:1"), Tensor(array(4)).to("CPU:2")
    with pytest.raises(InvalidArgumentError, match=r"tensors on CPU:. and on CPU:. meet; bring one over by to\(\)"):
        a + b
    np.testing.assert_array_equal((a + b.to("CPU:1")).numpy(), a.numpy() + b.numpy())
    np.testing.assert_array_equal((a + b.to(a)).numpy(), a.numpy() + b.numpy())
    with pytest.raises(InvalidArgumentError, match="assign: the tensor is on CPU:1, the new value on CPU:2"):
        a.assign(b)


@pytest.mark.parametrize("call, error", [
    (lambda x: x.shard(("CPU:0", "GPU:7")), "there is no device 'GPU:7'; the daemon has CPU:0, CPU:1, CPU:2, CPU:3"),
    (lambda x: x.shard(("CPU:0", "CPU:0")), "'CPU:0' is named twice"),
    (lambda x: x.shard((), 0), "no devices are named"),
    (lambda x: x.shard(ALL, 0), r"uneven: axis 0 of \[6, 8\] is not divided by 4 devices"),
    (lambda x: x.shard(ALL, 2), "axis 2 of a tensor of 2 axes"),
    (lambda x: x.shard_(ALL, 0), "uneven"),
    (lambda x: x.to("CPU:9"), "no device 'CPU:9'"),
])  # fmt: skip
def test_errors(call, error):
    with pytest.raises(tensord.TensordError, match=error):
        call(tensord.ones(6, 8))


def test_the_default_device_of_a_thread():
    with tensord.device("cpu:2"):
        a, b, c = tensord.zeros(3), Tensor([1.0, 2.0, 3.0]), tensord.rand(3)
        with tensord.device("cpu", 1):
            d = tensord.ones(2)
    assert [t.device for t in (a, b, c, d)] == ["CPU:2", "CPU:2", "CPU:2", "CPU:1"]
    np.testing.assert_array_equal((a + b + c.detach() * 0).numpy(), [1, 2, 3])
    assert tensord.zeros(3).device == "CPU:0"
    with pytest.raises(InvalidArgumentError, match="no device"), tensord.device("TPU"):
        pass


def test_gradients_go_back_to_where_the_tensor_is():
    x, w = array(8, 4), array(4, 3)
    a = Tensor(x).to("CPU:1").detach()
    a.requires_grad_(True)
    b = Tensor(w, requires_grad=True)
    loss = (a.shard(ALL, 0) @ b.shard(ALL)).square().sum()
    loss.backward()
    assert a.grad.device == "CPU:1"
    y = x @ w
    np.testing.assert_allclose(a.grad.numpy(), 2 * y @ w.T, rtol=1e-5)
    np.testing.assert_allclose(b.grad.numpy(), 2 * x.T @ y, rtol=1e-5)
    np.testing.assert_allclose(loss.numpy(), np.square(y).sum(), rtol=1e-5)


OPERATIONS = {
    "elementwise": lambda x: [x.exp(), x * 2, x.relu() + x.flip(1), x > 0, (x > 0).where(x, 0.0)],
    "reductions": lambda x: [x.sum(), x.sum(0), x.max(1), x.mean((0, 2)), x.std(0), x.argmax(0), x.softmax(0),
                             x.logsumexp(1), x.prod(2), x.any(), x.var(1)],
    "movement": lambda x: [x.reshape(96, 4), x.reshape(8, 48), x.permute(2, 0, 1), x.flip(0), x[1:5], x[:, ::2],
                           x[3], tensord.cat([x, x], 0), tensord.stack([x, x], 1), x.pad((1, 1)), x.repeat(2, 1, 1),
                           x.roll(3, 0), x.unfold(0, 4, 2), x.tril(), x.expand(2, 8, 12, 4)],
    "products": lambda x: [x @ x.transpose(1, 2), x.reshape(8, 48) @ x.reshape(8, 48).T,
                           tensord.einsum("abc,dbc->ad", x, x)],
    "indexing": lambda x: [x[Tensor([3, 0, 7, 7])], x[:, Tensor([1, 2])], x.gather(0, tensord.zeros(2, 12, 4).int()),
                           x.masked_fill(x > 1, 0.0), x.scatter_add(0, tensord.ones(8, 12, 4).int(), x)],
    "scans and sorting": lambda x: [x.cumsum(0), x.cumsum(1), x.cummax(2)[0], x.sort(0)[0], x.sort(1)[0],
                                    x.topk(3, 0)[0]],
    "normalisation": lambda x: [x.layer_norm((4,)), x.rms_norm(), x.reshape(8, 12, 4).batch_norm_train(None, None)[0],
                                x.group_norm(3)],
    "convolution": lambda x: [x.reshape(8, 3, 4, 4).conv2d(tensord.ones(2, 3, 3, 3)),
                              x.reshape(8, 3, 4, 4).max_pool2d(2), x.reshape(8, 3, 4, 4).avg_pool2d(2)],
    "attention": lambda x: [x.scaled_dot_product_attention(x, x), x.scaled_dot_product_attention(x, x, is_causal=True)],
    "loops": lambda x: [tensord.fori_loop(0, 3, lambda i, s: s * 0.5 + x, x)],
    "linalg": lambda x: [tensord.linalg.inv(x[:, :4, :] @ x[:, :4, :].transpose(1, 2) + tensord.eye(4))],
}  # fmt: skip


@pytest.mark.parametrize("group", OPERATIONS)
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_operations_are_those_of_one_device(group, axis):
    x = array(8, 12, 4)
    expected = [y.numpy() for y in OPERATIONS[group](Tensor(x))]
    results = OPERATIONS[group](Tensor(x).shard(ALL, axis))
    for i, (result, wanted) in enumerate(zip(results, expected)):
        assert result.device == ALL, f"result {i}"
        np.testing.assert_allclose(result.numpy(), wanted, rtol=2e-5, atol=2e-5, err_msg=f"result {i}")


def test_assignment_keeps_the_division():
    w = Tensor(array(8, 4)).shard_(ALL, 0)
    view = w[2:4]
    w.assign(w * 2)
    w[0] = 5.0
    assert (w.device, w.realize().shard_axis) == (ALL, 0)
    expected = array(8, 4) * 2
    expected[0] = 5
    np.testing.assert_array_equal(w.numpy(), expected)
    np.testing.assert_array_equal(view.numpy(), expected[2:4])
    for _ in range(3):
        w += 1
        w.realize()
        expected += 1
    np.testing.assert_array_equal(w.numpy(), expected)


class Net:
    def __init__(self):
        self.first, self.second = nn.Linear(12, 16), nn.Linear(16, 4)
        self.norm = nn.LayerNorm(16)

    def __call__(self, x):
        return self.second(self.norm(self.first(x).relu()))


def train(place, jit, optimizer=nn.optim.AdamW, steps=5):
    """Losses and parameters of a small training; `place` moves model and data."""
    tensord.manual_seed(7)
    model = Net()
    x, y = Tensor(array(16, 12)), Tensor(np.arange(16) % 4)
    x, y = place(model, x, y)
    optimiser = optimizer(nn.state.get_parameters(model), lr=0.05)

    def step(x, y):
        optimiser.zero_grad()
        loss = model(x).cross_entropy(y)
        loss.backward()
        optimiser.step()
        return loss

    run = tensord.jit(step) if jit else step
    losses = [float(run(x, y).numpy()) for _ in range(steps)]
    return losses, {name: p.numpy() for name, p in nn.state.get_state_dict(model).items()}


def alone(model, x, y):
    return x, y


def by_data(model, x, y):
    for p in nn.state.get_parameters(model):
        p.shard_(ALL)
    return x.shard(ALL, 0), y.shard(ALL, 0)


def by_tensor(model, x, y):
    model.first.weight.shard_(ALL, 0)
    model.first.bias.shard_(ALL, 0)
    model.second.weight.shard_(ALL, 1)
    for p in (model.second.bias, model.norm.weight, model.norm.bias):
        p.shard_(ALL)
    return x.shard(ALL), y.shard(ALL)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("place", [by_data, by_tensor])
@pytest.mark.parametrize("optimizer", [nn.optim.SGD, nn.optim.AdamW])
def test_training_is_that_of_one_device(place, jit, optimizer):
    losses, parameters = train(alone, jit, optimizer)
    divided, moved = train(place, jit, optimizer)
    np.testing.assert_allclose(divided, losses, rtol=1e-4)
    for name, value in parameters.items():
        np.testing.assert_allclose(moved[name], value, rtol=2e-3, atol=2e-4, err_msg=name)
    assert losses[-1] < losses[0]


def test_random_numbers_are_those_of_one_device():
    x = array(16, 8)

    def draw(place, jit):
        tensord.manual_seed(3)
        t = place(Tensor(x))
        run = (lambda t: t.dropout(0.5, True) + tensord.rand(8)) if not jit else tensord.jit(
            lambda t: t.dropout(0.5, True) + tensord.rand(8))
        return [run(t).numpy() for _ in range(3)] + [tensord.rand(4).numpy()]

    for jit in False, True:
        for one, other in zip(draw(lambda t: t, jit), draw(lambda t: t.shard(ALL, 0), jit)):
            np.testing.assert_array_equal(one, other)


def test_a_captured_function_runs_where_its_tensors_are():
    calls = []

    @tensord.jit
    def double(x):
        calls.append(x.device)
        return x * 2

    x = array(8, 4)
    for t in Tensor(x), Tensor(x).shard(ALL, 0), Tensor(x).shard(ALL, 1), Tensor(x).to("CPU:2"), Tensor(x):
        t.realize()
        result = double(t)
        np.testing.assert_array_equal(result.numpy(), x * 2)
        assert result.device == t.device
    assert len(calls) == 4

    a, b = Tensor(x).to("CPU:1").realize(), Tensor(x).to("CPU:2").realize()
    with pytest.raises(tensord.TensordError, match="meet|one set of devices"):
        tensord.jit(lambda p, q: p + q)(a, b)
    with pytest.raises(tensord.TensordError, match="captured function runs on one set of devices"):
        tensord.jit(lambda p: p.to("CPU:3") + 1)(a)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_captured_function_takes_what_is_divided_and_not_computed_yet(axis):
    x, w = array(8, 4), Tensor(array(8, 4, seed=1)).shard(TWO, axis)

    @tensord.jit
    def add(x):
        return x + w

    for factor in 1, 2, 3:
        result = add((Tensor(x) * factor).shard(TWO, axis))
        np.testing.assert_array_equal(result.numpy(), x * factor + array(8, 4, seed=1))
        assert (result.device, result.shard_axis) == (TWO, axis)
    assert add.captures == 1


def test_large_gradients_are_reduced_in_parts():
    """More than what is gathered whole."""
    x, w = array(8, 300), array(300, 400)
    for devices in ALL[:3], ALL:
        if 8 % len(devices):
            x = array(9, 300)
        t, p = Tensor(x).shard(devices, 0), Tensor(w, requires_grad=True).shard_(devices)
        p.requires_grad_(True)
        ((t @ p).square().sum()).backward()
        np.testing.assert_allclose(p.grad.numpy(), 2 * x.T @ (x @ w), rtol=1e-3, atol=1e-2)
        x = array(8, 300)


def test_memory_is_given_back():
    before = tensord.counters()["live_bytes"]
    x = Tensor(array(64, 64)).shard_(ALL, 0)
    for _ in range(5):
        (x @ x.T).sum().numpy()
    x.shard(TWO, 1).numpy()
    del x
    tensord.synchronize()
    tensord.ones(1).numpy()
    assert tensord.counters()["live_bytes"] - before < 4096


def test_modules_move_and_load_across_places():
    layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    layers[1].weight = layers[0].weight
    before = layers[0].weight.numpy()
    layers.to("CPU:1", "float64")
    assert len(list(layers.parameters())) == 3 and layers[0].weight is layers[1].weight
    assert (layers[0].weight.device, layers[0].weight.dtype) == ("CPU:1", "float64")
    np.testing.assert_array_equal(layers[0].weight.numpy(), before)

    target = nn.Linear(4, 4)
    target.weight.shard_(ALL, 0)
    state = {"weight": Tensor(array(4, 4)).to("CPU:2"), "bias": Tensor(array(4))}
    nn.state.load_state_dict(target, state)
    assert (target.weight.device, target.weight.shard_axis) == (ALL, 0)
    np.testing.assert_array_equal(target.weight.numpy(), array(4, 4))


MAKERS = {
    "Tensor": lambda device: Tensor([1.0, 2.0], device=device),
    "tensor": lambda device: tensord.tensor([1, 2], device=device),
    "zeros": lambda device: tensord.zeros(2, device=device),
    "full": lambda device: Tensor.full((2,), 3, device=device),
    "arange": lambda device: tensord.arange(3, device=device),
    "eye": lambda device: tensord.eye(2, device=device),
    "rand": lambda device: tensord.rand(2, device=device),
    "randint": lambda device: tensord.randint(2, low=0, high=5, device=device),
    "zeros_like": lambda device: tensord.zeros_like(tensord.ones(2), device=device),
    "kaiming_uniform": lambda device: Tensor.kaiming_uniform(2, 3, device=device),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_tensors_are_made_on_a_device(maker):
    for device, place in [("cpu:1", "CPU:1"), (TWO, TWO), (None, "CPU:0")]:
        made = MAKERS[maker](device)
        assert made.device == place
        assert made.realize().device == place
    with pytest.raises(InvalidArgumentError, match="no device 'TPU'"):
        MAKERS[maker]("TPU")


class Normed(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 8, 3), norm(8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).relu().mean((2, 3)))


def step_of(model, x, place):
    """Outputs, gradients and statistics of a step in training."""
    model.train()
    y = place(model, x)
    y.square().sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    tensord.realize(y, list(grads.values()), list(model.buffers()))
    buffers = {name: b.numpy() for name, b in model.named_buffers()}
    return y.numpy(), {**{name: grad.numpy() for name, grad in grads.items()}, **buffers}


def same_step(model, place):
    tensord.manual_seed(4)
    plain = Normed(nn.BatchNorm2d)
    model.load_state_dict({name: t.numpy() for name, t in plain.state_dict().items()})
    x = array(8, 3, 6, 6) * np.arange(1, 9, dtype=np.float32).reshape(8, 1, 1, 1)  # parts of the batch differ
    want, others = step_of(plain, Tensor(x), lambda model, x: model(x))
    have, mine = step_of(model, Tensor(x), place)
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    for name, value in others.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_sync_batch_norm_is_of_the_whole_batch():
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Normed(nn.BatchNorm2d))
    assert type(model.norm) is nn.SyncBatchNorm and isinstance(model.first, nn.Conv2d)
    for p in [*model.parameters(), *model.buffers()]:
        p.shard_(ALL)

    def divided(model, x):
        y = model(x.shard(ALL, 0))
        assert y.device == ALL
        return y

    same_step(model, divided)
    with pytest.raises(InvalidArgumentError, match="groups of processes"):
        nn.SyncBatchNorm(3, process_group=1)


def test_sync_batch_norm_keeps_the_tensors():
    norm = nn.BatchNorm1d(4, momentum=0.3)
    made = nn.SyncBatchNorm.convert_sync_batchnorm(norm)
    assert made.weight is norm.weight and made.running_mean is norm.running_mean and made.momentum == 0.3
    assert list(made.state_dict()) == list(norm.state_dict())
    assert nn.SyncBatchNorm.convert_sync_batchnorm(made) is made


@pytest.mark.parametrize("ids", [None, (0, 1), ("CPU:2", "CPU:0"), (3,)])
def test_data_parallel(ids):
    model = Normed(nn.BatchNorm2d)
    parallel = nn.DataParallel(model, ids)

    def place(model, x):
        y = parallel(x)
        assert y.device == parallel.output_device
        return y

    same_step(model, place)
    assert list(parallel.state_dict())[0] == "module.first.weight"


def test_data_parallel_divides_structures():
    class Pair(nn.Module):
        def forward(self, pair, *, scale):
            assert pair[0].device == TWO and scale["by"].device == TWO
            return {"sum": pair[0] + pair[1], "scaled": [pair[0] * scale["by"]], "n": 3}

    parallel = nn.DataParallel(Pair(), TWO, output_device=3)
    a, b = array(4, 2), array(4, 2, seed=1)
    made = parallel((Tensor(a), Tensor(b)), scale={"by": Tensor(2.0)})
    assert made["n"] == 3 and made["sum"].device == "CPU:3"
    np.testing.assert_allclose(made["sum"].numpy(), a + b)
    np.testing.assert_allclose(made["scaled"][0].numpy(), a * 2)
    with pytest.raises(InvalidArgumentError, match="device 9"):
        nn.DataParallel(Pair(), [9])
    with pytest.raises(InvalidArgumentError):
        parallel((Tensor(a[:3]), Tensor(b[:3])), scale={"by": Tensor(2.0)})
