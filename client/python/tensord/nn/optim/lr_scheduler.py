"""Schedules of the learning rate, as PyTorch's: each sets group["lr"] of an optimiser when it is made, and at each step().

The rate is data on the device, so a new one needs no other program.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from tensord.errors import InvalidArgumentError
from tensord.nn.optim.group import ParamGroup
from tensord.nn.optim.optimizer import Optimizer, OptimizerGroup

Many = Union[float, Sequence[float]]
Optimisers = Union[Optimizer, OptimizerGroup]


class LRScheduler:
    """What schedules share: last_epoch counts the steps; step() is called after the optimiser's."""

    def __init__(self, optimizer: Optimisers, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"{type(self).__name__}: to go on from step {last_epoch}, groups need their 'initial_lr'")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    @property
    def _groups(self) -> list[ParamGroup]:
        return self.optimizer.param_groups

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one a group."""
        return list(self._last_lr)

    def get_lr(self) -> list[float]:
        """The rates for last_epoch, which follow those that are set."""
        raise NotImplementedError

    def _at(self, epoch: int) -> Optional[list[float]]:
        """The rates for an epoch whatever is set, where there is such a rule."""
        return None

    def step(self, epoch: Optional[int] = None) -> None:
        """The next rates, or those of an epoch."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rates = None if epoch is None else self._at(epoch)
        self._set(self.get_lr() if rates is None else rates)

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self._groups, rates):
            if group["lr"] != rate:
                group["lr"] = rate
        self._last_lr = [group["lr"] for group in self._groups]

    def _each(self, value: Any, name: str) -> list[Any]:
        """One a group."""
        count = len(self.optimizer.param_groups)
        values = list(value) if isinstance(value, (list, tuple)) else [value] * count
        if len(values) != count:
            raise InvalidArgumentError(f"{type(self).__name__}: {len(values)} values of {name} for {count} groups")
        return values

    def state_dict(self) -> dict[str, Any]:
        """All but the optimiser and functions."""
        return {name: value for name, value in vars(self).items() if name not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        vars(self).update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times lr_lambda(epoch); one function, or one a group."""

    def __init__(self, optimizer: Optimisers, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.lr_lambdas: list[Callable[[int], float]] = self._each(lr_lambda, "lr_lambda")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(LambdaLR):
    """The rate times lr_lambda(epoch), at each step."""

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [group["lr"] for group in self._groups]
        return [group["lr"] * function(self.last_epoch) for group, function in zip(self._groups, self.lr_lambdas)]


class _Factor(LRScheduler):
    """The first rate times a function of the epoch. As a factor from step to step, so that schedules can be chained."""

    def _factor(self, epoch: int) -> float:
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        before = self._factor(self.last_epoch - 1) if self.last_epoch > 0 else 1.0
        ratio = self._factor(self.last_epoch) / before if before else 1.0
        return [group["lr"] * ratio for group in self._groups]

    def _at(self, epoch: int) -> Optional[list[float]]:
        return [base * self._factor(epoch) for base in self.base_lrs]


class StepLR(_Factor):
    """gamma times less every step_size epochs."""

    def __init__(self, optimizer: Optimisers, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(_Factor):
    """gamma times less at each of the milestones."""

    def __init__(self, optimizer: Optimisers, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma ** bisect_right(self.milestones, epoch)


class ConstantLR(_Factor):
    """`factor` times the rate for total_iters epochs, then the rate."""

    def __init__(self, optimizer: Optimisers, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise InvalidArgumentError(f"ConstantLR: the factor is in [0, 1], not {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.factor if epoch < self.total_iters else 1.0


class LinearLR(_Factor):
    """From start_factor to end_factor times the rate, in total_iters epochs."""

    def __init__(self, optimizer: Optimisers, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise InvalidArgumentError(f"LinearLR: start_factor {start_factor} is in (0, 1], end_factor {end_factor} in "
                                       "[0, 1]")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.start_factor + (self.end_factor - self.start_factor) * min(epoch, self.total_iters) / self.total_iters


class ExponentialLR(_Factor):
    """gamma times the rate before."""

    def __init__(self, optimizer: Optimisers, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma**epoch


class PolynomialLR(_Factor):
    """The rate times (1 - epoch / total_iters) ** power, and then zero."""

    def __init__(self, optimizer: Optimisers, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return float((1 - min(epoch, self.total_iters) / self.total_iters) ** self.power)


def _cosine(start: float, end: float, share: float) -> float:
    """Half a wave from start to end."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


class CosineAnnealingLR(LRScheduler):
    """Half a cosine wave from the rate to eta_min in T_max epochs, and back in as many."""

    def __init__(self, optimizer: Optimisers, T_max: float, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [group["lr"] for group in self._groups]
        above, before = (1 + math.cos(math.pi * (self.last_epoch - i) / self.T_max) for i in (0, 1))
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # `before` is zero
            return [group["lr"] + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
                    for base, group in zip(self.base_lrs, self._groups)]
        return [self.eta_min + (group["lr"] - self.eta_min) * above / before for group in self._groups]

    def _at(self, epoch: int) -> Optional[list[float]]:
        return [_cosine(base, self.eta_min, epoch / self.T_max) for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine wave from the rate to eta_min in T_0 epochs, then from the rate again in T_mult times as many. step
    takes an epoch, which need not be whole."""

    def __init__(self, optimizer: Optimisers, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        if T_0 < 1 or T_mult < 1:
            raise InvalidArgumentError(f"CosineAnnealingWarmRestarts: T_0 {T_0} and T_mult {T_mult} are at least 1")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        self.T_i = T_0
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [_cosine(base, self.eta_min, self.T_cur / self.T_i) for base in self.base_lrs]

    def step(self, epoch: Optional[float] = None) -> None:
        now = self.last_epoch + 1 if epoch is None else epoch
        if now < 0:
            raise InvalidArgumentError(f"CosineAnnealingWarmRestarts: epoch {now} is negative")
        self.last_epoch = math.floor(now)
        start, self.T_i = 0, self.T_0
        while now - start >= self.T_i:
            start, self.T_i = start + self.T_i, self.T_i * self.T_mult
        self.T_cur = now - start
        self._set(self.get_lr())


class _WithMomentum(LRScheduler):
    """One that may move the momentum as well: "momentum", or the first of "betas"."""

    cycle_momentum: bool

    def _momentum(self, group: ParamGroup) -> float:
        return float(group["momentum"] if "momentum" in group else group["betas"][0])

    def _set_momentum(self, group: ParamGroup, value: float) -> None:
        if "momentum" in group:
            group["momentum"] = value
        else:
            group["betas"] = (value, *group["betas"][1:])

    def _check_momentum(self) -> None:
        if self.cycle_momentum and not all("momentum" in group or "betas" in group
                                           for group in self.optimizer.param_groups):
            raise InvalidArgumentError(f"{type(self).__name__}: cycle_momentum needs an optimiser with momentum or betas")


_CYCLES: dict[str, Callable[[float, float, float], float]] = {  # gamma, cycle, iterations
    "triangular": lambda gamma, cycle, count: 1.0,
    "triangular2": lambda gamma, cycle, count: 1 / 2 ** (cycle - 1),
    "exp_range": lambda gamma, cycle, count: gamma**count,
}


class CyclicLR(_WithMomentum):
    """Up from base_lr to max_lr in step_size_up steps and down in step_size_down, again and again; the height of later
    cycles by mode or scale_fn(cycle or iterations, as scale_mode says). The momentum goes the other way."""

    def __init__(self, optimizer: Optimisers, base_lr: Many, max_lr: Many, step_size_up: float = 2000,
                 step_size_down: Optional[float] = None, mode: str = "triangular", gamma: float = 1.0,
                 scale_fn: Optional[Callable[[float], float]] = None, scale_mode: str = "cycle",
                 cycle_momentum: bool = True, base_momentum: Many = 0.8, max_momentum: Many = 0.9,
                 last_epoch: int = -1) -> None:
        if mode not in _CYCLES and scale_fn is None:
            raise InvalidArgumentError(f"CyclicLR: the mode is one of {', '.join(_CYCLES)}, not '{mode}'")
        self.optimizer = optimizer
        for group, rate in zip(optimizer.param_groups, self._each(base_lr, "base_lr")):
            if last_epoch == -1:
                group["lr"] = rate
        self.max_lrs = self._each(max_lr, "max_lr")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.mode, self.gamma, self.scale_mode, self.cycle_momentum = mode, gamma, scale_mode, cycle_momentum
        self.lr_lambdas = [] if scale_fn is None else [scale_fn]
        self._check_momentum()
        self.base_momentums = self._each(base_momentum, "base_momentum")
        self.max_momentums = self._each(max_momentum, "max_momentum")
        super().__init__(optimizer, last_epoch)
        self.base_lrs = self._each(base_lr, "base_lr")
        self._set(self.get_lr())

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        if self.lr_lambdas:
            height *= self.lr_lambdas[0](cycle if self.scale_mode == "cycle" else self.last_epoch)
        else:
            height *= _CYCLES[self.mode](self.gamma, cycle, self.last_epoch)
        if self.cycle_momentum:
            for group, base, most in zip(self._groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, most - (most - base) * height)
        return [base + (most - base) * height for base, most in zip(self.base_lrs, self.max_lrs)]


class OneCycleLR(_WithMomentum):
    """From max_lr / div_factor up to max_lr in pct_start of all steps, and down to the start over final_div_factor; with
    three_phase to the start in as many, and then further down. The momentum goes the other way.

    Steps are total_steps, or epochs * steps_per_epoch.
    """

    def __init__(self, optimizer: Optimisers, max_lr: Many, total_steps: Optional[int] = None,
                 epochs: Optional[int] = None, steps_per_epoch: Optional[int] = None, pct_start: float = 0.3,
                 anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Many = 0.85,
                 max_momentum: Many = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
                 three_phase: bool = False, last_epoch: int = -1) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise InvalidArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1:
            raise InvalidArgumentError(f"OneCycleLR: {total_steps} steps")
        if not 0 <= pct_start <= 1:
            raise InvalidArgumentError(f"OneCycleLR: pct_start is in [0, 1], not {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidArgumentError(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not '{anneal_strategy}'")
        self.optimizer, self.total_steps, self.anneal_strategy = optimizer, total_steps, anneal_strategy
        self.cycle_momentum = cycle_momentum
        self._check_momentum()
        top = pct_start * total_steps - 1
        # The last step of each phase, and between which values it moves: 0 start, 1 top, 2 end.
        self.phases: list[tuple[float, int, int]] = [(top, 0, 1), (total_steps - 1, 1, 2)]
        if three_phase:
            self.phases = [(top, 0, 1), (2 * top, 1, 0), (total_steps - 1, 0, 2)]
        self.rates = [(rate / div_factor, rate, rate / div_factor / final_div_factor)
                      for rate in self._each(max_lr, "max_lr")]
        self.momentums = [(most, least, most) for least, most in zip(self._each(base_momentum, "base_momentum"),
                                                                     self._each(max_momentum, "max_momentum"))]
        if last_epoch == -1:
            for group, (start, top_rate, end) in zip(optimizer.param_groups, self.rates):
                group.update({"initial_lr": start, "max_lr": top_rate, "min_lr": end})
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        now = self.last_epoch
        if now >= self.total_steps:
            raise InvalidArgumentError(f"OneCycleLR: step {now} of {self.total_steps}")
        begin = 0.0
        for end, a, b in self.phases:
            if now <= end or end == self.phases[-1][0]:
                break
            begin = end
        share = (now - begin) / (end - begin)

        def between(values: tuple[float, float, float]) -> float:
            if self.anneal_strategy == "cos":
                return _cosine(values[a], values[b], share)
            return values[a] + (values[b] - values[a]) * share

        if self.cycle_momentum:
            for group, values in zip(self._groups, self.momentums):
                self._set_momentum(group, between(values))
        return [between(values) for values in self.rates]


class ReduceLROnPlateau(LRScheduler):
    """`factor` times less when the metric given to step() has not become better for more than `patience` steps, after
    which it waits `cooldown` steps. Better is less (mode "min") or more ("max") by `threshold`, which is relative to the
    best ("rel") or not ("abs")."""

    def __init__(self, optimizer: Optimisers, mode: str = "min", factor: float = 0.1, patience: int = 10,
                 threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Many = 0.0,
                 eps: float = 1e-8) -> None:
        if factor >= 1:
            raise InvalidArgumentError(f"ReduceLROnPlateau: the factor is less than 1, not {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise InvalidArgumentError(f"ReduceLROnPlateau: mode '{mode}' is 'min' or 'max', threshold_mode "
                                       f"'{threshold_mode}' is 'rel' or 'abs'")
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.min_lrs = self._each(min_lr, "min_lr")
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def is_better(self, a: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        bound = best * (1 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    def step(self, metrics: Any, epoch: Optional[int] = None) -> None:  # type: ignore[override]
        now = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(now, self.best):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        rates = [group["lr"] for group in self._groups]
        if self.num_bad_epochs > self.patience:
            lower = [max(rate * self.factor, least) for rate, least in zip(rates, self.min_lrs)]
            rates = [new if old - new > self.eps else old for old, new in zip(rates, lower)]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._set(rates)


class _Of(LRScheduler):
    """One made of others."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name not in ("optimizer", "_schedulers")}
        return {**own, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        vars(self).update({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class SequentialLR(_Of):
    """One schedule after the other, the next from each of the milestones on."""

    def __init__(self, optimizer: Optimisers, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
                 last_epoch: int = -1) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise InvalidArgumentError(f"SequentialLR: {len(milestones)} milestones between {len(schedulers)} schedules")
        _same_optimizer("SequentialLR", optimizer, schedulers)
        self.optimizer, self._schedulers, self._milestones = optimizer, list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        # What making the schedules did to the rates is undone, and the first one starts again.
        for group in self._groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: Optional[int] = None) -> None:
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            self._schedulers[i].step(0)
        else:
            self._schedulers[i].step()
        self._last_lr = self._schedulers[i].get_last_lr()


class ChainedScheduler(_Of):
    """Several schedules at once: each changes the rate that the one before has set."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optional[Optimisers] = None) -> None:
        if not schedulers:
            raise InvalidArgumentError("ChainedScheduler: there are no schedules")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _same_optimizer("ChainedScheduler", self.optimizer, schedulers)
        self._schedulers = list(schedulers)
        self._last_lr = [group["lr"] for group in self._groups]

    def step(self, epoch: Optional[int] = None) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = [group["lr"] for group in self._groups]


def _same_optimizer(name: str, optimizer: Optimisers, schedulers: Sequence[LRScheduler]) -> None:
    for i, scheduler in enumerate(schedulers):
        if scheduler.optimizer is not optimizer:
            raise InvalidArgumentError(f"{name}: schedule {i} is of another optimiser")
