"""Modules as such: names, state, modes, hooks, containers."""

import copy
import pickle

import numpy as np
import pytest
import tensord
from tensord import Tensor, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2, bias=False))
        self.scale = nn.Parameter(tensord.ones(2))
        self.register_buffer("seen", tensord.zeros(1).clone())
        self.register_buffer("scratch", tensord.zeros(1).clone(), persistent=False)
        self.plain = Tensor([1.0])  # neither parameter nor buffer

    def forward(self, x):
        return self.rest(self.norm(self.first(x))) * self.scale


def data(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_names():
    net = Net()
    parameters = ["scale", "first.weight", "first.bias", "norm.weight", "norm.bias", "rest.2.weight"]
    statistics = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert [name for name, _ in net.named_parameters()] == parameters
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch", *statistics]
    assert set(net.state_dict()) == {*parameters, "seen", *statistics}
    assert [name for name, _ in net.named_modules()] == ["", "first", "norm", "rest", "rest.0", "rest.1", "rest.2"]
    assert [name for name, _ in net.named_children()] == ["first", "norm", "rest"]
    assert net.get_submodule("rest.2") is net.rest[2] and net.get_parameter("norm.bias") is net.norm.bias
    assert [name for name, _ in net.named_parameters(recurse=False)] == ["scale"]
    with pytest.raises(AttributeError, match="rest.7"):
        net.get_submodule("rest.7")


def test_shared_parameters_are_listed_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert len(net.state_dict()) == 4
    twin = copy.deepcopy(net)
    assert twin[1].weight is twin[0].weight is not net[0].weight


def test_state_finds_modules_in_plain_objects_and_the_other_way_round():
    class Plain:
        def __init__(self):
            self.layers = [nn.Linear(2, 2), Tensor.relu, Net()]

    class Mixed(nn.Module):
        def __init__(self):
            self.layers = [nn.Linear(2, 2)]  # a list: PyTorch's names don't reach into it

    names = set(nn.state.get_state_dict(Plain()))
    assert {"layers.0.weight", "layers.2.rest.2.weight", "layers.2.seen"} <= names
    assert "layers.2.scratch" not in names
    assert not Mixed().state_dict() and set(nn.state.get_state_dict(Mixed())) == {"layers.0.weight", "layers.0.bias"}
    assert len(nn.state.get_parameters(Plain())) == 8


def test_loading():
    one, two = Net(), Net()
    state = {name: tensor.numpy() for name, tensor in one.state_dict().items()}
    assert two.load_state_dict(state) == ([], [])
    x = Tensor(data(5, 3))
    np.testing.assert_array_equal(one(x).numpy(), two(x).numpy())
    del state["scale"]
    state["other"] = np.zeros(1)
    assert two.load_state_dict(state, strict=False) == (["scale"], ["other"])
    with pytest.raises(ValueError, match=r"missing: \['scale'\]; unexpected: \['other'\]"):
        two.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"'seen' has shape \[1\], the new one \[3\]"):
        two.load_state_dict({"seen": np.zeros(3)}, strict=False)
    before = two.scale
    two.load_state_dict({"scale": Tensor([1.0, 2.0], "float64")}, strict=False)
    assert two.scale is before and before.dtype == "float32" and before.tolist() == [1, 2]
    two.load_state_dict({"scale": Tensor([1.0, 2.0], "float64")}, strict=False, assign=True)
    assert two.scale is not before and two.scale.dtype == "float64" and isinstance(two.scale, nn.Parameter)


@pytest.mark.parametrize("assign, message", [
    (lambda net: setattr(net, "scale", Tensor([1.0, 2.0])), "Net.scale is a parameter"),
    (lambda net: setattr(net, "seen", 3), "Net.seen is a buffer"),
    (lambda net: net.register_parameter("w", Tensor([1.0])), "Net.w: a parameter is a Parameter"),
    (lambda net: net.register_buffer("b", [1.0]), "Net.b: a buffer is a Tensor"),
    (lambda net: net.add_module("m", Tensor.relu), "Net.m: a part is a Module"),
    (lambda net: nn.Sequential(Tensor.relu), "Sequential.0: a part is a Module"),
])  # fmt: skip
def test_what_may_not_be_assigned(assign, message):
    with pytest.raises(TypeError, match=message):
        assign(Net())


def test_names_that_may_not_be():
    for name, message in (("a.b", "dot"), ("", "empty"), ("forward", "has an attribute")):
        with pytest.raises(KeyError, match=message):
            Net().add_module(name, nn.ReLU())


# own mode of the module, mode around it, what holds
MODES = [(None, None, False), (None, True, True), (None, False, False), (True, False, True), (True, None, True),
         (False, True, False), (False, None, False)]  # fmt: skip


