"""Optimisers against PyTorch's: the same parameters, gradients and options give the same parameters, step by step."""

import numpy as np
import pytest
import tensord
import torch
from tensord import Tensor, nn

SHAPES = [(4, 3), (5,), ()]
STEPS = 12
# optimiser: combinations of options
OPTIONS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.5, "dampening": 0.1, "weight_decay": 0.1, "maximize": True},
    ],
    "Adam": [
        {},
        {"lr": 0.1},
        {"lr": 0.1, "betas": (0.5, 0.8), "eps": 1e-3},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "amsgrad": True},
        {"lr": 0.1, "amsgrad": True, "weight_decay": 0.2, "maximize": True},
    ],
    "AdamW": [{"lr": 0.1}, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}, {"lr": 0.05, "maximize": True}],
    "Adamax": [{}, {"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "betas": (0.5, 0.7), "maximize": True}],
    "NAdam": [
        {},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1},
        {"lr": 0.1, "maximize": True},
    ],
    "RAdam": [
        {},
        {"lr": 0.1, "betas": (0.9, 0.9)},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "RMSprop": [
        {},
        {"lr": 0.1, "alpha": 0.8, "eps": 1e-3},
        {"lr": 0.1, "centered": True, "eps": 1e-3},
        {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.8, "centered": True, "eps": 1e-3, "maximize": True},
    ],
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}, {"initial_accumulator_value": 0.5, "maximize": True}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.6, "eps": 1e-3}, {"weight_decay": 0.1, "maximize": True}],
    "ASGD": [{}, {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 4}, {"weight_decay": 0.1, "maximize": True}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2)}, {"maximize": True}],
    "Adafactor": [{}, {"lr": 0.1, "weight_decay": 0.1}, {"eps": (1e-5, 1e-2), "d": 2.0, "beta2_decay": -0.5, "maximize": True}],
}  # fmt: skip
ROWS = [(name, options) for name, rows in OPTIONS.items() for options in rows]
NAMES = [f"{name} {options}" for name, options in ROWS]


def starts(shapes=SHAPES):
    rng = np.random.default_rng(3)
    return [np.asarray(rng.standard_normal(shape), np.float32) for shape in shapes]


def targets(shapes=SHAPES):
    rng = np.random.default_rng(4)
    return [np.asarray(rng.standard_normal(shape), np.float32) for shape in shapes]


def losses(params, aims):
    return [((p - t) * (p - t) * 0.5 + (p - t)).sum() for p, t in zip(params, aims)]


class Theirs:
    def __init__(self, name, options, shapes=SHAPES):
        self.params = [torch.nn.Parameter(torch.tensor(x)) for x in starts(shapes)]
        self.aims = [torch.tensor(x) for x in targets(shapes)]
        self.optimiser = getattr(torch.optim, name)(self.params, **options)

    def step(self):
        self.optimiser.zero_grad()
        sum(losses(self.params, self.aims)).backward()
        self.optimiser.step()

    def values(self):
        return [p.detach().numpy().copy() for p in self.params]


class Ours:
    def __init__(self, name, options, shapes=SHAPES, captured=False):
        self.params = [nn.Parameter(Tensor(x)) for x in starts(shapes)]
        self.aims = [Tensor(x) for x in targets(shapes)]
        self.optimiser = getattr(nn.optim, name)(self.params, **options)
        if captured:
            self.step = tensord.jit(self.step)

    def step(self):
        self.optimiser.zero_grad()
        sum(losses(self.params, self.aims)).backward()
        self.optimiser.step()

    def values(self):
        return [p.numpy() for p in self.params]


def same(ours, theirs, rtol=1e-5, atol=1e-5):
    for have, want in zip(ours.values(), theirs.values()):
        np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name, options", ROWS, ids=NAMES)
def test_steps(judge, name, options):
    ours, theirs = Ours(name, options, captured=True), Theirs(name, options)
    for _ in range(STEPS):
        ours.step()
        theirs.step()
        same(ours, theirs)
    assert ours.step.captures == 1


@pytest.mark.parametrize("name", OPTIONS)
def test_it_goes_on_from_a_state_dict_of_pytorch(judge, name):
    options = OPTIONS[name][-1]
    ours, theirs = Ours(name, options), Theirs(name, options)
    for _ in range(4):
        theirs.step()
    state = theirs.optimiser.state_dict()
    for mine, other in zip(ours.params, theirs.values()):
        mine.assign(Tensor(other))
    ours.optimiser.load_state_dict(state)
    for _ in range(4):
        ours.step()
        theirs.step()
    same(ours, theirs)
    again = ours.optimiser.state_dict()
    assert set(again) == set(state)
    for number, entry in state["state"].items():
        assert set(entry) <= {*again["state"][number], "step"}


