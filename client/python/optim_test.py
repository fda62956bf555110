"""Optimisers: those that PyTorch lacks against NumPy, groups, state, errors."""

import pickle

import numpy as np
import pytest
import tensord
from tensord import Tensor, nn

optim = nn.optim


def start():
    return np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


def size(x):
    return np.sqrt((x.astype(np.float64) ** 2).sum())


def lars(p, g, s, t, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=False, classic=True, pre_wd=True, tcoef=0.01):
    trust = tcoef * size(p) / (size(g) + weight_decay * size(p)) if tcoef else 1.0
    g = g + weight_decay * p if pre_wd else g
    g = g * trust * lr if classic else g
    s["v"] = momentum * s.get("v", 0) + g
    g = g + momentum * s["v"] if nesterov else s["v"]
    p = p if pre_wd else p * (1 - weight_decay * lr)
    return p - (g if classic else g * trust * lr)


def lamb(p, g, s, t, lr=0.1, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.1, adam=False):
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["s"] = betas[1] * s.get("s", 0) + (1 - betas[1]) * g * g
    update = s["m"] / (1 - betas[0] ** t) / (np.sqrt(s["s"] / (1 - betas[1] ** t)) + eps) + weight_decay * p
    return p - lr * (1.0 if adam else size(p) / size(update)) * update


def muon(p, g, s, t, lr=0.1, weight_decay=0.1, momentum=0.95, nesterov=True):
    v = s["v"] = s.get("v", 0) + (g - s.get("v", 0)) * (1 - momentum)
    u = g + (v - g) * momentum if nesterov else v
    u = u.T / size(u)  # 4 x 3 is taller than wide
    for _ in range(5):
        a = u @ u.T
        u = 3.4445 * u + (-4.7750 * a + 2.0315 * a @ a) @ u
    return p * (1 - lr * weight_decay) - lr * np.sqrt(4 / 3) * u.T


CASES = [
    (optim.LARS, lars, {}), (optim.LARS, lars, {"classic": False, "nesterov": True}), (optim.LARS, lars, {"pre_wd": False}),
    (optim.LARS, lars, {"tcoef": 0, "classic": False}), (optim.LAMB, lamb, {}), (optim.LAMB, lamb, {"adam": True}),
    (optim.LAMB, lamb, {"betas": (0.5, 0.9), "weight_decay": 0.0}), (optim.Muon, muon, {}), (optim.Muon, muon, {"nesterov": False}),
]  # fmt: skip
FIRST = {"LARS": {"momentum": 0.9, "weight_decay": 0.1, "tcoef": 0.01}, "LAMB": {"weight_decay": 0.1}, "Muon": {}}


@pytest.mark.parametrize("cls, reference, options", CASES, ids=[f"{row[0].__name__} {row[2]}" for row in CASES])
def test_steps(cls, reference, options):
    expected, state, target = start(), {}, np.ones((4, 3), np.float32)
    w = nn.Parameter(Tensor(expected))
    optimiser = cls([w], lr=0.1, **{**FIRST[cls.__name__], **options})

    @tensord.jit
    def step(target):
        optimiser.zero_grad()
        (w - target).square().sum().backward()
        optimiser.step()

    for t in range(1, 11):
        step(Tensor(target))
        expected = reference(expected, 2 * (expected - target), state, t, **options)
        np.testing.assert_allclose(w.numpy(), expected, rtol=1e-4, atol=1e-4)


def parameter(*values):
    return nn.Parameter(Tensor([float(v) for v in values]))


