"""Schedules of the learning rate against PyTorch's: the same rates, and momentums, step by step."""

import warnings

import numpy as np
import pytest
import tensord
import torch
from tensord import nn

STEPS = 30


def swa_of(schedulers):
    return (torch.optim if schedulers is torch.optim.lr_scheduler else nn.optim).swa_utils


# name: how to make it, from the module of schedules and an optimiser
SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch),
    "LambdaLR, one a group": lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9**epoch, lambda epoch: 1 / (epoch + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 if epoch % 2 else 1.05),
    "StepLR": lambda s, o: s.StepLR(o, 4, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 7, 7, 20], 0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.2, 6),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 0.8, 9),
    "LinearLR, defaults": lambda s, o: s.LinearLR(o),
    "LinearLR, to zero": lambda s, o: s.LinearLR(o, 1.0, 0.0, 12),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 12, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 9, 0.01),
    "CosineAnnealingLR, once": lambda s, o: s.CosineAnnealingLR(o, 30),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "CosineAnnealingWarmRestarts, longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    **{
        f"CyclicLR {mode}": lambda s, o, mode=mode: s.CyclicLR(o, 0.01, 0.2, 4, 5, mode, 0.9)
        for mode in ("triangular", "triangular2", "exp_range")
    },
    "CyclicLR, a function": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.3], 3, scale_fn=lambda x: 1 / (x + 1), scale_mode="iterations", cycle_momentum=False
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, STEPS + 1),
    "OneCycleLR, linear, three phases": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.2], epochs=8, steps_per_epoch=4, anneal_strategy="linear", three_phase=True, pct_start=0.4
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9), s.StepLR(o, 2, 0.5)], [5, 14]
    ),
    "SequentialLR, warm-up and cosine": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.01, 1.0, 5), s.CosineAnnealingLR(o, 20)], [5]
    ),
    "SWALR": lambda s, o: swa_of(s).SWALR(o, 0.03, 6),
    "SWALR, linear, after a step": lambda s, o: s.SequentialLR(
        o, [s.ExponentialLR(o, 0.9), swa_of(s).SWALR(o, [0.5, 0.01], anneal_epochs=4, anneal_strategy="linear")], [5]
    ),
    "SWALR, at once": lambda s, o: swa_of(s).SWALR(o, 0.03, 0),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)]),
    "ChainedScheduler, cosine": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.1, 1.0, 6), s.CosineAnnealingLR(o, 10), s.MultiStepLR(o, [8, 16], 0.5)]
    ),
}
PLATEAU = {
    "defaults": {"patience": 2},
    "max": {"mode": "max", "factor": 0.5, "patience": 1, "cooldown": 2},
    "abs": {"threshold_mode": "abs", "threshold": 0.05, "patience": 1, "min_lr": [0.01, 0.02]},
    "max, abs": {"mode": "max", "threshold_mode": "abs", "threshold": 0.1, "patience": 0, "eps": 1e-3},
}
OPTIMISERS = {
    "SGD": (lambda optim, groups: optim.SGD(groups, lr=0.1, momentum=0.9)),
    "Adam": (lambda optim, groups: optim.Adam(groups, lr=0.1)),
}


def optimiser(lib, make):
    tensors = [lib.zeros(2), lib.zeros(3)]
    parameters = [(torch.nn if lib is torch else nn).Parameter(x) for x in tensors]
    groups = [{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": 0.3}]
    return make(torch.optim if lib is torch else nn.optim, groups)


def both(make_optimiser, make_schedule):
    made = []
    for lib, schedulers in ((torch, torch.optim.lr_scheduler), (tensord, nn.optim.lr_scheduler)):
        one = optimiser(lib, make_optimiser)
        made.append((one, make_schedule(schedulers, one)))
    return made


def numbers(optimiser):
    return [
        [group["lr"], *([group["momentum"]] if "momentum" in group else group["betas"])]
        for group in optimiser.param_groups
    ]


def same(ours, theirs):
    np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=1e-9, atol=1e-12)


@pytest.fixture(autouse=True)
def without_warnings(judge):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of steps of a schedule before one of the optimiser
        yield


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(name, kind):
    (theirs, their), (ours, our) = both(OPTIMISERS[kind], SCHEDULES[name])
    same(ours, theirs)
    for _ in range(STEPS):
        their.step()
        our.step()
        same(ours, theirs)
        np.testing.assert_allclose(our.get_last_lr(), their.get_last_lr(), rtol=1e-9, atol=1e-12)
    on_device = [float(group.live("lr")) for group in ours.param_groups]
    np.testing.assert_allclose(on_device, [group["lr"] for group in theirs.param_groups], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PLATEAU)
def test_reduce_on_plateau(name):
    (theirs, their), (ours, our) = both(OPTIMISERS["SGD"], lambda s, o: s.ReduceLROnPlateau(o, **PLATEAU[name]))
    metrics = np.cos(np.arange(STEPS) * 0.4) + 1.5
    for metric in metrics:
        their.step(metric)
        our.step(metric)
        same(ours, theirs)


@pytest.mark.parametrize("name", SCHEDULES)
def test_it_goes_on_from_its_state(name):
    first = optimiser(tensord, OPTIMISERS["SGD"])
    schedule = SCHEDULES[name](nn.optim.lr_scheduler, first)
    for _ in range(7):
        schedule.step()
    second = optimiser(tensord, OPTIMISERS["SGD"])
    resumed = SCHEDULES[name](nn.optim.lr_scheduler, second)
    second.load_state_dict(first.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    for _ in range(10):
        same(second, first)
        schedule.step()
        resumed.step()


def test_epochs_that_are_not_whole():
    (theirs, their), (ours, our) = both(OPTIMISERS["SGD"], lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2))
    for epoch in np.arange(0, 15, 0.7):
        their.step(epoch)
        our.step(epoch)
        same(ours, theirs)