@pytest.mark.parametrize("name", OPTIONS)
def test_defaults_are_those_of_pytorch(name):
    theirs = getattr(torch.optim, name)([torch.nn.Parameter(torch.zeros(2))])
    ours = getattr(nn.optim, name)([nn.Parameter(tensord.zeros(2))])
    for option, value in ours.param_groups[0].items():
        if option != "params":
            assert theirs.param_groups[0][option] == value, option


def test_groups_have_options_of_their_own(judge):
    made = {}
    for side, lib, cls in ((Theirs, torch, torch.optim.Adam), (Ours, nn, nn.optim.Adam)):
        one = side("SGD", {"lr": 0.1})
        a, b, c = one.params
        one.optimiser = cls([{"params": [a], "lr": 0.2, "weight_decay": 0.1}, {"params": b}], lr=0.05)
        one.optimiser.add_param_group({"params": [c], "betas": (0.5, 0.5)})
        made[side] = one
    for _ in range(5):
        for one in made.values():
            one.step()
    same(made[Ours], made[Theirs])
    ours, theirs = (made[side].optimiser.state_dict()["param_groups"] for side in (Ours, Theirs))
    assert [group["params"] for group in ours] == [group["params"] for group in theirs]
    assert [group["lr"] for group in ours] == [group["lr"] for group in theirs]


def test_a_parameter_without_gradient_stays(judge):
    ours, theirs = Ours("Adam", {"lr": 0.1}), Theirs("Adam", {"lr": 0.1})
    for turn in range(6):
        for one in (ours, theirs):
            one.optimiser.zero_grad()
            parts = losses(one.params, one.aims)
            (sum(parts) if turn % 2 else parts[0]).backward()
            one.optimiser.step()
        same(ours, theirs)


def test_options_change_between_steps(judge):
    ours, theirs = Ours("SGD", {"lr": 0.1, "momentum": 0.9}, captured=True), Theirs("SGD", {"lr": 0.1, "momentum": 0.9})
    for changes in ({}, {"lr": 0.05}, {"momentum": 0.5}, {"weight_decay": 0.1}, {"weight_decay": 0.0}):
        for one in (ours, theirs):
            one.optimiser.param_groups[0].update(changes)
            one.step()
        same(ours, theirs)
    # lr and momentum are data; a weight decay is another program, and that without is still there.
    assert ours.step.captures == 2


@pytest.mark.parametrize("options", [
    {}, {"adjust_lr_fn": "match_rms_adamw"}, {"adjust_lr_fn": "spectral_unclamped"}, {"nesterov": False, "momentum": 0.8},
])  # fmt: skip
def test_muon(judge, options):
    """PyTorch iterates in bfloat16, whose rounding is 2 ** -8: hence the tolerance."""
    shapes = [(4, 3), (3, 5)]
    ours, theirs = Ours("Muon", {"lr": 0.05, **options}, shapes), Theirs("Muon", {"lr": 0.05, **options}, shapes)
    for _ in range(3):
        ours.step()
        theirs.step()
    same(ours, theirs, rtol=0, atol=0.01)


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize("options", [
    {"lr": 0.1, "max_iter": 5}, {"line_search_fn": "strong_wolfe", "max_iter": 4},
    {"lr": 0.1, "max_iter": 6, "history_size": 2}, {"line_search_fn": "strong_wolfe", "max_iter": 4, "max_eval": 6},
])  # fmt: skip
def test_lbfgs(judge, options):
    start = [-1.2, 0.8]
    x, y = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64)), nn.Parameter(Tensor(start, "float64"))
    theirs, ours = torch.optim.LBFGS([x], **options), nn.optim.LBFGS([y], **options)

    def closure(optimiser, param):
        def compute():
            optimiser.zero_grad()
            loss = rosenbrock(param)
            loss.backward()
            return loss

        return compute

    for _ in range(4):
        want, have = theirs.step(closure(theirs, x)), ours.step(closure(ours, y))
        np.testing.assert_allclose(have.item(), want.item(), rtol=1e-5)
        np.testing.assert_allclose(y.numpy(), x.detach().numpy(), rtol=1e-5, atol=1e-7)