BAD = [
    (lambda p: optim.SGD(p, lr=-1), "SGD: lr is -1"), (lambda p: optim.SGD(p, momentum=-0.1), "momentum is -0.1"),
    (lambda p: optim.SGD(p, weight_decay=-1), "weight_decay is -1"), (lambda p: optim.SGD(p, nesterov=True), "nesterov needs"),
    (lambda p: optim.Adam(p, betas=(0.9, 1.0)), "betas is"), (lambda p: optim.AdamW(p, eps=-1e-3), "eps is"),
    (lambda p: optim.RMSprop(p, alpha=-1), "alpha is"), (lambda p: optim.Adadelta(p, rho=1.5), "rho is"),
    (lambda p: optim.Adagrad(p, lr_decay=-1), "lr_decay is"), (lambda p: optim.Rprop(p, etas=(0.5, 0.9)), "etas is"),
    (lambda p: optim.NAdam(p, momentum_decay=-1), "momentum_decay is"), (lambda p: optim.Adafactor(p, d=0.5), "d is"),
    (lambda p: optim.Adafactor(p, eps=(-1, 0)), "eps is"), (lambda p: optim.Muon(p), "no matrix"),
    (lambda p: optim.LBFGS(p, line_search_fn="golden"), "line_search_fn"), (lambda p: optim.SGD([]), "parameters"),
    (lambda p: optim.SGD([Tensor([1.0])]), "requires_grad"), (lambda p: optim.SGD([p[0], p[0]]), "twice"),
    (lambda p: optim.SGD([p[0] * 2]), "parameter 0 is made of others"),
    (lambda p: optim.Adam(p, differentiable=True), "differentiable"), (lambda p: optim.OptimizerGroup(), "no optimisers"),
    (lambda p: optim.SGD([{"params": p, "lr": -2}]), "lr is -2"),
    (lambda p: optim.lr_scheduler.ConstantLR(optim.SGD(p), factor=2), "ConstantLR: the factor"),
    (lambda p: optim.lr_scheduler.OneCycleLR(optim.Adagrad(p), 1.0, 10), "cycle_momentum"),
    (lambda p: optim.lr_scheduler.LambdaLR(optim.SGD(p), [abs, abs]), "2 values of lr_lambda for 1 groups"),
]  # fmt: skip


@pytest.mark.parametrize("make, message", BAD, ids=[message for _, message in BAD])
def test_what_is_refused(make, message):
    with pytest.raises(tensord.errors.InvalidArgumentError, match=message):
        make([parameter(1, 2)])


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="momentun"):
        optim.SGD([parameter(1)], momentun=0.9)
    optim.SGD([parameter(1)], foreach=True, fused=False)
    with pytest.raises(TypeError, match="a list, or something else to iterate over"):
        optim.SGD(parameter(1))


def test_a_missing_gradient_in_a_captured_step():
    a, b = parameter(1), parameter(2)
    optimiser = optim.Adam([a, b])

    @tensord.jit
    def step():
        optimiser.zero_grad()
        a.sum().backward()
        optimiser.step()

    with pytest.raises(tensord.errors.FailedPreconditionError, match=r"parameters \[1\] have no gradient"):
        step()
    apart = optim.Adam([{"params": a}, {"params": b}], lr=0.5)
    optimiser = apart
    step.reset()
    step()
    assert a.item() == pytest.approx(0.5) and b.item() == 2


def test_state_goes_from_one_optimiser_to_another():
    def run(w, optimiser, steps):
        for _ in range(steps):
            optimiser.zero_grad()
            w.square().sum().backward()
            optimiser.step()

    w, other = parameter(1, 2), parameter(0, 0)
    first, second = optim.Adam([w], lr=0.1, amsgrad=True), optim.Adam([other], lr=0.3, amsgrad=True)
    run(w, first, 3)
    other.assign(w.detach().clone())
    second.load_state_dict(first.state_dict())
    run(w, first, 3)
    run(other, second, 3)
    assert other.tolist() == w.tolist()
    with pytest.raises(ValueError, match=r"groups of \[1\] parameters for groups of \[2\]"):
        optim.Adam([w, other]).load_state_dict(first.state_dict())


def test_a_rate_that_the_program_computes():
    w = parameter(1)
    optimiser = optim.SGD([w], lr=1.0)

    @tensord.jit
    def step():
        optimiser.zero_grad()
        w.sum().backward()
        optimiser.step()
        optimiser.lr = optimiser.lr / 2

    step()
    step()
    assert w.item() == -0.5 and optimiser.param_groups[0]["lr"] == 0.25
    optimiser.param_groups[0]["lr"] = 4.0
    step()
    assert w.item() == -4.5 and step.captures == 1 and optimiser.param_groups[0]["lr"] == 2.0