@pytest.mark.parametrize("own, around, expected", MODES)
def test_training_is_the_modules_own_or_that_around_it(own, around, expected):
    layer = nn.Sequential(nn.Dropout(0.5))
    if own is not None:
        layer.train(own)
    if around is None:
        assert layer.training == layer[0].training == expected
        return
    with tensord.training(around):
        assert layer.training == layer[0].training == expected
        dropped = layer(tensord.ones(1000)).sum().item() != 1000
        assert dropped == expected
        layer.train(None)
        assert layer[0].training == around


def test_a_captured_function_follows_the_mode():
    layer = nn.Dropout(0.5)
    calls = []

    @tensord.jit
    def run(x):
        calls.append(layer.training)
        return layer(x).sum()

    x = tensord.ones(1000).realize()
    for mode, expected in ((False, 1), (True, 2), (False, 2), (True, 2)):
        layer.train(mode)
        assert (run(x).item() != 1000) == mode
        assert len(calls) == expected  # the earlier captures serve again
    assert run.captures == 2


def test_hooks():
    layer, log = nn.Linear(2, 2), []
    with layer.register_forward_pre_hook(lambda module, args: log.append("before")):
        handle = layer.register_forward_hook(lambda module, args, result: result * 0 + 7)
        assert layer(Tensor([1.0, 2.0])).tolist() == [7, 7] and log == ["before"]
        handle.remove()
        assert layer(Tensor([1.0, 2.0])).tolist() != [7, 7] and len(log) == 2
    layer(Tensor([1.0, 2.0]))
    assert len(log) == 2
    with layer.register_forward_pre_hook(lambda module, args: args[0] * 0):
        np.testing.assert_allclose(layer(Tensor([1.0, 2.0])).numpy(), layer.bias.numpy())


def test_conversion_and_gradients_of_all():
    net = Net().double()
    assert {p.dtype.name for p in net.parameters()} == {"float64"} and net.norm.running_mean.dtype == "float64"
    assert net.norm.num_batches_tracked.dtype == "int64"
    assert net(Tensor(data(5, 3)).double()).dtype == "float64"
    assert net.to("float32").first.weight.dtype == "float32"
    with pytest.raises(TypeError, match="floating"):
        net.to("int32")
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters()) and len(list(net.parameters())) == 6
    net.requires_grad_()
    net(Tensor(data(5, 3))).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    visited = []
    net.apply(lambda module: visited.append(type(module).__name__))
    assert visited == ["Linear", "BatchNorm1d", "ReLU", "Dropout", "Linear", "Sequential", "Net"]


def test_copies():
    layer = nn.Linear(2, 2)
    layer.weight.requires_grad_(False)
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert isinstance(made.weight, nn.Parameter) and not made.weight.requires_grad and made.bias.requires_grad
        np.testing.assert_array_equal(made.weight.numpy(), layer.weight.numpy())
        nn.init.zeros_(made.weight)
    assert np.any(layer.weight.numpy())


def test_lists():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    row = nn.ModuleList([a, b])
    row.insert(0, c)
    assert list(row) == [c, a, b] and row[-1] is b and list(row[1:]) == [a, b] and len(row + [c]) == 4
    row[1] = nn.GELU()
    assert row.pop() is b and isinstance(row[1], nn.GELU)
    del row[0]
    assert [name for name, _ in row.named_children()] == ["0"]
    row.extend([a, b]).append(c)
    assert len(row) == 4
    with pytest.raises(IndexError, match="index 4 of 4"):
        row[4]
    named = nn.Sequential({"lower": nn.Linear(2, 3), "upper": nn.Linear(3, 1)})
    assert named[1] is named.upper and named(Tensor([1.0, 2.0])).shape == (1,)
    assert isinstance(named[:1], nn.Sequential) and len(named[:1]) == 1


def test_dicts_and_lists_of_parameters():
    parts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    parts.update({"c": nn.Sigmoid()})
    assert list(parts) == ["a", "b", "c"] and "b" in parts and isinstance(parts.pop("a"), nn.ReLU) and len(parts) == 2
    parts.clear()
    assert len(parts) == 0
    with pytest.raises(KeyError):
        parts["a"]
    row = nn.ParameterList([tensord.zeros(2), nn.Parameter(tensord.ones(3))])
    assert [name for name, _ in row.named_parameters()] == ["0", "1"] and row[0].requires_grad
    named = nn.ParameterDict({"w": tensord.zeros(2, 3)})
    assert named["w"].shape == (2, 3) and list(named.state_dict()) == ["w"]
    assert repr(named) == "ParameterDict((w): Parameter containing: [float32 of size 2x3])"