def table(lib, array, **options):
    """A table of embeddings with that data."""
    make = torch.tensor if lib is torch else Tensor
    return (torch.nn if lib is torch else nn).Embedding(*array.shape, _weight=make(array), **options)


@pytest.mark.parametrize("options", [{}, {"lr": 0.1, "betas": (0.5, 0.8), "eps": 1e-3}, {"lr": 0.1, "maximize": True}], ids=str)
def test_sparse_adam_moves_the_rows_that_were_looked_up(judge, options):
    rng = np.random.default_rng(4)
    start = rng.standard_normal((9, 3)).astype(np.float32)
    theirs, ours = table(torch, start, sparse=True), table(tensord, start, sparse=True)
    steps = torch.optim.SparseAdam(theirs.parameters(), **options), nn.optim.SparseAdam(ours.parameters(), **options)
    for rows in ([0, 3, 3], [1], [3, 8], [0, 1, 2, 3], [4, 4, 4]):
        weights = rng.standard_normal((len(rows), 3)).astype(np.float32)
        for optimizer in steps:
            optimizer.zero_grad()
        (theirs(torch.tensor(rows)) * torch.tensor(weights)).sum().backward()
        (ours(Tensor(rows)) * Tensor(weights)).sum().backward()
        for optimizer in steps:
            optimizer.step()
        np.testing.assert_allclose(ours.weight.numpy(), theirs.weight.detach().numpy(), rtol=1e-5, atol=1e-6)
    untouched = [5, 6, 7]
    np.testing.assert_array_equal(ours.weight.numpy()[untouched], start[untouched])
    steps[1].load_state_dict(steps[0].state_dict())
    assert set(steps[1].state_dict()["state"][0]) == set(steps[0].state_dict()["state"][0])


def swa(lib):
    return (torch.optim if lib is torch else nn.optim).swa_utils


def network(lib):
    modules = torch.nn if lib is torch else nn
    return modules.Sequential(modules.Linear(3, 4), modules.BatchNorm1d(4), modules.Linear(4, 2))


AVERAGES = {
    "the mean": lambda s: {},
    "an exponential one": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.8)},
    "the same by tensor": lambda s: {"avg_fn": s.get_ema_avg_fn(0.8)},
    "with buffers": lambda s: {"avg_fn": s.get_swa_avg_fn(), "use_buffers": True},
    "a function": lambda s: {"avg_fn": lambda averaged, newest, count: averaged * 0.25 + newest * 0.75},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_models(judge, name):
    rng = np.random.default_rng(6)
    theirs, ours = network(torch).train(), network(tensord).train()
    ours.load_state_dict(theirs.state_dict())
    averaged = [swa(lib).AveragedModel(model, **AVERAGES[name](swa(lib))) for lib, model in ((torch, theirs), (tensord, ours))]
    steps = torch.optim.SGD(theirs.parameters(), 0.1), nn.optim.SGD(ours.parameters(), 0.1)
    batches = [rng.standard_normal((5, 3)).astype(np.float32) for _ in range(4)]
    for batch in batches:
        for value, model, average, optimizer in zip((torch.tensor(batch), Tensor(batch)), (theirs, ours), averaged, steps):
            optimizer.zero_grad()
            model(value).square().sum().backward()
            optimizer.step()
            average.update_parameters(model)
    want, have = (average.state_dict() for average in averaged)
    assert list(have) == list(want)
    for key, tensor in want.items():
        np.testing.assert_allclose(have[key].numpy(), tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)
    swa(torch).update_bn([torch.tensor(batch) for batch in batches], averaged[0])
    swa(tensord).update_bn([(Tensor(batch), None) for batch in batches], averaged[1].eval())
    assert not averaged[1].training and averaged[1].module[1].momentum == 0.1
    want, have = (average.state_dict() for average in averaged)
    for key, tensor in want.items():
        np.testing.assert_allclose(have[key].numpy(), tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)
    np.testing.assert_allclose(averaged[1](Tensor(batches[0])).numpy(), averaged[0].eval()(torch.tensor(batches[0])).detach().numpy(),
                               rtol=1e-4, atol=1e-5)  # fmt: skip


def test_averages_refuse_what_pytorch_refuses(judge):
    for lib in (torch, tensord):
        with pytest.raises((ValueError, AssertionError)):
            s = swa(lib)
            s.AveragedModel(network(lib), avg_fn=s.get_ema_avg_fn(), multi_avg_fn=s.get_ema_multi_avg_fn())
        with pytest.raises(ValueError):
            swa(lib).get_ema_multi_avg_fn(1.5)