def test_schedules_need_no_other_program():
    w = parameter(1)
    optimiser = optim.Adam([w], lr=0.1)
    schedule = optim.lr_scheduler.OneCycleLR(optimiser, 0.1, 10)  # moves the betas as well

    @tensord.jit
    def step():
        optimiser.zero_grad()
        w.square().sum().backward()
        optimiser.step()

    step()
    schedule.step()
    before = tensord.counters()["plan_misses"]
    for _ in range(5):
        step()
        schedule.step()
    w.item()
    assert step.captures == 1 and tensord.counters()["plan_misses"] - before <= 1
    with pytest.raises(ValueError, match="step 10 of 10"):
        for _ in range(10):
            schedule.step()


def test_a_closure_and_several_optimisers():
    matrix, rest = nn.Parameter(Tensor(start())), parameter(1, 2)
    both = optim.OptimizerGroup(optim.Muon([matrix], lr=0.1), optim.SGD([rest], lr=0.5))
    both.zero_grad()
    (matrix.square().sum() + rest.square().sum()).backward()
    both.step()
    assert rest.tolist() == [0, 0] and np.any(matrix.numpy() != start())
    assert len(both.params) == 2 and len(both.state_dict()) == 2
    optim.lr_scheduler.ExponentialLR(both, 0.5).step()
    assert [group["lr"] for group in both.param_groups] == [0.05, 0.25]

    def closure():
        both[1].zero_grad()
        loss = rest.exp().sum()
        loss.backward()
        return loss

    assert both[1].step(closure).item() == 2 and rest.tolist() == [-0.25, -0.25]
    assert repr(both[1]).startswith("SGD (\nParameter Group 0\n    dampening: 0.0\n    initial_lr: 0.5\n    lr: 0.25\n")


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.1), lambda p: optim.Adam(p, lr=0.1)])
def test_frozen_parameters_stay_until_they_are_set_free(make):
    a, b = Tensor([1.0], requires_grad=True), Tensor([1.0])
    optimiser = make([a, b])
    (a * b).sum().backward()
    optimiser.step()
    assert a.item() != 1.0 and b.item() == 1.0
    b.requires_grad_(True)
    optimiser.zero_grad()
    (a * b).sum().backward()
    optimiser.step()
    assert b.item() != 1.0
    again = pickle.loads(pickle.dumps(optimiser))
    assert [dict(group)["lr"] for group in again.param_groups] == [0.1]


def test_a_step_can_be_put_off():
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = tensord.optim.OptimizerGroup(tensord.optim.SGD([w], lr=0.5))
    loss = (w * w).sum()
    loss.backward()
    w.realize()
    before = tensord.counters()["programs_run"]
    tensord.realize(loss, optimizer.schedule_step())
    assert tensord.counters()["programs_run"] == before + 1
    assert loss.item() == 5 and w.tolist() == [0, 0]
    with pytest.raises(NotImplementedError, match="put off"):
        tensord.optim.LBFGS([w]).schedule_step()


@pytest.mark.parametrize("widths", [(784, 512, 256, 10), (96, 512, 256, 10), (256, 256, 128, 2), (784, 500, 260, 10)])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_the_first_step_may_draw_the_parameters_as_well(widths, name):
    """All of it is one program then: draws and products share loops."""

    def trained(realize):
        tensord.manual_seed(3)
        layers = [nn.Linear(a, b) for a, b in zip(widths, widths[1:])]
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        if realize:
            tensord.realize(*parameters)
        optimizer = getattr(optim, name)(parameters, lr=0.01)
        x, y = Tensor(inputs), Tensor(targets)
        for layer in layers[:-1]:
            x = layer(x).relu()
        loss = nn.functional.cross_entropy(layers[-1](x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return [loss.numpy(), *(parameter.numpy() for parameter in parameters)]

    rng = np.random.default_rng(0)
    inputs = rng.random((256, widths[0]), np.float32)
    targets = rng.integers(0, widths[-1], 256)
    for at_once, before in zip(trained(False), trained(True)):
        np.testing.assert_allclose(at_once, before, rtol=1e-3, atol=2e-3 if name == "Adam" else 1e-5)