@pytest.mark.parametrize("make, message", [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d: 3 to 4 channels in 2 groups"),
    (lambda: nn.Conv2d(2, 2, 3, stride=2, padding="same"), "'same' needs a stride of 1"),
    (lambda: nn.Conv1d(2, 2, 3, padding_mode="mirror"), "padding_mode is one of"),
    (lambda: nn.ConvTranspose2d(2, 2, 3, padding_mode="reflect"), "padding_mode is one of"),
    (lambda: nn.Conv2d(2, 2, 3)(tensord.zeros(2, 2)), "Conv2d: an input of shape"),
    (lambda: nn.BatchNorm2d(3)(tensord.zeros(2, 3, 4)), "BatchNorm2d: an input of shape"),
    (lambda: nn.BatchNorm1d(3)(tensord.zeros(2, 4)), "for 3 channels"),
    (lambda: nn.GroupNorm(2, 3), "3 channels in 2 groups"),
    (lambda: nn.Dropout(1.5), "in \\[0, 1\\], not 1.5"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx 3 of 3 rows"),
    (lambda: nn.LSTM(2, 3, proj_size=3), "proj_size 3 must be less"),
    (lambda: nn.GRU(2, 3)(tensord.zeros(4, 1, 5)), "GRU: an input of shape"),
    (lambda: nn.RNN(2, 3)(tensord.zeros(4, 1, 2), tensord.zeros(2, 1, 3)), "RNN: a state of shape"),
    (lambda: nn.MultiheadAttention(5, 2), "embed_dim 5 in num_heads 2"),
    (lambda: nn.MSELoss(reduction="most"), "MSELoss: reduction is"),
    (lambda: nn.init.eye_(tensord.zeros(3)), "eye_: a tensor of shape"),
    (lambda: nn.init.kaiming_normal_(tensord.zeros(3, 3), mode="fan"), "fan_in"),
    (lambda: nn.utils.vector_to_parameters(tensord.zeros(3), [tensord.zeros(2)]), "for 2 elements"),
])  # fmt: skip
def test_errors_name_the_thing(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_recurrent_layer_is_a_loop():
    """Its kernels are as many for a long sequence as for a short one."""
    layer = nn.LSTM(7, 11)  # sizes of no other test's kernels
    compiled = []
    for steps in (5, 50):
        before = tensord.counters()["kernels_compiled"]
        layer(Tensor(data(steps, 5, 7)))[0].realize()
        compiled.append(tensord.counters()["kernels_compiled"] - before)
    assert compiled[1] <= compiled[0] < 40


def test_a_network_of_modules_learns_in_a_captured_step():
    tensord.manual_seed(3)
    net = Net()
    optimiser = nn.optim.AdamW(net.parameters(), lr=0.05)
    x, y = data(64, 3), np.random.default_rng(2).integers(0, 2, 64)
    x[:, 0] += 3 * y
    loss_of = nn.CrossEntropyLoss()
    inputs = Tensor(x).realize(), Tensor(y.astype(np.int32)).realize()

    @tensord.jit
    def step(x, y):
        optimiser.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        return loss

    net.train()
    losses = [step(*inputs).item() for _ in range(40)]
    assert losses[-1] < losses[0] / 2 and step.captures == 1
    assert net.norm.num_batches_tracked.item() == 40
    net.eval()
    assert (net(inputs[0]).argmax(1).numpy() == y).mean() > 0.8


def test_vectors_of_parameters():
    layer = nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (8,)
    nn.utils.vector_to_parameters(tensord.arange(8).float(), layer.parameters())
    assert layer.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and layer.bias.tolist() == [6, 7]


def test_nn_has_all_names_that_it_lists():
    assert [name for name in nn.__all__ if not hasattr(nn, name)] == []
    undocumented = [name for name in nn.__all__ if not (getattr(nn, name).__doc__ or "").strip()]
    assert undocumented == []


def test_parametrisations_come_and_go():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(0, 1)

    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    parametrize = nn.utils.parametrize
    layer = nn.Linear(3, 3)
    before = layer.weight.numpy()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    weight = layer.weight.numpy()
    np.testing.assert_array_equal(weight, weight.T)
    np.testing.assert_array_equal(np.triu(weight), np.triu(before))
    assert [name for name, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    parametrize.register_parametrization(layer, "bias", Doubled())
    layer.bias = Tensor([2.0, 4.0, 6.0])
    assert layer.parametrizations.bias.original.tolist() == [1, 2, 3] and layer.bias.tolist() == [2, 4, 6]
    assert parametrize.is_parametrized(layer, "bias") and isinstance(layer, nn.Linear)
    parametrize.remove_parametrizations(layer, "weight")
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert type(layer) is nn.Linear and not parametrize.is_parametrized(layer)
    np.testing.assert_array_equal(layer.weight.numpy(), weight)
    assert layer.bias.tolist() == [1, 2, 3] and layer.bias.requires_grad
    with pytest.raises(ValueError, match="Linear has no parameter 'gain'"):
        parametrize.register_parametrization(layer, "gain", Doubled())
